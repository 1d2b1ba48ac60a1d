// Calls that are alike for whatever jobs leave: clusterings, models.

#ifndef COTERIE_CLIENT_STORED_RESULTS_H_
#define COTERIE_CLIENT_STORED_RESULTS_H_

#include <string>

#include "absl/status/status.h"
#include "client/session.h"

namespace coterie {

// Prints the names that a collection has, each on a line.
template <typename Request, typename Stub, typename Method>
absl::Status ListNames(const Session& session, const Stub& stub, Method method,
                       const std::string& collection) {
  Request request;
  request.set_collection(collection);
  const auto response = session.Call(stub, method, request);
  if (!response.ok()) return response.status();
  if (session.json()) {
    session.PrintJson(*response);
    return absl::OkStatus();
  }
  for (const std::string& name : response->names()) {
    session.out() << name << '\n';
  }
  return absl::OkStatus();
}

template <typename Request, typename Stub, typename Method>
absl::Status DeleteNamed(const Session& session, const Stub& stub,
                         Method method, const std::string& collection,
                         const std::string& name) {
  Request request;
  request.set_collection(collection);
  request.set_name(name);
  const auto response = session.Call(stub, method, request);
  if (!response.ok()) return response.status();
  session.out() << "deleted " << collection << ' ' << name << '\n';
  return absl::OkStatus();
}

}  // namespace coterie

#endif  // COTERIE_CLIENT_STORED_RESULTS_H_
