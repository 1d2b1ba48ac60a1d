// A picture made pixel by pixel, and as a PNG file.
//
// Not thread-safe. Colours are those of a small palette; what is drawn outside
// is not there.

#ifndef COTERIE_CLIENT_PNG_IMAGE_H_
#define COTERIE_CLIENT_PNG_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace coterie {

enum class Ink : uint8_t { kWhite, kBlack, kGrey, kBlue, kRed };

class PngImage {
 public:
  // All white. REQUIRES: 1 <= width, height <= 16384.
  PngImage(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }

  void Set(int x, int y, Ink ink);
  Ink at(int x, int y) const;
  // From end to end, two pixels thick if `bold`.
  void Line(int x0, int y0, int x1, int y1, Ink ink, bool bold = false);
  // Its upper left corner is (x, y); letters are 12 pixels wide and 14 high
  // with their gaps. Upper case is drawn as lower case, what has no glyph as a
  // blank.
  void Text(int x, int y, absl::string_view text, Ink ink);
  static int TextWidth(absl::string_view text);

  // A PNG file (ISO/IEC 15948): palette of 8 bits a pixel.
  std::string Encode() const;

 private:
  const int width_;
  const int height_;
  std::vector<uint8_t> pixels_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_PNG_IMAGE_H_
