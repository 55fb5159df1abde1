// Joins flat exchanges that start one after the other into buckets.
//
// After placement, like the coalescing of all-reduces; but what is joined need not be adjacent in memory.
#include "dialects/Rank/RankDialect.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_BUCKETEXCHANGES
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

rank::CollectiveOp rowOf(rank::StartOp start) {
  auto row = start.getRow().getDefiningOp<rank::RowOp>();
  auto program = start->getParentOfType<rank::ProgramOp>();
  return row && program ? program.lookupSymbol<rank::CollectiveOp>(row.getEntry()) : rank::CollectiveOp();
}

rank::WaitOp waitOf(rank::StartOp start) { return cast<rank::WaitOp>(*start.getTicket().user_begin()); }

/// Joins `bucket`, in order, into its last member: by then all sources are ready. It is awaited where the first was.
void join(ArrayRef<rank::StartOp> bucket) {
  if (bucket.size() < 2)
    return;
  rank::StartOp kept = bucket.back();
  rank::WaitOp wait = waitOf(kept);
  SmallVector<Value> sources, destinations;
  int64_t count = 0;
  for (rank::StartOp start : bucket) {
    llvm::append_range(sources, start.getSources());
    llvm::append_range(destinations, start.getDestinations());
    count += static_cast<int64_t>(start.getCount());
    if (rank::WaitOp other = waitOf(start); other->isBeforeInBlock(wait))
      wait->moveBefore(other);
  }
  rank::CollectiveOp row = rowOf(kept);
  std::string cause = (rowOf(bucket.front()).getCause() + " to " + row.getCause()).str();
  for (rank::StartOp start : bucket.drop_back()) {
    Operation *other = start.getRow().getDefiningOp();
    rank::CollectiveOp otherRow = rowOf(start);
    waitOf(start).erase();
    rank::StartOp(start).erase();
    if (other->use_empty()) {
      other->erase();
      otherRow.erase();
    }
  }
  kept.getSourcesMutable().assign(sources);
  kept.getDestinationsMutable().assign(destinations);
  kept.setCount(count);
  row.setCause(cause);
  kept->setAttr("id", StringAttr::get(kept.getContext(), cause));
}

struct BucketExchanges : hyc::impl::BucketExchangesBase<BucketExchanges> {
  using BucketExchangesBase::BucketExchangesBase;

  void runOnOperation() override {
    FailureOr<int64_t> reduce = policyOf<&Plan::reduceBucket>(getOperation()),
                       gather = policyOf<&Plan::gatherBucket>(getOperation());
    if (failed(reduce) || failed(gather))
      return signalPassFailure();
    reduceElements = *reduce;
    gatherElements = *gather;
    getOperation().walk([&](rank::FuncOp func) { runOnFunction(func); });
  }

private:
  int64_t reduceElements = 0, gatherElements = 0; ///< of one exchange at most

  void runOnFunction(rank::FuncOp func) {
    SmallVector<SmallVector<rank::StartOp>> buckets;
    size_t firstOpen = 0; // nothing but addresses and starts stands between the members of an open bucket
    for (Operation &op : func.getBlock()) {
      if (isa<rank::AtOp, rank::RowOp>(op))
        continue;
      auto start = dyn_cast<rank::StartOp>(op);
      if (!start) {
        firstOpen = buckets.size();
        continue;
      }
      if (!start.getFlat() || !rowOf(start) || !rowOf(start).getGroup().getStages().empty())
        continue;
      auto *bucket = std::find_if(buckets.begin() + firstOpen, buckets.end(),
                                  [&](ArrayRef<rank::StartOp> candidate) { return takes(candidate, start); });
      if (bucket == buckets.end())
        buckets.push_back({start});
      else
        bucket->push_back(start);
    }
    for (ArrayRef<rank::StartOp> bucket : buckets)
      join(bucket);
  }

  bool takes(ArrayRef<rank::StartOp> bucket, rank::StartOp next) {
    rank::StartOp first = bucket.front();
    auto elementType = [](rank::StartOp start) {
      return cast<rank::BufferType>(start.getSource().getType()).getElementType();
    };
    int64_t count = static_cast<int64_t>(next.getCount());
    for (rank::StartOp member : bucket)
      count += static_cast<int64_t>(member.getCount());
    return first.getKind() == next.getKind() && rowOf(first).getGroup() == rowOf(next).getGroup() &&
           first.getFlat() == next.getFlat() && elementType(first) == elementType(next) &&
           count <= (next.getKind() == "all_gather" ? gatherElements : reduceElements);
  }
};

} // namespace
