// SGD jobs begun and followed, for tests. Calls wait.

#ifndef COTERIE_TESTS_SGD_FOLLOWING_H_
#define COTERIE_TESTS_SGD_FOLLOWING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "api/job_info.h"
#include "api/training.h"
#include "coordinator/coordinator.h"
#include "coordinator/jobs.h"
#include "gtest/gtest.h"
#include "tests/local_cluster.h"

namespace coterie {

struct Followed {
  std::vector<SgdReport> reports;
  absl::StatusOr<TrainedModel> model;
};

// The stream to its end; `seen` is called with each report.
inline Followed Follow(JobStream* stream,
                       const std::function<void(const SgdReport&)>& seen = {}) {
  Followed out;
  for (;;) {
    auto event = Await<JobEvent>(
        [&](Done<JobEvent> done) { stream->Next(std::move(done)); });
    if (!event.ok()) {
      out.model = event.status();
      return out;
    }
    if (const auto* report = std::get_if<SgdReport>(&event->what)) {
      out.reports.push_back(*report);
      if (seen) seen(*report);
    }
    if (event->end) {
      out.model = std::get<TrainedModel>(std::move(event->what));
      return out;
    }
  }
}

// Collection "c", label "y", model "model", every update reported.
inline SgdRequest RequestOf(const SgdOptions& options) {
  SgdRequest request;
  request.collection = "c";
  request.name = "model";
  request.options = options;
  request.label_attribute = "y";
  request.report_every = 1;
  request.replace = true;
  return request;
}

inline absl::StatusOr<JobInfo> Job(Coordinator& coordinator) {
  return Await<JobInfo>([&](Done<JobInfo> done) {
    coordinator.jobs().Get("c", "model", {}, std::move(done));
  });
}

// Leaves a job that was cancelled after some updates.
inline void CancelAfter(Coordinator& coordinator, const SgdRequest& request,
                        int64_t updates) {
  CallContext call;
  const auto cancel = std::make_shared<CancelToken>();
  call.cancel = cancel;
  const Followed run = Follow(coordinator.jobs().Train(request, call).get(),
                              [&](const SgdReport& report) {
                                if (report.progress.update >= updates)
                                  cancel->Cancel();
                              });
  ASSERT_TRUE(absl::IsCancelled(run.model.status())) << run.model.status();
  const auto job = Job(coordinator);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, JobState::kCancelled);
  EXPECT_GT(job->checkpoint_iteration, 0);
}

}  // namespace coterie

#endif  // COTERIE_TESTS_SGD_FOLLOWING_H_
