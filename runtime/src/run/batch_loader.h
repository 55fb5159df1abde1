// BatchLoader: keeps the input buffers of an entry filled, and reads ahead what they will hold next.
//
// While a micro-batch is computed a thread reads the next one, in the order in which the schedule asks for them, into
// room of the size of the inputs (memory.json counts it among the fixed costs). So the step waits for a copy, and for a
// disk only where that is slower than the computation. What is read is decided by (seed, step, micro-batch) alone, and
// is the same without the thread.
//
// Of a program of several sizes samples are read as the largest has them, and the step's size takes the beginning of
// each.
//
// Threading: members are the owner's; the data set is the thread's from fill() to the next.
#ifndef HYCRT_SRC_RUN_BATCH_LOADER_H_
#define HYCRT_SRC_RUN_BATCH_LOADER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "hycrt/context.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/dataset.h"
#include "run/batch_shares.h"

namespace hycrt {

class BatchLoader {
 public:
  // `data` may be null for a stage that reads none.
  BatchLoader(Context& ctx, const Entry& entry, Dataset* data);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader();

  // What is added to a sample's number of the endless list: of a run that went on with another global batch.
  void shiftItems(int64_t shift) { itemShift_ = shift; }

  // Of a step only the micro-batches of this rank's coordinate will be asked for; before readAhead().
  void takeShares(const BatchShares& shares);

  // From here on a thread reads ahead. Without memory or a thread for it everything is as before.
  void readAhead();

  // Of several sizes: the place up to which the samples that this rank reads of step `step` reach, by the inputs that
  // tell it; less than 0: none of them does.
  Result<int64_t> lengthOf(int64_t step);
  // From here on the input buffers take samples of this entry's size.
  void takeSize(const Entry& entry) { size_ = &entry; }

  // Fills the input buffers (their images, of programs for GPUs) with a micro-batch of the step that the context is at.
  // An error of the data comes where the micro-batch is asked for that has it.
  Status fill(int64_t microBatch);

 private:
  struct Place {
    int64_t step = -1, microBatch = -1;
    bool operator==(const Place& other) const { return step == other.step && microBatch == other.microBatch; }
  };

  std::byte* roomOf(size_t input) { return room_.data() + offsets_[input]; }
  int64_t bytesOf(const InputDesc& input) const;
  Status read(const Place& place, bool toRoom);
  Status readInput(const InputDesc& input, const Place& place, std::byte* to);
  uint64_t itemOf(const Place& place, int64_t sample) const;
  void makeRoom();
  // Whether the steps of the entry may be of smaller sizes.
  bool hasSizes() const { return entry_.size > 0; }
  Result<int64_t> measure(int64_t step);
  void copyFromRoom();
  Place after(const Place& place) const;
  void run();

  Context& ctx_;
  const Entry& entry_;
  Dataset* const data_;
  BatchShares shares_;
  int64_t itemShift_ = 0;
  std::vector<int64_t> order_;  // micro-batches as a step asks for them
  int64_t microBatches_ = 0;    // of a step that this rank takes, from 0
  size_t next_ = 0;             // the position in it of what fill() will be asked for, as far as is known

  const Entry* size_;           // whose samples the input buffers take
  std::vector<std::byte> row_;  // of one sample of an input that tells its length
  int64_t measuredStep_ = -1, measured_ = -1;

  std::vector<std::byte> room_;
  std::vector<int64_t> offsets_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  enum class Work { kNone, kWanted, kDone, kEnd } work_ = Work::kNone;
  Place ahead_;  // what the room holds, or is being filled with
  Status status_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_BATCH_LOADER_H_
