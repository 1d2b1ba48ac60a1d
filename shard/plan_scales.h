// How the searches of a segment compare with what the planner predicts for them
// (PlanScales in index/planner.h). Stateless; any thread.

#ifndef COTERIE_SHARD_PLAN_SCALES_H_
#define COTERIE_SHARD_PLAN_SCALES_H_

#include "index/certified_codes.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/faiss_index.h"
#include "index/lsh.h"
#include "index/metric.h"
#include "index/planner.h"
#include "index/tree.h"
#include "shard/segment.h"
#include "shard/segment_index.h"

namespace coterie {

// A segment whose rows all live, and the structures that are to be timed.
struct TimedSegment {
  Metric metric = Metric::kSquaredL2;
  ScanRows rows;
  const CertifiedCodes* codes = nullptr;  // null: rows are scanned as they are
  FirstLook first_look;
  const Tree* tree = nullptr;     // null: none
  const LshIndex* lsh = nullptr;  // null: none
  const FaissIndex* faiss = nullptr;
};

// Times searches for four rows of the segment, each twice, of which the quicker
// counts, by the CPU seconds of this thread; 1 for what is not there or answers
// nothing by itself. Milliseconds, where a scan takes one. REQUIRES: as
// CertifiedScan; codes, but for boxes.
PlanScales MeasureScales(const TimedSegment& segment, const SearchRates& rates);

// Of a sealed segment and an index over it, which has the codes that it needs;
// scales of other kinds are 1.
PlanScales MeasureScales(const Segment& segment, const SegmentIndex& index);

}  // namespace coterie

#endif  // COTERIE_SHARD_PLAN_SCALES_H_
