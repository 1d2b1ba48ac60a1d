#include "client/npy_file.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/npy_bytes.h"
#include "client/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<NpyFile> Open(const std::string& bytes) {
  return NpyFile::FromStream(std::make_unique<std::istringstream>(bytes),
                             static_cast<int64_t>(bytes.size()), "f.npy");
}

// The refusal of `bytes`, checked for what every refusal has.
std::string Refusal(const std::string& bytes) {
  const absl::StatusOr<NpyFile> file = Open(bytes);
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(file.status().message());
  EXPECT_THAT(message, HasSubstr("f.npy: "));
  EXPECT_THAT(message, HasSubstr("; expected "));
  return message;
}

std::string Floats(int64_t count) {
  return BytesOf(std::vector<float>(count, 0.5F));
}

TEST(NpyFile, ReadsRowsInBlocks) {
  absl::StatusOr<NpyFile> file = Open(NpyMatrix(3, 2, {1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->layout().rows, 3);
  EXPECT_EQ(file->layout().columns, 2);
  EXPECT_FALSE(file->layout().one_dimensional);
  std::vector<float> values;
  ASSERT_TRUE(file->ReadRows(2, &values).ok());
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE(file->ReadRows(2, &values).ok());
  EXPECT_THAT(values, ElementsAre(5, 6));
  ASSERT_TRUE(file->ReadRows(2, &values).ok());
  EXPECT_THAT(values, IsEmpty());
}

TEST(NpyFile, ReadsTheFileOfWordVectorsWhole) {
  absl::StatusOr<NpyFile> file = NpyFile::Open("data/words-10k.npy");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->layout().rows, 10000);
  EXPECT_EQ(file->layout().columns, 100);
  // Against the bytes themselves.
  std::ifstream raw("data/words-10k.npy", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(raw)), {});
  std::vector<float> all;
  std::vector<float> block;
  do {
    ASSERT_TRUE(file->ReadRows(777, &block).ok());
    all.insert(all.end(), block.begin(), block.end());
  } while (!block.empty());
  EXPECT_EQ(BytesOf(all), bytes.substr(128));
}

TEST(NpyFile, BlocksOfAnySizeGiveTheSameRows) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 50; ++trial) {
    const int64_t rows = random() % 40;
    // Some rows are longer than the reader's buffer.
    const int64_t columns = 1 + random() % (trial % 10 == 0 ? 16384 : 50);
    std::vector<double> values(rows * columns);
    for (double& value : values) value = normal(random);
    absl::StatusOr<NpyFile> file = Open(NpyWithShape(
        "<f8", absl::StrCat("(", rows, ",", columns, ")"), BytesOf(values), 2));
    ASSERT_TRUE(file.ok()) << file.status();
    const std::vector<float> expected(values.begin(), values.end());
    std::vector<float> all;
    std::vector<float> block;
    do {
      ASSERT_TRUE(file->ReadRows(1 + random() % 7, &block).ok());
      ASSERT_EQ(block.size() % columns, 0U);
      all.insert(all.end(), block.begin(), block.end());
    } while (!block.empty());
    EXPECT_EQ(all, expected);
  }
}

TEST(NpyFile, ReadsVersion2) {
  absl::StatusOr<NpyFile> file =
      Open(NpyWithShape("<f4", "(1, 2)", Floats(2), 2));
  EXPECT_TRUE(file.ok()) << file.status();
}

TEST(NpyFile, OneDimensionalIsOneRow) {
  absl::StatusOr<NpyFile> file = Open(NpyWithShape("<f4", "(3,)", Floats(3)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->layout().one_dimensional);
  EXPECT_EQ(file->layout().rows, 1);
  EXPECT_EQ(file->layout().columns, 3);
}

TEST(NpyFile, ReadsKeysInAnyOrderQuotesAndSpacing) {
  for (const char* dictionary :
       {R"({"shape":(2,1),"fortran_order":False,"descr":"<f4"})",
        "{ 'fortran_order' : False , 'descr' : '<f4' , 'shape' : ( 2 , 1 , ) }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 1L)}"}) {
    absl::StatusOr<NpyFile> file =
        Open(NpyFromDictionary(dictionary, Floats(2)));
    ASSERT_TRUE(file.ok()) << dictionary << ": " << file.status();
    EXPECT_EQ(file->layout().rows, 2);
  }
}

TEST(NpyFile, FortranOrderOfOneVectorIsNoDifference) {
  EXPECT_TRUE(Open(NpyFromDictionary(
                       "{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}",
                       Floats(2)))
                  .ok());
}

TEST(NpyFile, AMatrixWithoutRowsIsEmpty) {
  absl::StatusOr<NpyFile> file = Open(NpyWithShape("<f4", "(0, 5)", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values = {1};
  ASSERT_TRUE(file->ReadRows(10, &values).ok());
  EXPECT_THAT(values, IsEmpty());
}

// The value of each half, by the definition of binary16.
TEST(NpyFile, ConvertsEveryFiniteHalfExactly) {
  std::vector<uint16_t> halves;
  std::vector<float> expected;
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 31;
    if (exponent == 31) continue;
    const int fraction = bits & 1023;
    const double magnitude =
        exponent == 0 ? fraction * std::pow(2.0, -24)
                      : (1 + fraction / 1024.0) * std::pow(2.0, exponent - 15);
    halves.push_back(static_cast<uint16_t>(bits));
    expected.push_back(
        static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude));
  }
  absl::StatusOr<NpyFile> file = Open(NpyWithShape(
      "<f2", absl::StrCat("(", halves.size() / 8, ", 8)"), BytesOf(halves)));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<float> values;
  ASSERT_TRUE(file->ReadRows(1 << 20, &values).ok());
  // Bytes, so that -0 is told from +0.
  EXPECT_EQ(BytesOf(values), BytesOf(expected));
}

TEST(NpyFile, NarrowsDoublesToTheNearestFloat) {
  const std::vector<double> doubles = {0.1, -1e-50, 3.4028234e38};
  absl::StatusOr<NpyFile> file =
      Open(NpyWithShape("<f8", "(1, 3)", BytesOf(doubles)));
  ASSERT_TRUE(file.ok());
  std::vector<float> values;
  ASSERT_TRUE(file->ReadRows(1, &values).ok());
  EXPECT_EQ(values, (std::vector<float>{0.1F, -0.0F, 3.4028234e38F}));
}

TEST(NpyFile, RefusesWhatIsNotFiniteNamingRowAndColumn) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad : {std::nan(""), inf, -inf, 1e39, -1e308}) {
    absl::StatusOr<NpyFile> file = Open(NpyWithShape(
        "<f8", "(3, 2)", BytesOf(std::vector<double>{0, 1, 2, 3, 4, bad})));
    ASSERT_TRUE(file.ok());
    std::vector<float> values;
    ASSERT_TRUE(file->ReadRows(2, &values).ok());
    const absl::Status status = file->ReadRows(2, &values);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("f.npy: row 2, column 1 is "));
  }
  absl::StatusOr<NpyFile> file = Open(
      NpyWithShape("<f2", "(1, 1)", BytesOf(std::vector<uint16_t>{0x7c00})));
  std::vector<float> values;
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->ReadRows(1, &values).ok());
}

TEST(NpyFile, RefusesAFileCutOffAnywhere) {
  const std::string whole = NpyMatrix(2, 3, {1, 2, 3, 4, 5, 6});
  for (size_t length = 0; length < whole.size(); ++length) {
    Refusal(whole.substr(0, length));
  }
  EXPECT_TRUE(Open(whole).ok());
}

TEST(NpyFile, RefusesBytesAfterTheData) {
  EXPECT_THAT(Refusal(NpyMatrix(1, 1, {1}) + "x"), HasSubstr("5 bytes"));
}

TEST(NpyFile, RefusesAHeaderThatClaimsMoreThanTheFileHas) {
  for (const char* shape :
       {"(1000000000000, 100)", "(9223372036854775807, 16384)",
        "(4611686018427387904, 4)", "(4611686018427387905, 1)"}) {
    const std::string message = Refusal(NpyWithShape("<f4", shape, Floats(4)));
    EXPECT_THAT(message, HasSubstr("16 bytes of data"));
    EXPECT_THAT(message, HasSubstr(shape));
  }
}

TEST(NpyFile, RefusesAGiantHeaderLength) {
  std::string bytes = NpyWithShape("<f4", "(1, 1)", Floats(1), 2);
  bytes[8] = bytes[9] = bytes[10] = bytes[11] = '\xff';
  EXPECT_THAT(Refusal(bytes), HasSubstr("a header of 4294967295 bytes"));
  bytes = NpyWithShape("<f4", "(1, 1)", Floats(1), 1);
  bytes[8] = bytes[9] = '\xff';
  EXPECT_THAT(Refusal(bytes), HasSubstr("a header of 65535 bytes"));
}

TEST(NpyFile, RefusesLayoutsItDoesNotRead) {
  const struct {
    const char* dictionary;
    const char* found;
  } cases[] = {
      {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}",
       "Fortran order"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2)}",
       "'>f4' (big-endian)"},
      {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2)}", "'<i4'"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}", "'|O'"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}",
       "structured"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "shape ()"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2)}",
       "shape (1, 2, 2)"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 2)}",
       "negative"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4)}", "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 2)}", "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 2)}", "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "tuple"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': "
       "(9223372036854775808, 2)}",
       "beyond 2^63"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 0)}",
       "0 columns"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 16385)}",
       "16385 columns"},
      {"{'descr': '<f4', 'fortran_order': False}", "without"},
      {"{'descr': '<f4', 'shape': (2, 2)}", "without"},
      {"{'fortran_order': False, 'shape': (2, 2)}", "without"},
      {"{}", "without"},
      {"", "no dictionary"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'x': 1}",
       "unknown key 'x'"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}", "twice"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)", "end"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)} x", "after"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2)}", "True"},
      {"{'descr': '<f4, 'fortran_order': False, 'shape': (2, 2)}", ""},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Refusal(NpyFromDictionary(c.dictionary, Floats(4))),
                HasSubstr(c.found))
        << c.dictionary;
  }
}

TEST(NpyFile, RefusesOtherFilesAndVersions) {
  EXPECT_THAT(Refusal("PK\x03\x04 some zip archive, like .npz"),
              HasSubstr("not a .npy file"));
  std::string bytes = NpyMatrix(1, 1, {1});
  bytes[6] = 3;
  EXPECT_THAT(Refusal(bytes), HasSubstr("version 3.0"));
}

TEST(NpyFile, EscapesWhatItQuotes) {
  const std::string message = Refusal(NpyFromDictionary(
      "{'descr': '\x1b[31m', 'fortran_order': False, 'shape': (1, 1)}",
      Floats(1)));
  EXPECT_FALSE(absl::StrContains(message, "\x1b")) << message;
}

TEST(NpyFile, RefusesWhatIsNoRegularFile) {
  EXPECT_THAT(std::string(NpyFile::Open("nowhere.npy").status().message()),
              HasSubstr("nowhere.npy: no such file"));
  EXPECT_THAT(std::string(NpyFile::Open("/dev/zero").status().message()),
              HasSubstr("not a regular file"));
  EXPECT_EQ(NpyFile::Open("data").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(NpyFile, NoticesAFileCutOffWhileItIsRead) {
  const std::string path = testing::TempDir() + "/cut.npy";
  const std::string large = NpyMatrix(100, 1000, std::vector<float>(100000));
  std::ofstream(path, std::ios::binary | std::ios::trunc) << large;
  absl::StatusOr<NpyFile> file = NpyFile::Open(path);
  ASSERT_TRUE(file.ok());
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      << large.substr(0, 200000);
  std::vector<float> values;
  const absl::Status status = file->ReadRows(100, &values);
  EXPECT_THAT(std::string(status.message()), HasSubstr("changed meanwhile"));
}

}  // namespace
}  // namespace coterie
