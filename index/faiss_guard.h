// Calls into FAISS: on this thread alone, to be stopped, and without
// exceptions. Any thread; not re-entrant.

#ifndef COTERIE_INDEX_FAISS_GUARD_H_
#define COTERIE_INDEX_FAISS_GUARD_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace coterie::internal_faiss {

// Calls `call`. What it throws becomes RESOURCE_EXHAUSTED if memory is out,
// CANCELLED if `stop` said true when FAISS asked (now and then in training,
// adding and reading lists), otherwise `code` with FAISS's words. OpenMP makes
// no threads for it.
absl::Status Guarded(absl::StatusCode code, absl::FunctionRef<bool()> stop,
                     absl::FunctionRef<void()> call);

}  // namespace coterie::internal_faiss

#endif  // COTERIE_INDEX_FAISS_GUARD_H_
