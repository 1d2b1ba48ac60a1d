#include "client/png_image.h"

#include <zlib.h>

#include <string>

#include "client/kmeans_plot.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

uint32_t BigAt(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes.at(at + i));
  }
  return value;
}

// The chunk's data; checks length and checksum of every chunk on the way.
std::string ChunkOf(const std::string& png, const std::string& wanted) {
  size_t at = 8;
  std::string found;
  while (at < png.size()) {
    const uint32_t size = BigAt(png, at);
    const std::string body = png.substr(at + 4, 4 + size);
    EXPECT_EQ(BigAt(png, at + 8 + size),
              crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                    static_cast<uInt>(body.size())));
    if (body.substr(0, 4) == wanted) found = body.substr(4);
    at += 12 + size;
  }
  EXPECT_EQ(at, png.size());
  return found;
}

TEST(PngImage, EncodesEveryPixel) {
  PngImage image(37, 11);
  image.Line(0, 0, 36, 10, Ink::kRed);
  image.Set(5, 7, Ink::kBlue);
  image.Set(37, 0, Ink::kBlack);
  image.Set(0, -1, Ink::kBlack);
  const std::string png = image.Encode();
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  const std::string header = ChunkOf(png, "IHDR");
  EXPECT_EQ(BigAt(header, 0), 37U);
  EXPECT_EQ(BigAt(header, 4), 11U);
  const std::string packed = ChunkOf(png, "IDAT");
  std::string raw(11 * 38, 'x');
  uLongf size = raw.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                       reinterpret_cast<const Bytef*>(packed.data()),
                       static_cast<uLong>(packed.size())),
            Z_OK);
  ASSERT_EQ(size, raw.size());
  for (int y = 0; y < 11; ++y) {
    EXPECT_EQ(raw[static_cast<size_t>(y * 38)], 0);
    for (int x = 0; x < 37; ++x) {
      EXPECT_EQ(static_cast<Ink>(raw[static_cast<size_t>(y * 38 + 1 + x)]),
                image.at(x, y));
    }
  }
  EXPECT_EQ(image.at(0, 0), Ink::kRed);
  EXPECT_EQ(image.at(36, 10), Ink::kRed);
  EXPECT_EQ(image.at(5, 7), Ink::kBlue);
}

int64_t Count(const PngImage& image, Ink ink) {
  int64_t count = 0;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) count += image.at(x, y) == ink;
  }
  return count;
}

TEST(PngImage, PlotsCurvesOfAnyLength) {
  std::vector<v1::KMeansProgress> iterations;
  for (int n = 0; n < 4; ++n) {
    const PngImage image = PlotKMeans("words, k = 50", iterations);
    EXPECT_GT(Count(image, Ink::kBlack), 100);
    v1::KMeansProgress& next = iterations.emplace_back();
    next.set_inertia(n == 3 ? 0 : 100.0 / (n + 1));
    next.set_statistics_bytes_up(1000);
  }
  // Falling inertia: the curve goes down to the right.
  const PngImage image = PlotKMeans("t", iterations);
  EXPECT_EQ(image.at(150, 80), Ink::kBlue);
}

}  // namespace
}  // namespace coterie
