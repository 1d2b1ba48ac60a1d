#include "client/png_image.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"

namespace coterie {
namespace {

constexpr int kScale = 2;
constexpr int kGlyphWidth = 5;
constexpr int kGlyphHeight = 7;

struct Glyph {
  char letter;
  uint8_t rows[kGlyphHeight];  // the leftmost pixel is bit 4
};

constexpr Glyph kGlyphs[] = {
    {'+', {0x00, 0x04, 0x04, 0x1f, 0x04, 0x04, 0x00}},
    {',', {0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08}},
    {'-', {0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00}},
    {'.', {0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c}},
    {'0', {0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e}},
    {'1', {0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'2', {0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f}},
    {'3', {0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e}},
    {'4', {0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02}},
    {'5', {0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e}},
    {'6', {0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e}},
    {'7', {0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08}},
    {'8', {0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e}},
    {'9', {0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c}},
    {'=', {0x00, 0x00, 0x1f, 0x00, 0x1f, 0x00, 0x00}},
    {'_', {0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x1f}},
    {'a', {0x00, 0x00, 0x0e, 0x01, 0x0f, 0x11, 0x0f}},
    {'b', {0x10, 0x10, 0x16, 0x19, 0x11, 0x11, 0x1e}},
    {'c', {0x00, 0x00, 0x0e, 0x10, 0x10, 0x11, 0x0e}},
    {'d', {0x01, 0x01, 0x0d, 0x13, 0x11, 0x11, 0x0f}},
    {'e', {0x00, 0x00, 0x0e, 0x11, 0x1f, 0x10, 0x0e}},
    {'f', {0x06, 0x09, 0x08, 0x1c, 0x08, 0x08, 0x08}},
    {'g', {0x00, 0x0f, 0x11, 0x11, 0x0f, 0x01, 0x0e}},
    {'h', {0x10, 0x10, 0x16, 0x19, 0x11, 0x11, 0x11}},
    {'i', {0x04, 0x00, 0x0c, 0x04, 0x04, 0x04, 0x0e}},
    {'j', {0x02, 0x00, 0x06, 0x02, 0x02, 0x12, 0x0c}},
    {'k', {0x10, 0x10, 0x12, 0x14, 0x18, 0x14, 0x12}},
    {'l', {0x0c, 0x04, 0x04, 0x04, 0x04, 0x04, 0x0e}},
    {'m', {0x00, 0x00, 0x1a, 0x15, 0x15, 0x11, 0x11}},
    {'n', {0x00, 0x00, 0x16, 0x19, 0x11, 0x11, 0x11}},
    {'o', {0x00, 0x00, 0x0e, 0x11, 0x11, 0x11, 0x0e}},
    {'p', {0x00, 0x00, 0x1e, 0x11, 0x1e, 0x10, 0x10}},
    {'q', {0x00, 0x00, 0x0d, 0x13, 0x0f, 0x01, 0x01}},
    {'r', {0x00, 0x00, 0x16, 0x19, 0x10, 0x10, 0x10}},
    {'s', {0x00, 0x00, 0x0e, 0x10, 0x0e, 0x01, 0x1e}},
    {'t', {0x08, 0x08, 0x1c, 0x08, 0x08, 0x09, 0x06}},
    {'u', {0x00, 0x00, 0x11, 0x11, 0x11, 0x13, 0x0d}},
    {'v', {0x00, 0x00, 0x11, 0x11, 0x11, 0x0a, 0x04}},
    {'w', {0x00, 0x00, 0x11, 0x11, 0x15, 0x15, 0x0a}},
    {'x', {0x00, 0x00, 0x11, 0x0a, 0x04, 0x0a, 0x11}},
    {'y', {0x00, 0x00, 0x11, 0x11, 0x0f, 0x01, 0x0e}},
    {'z', {0x00, 0x00, 0x1f, 0x02, 0x04, 0x08, 0x1f}},
};

// By Ink: red, green, blue.
constexpr uint8_t kPalette[] = {255, 255, 255, 0,   0,   0,  200, 200,
                                200, 31,  119, 180, 214, 39, 40};

void PutBig(std::string* out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(value >> shift & 0xff));
  }
}

void PutChunk(std::string* out, absl::string_view type,
              absl::string_view data) {
  PutBig(out, static_cast<uint32_t>(data.size()));
  std::string body(type);
  body.append(data.data(), data.size());
  out->append(body);
  PutBig(out, static_cast<uint32_t>(
                  crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                        static_cast<uInt>(body.size()))));
}

}  // namespace

PngImage::PngImage(int width, int height)
    : width_(width),
      height_(height),
      pixels_(static_cast<size_t>(width) * static_cast<size_t>(height)) {}

void PngImage::Set(int x, int y, Ink ink) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  pixels_[static_cast<size_t>(y) * static_cast<size_t>(width_) +
          static_cast<size_t>(x)] = static_cast<uint8_t>(ink);
}

Ink PngImage::at(int x, int y) const {
  return static_cast<Ink>(
      pixels_[static_cast<size_t>(y) * static_cast<size_t>(width_) +
              static_cast<size_t>(x)]);
}

void PngImage::Line(int x0, int y0, int x1, int y1, Ink ink, bool bold) {
  const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
  for (int i = 0; i <= steps; ++i) {
    const int x = x0 + static_cast<int>(int64_t{x1 - x0} * i / steps);
    const int y = y0 + static_cast<int>(int64_t{y1 - y0} * i / steps);
    Set(x, y, ink);
    if (bold) {
      Set(x + 1, y, ink);
      Set(x, y + 1, ink);
    }
  }
}

void PngImage::Text(int x, int y, absl::string_view text, Ink ink) {
  for (const char c : text) {
    const char letter = absl::ascii_tolower(static_cast<unsigned char>(c));
    const auto* glyph =
        std::find_if(std::begin(kGlyphs), std::end(kGlyphs),
                     [letter](const Glyph& g) { return g.letter == letter; });
    for (int row = 0; glyph != std::end(kGlyphs) && row < kGlyphHeight; ++row) {
      for (int column = 0; column < kGlyphWidth; ++column) {
        if ((glyph->rows[row] >> (kGlyphWidth - 1 - column) & 1) == 0) continue;
        for (int pixel = 0; pixel < kScale * kScale; ++pixel) {
          Set(x + column * kScale + pixel % kScale,
              y + row * kScale + pixel / kScale, ink);
        }
      }
    }
    x += (kGlyphWidth + 1) * kScale;
  }
}

int PngImage::TextWidth(absl::string_view text) {
  return static_cast<int>(text.size()) * (kGlyphWidth + 1) * kScale;
}

std::string PngImage::Encode() const {
  std::string raw;
  const auto width = static_cast<size_t>(width_);
  for (size_t y = 0; y < static_cast<size_t>(height_); ++y) {
    raw.push_back(0);  // no filter
    raw.append(reinterpret_cast<const char*>(pixels_.data() + y * width),
               width);
  }
  uLongf packed_size = compressBound(static_cast<uLong>(raw.size()));
  std::string packed(packed_size, '\0');
  // Cannot fail: the buffer is large enough.
  compress(reinterpret_cast<Bytef*>(packed.data()), &packed_size,
           reinterpret_cast<const Bytef*>(raw.data()),
           static_cast<uLong>(raw.size()));
  packed.resize(packed_size);

  std::string header;
  PutBig(&header, static_cast<uint32_t>(width_));
  PutBig(&header, static_cast<uint32_t>(height_));
  // 8 bits a pixel, palette, deflate, adaptive filters, not interlaced.
  header.append("\x08\x03\x00\x00\x00", 5);
  std::string out("\x89PNG\r\n\x1a\n");
  PutChunk(&out, "IHDR", header);
  PutChunk(&out, "PLTE",
           absl::string_view(reinterpret_cast<const char*>(kPalette),
                             sizeof(kPalette)));
  PutChunk(&out, "IDAT", packed);
  PutChunk(&out, "IEND", "");
  return out;
}

}  // namespace coterie
