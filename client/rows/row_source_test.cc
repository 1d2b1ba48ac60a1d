#include "client/rows/row_source.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "client/npy_bytes.h"
#include "client/rows/row_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Floats = std::vector<float>;
using Bytes = std::vector<unsigned char>;

absl::StatusOr<std::unique_ptr<RowSource>> Open(const std::string& bytes,
                                                RowFormat format,
                                                RowOptions options = {}) {
  return OpenRows(InputFromBytes(bytes, "f"), format, options);
}

// All rows, read `at_once` at a time.
absl::StatusOr<RowBlock> ReadAll(RowSource* source, int64_t at_once) {
  RowBlock all;
  RowBlock block;
  do {
    absl::Status status = source->Read(at_once, &block);
    if (!status.ok()) return status;
    all.rows += block.rows;
    all.values.insert(all.values.end(), block.values.begin(),
                      block.values.end());
    all.ids.insert(all.ids.end(), block.ids.begin(), block.ids.end());
    all.attributes.insert(all.attributes.end(), block.attributes.begin(),
                          block.attributes.end());
  } while (block.rows > 0);
  return all;
}

absl::StatusOr<RowBlock> Read(const std::string& bytes, RowFormat format,
                              const RowOptions& options = {}) {
  auto source = Open(bytes, format, options);
  if (!source.ok()) return source.status();
  return ReadAll(source->get(), 2);
}

// The message of a refusal; "" if there is none.
std::string Refusal(const std::string& bytes, RowFormat format,
                    const RowOptions& options = {}) {
  const absl::StatusOr<RowBlock> rows = Read(bytes, format, options);
  if (rows.ok()) return "";
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(rows.status().message());
}

TEST(RowFormat, IsKnownByExtensionAndByName) {
  EXPECT_EQ(*RowFormatOfPath("a/b.c/sift_base.FVECS"), RowFormat::kFvecs);
  EXPECT_EQ(*RowFormatOfPath("x.tsv"), RowFormat::kCsv);
  EXPECT_EQ(*RowFormatOfPath("a1a.t.libsvm"), RowFormat::kLibsvm);
  EXPECT_EQ(*RowFormatOfPath("x.u8bin"), RowFormat::kU8bin);
  for (const std::string path : {"npy", "a.npy/rows", "x.parquet", ""}) {
    EXPECT_FALSE(RowFormatOfPath(path).ok()) << path;
  }
  EXPECT_EQ(*ParseRowFormat("I8bin"), RowFormat::kI8bin);
  EXPECT_THAT(std::string(ParseRowFormat("tsv").status().message()),
              HasSubstr("expected one of npy, fvecs"));
}

TEST(FixedRows, ReadTheFormatsOfTheBenchmarks) {
  EXPECT_THAT(Read(VecsRow<float>(2, {1, 2.5}) + VecsRow<float>(2, {-3, 0}) +
                       VecsRow<float>(2, {5, 6}),
                   RowFormat::kFvecs)
                  ->values,
              ElementsAre(1, 2.5, -3, 0, 5, 6));
  EXPECT_THAT(
      Read(VecsRow<unsigned char>(3, {0, 128, 255}), RowFormat::kBvecs)->values,
      ElementsAre(0, 128, 255));
  EXPECT_THAT(Read(BinFile<float>(3, 1, {1, -2, 3}), RowFormat::kFbin)->values,
              ElementsAre(1, -2, 3));
  EXPECT_THAT(
      Read(BinFile<unsigned char>(1, 2, {0, 255}), RowFormat::kU8bin)->values,
      ElementsAre(0, 255));
  EXPECT_THAT(
      Read(BinFile<unsigned char>(1, 2, {0x80, 0x7f}), RowFormat::kI8bin)
          ->values,
      ElementsAre(-128, 127));
}

TEST(FixedRows, RefuseAHeaderThatLies) {
  EXPECT_EQ(
      Refusal(BinFile<float>(4'000'000'000U, 16384, {1}), RowFormat::kFbin),
      "f: 12 bytes; expected 262144000000008 for 4000000000 rows of "
      "16384 components of 4 bytes: the file is cut off, appended to or "
      "of another format");
  EXPECT_THAT(Refusal(BinFile<float>(2, 1, {1}), RowFormat::kFbin),
              HasSubstr("12 bytes; expected 16 for 2 rows"));
  EXPECT_THAT(Refusal(BinFile<float>(1, 1, {1, 2}), RowFormat::kFbin),
              HasSubstr("16 bytes; expected 12"));
  EXPECT_THAT(Refusal(BinFile<float>(0, 0, {}), RowFormat::kFbin),
              HasSubstr("dimension 0; expected 1..16384"));
  EXPECT_THAT(
      Refusal(BinFile<float>(1, 16385, Floats(16385)), RowFormat::kFbin),
      HasSubstr("dimension 16385; expected 1..16384"));
  EXPECT_THAT(Refusal("1234567", RowFormat::kFbin),
              HasSubstr("7 bytes; expected a header of 8"));
  EXPECT_EQ(Refusal(BinFile<float>(0, 7, {}), RowFormat::kFbin), "");
}

TEST(FixedRows, RefuseVecsThatAreCutOffOrDiffer) {
  const std::string row = VecsRow<float>(2, {1, 2});
  EXPECT_THAT(
      Refusal(row + row.substr(0, 11), RowFormat::kFvecs),
      HasSubstr("23 bytes are 1 rows of dimension 2 and 11 bytes more"));
  EXPECT_EQ(Refusal(row + row + VecsRow<float>(3, {1, 2}), RowFormat::kFvecs),
            "f: row 2 has dimension 3; row 0 has 2");
  EXPECT_THAT(Refusal("", RowFormat::kFvecs), HasSubstr("0 bytes"));
  EXPECT_THAT(Refusal(VecsRow<float>(-1, {1}), RowFormat::kFvecs),
              HasSubstr("row 0 says dimension -1"));
  EXPECT_THAT(Refusal(VecsRow<float>(1 << 30, {1}), RowFormat::kFvecs),
              HasSubstr("row 0 says dimension 1073741824; expected 1..16384"));
}

TEST(FixedRows, NameAValueThatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Refusal(VecsRow<float>(2, {1, 2}) + VecsRow<float>(2, {3, nan}),
                    RowFormat::kFvecs),
            "f: row 1, column 1 is nan; expected a finite float32");
  EXPECT_EQ(Refusal(BinFile<float>(1, 2, {-INFINITY, 0}), RowFormat::kFbin),
            "f: row 0, column 0 is -inf; expected a finite float32");
}

TEST(RowSource, SkipsAsIfItHadRead) {
  Floats values(3000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  std::string csv;
  std::string libsvm;
  std::string fvecs;
  for (int i = 0; i < 1000; ++i) {
    csv += absl::StrCat(3 * i, ",", 3 * i + 1, ",", 3 * i + 2, "\n");
    libsvm +=
        absl::StrCat("1 1:", 3 * i, " 2:", 3 * i + 1, " 3:", 3 * i + 2, "\n");
    fvecs += VecsRow<float>(
        3, {values[3 * i], values[3 * i + 1], values[3 * i + 2]});
  }
  for (const auto& [format, bytes] :
       std::vector<std::pair<RowFormat, std::string>>{
           {RowFormat::kNpy, NpyMatrix(1000, 3, values)},
           {RowFormat::kFbin, BinFile(1000, 3, values)},
           {RowFormat::kFvecs, fvecs},
           {RowFormat::kCsv, csv},
           {RowFormat::kLibsvm, libsvm}}) {
    SCOPED_TRACE(std::string(RowFormatName(format)));
    for (const int64_t skipped : {0, 1, 700, 1000}) {
      auto source = Open(bytes, format);
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ((*source)->rows(), 1000);
      EXPECT_EQ((*source)->dimension(), 3);
      ASSERT_TRUE((*source)->Skip(skipped).ok());
      const absl::StatusOr<RowBlock> rest = ReadAll(source->get(), 64);
      ASSERT_TRUE(rest.ok()) << rest.status();
      EXPECT_EQ(rest->values,
                Floats(values.begin() + 3 * skipped, values.end()));
    }
  }
}

TEST(RowSource, OfOneDimensionTakesNoOther) {
  auto source = Open(BinFile<float>(1, 2, {1, 2}), RowFormat::kFbin);
  EXPECT_TRUE((*source)->SetDimension(2).ok());
  EXPECT_THAT(std::string((*source)->SetDimension(3).message()),
              HasSubstr("f has 2 columns; expected 3"));
}

TEST(LibsvmRows, CountIndicesFromOneAndKeepLabels) {
  const absl::StatusOr<RowBlock> rows =
      Read("+1 1:0.5 3:1e2 # first\r\n\n-1\n  1 \t2:-3  \n# all comment\n",
           RowFormat::kLibsvm);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->values, ElementsAre(0.5, 0, 100, 0, 0, 0, 0, -3, 0));
  EXPECT_THAT(rows->attributes, ElementsAre(Attributes{{"label", int64_t{1}}},
                                            Attributes{{"label", int64_t{-1}}},
                                            Attributes{{"label", int64_t{1}}}));
}

TEST(LibsvmRows, LabelsAreDoublesIfOneIs) {
  EXPECT_THAT(
      Read("1 1:1\n2.5 1:1\n", RowFormat::kLibsvm)->attributes,
      ElementsAre(Attributes{{"label", 1.0}}, Attributes{{"label", 2.5}}));
  RowOptions options;
  options.label = "y";
  EXPECT_THAT(Read("1 qid:7 1:1\n", RowFormat::kLibsvm, options)->attributes,
              ElementsAre(Attributes{{"qid", int64_t{7}}, {"y", int64_t{1}}}));
  options.label = "";
  EXPECT_TRUE(Read("1 1:1\n", RowFormat::kLibsvm, options)->attributes.empty());
}

TEST(LibsvmRows, MayCountFromZeroOrBeWidened) {
  RowOptions options;
  options.zero_based = true;
  EXPECT_THAT(Read("1 0:5 2:6\n", RowFormat::kLibsvm, options)->values,
              ElementsAre(5, 0, 6));
  auto source = Open("1 2:6\n", RowFormat::kLibsvm);
  EXPECT_EQ((*source)->dimension(), 2);
  EXPECT_FALSE((*source)->SetDimension(1).ok());
  ASSERT_TRUE((*source)->SetDimension(4).ok());
  EXPECT_THAT(ReadAll(source->get(), 5)->values, ElementsAre(0, 6, 0, 0));
}

TEST(LibsvmRows, NameTheLineOfEachFault) {
  const auto refusal = [](const std::string& line) {
    return Refusal("1 1:1\n" + line + "\n", RowFormat::kLibsvm);
  };
  EXPECT_EQ(refusal("1 0:1"),
            "f: line 2: index 0; expected 1 or more, unless indices count "
            "from 0 (--zero-based)");
  EXPECT_EQ(refusal("1 3:1 2:1"),
            "f: line 2: index 2 follows 3; expected indices that ascend");
  EXPECT_EQ(refusal("1 3:1 3:1"),
            "f: line 2: index 3 follows 3; expected indices that ascend");
  EXPECT_EQ(refusal("1 16385:1"),
            "f: line 2: index 16385; the largest dimension is 16384");
  EXPECT_THAT(refusal("1 99999999999999999999:1"),
              HasSubstr("expected index:value"));
  EXPECT_THAT(refusal("1:1 2:1"), HasSubstr("the label is \"1:1\""));
  EXPECT_THAT(refusal("nan 2:1"), HasSubstr("the label is \"nan\""));
  EXPECT_EQ(refusal("1 2:"),
            "f: line 2: value of index 2 is empty; expected a number");
  EXPECT_EQ(refusal("1 2:x"),
            "f: line 2: value of index 2 is \"x\"; expected a number");
  EXPECT_EQ(refusal("1 2:inf"),
            "f: line 2: value of index 2 is \"inf\"; expected a finite "
            "float32");
  EXPECT_THAT(refusal("1 2:1e39"), HasSubstr("expected a finite float32"));
  EXPECT_THAT(refusal("1 2"), HasSubstr("\"2\"; expected index:value"));
  EXPECT_THAT(refusal(std::string(1 << 21, '1')),
              HasSubstr("line 2 is longer than 1048576 bytes"));
  EXPECT_THAT(Refusal("1\n-1\n", RowFormat::kLibsvm),
              HasSubstr("no index:value in 2 rows"));
  EXPECT_THAT(Refusal("", RowFormat::kLibsvm), HasSubstr("in 0 rows"));
}

RowOptions Columns(const std::string& id,
                   const std::vector<std::string>& attributes) {
  RowOptions options;
  options.id_column = id;
  options.attribute_columns = attributes;
  return options;
}

TEST(CsvRows, AreNumbersWithOrWithoutAHeader) {
  for (const std::string header : {"", "x,y\n", "\"x\", y \r\n"}) {
    const absl::StatusOr<RowBlock> rows =
        Read(header + "1, 2\r\n\n\"3\" ,+4e0\n-.5,6", RowFormat::kCsv);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_THAT(rows->values, ElementsAre(1, 2, 3, 4, -.5, 6));
    EXPECT_TRUE(rows->ids.empty());
    EXPECT_TRUE(rows->attributes.empty());
  }
}

TEST(CsvRows, TakeIdsAndTypedAttributesFromColumns) {
  const absl::StatusOr<RowBlock> rows = Read(
      "id,a,name,b,n,zip,score,rare\n"
      "7,1,\"x, \"\"y\"\"\nz\",2,10,01234,1,true\n"
      "18446744073709551615,3,,4,-3,99999,2.5,false\n"
      "0,5,\"\",6,,1,,\n",
      RowFormat::kCsv, Columns("id", {"name", "n", "zip", "score", "rare"}));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(rows->ids, ElementsAre(7, 18446744073709551615U, 0));
  EXPECT_THAT(rows->attributes,
              ElementsAre(Attributes{{"name", std::string("x, \"y\"\nz")},
                                     {"n", int64_t{10}},
                                     {"zip", std::string("01234")},
                                     {"score", 1.0},
                                     {"rare", true}},
                          Attributes{{"n", int64_t{-3}},
                                     {"zip", std::string("99999")},
                                     {"score", 2.5},
                                     {"rare", false}},
                          // Quoted is empty, not absent.
                          Attributes{{"name", std::string()},
                                     {"zip", std::string("1")}}));
}

TEST(CsvRows, WithoutAHeaderColumnsHaveNumbers) {
  const absl::StatusOr<RowBlock> rows = Read(
      "5.1,setosa,1\n6,virginica,2\n", RowFormat::kCsv, Columns("3", {"2"}));
  ASSERT_TRUE(rows.ok()) << rows.status();
  // No row was taken for a header.
  EXPECT_THAT(rows->values, ElementsAre(5.1F, 6));
  EXPECT_THAT(rows->ids, ElementsAre(1, 2));
  EXPECT_EQ(rows->attributes[1], (Attributes{{"2", std::string("virginica")}}));
}

TEST(CsvRows, TypesMayBeGiven) {
  EXPECT_EQ(Read("a,k\n1,7\n", RowFormat::kCsv, Columns("", {"k:string"}))
                ->attributes[0],
            (Attributes{{"k", std::string("7")}}));
  EXPECT_EQ(Read("a,k\n1,7\n", RowFormat::kCsv, Columns("", {"k:double"}))
                ->attributes[0],
            (Attributes{{"k", 7.0}}));
  EXPECT_EQ(Refusal("a,k\n1,x\n", RowFormat::kCsv, Columns("", {"k:int"})),
            "f: line 2, column 2 (\"k\") is \"x\"; expected int");
}

TEST(CsvRows, NumericHeadersAreTakenOnRequest) {
  RowOptions options = Columns("2", {});
  options.header = CsvHeader::kYes;
  // Column named 2, not the second.
  EXPECT_THAT(Read("2,1\n7,5\n", RowFormat::kCsv, options)->ids,
              ElementsAre(7));
  options.header = CsvHeader::kNo;
  EXPECT_THAT(Read("2,1\n7,5\n", RowFormat::kCsv, options)->ids,
              ElementsAre(1, 5));
}

TEST(CsvRows, NameLineAndColumnOfEachFault) {
  const auto refusal = [](const std::string& csv) {
    return Refusal(csv, RowFormat::kCsv);
  };
  EXPECT_EQ(refusal("x,y\n1,2\n\n3,abc\n"),
            "f: line 4, column 2 (\"y\") is \"abc\"; expected a number");
  EXPECT_EQ(refusal("1,2\n3,\n"),
            "f: line 2, column 2 is empty; expected a number");
  EXPECT_EQ(refusal("1,2\n3,NaN\n"),
            "f: line 2, column 2 is \"NaN\"; expected a finite float32");
  EXPECT_EQ(refusal("1,2\n3\n"), "f: line 2: 1 field; the first record has 2");
  EXPECT_EQ(refusal("1,2\n3,4,\n"),
            "f: line 2: 3 fields; the first record has 2");
  EXPECT_THAT(refusal("1,\"2\n3,4\n"),
              HasSubstr("line 1: a quoted field does not end"));
  EXPECT_THAT(refusal("1,2\n\"3\"x,4\n"),
              HasSubstr("line 2, byte 4: text after a closing quote"));
  EXPECT_THAT(refusal(""), HasSubstr("f: no records"));
  EXPECT_THAT(refusal("1,2\n" + std::string(1 << 21, '1')),
              HasSubstr("line 2 is longer than 1048576 bytes"));
  EXPECT_THAT(refusal("1,2\n\"" + std::string(3 << 19, '\n')),
              HasSubstr("line 2: a record is longer than 1048576 bytes"));
}

TEST(CsvRows, RefuseColumnsThatAreNotThere) {
  EXPECT_THAT(Refusal("a,b\n1,2\n", RowFormat::kCsv, Columns("id", {})),
              HasSubstr("no column \"id\" among 2"));
  EXPECT_THAT(Refusal("1,2\n", RowFormat::kCsv, Columns("3", {})),
              HasSubstr("no column \"3\" among 2"));
  EXPECT_THAT(Refusal("a,b\n1,2\n", RowFormat::kCsv, Columns("a", {"a"})),
              HasSubstr("column \"a\" is asked for twice"));
  EXPECT_THAT(Refusal("a,b\n1,2\n", RowFormat::kCsv, Columns("a", {"b"})),
              HasSubstr("0 columns are left for the vector"));
}

TEST(CsvRows, RefuseAnIdThatIsNoneOrOccursTwice) {
  EXPECT_THAT(Refusal("id,a\n-1,2\n", RowFormat::kCsv, Columns("id", {})),
              AllOf(HasSubstr("f: line 2, column 1 (\"id\")"),
                    HasSubstr("is not a point id")));
  EXPECT_EQ(
      Refusal("id,a\n5,2\n6,2\n5,3\n", RowFormat::kCsv, Columns("id", {})),
      "f: line 4: id 5 is that of line 2 already");
}

TEST(CsvRows, MayHaveAnotherDelimiter) {
  RowOptions options;
  options.delimiter = '\t';
  EXPECT_THAT(Read("1\t2\n", RowFormat::kCsv, options)->values,
              ElementsAre(1, 2));
}

TEST(CsvRows, RoundOnceToTheNearestFloat) {
  // Through double this one rounds to the even neighbour below.
  EXPECT_THAT(Read("1.00000017881393432617187499\n1e-60\n-0\n", RowFormat::kCsv)
                  ->values,
              ElementsAre(1.00000011920928955078125F, 0, 0));
}

TEST(NpyRows, RefuseOneVector) {
  EXPECT_THAT(Refusal(NpyWithShape("<f4", "(2,)", RawBytes(Floats{1, 2})),
                      RowFormat::kNpy),
              HasSubstr("one vector, shape (2,)"));
}

}  // namespace
}  // namespace coterie
