// Steps of a job on a remote shard over one bidirectional stream
// (ShardService.SgdSteps), as a StepStream.
//
// A step is one message each way; the stream opens with the first, and again
// after an error. The caller's deadline and cancellation end the stream, so at
// the shard the step. Destroying it ends the RPC.

#ifndef COTERIE_COORDINATOR_REMOTE_STEPS_H_
#define COTERIE_COORDINATOR_REMOTE_STEPS_H_

#include <memory>

#include "coordinator/shard_client.h"
#include "coordinator/shard_link.h"

namespace coterie {

std::unique_ptr<StepStream> MakeRemoteSteps(std::shared_ptr<ShardLink> link);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_REMOTE_STEPS_H_
