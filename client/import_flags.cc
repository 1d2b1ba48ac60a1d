#include "client/import_flags.h"

#include <CLI/App.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/collections.h"
#include "client/errors.h"
#include "client/numbers.h"

namespace coterie {
namespace {

constexpr char kHelp[] = R"(Examples:
  coterie import words words-10k.npy --text words-10k.txt --as word \
      --create --metric cosine
  coterie import sift sift_base.fvecs --create --metric l2
  coterie import deep base.10M.fbin --first-id 10000000 --resume
  coterie import flowers iris.csv --id-column id \
      --attribute-column species --create --metric l2
  coterie import adult a1a.libsvm --create --metric l2 --dim 123
  coterie import docs rows.npy --ids ids.txt --attributes rows.jsonl

Formats, by extension or --format:
  npy            numpy.save of a 2-D array of float32, float64 or float16
  fvecs, bvecs   each row: int32 dimension, then float32 or bytes
  fbin           uint32 rows, uint32 dimension, then float32 rows
  u8bin, i8bin   the same, of bytes 0..255 or -128..127
  csv, tsv       numbers; a header if there is one; columns as id or attributes
  libsvm, svm    label index:value ...; indices ascend from 1; the label
                 becomes the attribute "label"

Without ids row i becomes point FIRST_ID + i. --ids is a .npy of uint64 or
int64, or text with one id a line. --attributes has one JSON object a line, or
is a .csv with a header: {"word": "king", "rank": 17, "score": 0.5,
"tags": ["a", "b"]}. Files are read piece by piece, whatever their size, and
checked as far as possible before the first row is sent.

Interrupted? The same command with --resume goes on behind the last row that
was acknowledged, kept in FILE.NAME.checkpoint; rows that were under way are
not applied twice. It refuses if a file has changed. Starting over is safe as
well: it writes the same points. A busy or restarting server is waited for, a
minute a batch or as --retry-for says. Each call may take 60 s unless --timeout
says otherwise.)";

constexpr char kSee[] = "See: coterie import --help";

}  // namespace

CLI::App* ImportFlags::Register(CLI::App* app) {
  CLI::App* command =
      app->add_subcommand("import", "Import the rows of a file of vectors");
  command->add_option("NAME", collection, "Collection")->required();
  command->add_option("FILE", files.rows, "Vectors, one a row")->required();
  command->add_option("--format", format_text_,
                      "Format of FILE (default: by its extension)");
  CLI::Option* creates = command->add_flag(
      "--create", create, "Create the collection if there is none");
  command
      ->add_option("--metric", metric_text_, "With --create: cosine, l2 or ip")
      ->needs(creates);
  command->add_option("--slots", slots, "With --create: slots (default: 64)")
      ->needs(creates);
  command
      ->add_option("--dim", dimension,
                   "With --create: dimension, where a libsvm file uses "
                   "fewer (default: its largest index)")
      ->needs(creates);
  RegisterBeside(command);
  RegisterFormats(command);
  RegisterRunning(command);
  command->footer(kHelp);
  return command;
}

void ImportFlags::RegisterBeside(CLI::App* command) {
  const std::string group = "Ids and attributes";
  CLI::Option* ids = command->add_option(
      "--ids", files.ids, "Ids of the rows: .npy of integers, or text");
  CLI::Option* first =
      command->add_option("--first-id", first_id_text_,
                          "Id of row 0 (default: 0); row i gets id + i");
  ids->excludes(first);
  CLI::Option* attributes = command->add_option(
      "--attributes", files.attributes,
      "Attributes of the rows: JSON objects, one a line, or .csv");
  CLI::Option* text = command->add_option(
      "--text", files.text, "Text of the rows, one a line, UTF-8");
  CLI::Option* as =
      command->add_option("--as", files.text_attribute,
                          "Attribute that holds the text (default: text)");
  as->needs(text);
  for (CLI::Option* option : {ids, first, attributes, text, as}) {
    option->group(group);
  }
}

void ImportFlags::RegisterFormats(CLI::App* command) {
  const std::string csv = "Of csv";
  command
      ->add_option("--id-column", files.options.id_column,
                   "Column of ids, by name or number from 1")
      ->excludes("--first-id")
      ->group(csv);
  command
      ->add_option("--attribute-column", files.options.attribute_columns,
                   "Column kept as an attribute: NAME, or NAME:TYPE with "
                   "int, double, bool or string; repeat for more")
      ->allow_extra_args(false)
      ->group(csv);
  command
      ->add_option("--header", header_text_,
                   "Is the first record a header: yes, no or guess (default: "
                   "guess)")
      ->group(csv);
  command
      ->add_option("--delimiter", delimiter_text_,
                   "Between fields: one character or tab (default: , or for "
                   ".tsv tab)")
      ->group(csv);
  const std::string libsvm = "Of libsvm";
  command
      ->add_option("--label-as", files.options.label,
                   "Attribute that keeps the label (default: label; \"\" "
                   "drops it)")
      ->group(libsvm);
  command
      ->add_flag("--zero-based", files.options.zero_based,
                 "Indices count from 0, not from 1")
      ->group(libsvm);
}

void ImportFlags::RegisterRunning(CLI::App* command) {
  const std::string group = "Running";
  command
      ->add_flag("--resume", resume,
                 "Go on where an interrupted import stopped")
      ->group(group);
  command
      ->add_option("--checkpoint", checkpoint,
                   "Where that is kept (default: FILE.NAME.checkpoint)")
      ->group(group);
  command
      ->add_option("--retry-for", retry_for_text_,
                   "How long a batch is retried while the server is busy or "
                   "away (default: 60s)")
      ->group(group);
  command
      ->add_option("--batch", batch, "Rows a request, 1..4096 (default: 1000)")
      ->group(group);
  command
      ->add_option("--in-flight", in_flight,
                   "Requests under way at once, 1..16 (default: 4)")
      ->group(group);
}

absl::Status ImportFlags::Check() {
  if (batch < 1 || batch > kMaxBatch) {
    return UsageError(
        absl::StrCat("--batch ", batch, ": expected 1..", kMaxBatch), kSee);
  }
  if (in_flight < 1 || in_flight > kMaxInFlight) {
    return UsageError(
        absl::StrCat("--in-flight ", in_flight, ": expected 1..", kMaxInFlight),
        kSee);
  }
  if (create && metric_text_.empty()) {
    return UsageError("--create needs --metric",
                      "Say what near means: --metric cosine, l2 or ip");
  }
  if (!metric_text_.empty()) {
    absl::StatusOr<v1::Metric> metric = ParseMetric(metric_text_);
    if (!metric.ok()) return metric.status();
    metric_ = *metric;
  }
  absl::StatusOr<uint64_t> id = ParsePointId(first_id_text_);
  if (!id.ok()) {
    return UsageError(absl::StrCat("--first-id: ", id.status().message()),
                      kSee);
  }
  files.first_id = *id;
  absl::StatusOr<absl::Duration> retry_for = ParseTimeout(retry_for_text_);
  if (!retry_for.ok()) {
    return UsageError(
        absl::StrCat("--retry-for: ", retry_for.status().message()), kSee);
  }
  retry_for_ = *retry_for;
  return CheckFormat();
}

absl::Status ImportFlags::CheckFormat() {
  if (!format_text_.empty()) {
    absl::StatusOr<RowFormat> format = ParseRowFormat(format_text_);
    if (!format.ok()) {
      return UsageError(absl::StrCat("--format: ", format.status().message()),
                        kSee);
    }
    files.format = *format;
  }
  return CheckCsv();
}

absl::Status ImportFlags::CheckCsv() {
  RowOptions& options = files.options;
  if (header_text_ == "yes" || header_text_ == "no") {
    options.header = header_text_ == "yes" ? CsvHeader::kYes : CsvHeader::kNo;
  } else if (header_text_ != "guess") {
    return UsageError(
        absl::StrCat("--header ", header_text_, ": expected yes, no or guess"),
        kSee);
  }
  if (delimiter_text_.empty()) {
    const bool tsv = absl::EndsWithIgnoreCase(files.rows, ".tsv");
    options.delimiter = tsv ? '\t' : ',';
  } else if (delimiter_text_ == "tab") {
    options.delimiter = '\t';
  } else if (delimiter_text_.size() == 1 &&
             absl::StrContains(",;|:\t", delimiter_text_)) {
    options.delimiter = delimiter_text_[0];
  } else {
    return UsageError(absl::StrCat("--delimiter ", delimiter_text_,
                                   ": expected one of , ; | : or tab"),
                      kSee);
  }
  return absl::OkStatus();
}

}  // namespace coterie
