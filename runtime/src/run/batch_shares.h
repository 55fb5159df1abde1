// BatchShares: how many micro-batches of a step each data-parallel coordinate takes, where ranks are not equally fast.
//
// A program is compiled for a number of micro-batches; a coordinate may take fewer of them, at least one. Its schedule
// is then that of the program without the instructions and transfers of the micro-batches that it does not take: every
// stage of a coordinate leaves out the same ones, so that what is left meets in the order that was checked. Sums over
// samples are over all that were computed, whoever did.
//
// The step's micro-batches are dealt in turn: micro-batch 0 of every coordinate, then micro-batch 1 of every one that
// has a second. With equal shares that is BatchDesc's numbering.
#ifndef HYCRT_SRC_RUN_BATCH_SHARES_H_
#define HYCRT_SRC_RUN_BATCH_SHARES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

class BatchShares {
 public:
  // All that the program is compiled for, on each coordinate.
  static BatchShares even(const Program& program);

  // "5,3" by coordinate, as --batch-shares has it; even where it is empty. Usage errors where the program cannot.
  static Result<BatchShares> of(const Program& program, const std::string& text);
  // Becomes that; as it was where it is an error.
  Status take(const Program& program, const std::string& text);

  int64_t microBatchesOf(int64_t coordinate) const {
    return counts_.empty() ? most_ : counts_[static_cast<size_t>(coordinate)];
  }
  // Its place among all micro-batches of the step.
  int64_t numberOf(int64_t microBatch, int64_t coordinate) const;
  // Samples of a step: of the global batch.
  int64_t samples() const { return samples_; }

 private:
  int64_t coordinates_ = 1, most_ = 1, samples_ = 0;
  std::vector<int64_t> counts_;  // empty: most_ each
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_BATCH_SHARES_H_
