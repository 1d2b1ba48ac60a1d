// grpc.health.v1 Check, without compiling its proto into ours. Test-only.

#ifndef COTERIE_TESTS_HEALTH_CLIENT_H_
#define COTERIE_TESTS_HEALTH_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace coterie {

// "SERVING", "NOT_SERVING", "UNKNOWN", or the name of the failure's code
// ("NOT_FOUND", ...). Waits at most 5 s.
std::string CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& service);

}  // namespace coterie

#endif  // COTERIE_TESTS_HEALTH_CLIENT_H_
