// coterie export, and back through import, end to end against a fake server.

#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli_fixture.h"
#include "client/npy_bytes.h"
#include "client/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Export : public CliFixture {
 protected:
  static std::string Path(const std::string& name) {
    return testing::TempDir() + "/" + name;
  }

  static std::string Contents(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream),
            std::istreambuf_iterator<char>()};
  }

  static bool Exists(const std::string& path) {
    return std::ifstream(path).is_open();
  }
};

// Any finite float32 but -0, which is stored as 0.
float RandomFloat(std::mt19937_64* random) {
  while (true) {
    const auto bits = static_cast<uint32_t>((*random)());
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isfinite(value) && value != 0) return value;
  }
}

std::string RandomAttributes(std::mt19937_64* random) {
  const std::vector<std::string> members = {"\"i\": -9223372036854775808",
                                            "\"d\": 1.0",
                                            "\"e\": 4.9406564584124654e-324",
                                            "\"inf\": 1e999",
                                            "\"s\": \"\\u0000 \\\" \\n 東\"",
                                            "\"b\": false",
                                            "\"l\": []",
                                            "\"m\": [\"a\", \"\"]",
                                            "\"k e y\": \"v\""};
  std::string json;
  for (const std::string& member : members) {
    if ((*random)() % 2 == 0) continue;
    absl::StrAppend(&json, json.empty() ? "" : ", ", member);
  }
  return absl::StrCat("{", json, "}\n");
}

// id -> encoded vector and attributes; the order of a map's entries in a
// message is not fixed, so attributes are listed by name.
std::map<uint64_t, std::string> Digest(
    const std::map<uint64_t, v1::Point>& points) {
  std::map<uint64_t, std::string> digest;
  for (const auto& [id, point] : points) {
    std::map<std::string, std::string> attributes;
    for (const auto& [name, value] : point.attributes()) {
      attributes[name] = value.SerializeAsString();
    }
    std::string& text = digest[id];
    text = point.vector().packed().data();
    for (const auto& [name, value] : attributes) {
      absl::StrAppend(&text, "\n", name, "=", value);
    }
  }
  return digest;
}

TEST_F(Export, ComesBackByteForByteInEveryFormat) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3; ++round) {
    const auto rows = static_cast<int64_t>(1 + random() % 300);
    const auto columns = static_cast<int64_t>(1 + random() % 40);
    std::vector<float> values(rows * columns);
    for (float& value : values) value = RandomFloat(&random);
    std::string ids;
    std::string attributes;
    for (int64_t i = 0; i < rows; ++i) {
      absl::StrAppend(&ids, random(), "\n");
      attributes += RandomAttributes(&random);
    }
    const std::string name = absl::StrCat("c", round);
    Must({"import", name, WriteFile("in.npy", NpyMatrix(rows, columns, values)),
          "--ids", WriteFile("in.ids", ids), "--attributes",
          WriteFile("in.jsonl", attributes), "--create", "--metric", "l2"});
    const auto wanted = Digest(server_.points(name));
    ASSERT_EQ(wanted.size(), static_cast<size_t>(rows));
    for (const std::string format : {"npy", "fvecs", "fbin", "csv"}) {
      SCOPED_TRACE(format);
      const std::string file = Path(absl::StrCat("out.", format));
      Must({"export", name, file, "--force"});
      std::vector<std::string> import = {"import",
                                         name + format,
                                         file,
                                         "--attributes",
                                         file + ".attributes.jsonl",
                                         "--create",
                                         "--metric",
                                         "l2"};
      if (format == "csv") {
        import.insert(import.end(), {"--id-column", "id"});
      } else {
        import.insert(import.end(), {"--ids", file + ".ids.npy"});
      }
      Must(import);
      EXPECT_EQ(Digest(server_.points(name + format)), wanted);
    }
  }
}

TEST_F(Export, SaysWhatItWroteAndLeavesNoTemporaryFiles) {
  MakePlane();
  const std::string file = Path("plane-out.npy");
  const Result result = Must({"export", "plane", file, "--force"});
  EXPECT_EQ(result.out,
            absl::StrCat("exported 6 points of plane to ", file, ", ", file,
                         ".ids.npy, ", file, ".attributes.jsonl\n"));
  EXPECT_THAT(result.err, HasSubstr("export plane: 6 points in "));
  EXPECT_THAT(Contents(file + ".attributes.jsonl"),
              StartsWith("{\"word\": \"a\"}\n"));
  EXPECT_FALSE(Exists(file + ".partial"));
  EXPECT_FALSE(Exists(file + ".ids.npy.partial"));
}

TEST_F(Export, DoesNotReplaceFilesUnlessForced) {
  MakePlane();
  const std::string file = WriteFile("there.fvecs", "precious");
  const Result result = Run({"export", "plane", file});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("there.fvecs exists"));
  EXPECT_EQ(Contents(file), "precious");
  Must({"export", "plane", file, "--force", "--no-attributes"});
  EXPECT_NE(Contents(file), "precious");
  EXPECT_FALSE(Exists(file + ".attributes.jsonl"));
}

TEST_F(Export, ThatFailsLeavesWhatWasThere) {
  MakePlane();
  const std::string file = WriteFile("kept.npy", "precious");
  server_.Fail("Scan", absl::UnavailableError("shard 1: gone"));
  const Result result = Run({"export", "plane", file, "--force"});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(Contents(file), "precious");
  EXPECT_FALSE(Exists(file + ".partial"));
  EXPECT_FALSE(Exists(file + ".ids.npy"));
}

TEST_F(Export, OfNothingIsAFileWithoutRows) {
  Must({"create", "empty", "--dim", "7", "--metric", "l2"});
  const std::string file = Path("none-out.npy");
  Must({"export", "empty", file, "--force"});
  EXPECT_THAT(Contents(file), HasSubstr("(0, 7)"));
  Must({"import", "empty", file, "--ids", file + ".ids.npy", "--attributes",
        file + ".attributes.jsonl"});
}

TEST_F(Export, RefusesWhatItCannotDo) {
  MakePlane();
  EXPECT_EQ(Run({"export", "plane", Path("x.libsvm")}).code, 3);
  EXPECT_EQ(Run({"export", "plane", Path("x.bvecs")}).code, 3);
  EXPECT_EQ(Run({"export", "plane", Path("x")}).code, 1);
  EXPECT_EQ(Run({"export", "nowhere", Path("x.npy")}).code, 2);
  EXPECT_EQ(Run({"export", "plane", "/nowhere/at/all.npy"}).code, 6);
}

}  // namespace
}  // namespace coterie
