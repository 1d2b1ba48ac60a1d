#include "index/faiss_factory.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace coterie {
namespace {

using Code = FaissFactory::Code;
using Turn = FaissFactory::Turn;

constexpr absl::string_view kAccepted =
    "accepted: HNSW<links>[,CODE] or IVF<lists>,CODE with CODE Flat, SQfp16, "
    "SQ8, SQ6 or SQ4, of IVF also PQ<parts>[x<bits>]; before it, if need be, "
    "PCA<d>, PCAR<d>, RR<d> or OPQ<parts>[_<d>] and a comma; like HNSW32, "
    "IVF1024,Flat or OPQ20,IVF1024,PQ20";

constexpr std::array<std::pair<absl::string_view, Code>, 5> kPlainCodes = {
    {{"Flat", Code::kFloat},
     {"SQfp16", Code::kHalf},
     {"SQ8", Code::kScalar8},
     {"SQ6", Code::kScalar6},
     {"SQ4", Code::kScalar4}}};

// Takes a number in [1, most] off the front, without sign or leading zero.
bool TakeNumber(absl::string_view* text, int32_t most, int32_t* number) {
  size_t digits = 0;
  while (digits < text->size() &&
         absl::ascii_isdigit(static_cast<unsigned char>((*text)[digits]))) {
    ++digits;
  }
  if (digits == 0 || text->front() == '0' ||
      !absl::SimpleAtoi(text->substr(0, digits), number) || *number > most) {
    return false;
  }
  text->remove_prefix(digits);
  return true;
}

constexpr int32_t kMostNumber = 16384;

// These return whether the whole word is one.
bool ReadTurn(absl::string_view word, FaissFactory* out) {
  if (absl::ConsumePrefix(&word, "OPQ")) {
    out->turn = Turn::kOpq;
    if (!TakeNumber(&word, kMostNumber, &out->turn_parts)) return false;
    if (word.empty()) return true;
    return absl::ConsumePrefix(&word, "_") &&
           TakeNumber(&word, kMostNumber, &out->turn_dimension) && word.empty();
  }
  if (absl::ConsumePrefix(&word, "PCAR")) {
    out->turn = Turn::kPcaTurned;
  } else if (absl::ConsumePrefix(&word, "PCA")) {
    out->turn = Turn::kPca;
  } else if (absl::ConsumePrefix(&word, "RR")) {
    out->turn = Turn::kRandom;
  } else {
    return false;
  }
  return TakeNumber(&word, kMostNumber, &out->turn_dimension) && word.empty();
}

bool ReadShape(absl::string_view word, FaissFactory* out) {
  if (absl::ConsumePrefix(&word, "HNSW")) {
    return TakeNumber(&word, FaissFactory::kMostLinks, &out->links) &&
           word.empty();
  }
  return absl::ConsumePrefix(&word, "IVF") &&
         TakeNumber(&word, FaissFactory::kMostLists, &out->lists) &&
         word.empty();
}

bool ReadCode(absl::string_view word, FaissFactory* out) {
  for (const auto& [name, code] : kPlainCodes) {
    if (word == name) {
      out->code = code;
      return true;
    }
  }
  if (out->graph() || !absl::ConsumePrefix(&word, "PQ")) return false;
  out->code = Code::kProduct;
  if (!TakeNumber(&word, kMostNumber, &out->parts)) return false;
  if (word.empty()) return true;
  return absl::ConsumePrefix(&word, "x") && TakeNumber(&word, 8, &out->bits) &&
         out->bits >= 4 && word.empty();
}

}  // namespace

absl::StatusOr<FaissFactory> FaissFactory::Parse(absl::string_view text) {
  const auto refused = [text](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(text.substr(0, kMostBytes)), "' ",
                     why, "; ", kAccepted));
  };
  if (text.size() > static_cast<size_t>(kMostBytes)) {
    return refused(
        absl::StrCat("... has ", text.size(), " bytes, over ", kMostBytes));
  }
  const std::vector<absl::string_view> words = absl::StrSplit(text, ',');
  FaissFactory factory;
  size_t at = 0;
  if (words.size() > 1 && !absl::StartsWith(words[0], "HNSW") &&
      !absl::StartsWith(words[0], "IVF")) {
    if (!ReadTurn(words[at++], &factory)) {
      return refused("begins with no transformation");
    }
  }
  if (!ReadShape(words[at++], &factory)) {
    return refused("has no index that is accepted");
  }
  if (at == words.size() && factory.graph()) return factory;
  if (at + 1 != words.size() || !ReadCode(words[at], &factory)) {
    return refused("does not end with a code that is accepted");
  }
  return factory;
}

absl::Status FaissFactory::Check(Metric metric, int64_t d) const {
  const auto refused = [this](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", Text(), "': ", why));
  };
  if (turn != Turn::kNone && d > kMostTurned) {
    return refused(absl::StrCat("it turns vectors of ", d,
                                " components, over the limit of ",
                                kMostTurned));
  }
  if (turn_dimension > d) {
    return refused(absl::StrCat("it turns vectors into ", turn_dimension,
                                " components, and they have ", d));
  }
  const int64_t turned = dimension(d);
  if (turn == Turn::kOpq && turned % turn_parts != 0) {
    return refused(absl::StrCat("OPQ of ", turn_parts,
                                " parts does not divide dimension ", turned));
  }
  if (code == Code::kProduct && turned % parts != 0) {
    return refused(absl::StrCat("PQ of ", parts,
                                " parts does not divide dimension ", turned));
  }
  if (metric == Metric::kInnerProduct &&
      (turn == Turn::kPca || turn == Turn::kPcaTurned)) {
    return refused("a PCA moves the origin, which INNER_PRODUCT is about");
  }
  return absl::OkStatus();
}

absl::Status FaissFactory::CheckRows(int64_t d, int64_t rows) const {
  int64_t least = 0;
  if (code == Code::kProduct) least = int64_t{1} << bits;
  if (turn == Turn::kOpq) least = std::max<int64_t>(least, 256);
  if (turn != Turn::kNone && turn != Turn::kRandom) least = std::max(least, d);
  if (rows >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", Text(), "' is trained on ", least,
                   " rows or more, and there are ", rows));
}

FaissFactory FaissFactory::For(int64_t rows) const {
  FaissFactory fit = *this;
  if (!graph()) {
    fit.lists = static_cast<int32_t>(
        std::clamp<int64_t>(rows / kRowsPerList, 1, lists));
  }
  return fit;
}

int64_t FaissFactory::dimension(int64_t d) const {
  return turn_dimension > 0 ? turn_dimension : d;
}

int64_t FaissFactory::code_bytes(int64_t d) const {
  const int64_t turned = dimension(d);
  switch (code) {
    case Code::kFloat:
      return 4 * turned;
    case Code::kHalf:
      return 2 * turned;
    case Code::kScalar8:
      return turned;
    case Code::kScalar6:
      return (6 * turned + 7) / 8;
    case Code::kScalar4:
      return (turned + 1) / 2;
    case Code::kProduct:
      return (int64_t{parts} * bits + 7) / 8;
  }
  return 0;
}

int64_t FaissFactory::TrainingRows(int64_t rows) const {
  // As many as an OPQ takes, at least.
  constexpr int64_t kLeast = 65536;
  return std::min(rows, std::max(kLeast, kTrainedPerMean * lists));
}

int64_t FaissFactory::KeptBytes(int64_t d, int64_t rows) const {
  const int64_t turned = dimension(d);
  int64_t bytes = rows * code_bytes(d);
  if (turn != Turn::kNone) bytes += 4 * turned * (d + 1);
  if (code == Code::kProduct) bytes += (4 * turned) << bits;
  // A row is on two levels or more once in `links`.
  if (graph()) return bytes + rows * (4 * 2 * links + 8 + 12);
  bytes += int64_t{lists} * (4 * turned + 64);
  // FAISS's tables of lists times parts, up to 2 GiB.
  if (code == Code::kProduct) {
    const int64_t table = (int64_t{4} * lists * parts) << bits;
    if (table <= int64_t{1} << 31) bytes += table;
  }
  // Its arrays grow by halves at most.
  return bytes + rows * 8 + rows * (code_bytes(d) + 8) / 2;
}

int64_t FaissFactory::TrainingBytes(int64_t d, int64_t rows) const {
  const int64_t turned = dimension(d);
  const int64_t trained = TrainingRows(rows);
  int64_t bytes = 0;
  // Rows about their mean or turned, and matrices of floats and doubles.
  if (turn == Turn::kPca || turn == Turn::kPcaTurned) {
    bytes += 4 * trained * d + 20 * d * d;
  } else if (turn == Turn::kOpq) {
    bytes += 4 * trained * (d + 2 * turned) + 32 * d * d;
  } else if (turn == Turn::kRandom) {
    bytes += 8 * d * d;
  }
  // Of what is left over beside the lists' means.
  if (code == Code::kProduct) bytes += 8 * trained * turned;
  return bytes;
}

int64_t FaissFactory::BuildingBytes(int64_t d, int64_t rows) const {
  const int64_t turned = turn != Turn::kNone ? dimension(d) : 0;
  // Rows as FAISS takes them, once more as it turns them, their codes and
  // numbers, and the file.
  return KeptBytes(d, rows) + TrainingBytes(d, rows) +
         rows * (4 * d + 4 * turned + code_bytes(d) + 24) +
         rows * code_bytes(d) + (graph() ? rows * (8 * links + 64) : rows * 4);
}

std::string FaissFactory::Text() const {
  std::string text;
  switch (turn) {
    case Turn::kNone:
      break;
    case Turn::kPca:
      text = absl::StrCat("PCA", turn_dimension, ",");
      break;
    case Turn::kPcaTurned:
      text = absl::StrCat("PCAR", turn_dimension, ",");
      break;
    case Turn::kRandom:
      text = absl::StrCat("RR", turn_dimension, ",");
      break;
    case Turn::kOpq:
      text = absl::StrCat("OPQ", turn_parts);
      if (turn_dimension > 0) absl::StrAppend(&text, "_", turn_dimension);
      text += ",";
  }
  absl::StrAppend(&text, graph() ? "HNSW" : "IVF", graph() ? links : lists);
  if (code == Code::kProduct) {
    absl::StrAppend(&text, ",PQ", parts);
    if (bits != 8) absl::StrAppend(&text, "x", bits);
    return text;
  }
  for (const auto& [name, plain] : kPlainCodes) {
    if (code != plain || (graph() && code == Code::kFloat)) continue;
    absl::StrAppend(&text, ",", name);
  }
  return text;
}

}  // namespace coterie
