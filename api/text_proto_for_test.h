// Messages written as text in tests. Stateless; any thread.

#ifndef COTERIE_API_TEXT_PROTO_FOR_TEST_H_
#define COTERIE_API_TEXT_PROTO_FOR_TEST_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "api/status_details.h"

namespace coterie {

// The message `text` describes; fails the test if it describes none.
template <typename T>
T FromText(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message))
      << text;
  return message;
}

// That `status` refuses `field` and says all of `parts` in its message.
inline void ExpectRefused(const absl::Status& status, absl::string_view field,
                          std::initializer_list<absl::string_view> parts = {}) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status).value_or("(none)"), field) << status;
  for (const absl::string_view part : parts) {
    EXPECT_NE(status.message().find(part), absl::string_view::npos)
        << "\"" << part << "\" is not in: " << status;
  }
}

}  // namespace coterie

#endif  // COTERIE_API_TEXT_PROTO_FOR_TEST_H_
