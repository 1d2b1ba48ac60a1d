// Bytes of binary vector files, sound or broken, for tests. Stateless.

#ifndef COTERIE_CLIENT_ROWS_ROW_BYTES_H_
#define COTERIE_CLIENT_ROWS_ROW_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace coterie {

template <typename T>
std::string RawBytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

// One row of fvecs or bvecs.
template <typename T>
std::string VecsRow(int32_t dimension, const std::vector<T>& values) {
  return RawBytes(std::vector<int32_t>{dimension}) + RawBytes(values);
}

// A whole *bin file that claims so many rows.
template <typename T>
std::string BinFile(uint32_t rows, uint32_t dimension,
                    const std::vector<T>& values) {
  return RawBytes(std::vector<uint32_t>{rows, dimension}) + RawBytes(values);
}

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_ROW_BYTES_H_
