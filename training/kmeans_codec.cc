#include "training/kmeans_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/numeric/bits.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "training/kmeans_messages.h"

#ifndef ABSL_IS_LITTLE_ENDIAN
#error "numbers are copied as they lie in memory"
#endif

namespace coterie {
namespace {

constexpr uint8_t kVersion = 1;
constexpr int64_t kPickBytes = 28;

int64_t FlagBytes(size_t flags) {
  return static_cast<int64_t>((flags + 7) / 8);
}

class Writer {
 public:
  explicit Writer(int64_t size) { out_.reserve(static_cast<size_t>(size)); }

  template <typename T>
  void Put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void PutSize(size_t size) { Put(static_cast<uint64_t>(size)); }
  void Put128(absl::int128 value) {
    Put(absl::Int128Low64(value));
    Put(absl::Int128High64(value));
  }
  template <typename T>
  void PutAll(const std::vector<T>& values) {
    out_.append(reinterpret_cast<const char*>(values.data()),
                values.size() * sizeof(T));
  }
  void PutFlags(const std::vector<uint8_t>& flags) {
    for (size_t i = 0; i < flags.size(); i += 8) {
      uint8_t byte = 0;
      for (size_t b = 0; b < 8 && i + b < flags.size(); ++b) {
        if (flags[i + b] != 0) byte |= static_cast<uint8_t>(1u << b);
      }
      Put(byte);
    }
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads until something is missing; then ok() is false and what was read is 0.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value = 0;
    if (!Has(sizeof(T))) return value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  absl::int128 Get128() {
    const uint64_t low = Get<uint64_t>();
    return absl::MakeInt128(Get<int64_t>(), low);
  }
  template <typename T>
  void GetAll(uint64_t count, std::vector<T>& values) {
    if (!ok_ || count > (bytes_.size() - at_) / sizeof(T)) {
      ok_ = false;
      return;
    }
    values.resize(static_cast<size_t>(count));
    if (count == 0) return;
    std::memcpy(values.data(), bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
  }
  void GetFlags(uint64_t count, std::vector<uint8_t>& flags) {
    if (!ok_ || count / 8 > bytes_.size() - at_ ||
        !Has(static_cast<size_t>((count + 7) / 8))) {
      ok_ = false;
      return;
    }
    flags.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < flags.size(); ++i) {
      const auto byte = static_cast<uint8_t>(bytes_[at_ + i / 8]);
      flags[i] = byte >> (i % 8) & 1;
    }
    at_ += static_cast<size_t>((count + 7) / 8);
    const auto last = at_ > 0 ? static_cast<uint8_t>(bytes_[at_ - 1]) : 0;
    if (count % 8 != 0 && last >> (count % 8) != 0) ok_ = false;
  }
  bool Has(size_t size) {
    ok_ = ok_ && size <= bytes_.size() - at_;
    return ok_;
  }
  void Refuse() { ok_ = false; }
  // Everything was there, and nothing more.
  absl::Status Finish(absl::string_view what) const {
    if (ok_ && at_ == bytes_.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s of %d bytes: %s at byte %d", what, bytes_.size(),
        ok_ ? "more than it says" : "malformed or cut short", at_));
  }

 private:
  absl::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

bool KnownKind(KMeansStepKind kind) {
  return kind >= KMeansStepKind::kExtent && kind <= KMeansStepKind::kApply;
}

bool KnownForm(KMeansSumForm form) {
  return form >= KMeansSumForm::kInt64 && form <= KMeansSumForm::kFloat32;
}

bool KnownAlgorithm(KMeansAlgorithm algorithm) {
  return algorithm >= KMeansAlgorithm::kLloyd &&
         algorithm <= KMeansAlgorithm::kElkan;
}

void PutExtent(const KMeansExtent& extent, Writer& out) {
  out.Put(extent.rows);
  out.Put(extent.positive_rows);
  out.Put(extent.max_weight);
  out.Put(static_cast<uint8_t>(extent.weighted ? 1 : 0));
  out.Put(extent.checksum);
  out.PutAll(extent.max_product);
  out.PutAll(extent.max_value);
}

void GetExtent(uint64_t columns, Reader& in, KMeansExtent& extent) {
  extent.rows = in.Get<int64_t>();
  extent.positive_rows = in.Get<int64_t>();
  extent.max_weight = in.Get<double>();
  const uint8_t weighted = in.Get<uint8_t>();
  if (weighted > 1) in.Refuse();
  extent.weighted = weighted == 1;
  extent.checksum = in.Get<uint64_t>();
  in.GetAll(columns, extent.max_product);
  in.GetAll(columns, extent.max_value);
}

// Without `weights` nothing but their number, which stands in the header.
int64_t TokenBytes(const KMeansToken& token) {
  const size_t k = token.weights.size();
  if (k == 0) return 0;
  return 8 * static_cast<int64_t>(7 + 3 * k + token.sums.size()) + 1 +
         FlagBytes(k);
}

void PutToken(const KMeansToken& token, Writer& out) {
  if (token.weights.empty()) return;
  out.PutSize(token.sums.size());
  for (int64_t v : {token.rows, token.offset, token.unmoved, token.quiet,
                    token.step, token.moves}) {
    out.Put(v);
  }
  out.Put(static_cast<uint8_t>(token.in_quick ? 1 : 0));
  out.PutAll(token.sums);
  out.PutAll(token.weights);
  out.PutAll(token.live);
  out.PutAll(token.changed);
  out.PutFlags(token.quick);
}

void GetToken(uint64_t k, Reader& in, KMeansToken& token) {
  if (k == 0) return;
  const uint64_t sums = in.Get<uint64_t>();
  for (int64_t* v : {&token.rows, &token.offset, &token.unmoved, &token.quiet,
                     &token.step, &token.moves}) {
    *v = in.Get<int64_t>();
  }
  const uint8_t in_quick = in.Get<uint8_t>();
  if (in_quick > 1) in.Refuse();
  token.in_quick = in_quick == 1;
  in.GetAll(sums, token.sums);
  in.GetAll(k, token.weights);
  in.GetAll(k, token.live);
  in.GetAll(k, token.changed);
  in.GetFlags(k, token.quick);
}

void PutPicks(const std::vector<KMeansPick>& picks, Writer& out) {
  for (const KMeansPick& pick : picks) {
    out.Put(pick.key);
    out.Put(pick.id);
    out.Put(pick.slot);
    out.Put(pick.weight);
  }
}

void GetPicks(uint64_t count, Reader& in, std::vector<KMeansPick>& picks) {
  for (uint64_t i = 0; i < count && in.Has(kPickBytes); ++i) {
    KMeansPick pick;
    pick.key = in.Get<double>();
    pick.id = in.Get<uint64_t>();
    pick.slot = in.Get<int32_t>();
    pick.weight = in.Get<double>();
    picks.push_back(pick);
  }
}

// Bit of a kind's byte: the batch has short numbers.
constexpr uint8_t kShort = 0x80;

// bfloat16: the upper half of a float32.
bool HasShortRows(const KMeansStep& step) {
  return step.kind == KMeansStepKind::kBatch && !step.rows.empty() &&
         std::all_of(step.rows.begin(), step.rows.end(), [](float v) {
           return (absl::bit_cast<uint32_t>(v) & 0xffff) == 0;
         });
}

bool HasShortSums(const KMeansPartial& partial) {
  return partial.kind == KMeansStepKind::kBatch && !partial.sums.empty() &&
         std::all_of(partial.sums.begin(), partial.sums.end(),
                     [](int64_t v) { return v == static_cast<int32_t>(v); });
}

bool HasExtent(const KMeansPartial& partial) {
  return partial.kind == KMeansStepKind::kExtent;
}

}  // namespace

int64_t KMeansStepBytes(const KMeansStep& step) {
  const int64_t scale = static_cast<int64_t>(step.scale.sum_exponents.size());
  return kKMeansStepHeaderBytes +
         (HasShortRows(step) ? 2 : 4) * static_cast<int64_t>(step.rows.size()) +
         FlagBytes(step.touched.size()) + FlagBytes(step.active.size()) +
         (scale > 0 ? 4 * scale + 8 : 0) + TokenBytes(step.token) +
         8 * static_cast<int64_t>(step.values.size()) +
         kPickBytes * static_cast<int64_t>(step.picks.size());
}

int64_t KMeansPartialBytes(const KMeansPartial& partial) {
  const auto size = [](const auto& values) {
    return static_cast<int64_t>(values.size());
  };
  return kKMeansPartialHeaderBytes +
         (HasShortSums(partial) ? 4 : 8) * size(partial.sums) +
         8 * size(partial.weights) + FlagBytes(partial.touched.size()) +
         4 * (size(partial.float_sums) + size(partial.float_weights)) +
         16 * size(partial.potentials) + kPickBytes * size(partial.picks) +
         4 * size(partial.pick_rows) +
         (HasExtent(partial) ? 33 + 16 * size(partial.extent.max_value) : 0) +
         TokenBytes(partial.token);
}

std::string EncodeKMeansStep(const KMeansStep& step) {
  Writer out(KMeansStepBytes(step));
  const bool short_rows = HasShortRows(step);
  out.Put(kVersion);
  out.Put(static_cast<uint8_t>(static_cast<uint8_t>(step.kind) |
                               (short_rows ? kShort : 0)));
  out.Put(static_cast<uint8_t>(step.algorithm));
  out.Put(static_cast<uint8_t>(step.form));
  out.Put(step.shard);
  out.Put(step.number);
  out.Put(step.seed);
  out.Put(step.round);
  out.Put(step.count);
  out.Put(step.amount);
  out.Put(step.first_row);
  out.Put(step.base);
  out.Put128(step.potential);
  out.PutSize(step.rows.size());
  out.PutSize(step.touched.size());
  out.PutSize(step.active.size());
  out.PutSize(step.scale.sum_exponents.size());
  out.PutSize(step.token.weights.size());
  out.PutSize(step.values.size());
  out.PutSize(step.picks.size());
  if (short_rows) {
    for (float v : step.rows) {
      out.Put(static_cast<uint16_t>(absl::bit_cast<uint32_t>(v) >> 16));
    }
  } else {
    out.PutAll(step.rows);
  }
  out.PutFlags(step.touched);
  out.PutFlags(step.active);
  if (!step.scale.sum_exponents.empty()) {
    out.PutAll(step.scale.sum_exponents);
    out.Put(step.scale.weight_exponent);
    out.Put(step.scale.objective_exponent);
  }
  PutToken(step.token, out);
  out.PutAll(step.values);
  PutPicks(step.picks, out);
  return out.Take();
}

absl::StatusOr<KMeansStep> DecodeKMeansStep(absl::string_view bytes) {
  Reader in(bytes);
  KMeansStep step;
  if (in.Get<uint8_t>() != kVersion) in.Refuse();
  const uint8_t kind = in.Get<uint8_t>();
  const bool short_rows = (kind & kShort) != 0;
  step.kind = static_cast<KMeansStepKind>(kind & ~kShort);
  step.algorithm = static_cast<KMeansAlgorithm>(in.Get<uint8_t>());
  step.form = static_cast<KMeansSumForm>(in.Get<uint8_t>());
  if (!KnownKind(step.kind) || !KnownAlgorithm(step.algorithm) ||
      !KnownForm(step.form)) {
    in.Refuse();
  }
  step.shard = in.Get<int32_t>();
  step.number = in.Get<int64_t>();
  step.seed = in.Get<uint64_t>();
  step.round = in.Get<int64_t>();
  step.count = in.Get<int64_t>();
  step.amount = in.Get<double>();
  step.first_row = in.Get<int64_t>();
  step.base = in.Get<int64_t>();
  step.potential = in.Get128();
  const uint64_t rows = in.Get<uint64_t>();
  const uint64_t touched = in.Get<uint64_t>();
  const uint64_t active = in.Get<uint64_t>();
  const uint64_t columns = in.Get<uint64_t>();
  const uint64_t token = in.Get<uint64_t>();
  const uint64_t values = in.Get<uint64_t>();
  const uint64_t picks = in.Get<uint64_t>();
  if (short_rows) {
    std::vector<uint16_t> values16;
    in.GetAll(rows, values16);
    for (uint16_t v : values16) {
      step.rows.push_back(absl::bit_cast<float>(uint32_t{v} << 16));
    }
  } else {
    in.GetAll(rows, step.rows);
  }
  if (short_rows != HasShortRows(step)) in.Refuse();
  in.GetFlags(touched, step.touched);
  in.GetFlags(active, step.active);
  if (columns > 0) {
    in.GetAll(columns, step.scale.sum_exponents);
    step.scale.weight_exponent = in.Get<int32_t>();
    step.scale.objective_exponent = in.Get<int32_t>();
  }
  GetToken(token, in, step.token);
  in.GetAll(values, step.values);
  GetPicks(picks, in, step.picks);
  const absl::Status status = in.Finish("a k-means step");
  if (!status.ok()) return status;
  return step;
}

std::string EncodeKMeansPartial(const KMeansPartial& partial) {
  Writer out(KMeansPartialBytes(partial));
  const bool short_sums = HasShortSums(partial);
  out.Put(kVersion);
  out.Put(static_cast<uint8_t>(static_cast<uint8_t>(partial.kind) |
                               (short_sums ? kShort : 0)));
  out.Put(static_cast<uint8_t>(partial.form));
  out.Put(uint8_t{0});
  out.Put(uint32_t{0});
  out.Put(partial.number);
  out.Put128(partial.objective);
  out.Put(partial.moved);
  out.Put(partial.evaluated);
  out.Put(partial.skipped);
  out.PutSize(partial.sums.size());
  out.PutSize(partial.weights.size());
  out.PutSize(partial.touched.size());
  out.PutSize(partial.float_sums.size());
  out.PutSize(partial.potentials.size());
  out.PutSize(partial.picks.size());
  out.PutSize(partial.pick_rows.size());
  // Together with the extent's columns, of which at most one is there.
  out.PutSize(HasExtent(partial) ? partial.extent.max_value.size()
                                 : partial.float_weights.size());
  out.PutSize(partial.token.weights.size());
  if (short_sums) {
    for (int64_t v : partial.sums) out.Put(static_cast<int32_t>(v));
  } else {
    out.PutAll(partial.sums);
  }
  out.PutAll(partial.weights);
  out.PutFlags(partial.touched);
  out.PutAll(partial.float_sums);
  for (absl::int128 p : partial.potentials) out.Put128(p);
  PutPicks(partial.picks, out);
  out.PutAll(partial.pick_rows);
  if (HasExtent(partial)) {
    PutExtent(partial.extent, out);
  } else {
    out.PutAll(partial.float_weights);
  }
  PutToken(partial.token, out);
  return out.Take();
}

absl::StatusOr<KMeansPartial> DecodeKMeansPartial(absl::string_view bytes) {
  Reader in(bytes);
  KMeansPartial partial;
  if (in.Get<uint8_t>() != kVersion) in.Refuse();
  const uint8_t kind = in.Get<uint8_t>();
  const bool short_sums = (kind & kShort) != 0;
  partial.kind = static_cast<KMeansStepKind>(kind & ~kShort);
  partial.form = static_cast<KMeansSumForm>(in.Get<uint8_t>());
  if (!KnownKind(partial.kind) || !KnownForm(partial.form) ||
      in.Get<uint8_t>() != 0 || in.Get<uint32_t>() != 0) {
    in.Refuse();
  }
  partial.number = in.Get<int64_t>();
  partial.objective = in.Get128();
  partial.moved = in.Get<int64_t>();
  partial.evaluated = in.Get<int64_t>();
  partial.skipped = in.Get<int64_t>();
  uint64_t sizes[9];
  for (uint64_t& size : sizes) size = in.Get<uint64_t>();
  if (short_sums) {
    std::vector<int32_t> sums32;
    in.GetAll(sizes[0], sums32);
    partial.sums.assign(sums32.begin(), sums32.end());
  } else {
    in.GetAll(sizes[0], partial.sums);
  }
  if (short_sums != HasShortSums(partial)) in.Refuse();
  in.GetAll(sizes[1], partial.weights);
  in.GetFlags(sizes[2], partial.touched);
  in.GetAll(sizes[3], partial.float_sums);
  for (uint64_t i = 0; i < sizes[4] && in.Has(16); ++i) {
    partial.potentials.push_back(in.Get128());
  }
  GetPicks(sizes[5], in, partial.picks);
  in.GetAll(sizes[6], partial.pick_rows);
  if (HasExtent(partial)) {
    GetExtent(sizes[7], in, partial.extent);
  } else {
    in.GetAll(sizes[7], partial.float_weights);
  }
  GetToken(sizes[8], in, partial.token);
  const absl::Status status = in.Finish("a k-means partial");
  if (!status.ok()) return status;
  return partial;
}

}  // namespace coterie
