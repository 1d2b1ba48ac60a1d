#include "index/faiss_guard.h"

#include <faiss/impl/AuxIndexStructures.h>
#include <omp.h>

#include <exception>
#include <memory>
#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "index/faiss_threads.h"

extern "C" {
void openblas_set_num_threads(int threads);
int blas_thread_shutdown_(void);
}

namespace coterie {

void EndBlasThreads() {
  static const bool once = [] {
    openblas_set_num_threads(1);
    blas_thread_shutdown_();
    return true;
  }();
  static_cast<void>(once);
}

namespace internal_faiss {
namespace {

// What to ask on this thread; null: go on.
thread_local const absl::FunctionRef<bool()>* asked = nullptr;

// FAISS has one of these for all threads, and asks on the thread at work.
class Asker final : public faiss::InterruptCallback {
 public:
  bool want_interrupt() override { return asked != nullptr && (*asked)(); }
};

void Prepare() {
  static const bool once = [] {
    EndBlasThreads();
    faiss::InterruptCallback::instance = std::make_unique<Asker>();
    return true;
  }();
  static_cast<void>(once);
  omp_set_num_threads(1);  // of regions that this thread comes to
}

class Asking {
 public:
  explicit Asking(const absl::FunctionRef<bool()>& stop) { asked = &stop; }
  ~Asking() { asked = nullptr; }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
};

// The reason, without where in FAISS's sources it is.
absl::string_view Reason(absl::string_view what) {
  const size_t at = what.find("Error: ");
  return at == absl::string_view::npos ? what : what.substr(at + 7);
}

}  // namespace

absl::Status Guarded(absl::StatusCode code, absl::FunctionRef<bool()> stop,
                     absl::FunctionRef<void()> call) {
  Prepare();
  try {
    const Asking asking(stop);
    call();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("FAISS: out of memory");
  } catch (const std::exception& e) {
    if (absl::StrContains(e.what(), "computation interrupted")) {
      return absl::CancelledError("the build or search was stopped");
    }
    return absl::Status(code, absl::StrCat("FAISS: ", Reason(e.what())));
  }
}

}  // namespace internal_faiss
}  // namespace coterie
