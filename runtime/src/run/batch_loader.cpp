// Reading inputs, on the computing thread or ahead of it.
#include "run/batch_loader.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/threads.h"
#include "hycrt/philox.h"

namespace hycrt {
namespace {

// The beginning of `whole` along each dimension, as dense rows.
void copyBeginning(const std::byte* from, const Shape& whole, const Shape& part, int64_t elementBytes, std::byte* to) {
  const int last = part.size - 1;
  if (last < 0) {
    std::memcpy(to, from, static_cast<size_t>(elementBytes));
    return;
  }
  const int64_t rowBytes = part[last] * elementBytes, rows = part[last] == 0 ? 0 : elementCount(part) / part[last];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row, place = 0, stride = whole[last];
    for (int dim = last - 1; dim >= 0; --dim) {
      place += rest % part[dim] * stride;
      rest /= part[dim];
      stride *= whole[dim];
    }
    std::memcpy(to + row * rowBytes, from + place * elementBytes, static_cast<size_t>(rowBytes));
  }
}

template <typename T>
int64_t reachOf(const std::byte* sample, int64_t count, T padding) {
  for (int64_t i = count; i > 0; --i) {
    T value;
    std::memcpy(&value, sample + (i - 1) * static_cast<int64_t>(sizeof(T)), sizeof value);
    if (value != padding) return i;
  }
  return 0;
}

// How many numbers of a sample are left when its padding at the end is not counted.
int64_t reachOf(const InputDesc& input, const std::byte* sample) {
  const int64_t count = elementCount(input.sample);
  const int64_t padding = input.tells == LengthTeller::kLabels ? input.uncounted : 0;
  switch (input.dtype) {
    case DType::kI64:
      return reachOf<int64_t>(sample, count, padding);
    case DType::kI32:
      return reachOf<int32_t>(sample, count, static_cast<int32_t>(padding));
    case DType::kF32:
      return reachOf<float>(sample, count, static_cast<float>(padding));
    default:
      return count;
  }
}

}  // namespace

// Pipelines run forward and backward of different micro-batches in turn, so an input is loaded again for backward:
// reading a few windows costs less than keeping every micro-batch's inputs alive.
BatchLoader::BatchLoader(Context& ctx, const Entry& entry, Dataset* data)
    : ctx_(ctx), entry_(entry), data_(data), shares_(BatchShares::even(ctx.program())), size_(&entry) {
  if (hasSizes()) makeRoom();
  for (const Instruction& instruction : entry.schedule) {
    const bool computes =
        instruction.kind == InstructionKind::kForward || instruction.kind == InstructionKind::kBackward;
    if (computes && (order_.empty() || order_.back() != instruction.microBatch)) {
      order_.push_back(instruction.microBatch);
    }
  }
  microBatches_ = order_.empty() ? 0 : ctx.program().batch.microBatches;
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
  microBatches_ = std::min(microBatches_, own);
}

int64_t BatchLoader::bytesOf(const InputDesc& input) const {
  return ctx_.program().batch.samples * elementCount(input.sample) * sizeOf(input.dtype);
}

void BatchLoader::makeRoom() {
  int64_t bytes = 0;
  offsets_.clear();
  for (int input : entry_.inputs) {
    offsets_.push_back(bytes);
    bytes += (bytesOf(ctx_.program().inputs[input]) + 63) / 64 * 64;
  }
  room_.resize(static_cast<size_t>(bytes));
}

void BatchLoader::readAhead() {
  if (thread_.joinable() || entry_.inputs.size == 0 || order_.empty()) return;
  makeRoom();
  const Status started = startThread(
      "reading ahead",
      [this] {
        leaveThreadPlan();
        run();
      },
      &thread_);
  if (!started.ok() && !hasSizes()) room_ = {};
}

void BatchLoader::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ == Work::kWanted || work_ == Work::kEnd; });
    if (work_ == Work::kEnd) return;
    const Place place = ahead_;
    lock.unlock();
    Status status = read(place, /*toRoom=*/true);
    // Ahead of the step that will ask; what fails fails again there.
    if (status.ok() && hasSizes() && place.step != measuredStep_) {
      const Result<int64_t> length = measure(place.step);
      if (length.ok()) measuredStep_ = place.step, measured_ = *length;
    }
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
  const bool usesRoom = hasSizes();
  if (!thread_.joinable()) {
    HYCRT_RETURN_IF_ERROR(read(place, usesRoom));
    if (usesRoom) copyFromRoom();
    return {};
  }
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return work_ != Work::kWanted; });
  const bool isHere = work_ == Work::kDone && ahead_ == place;
  if (isHere) HYCRT_RETURN_IF_ERROR(status_);
  if (!isHere) HYCRT_RETURN_IF_ERROR(read(place, usesRoom));
  if (isHere || usesRoom) copyFromRoom();
  ahead_ = after(place);
  work_ = Work::kWanted;
  lock.unlock();
  changed_.notify_all();
  return {};
}

void BatchLoader::copyFromRoom() {
  for (int64_t i = 0; i < entry_.inputs.size; ++i) {
    const InputDesc& input = ctx_.program().inputs[entry_.inputs[i]];
    const std::byte* from = roomOf(static_cast<size_t>(i));
    std::byte* const to = ctx_.ptr<std::byte>(input.buffer);
    if (size_->samples.size == 0) {
      std::memcpy(to, from, static_cast<size_t>(bytesOf(input)));
      continue;
    }
    const int64_t width = sizeOf(input.dtype), whole = elementCount(input.sample) * width;
    const int64_t part = elementCount(size_->samples[i]) * width;
    for (int64_t sample = 0; sample < ctx_.program().batch.samples; ++sample) {
      copyBeginning(from + sample * whole, input.sample, size_->samples[i], width, to + sample * part);
    }
  }
}

Result<int64_t> BatchLoader::lengthOf(int64_t step) {
  if (thread_.joinable()) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return work_ != Work::kWanted; });
  }
  if (measuredStep_ == step) return measured_;
  return measure(step);
}

// Labels and masks are read once more than a step would: a small part of what it reads of them all.
Result<int64_t> BatchLoader::measure(int64_t step) {
  int64_t length = -1;
  for (int index : entry_.inputs) {
    const InputDesc& input = ctx_.program().inputs[index];
    if (input.tells == LengthTeller::kNone) continue;
    if (data_->isOfOneLength()) return entry_.size;
    row_.resize(static_cast<size_t>(elementCount(input.sample) * sizeOf(input.dtype)));
    for (int64_t microBatch = 0; microBatch < microBatches_; ++microBatch) {
      for (int64_t i = 0; i < ctx_.program().batch.samples; ++i) {
        HYCRT_RETURN_IF_ERROR(data_->read(itemOf({step, microBatch}, i), ctx_.seed(), input, row_.data()));
        const int64_t reach = reachOf(input, row_.data());
        // A mask that hides nothing by zeros tells nothing; all of the sample may count.
        if (reach == 0 && input.tells == LengthTeller::kPresence) return entry_.size;
        length = std::max(length, reach);
      }
    }
  }
  return length;
}

Status BatchLoader::read(const Place& place, bool toRoom) {
  for (int64_t i = 0; i < entry_.inputs.size; ++i) {
    const InputDesc& input = ctx_.program().inputs[entry_.inputs[i]];
    std::byte* const to = toRoom ? roomOf(static_cast<size_t>(i)) : ctx_.ptr<std::byte>(input.buffer);
    HYCRT_RETURN_IF_ERROR(readInput(input, place, to));
  }
  return {};
}

// The number in the endless list of a micro-batch's sample.
uint64_t BatchLoader::itemOf(const Place& place, int64_t sample) const {
  const int64_t samples = ctx_.program().batch.samples;
  const int64_t first = shares_.numberOf(place.microBatch, ctx_.coordinate(ctx_.mesh().batch)) * samples;
  return static_cast<uint64_t>(place.step) * static_cast<uint64_t>(shares_.samples()) +
         static_cast<uint64_t>(first + sample + itemShift_);
}

Status BatchLoader::readInput(const InputDesc& input, const Place& place, std::byte* to) {
  const int64_t sampleBytes = elementCount(input.sample) * sizeOf(input.dtype);
  for (int64_t i = 0; i < ctx_.program().batch.samples; ++i) {
    const uint64_t item = itemOf(place, i);
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
