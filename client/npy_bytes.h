// Bytes of .npy files, sound or broken, for tests. Stateless.

#ifndef COTERIE_CLIENT_NPY_BYTES_H_
#define COTERIE_CLIENT_NPY_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace coterie {

// A file with this dictionary text as it is, whatever its sense.
inline std::string NpyFromDictionary(absl::string_view dictionary,
                                     absl::string_view data, int version = 1) {
  std::string header(dictionary);
  const size_t preamble = version == 1 ? 10 : 12;
  while ((preamble + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(version);
  bytes += '\0';
  const size_t length = header.size();
  bytes += static_cast<char>(length & 0xff);
  bytes += static_cast<char>(length >> 8 & 0xff);
  if (version != 1) bytes.append(2, '\0');
  return absl::StrCat(bytes, header, data);
}

inline std::string NpyWithShape(absl::string_view descr,
                                absl::string_view shape, absl::string_view data,
                                int version = 1) {
  return NpyFromDictionary(
      absl::StrCat("{'descr': '", descr,
                   "', 'fortran_order': False, 'shape': ", shape, ", }"),
      data, version);
}

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

// A float32 matrix. REQUIRES: rows x columns values.
inline std::string NpyMatrix(int64_t rows, int64_t columns,
                             const std::vector<float>& values) {
  return NpyWithShape("<f4", absl::StrCat("(", rows, ", ", columns, ")"),
                      BytesOf(values));
}

}  // namespace coterie

#endif  // COTERIE_CLIENT_NPY_BYTES_H_
