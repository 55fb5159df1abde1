// Joins flat exchanges that start one after the other into buckets.
//
// After placement, like the coalescing of all-reduces; but what is joined need not be adjacent in memory.
#include "dialects/Dist/ExchangeKinds.h"
#include "dialects/Hyc/OpId.h"
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

/// Exchanges that become one.
struct Bucket {
  SmallVector<rank::StartOp> starts;
  int64_t count = 0; ///< elements of all of them
};

rank::WaitOp waitOf(rank::StartOp start) { return cast<rank::WaitOp>(*start.getTicket().user_begin()); }

struct BucketExchanges : hyc::impl::BucketExchangesBase<BucketExchanges> {
  using BucketExchangesBase::BucketExchangesBase;

  void runOnOperation() override {
    FailureOr<int64_t> reduce = policyOf<&Plan::reduceBucket>(getOperation()),
                       gather = policyOf<&Plan::gatherBucket>(getOperation());
    if (failed(reduce) || failed(gather))
      return signalPassFailure();
    reduceElements = *reduce;
    gatherElements = *gather;
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      SymbolTable symbols(program);
      for (auto func : program.getOps<rank::FuncOp>())
        runOnFunction(func, symbols);
    }
  }

private:
  int64_t reduceElements = 0, gatherElements = 0; ///< of one exchange at most

  static rank::CollectiveOp rowOf(rank::StartOp start, const SymbolTable &symbols) {
    auto row = start.getRow().getDefiningOp<rank::RowOp>();
    return row ? symbols.lookup<rank::CollectiveOp>(row.getEntry()) : rank::CollectiveOp();
  }

  void runOnFunction(rank::FuncOp func, SymbolTable &symbols) {
    SmallVector<Bucket> buckets;
    size_t firstOpen = 0; // nothing but addresses and starts stands between the members of an open bucket
    for (Operation &op : func.getBlock()) {
      if (isa<rank::AtOp, rank::RowOp>(op))
        continue;
      auto start = dyn_cast<rank::StartOp>(op);
      if (!start) {
        firstOpen = buckets.size();
        continue;
      }
      rank::CollectiveOp row = start.getFlat() ? rowOf(start, symbols) : rank::CollectiveOp();
      if (!row || !row.getGroup().getStages().empty())
        continue;
      auto *bucket = std::find_if(buckets.begin() + firstOpen, buckets.end(),
                                  [&](const Bucket &candidate) { return takes(candidate, start, symbols); });
      if (bucket == buckets.end())
        bucket = &buckets.emplace_back();
      bucket->starts.push_back(start);
      bucket->count += static_cast<int64_t>(start.getCount());
    }
    for (const Bucket &bucket : buckets)
      if (bucket.starts.size() > 1)
        join(bucket, symbols);
  }

  bool takes(const Bucket &bucket, rank::StartOp next, const SymbolTable &symbols) {
    rank::StartOp first = bucket.starts.front();
    auto elementType = [](rank::StartOp start) {
      return cast<rank::BufferType>(start.getSource().getType()).getElementType();
    };
    return first.getKind() == next.getKind() && rowOf(first, symbols).getGroup() == rowOf(next, symbols).getGroup() &&
           first.getFlat() == next.getFlat() && elementType(first) == elementType(next) &&
           bucket.count + static_cast<int64_t>(next.getCount()) <=
               (dist::factsOf(next.getExchange()).combines ? reduceElements : gatherElements);
  }

  static void join(const Bucket &bucket, SymbolTable &symbols);
};

/// Joins a bucket, in order, into its last member: by then all sources are ready. It is awaited where the first was.
void BucketExchanges::join(const Bucket &joined, SymbolTable &symbols) {
  ArrayRef<rank::StartOp> bucket = joined.starts;
  rank::StartOp kept = bucket.back();
  rank::WaitOp wait = waitOf(kept);
  SmallVector<Value> sources, destinations;
  for (rank::StartOp start : bucket) {
    llvm::append_range(sources, start.getSources());
    llvm::append_range(destinations, start.getDestinations());
    if (rank::WaitOp other = waitOf(start); other->isBeforeInBlock(wait))
      wait->moveBefore(other);
  }
  rank::CollectiveOp row = rowOf(kept, symbols);
  std::string cause = (rowOf(bucket.front(), symbols).getCause() + " to " + row.getCause()).str();
  for (rank::StartOp start : bucket.drop_back()) {
    Operation *other = start.getRow().getDefiningOp();
    rank::CollectiveOp otherRow = rowOf(start, symbols);
    waitOf(start).erase();
    rank::StartOp(start).erase();
    if (other->use_empty()) {
      other->erase();
      symbols.erase(otherRow);
    }
  }
  kept.getSourcesMutable().assign(sources);
  kept.getDestinationsMutable().assign(destinations);
  kept.setCount(joined.count);
  row.setCause(cause);
  setId(kept, cause);
}

} // namespace
