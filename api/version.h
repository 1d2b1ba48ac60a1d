// The release that this is, for server and command line alike.

#ifndef COTERIE_API_VERSION_H_
#define COTERIE_API_VERSION_H_

namespace coterie {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace coterie

#endif  // COTERIE_API_VERSION_H_
