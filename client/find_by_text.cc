#include "client/find_by_text.h"

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"

namespace coterie {
namespace {

// Enough to tell one from several.
constexpr int64_t kWanted = 2;

v1::ScanRequest MakeRequest(const std::string& collection,
                            const std::string& attribute,
                            const std::string& text) {
  v1::ScanRequest request;
  request.set_collection(collection);
  request.set_limit(kWanted);
  v1::MatchCondition* match =
      request.mutable_filter()->add_must()->mutable_match();
  match->set_attribute(attribute);
  match->add_any_of()->set_string_value(text);
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) {
    match->add_any_of()->set_int_value(number);
  }
  if (text == "true" || text == "false") {
    match->add_any_of()->set_bool_value(text == "true");
  }
  return request;
}

}  // namespace

absl::StatusOr<TextMatch> FindByText(const Session& session,
                                     const std::string& collection,
                                     const std::string& attribute,
                                     const std::string& text) {
  grpc::ClientContext context;
  session.Prepare(&context);
  const std::unique_ptr<grpc::ClientReaderInterface<v1::ScanResponse>> reader =
      session.stubs().points->Scan(&context,
                                   MakeRequest(collection, attribute, text));
  TextMatch match;
  v1::ScanResponse page;
  while (reader->Read(&page)) {
    for (const v1::Point& point : page.points()) {
      match.id =
          match.points == 0 ? point.id() : std::min(match.id, point.id());
      match.points = std::min(match.points + 1, kWanted);
    }
    // Whatever the server would still send.
    if (match.points == kWanted) context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok() && match.points < kWanted) return FromGrpcStatus(status);
  return match;
}

}  // namespace coterie
