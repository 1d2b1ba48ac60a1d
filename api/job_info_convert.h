// Jobs of all kinds: domain -> proto. Stateless; any thread. O(size of
// message).

#ifndef COTERIE_API_JOB_INFO_CONVERT_H_
#define COTERIE_API_JOB_INFO_CONVERT_H_

#include "api/job_info.h"
#include "api/v1/clustering.pb.h"
#include "api/v1/jobs.pb.h"
#include "api/v1/training.pb.h"

namespace coterie {

void EncodeJob(const JobInfo& job, v1::Job* out);

// Of an event that says something; for a stream of one kind, of that kind.
void EncodeEvent(const JobEvent& event, v1::TrainKMeansResponse* out);
void EncodeEvent(const JobEvent& event, v1::TrainSgdResponse* out);
void EncodeEvent(const JobEvent& event, v1::JobEvent* out);

}  // namespace coterie

#endif  // COTERIE_API_JOB_INFO_CONVERT_H_
