// The options of coterie import: declared, explained and checked.
//
// Not thread-safe. Outlives the parsing of the command line.

#ifndef COTERIE_CLIENT_IMPORT_FLAGS_H_
#define COTERIE_CLIENT_IMPORT_FLAGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/v1/types.pb.h"
#include "client/import_inputs.h"

namespace CLI {
class App;
}  // namespace CLI

namespace coterie {

class ImportFlags {
 public:
  static constexpr int64_t kMaxBatch = 4096;
  static constexpr int64_t kMaxInFlight = 16;

  // Adds the subcommand with its options and help to `app`.
  CLI::App* Register(CLI::App* app);

  // After parsing; before anything below is read. A usage error if something
  // is out of range or contradicts itself.
  absl::Status Check();

  std::string collection;
  ImportFiles files;
  bool create = false;
  int32_t slots = 0;
  // 0 for that of the file.
  int64_t dimension = 0;
  bool resume = false;
  // Empty for the default.
  std::string checkpoint;
  int64_t batch = 1000;
  int64_t in_flight = 4;

  // With `create`.
  v1::Metric metric() const { return metric_; }
  absl::Duration retry_for() const { return retry_for_; }

 private:
  void RegisterBeside(CLI::App* command);
  void RegisterFormats(CLI::App* command);
  void RegisterRunning(CLI::App* command);
  absl::Status CheckFormat();
  absl::Status CheckCsv();

  // As typed.
  std::string metric_text_;
  std::string format_text_;
  std::string first_id_text_ = "0";
  std::string header_text_ = "guess";
  std::string delimiter_text_;
  std::string retry_for_text_ = "60s";

  v1::Metric metric_ = v1::METRIC_UNSPECIFIED;
  absl::Duration retry_for_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_IMPORT_FLAGS_H_
