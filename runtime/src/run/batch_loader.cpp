// Reading inputs, on the computing thread or ahead of it.
#include "run/batch_loader.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/threads.h"
#include "hycrt/philox.h"

namespace hycrt {

// Pipelines run forward and backward of different micro-batches in turn, so an input is loaded again for backward:
// reading a few windows costs less than keeping every micro-batch's inputs alive.
BatchLoader::BatchLoader(Context& ctx, const Entry& entry, Dataset* data)
    : ctx_(ctx), entry_(entry), data_(data), shares_(BatchShares::even(ctx.program())) {
  for (const Instruction& instruction : entry.schedule) {
    const bool computes =
        instruction.kind == InstructionKind::kForward || instruction.kind == InstructionKind::kBackward;
    if (computes && (order_.empty() || order_.back() != instruction.microBatch)) {
      order_.push_back(instruction.microBatch);
    }
  }
}

BatchLoader::~BatchLoader() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = Work::kEnd;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchLoader::takeShares(const BatchShares& shares) {
  shares_ = shares;
  const int64_t own = shares.microBatchesOf(ctx_.coordinate(ctx_.mesh().batch));
  const auto end = std::remove_if(order_.begin(), order_.end(), [own](int64_t each) { return each >= own; });
  order_.erase(std::unique(order_.begin(), end), order_.end());
}

int64_t BatchLoader::bytesOf(const InputDesc& input) const {
  return ctx_.program().batch.samples * elementCount(input.sample) * sizeOf(input.dtype);
}

void BatchLoader::readAhead() {
  if (thread_.joinable() || entry_.inputs.size == 0 || order_.empty()) return;
  int64_t bytes = 0;
  for (int input : entry_.inputs) {
    offsets_.push_back(bytes);
    bytes += (bytesOf(ctx_.program().inputs[input]) + 63) / 64 * 64;
  }
  room_.resize(static_cast<size_t>(bytes));
  const Status started = startThread(
      "reading ahead",
      [this] {
        leaveThreadPlan();
        run();
      },
      &thread_);
  if (!started.ok()) room_ = {};
}

void BatchLoader::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ == Work::kWanted || work_ == Work::kEnd; });
    if (work_ == Work::kEnd) return;
    const Place place = ahead_;
    lock.unlock();
    Status status = read(place, /*ahead=*/true);
    lock.lock();
    if (work_ == Work::kEnd) return;
    status_ = std::move(status);
    work_ = Work::kDone;
    changed_.notify_all();
  }
}

// A step asks for its micro-batches in one order; which one of several alike it is follows from the ones before.
BatchLoader::Place BatchLoader::after(const Place& place) const {
  return next_ < order_.size() ? Place{place.step, order_[next_]} : Place{place.step + 1, order_.front()};
}

Status BatchLoader::fill(int64_t microBatch) {
  const Place place{ctx_.step(), microBatch};
  if (next_ >= order_.size()) next_ = 0;
  while (next_ < order_.size() && order_[next_] != microBatch) ++next_;
  ++next_;
  if (!thread_.joinable()) return read(place, /*ahead=*/false);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return work_ != Work::kWanted; });
  const bool isHere = work_ == Work::kDone && ahead_ == place;
  if (isHere) HYCRT_RETURN_IF_ERROR(status_);
  if (!isHere) HYCRT_RETURN_IF_ERROR(read(place, /*ahead=*/false));
  for (int64_t i = 0; isHere && i < entry_.inputs.size; ++i) {
    const InputDesc& input = ctx_.program().inputs[entry_.inputs[i]];
    std::memcpy(ctx_.ptr<std::byte>(input.buffer), roomOf(static_cast<size_t>(i)), static_cast<size_t>(bytesOf(input)));
  }
  ahead_ = after(place);
  work_ = Work::kWanted;
  lock.unlock();
  changed_.notify_all();
  return {};
}

Status BatchLoader::read(const Place& place, bool ahead) {
  for (int64_t i = 0; i < entry_.inputs.size; ++i) {
    const InputDesc& input = ctx_.program().inputs[entry_.inputs[i]];
    std::byte* const to = ahead ? roomOf(static_cast<size_t>(i)) : ctx_.ptr<std::byte>(input.buffer);
    HYCRT_RETURN_IF_ERROR(readInput(input, place, to));
  }
  return {};
}

Status BatchLoader::readInput(const InputDesc& input, const Place& place, std::byte* to) {
  const BatchDesc& batch = ctx_.program().batch;
  const int64_t globalBatch = shares_.samples();
  const int64_t firstSample = shares_.numberOf(place.microBatch, ctx_.coordinate(ctx_.mesh().batch)) * batch.samples;
  const int64_t sampleBytes = elementCount(input.sample) * sizeOf(input.dtype);
  for (int64_t i = 0; i < batch.samples; ++i) {
    const uint64_t item = static_cast<uint64_t>(place.step) * static_cast<uint64_t>(globalBatch) +
                          static_cast<uint64_t>(firstSample + i + itemShift_);
    if (input.source == InputSource::kRandomKeys) {
      const uint64_t sample = mix64(ctx_.seed(), item);
      int64_t* keys = reinterpret_cast<int64_t*>(to) + i * input.streamCount;
      for (int64_t j = 0; j < input.streamCount; ++j) keys[j] = static_cast<int64_t>(mix64(sample, input.streams[j]));
      continue;
    }
    HYCRT_RETURN_IF_ERROR(data_->read(item, ctx_.seed(), input, to + i * sampleBytes));
  }
  return {};
}

}  // namespace hycrt
