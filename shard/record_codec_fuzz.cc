// Fuzz target: every decoder of shard/record_codec.h and shard/log_codec.h.
//
// A decoder either refuses with DATA_LOSS or gives a value that encodes to
// exactly those bytes. Input: one byte that chooses a decoder, then the record.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/log_codec.h"
#include "shard/record_codec.h"

namespace coterie {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

template <typename T, typename Encode>
void CheckDecoded(absl::string_view bytes, const absl::StatusOr<T>& decoded,
                  Encode encode) {
  if (decoded.ok()) {
    Check(encode(*decoded) == bytes);
  } else {
    Check(absl::IsDataLoss(decoded.status()));
  }
}

void CheckVector(absl::string_view bytes) {
  std::vector<float> vector(bytes.size() / sizeof(float));
  const absl::Status status = DecodeVector(bytes, absl::MakeSpan(vector));
  if (status.ok()) {
    Check(EncodeVector(vector) == bytes);
  } else {
    Check(absl::IsDataLoss(status));
  }
}

void Decode(uint8_t which, absl::string_view bytes) {
  switch (which % 11) {
    case 0:
      CheckDecoded(bytes, DecodeKey(bytes), EncodeKey);
      Check(!KeyName(bytes).empty());
      break;
    case 1:
      CheckVector(bytes);
      break;
    case 2:
      CheckDecoded(bytes, DecodeAttributes(bytes), EncodeAttributes);
      break;
    case 3:
      CheckDecoded(bytes, DecodeSlotState(bytes), EncodeSlotState);
      break;
    case 4:
      CheckDecoded(bytes, DecodeSequence(bytes), EncodeSequence);
      break;
    case 5:
      CheckDecoded(bytes, DecodeLogRecord(bytes), EncodeLogRecord);
      break;
    case 6:
      CheckDecoded(bytes, DecodeCatalogue(bytes), EncodeCatalogue);
      break;
    case 7:
      CheckDecoded(bytes, DecodeIdentity(bytes), EncodeIdentity);
      break;
    case 8:
      CheckDecoded(bytes, DecodeRequestKey(bytes), EncodeRequestKey);
      break;
    case 9:
      CheckDecoded(bytes, DecodeAppliedRequest(bytes), EncodeAppliedRequest);
      break;
    default:
      CheckDecoded(bytes, DecodeStoreId(bytes), EncodeStoreId);
  }
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  coterie::Decode(
      data[0],
      absl::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
