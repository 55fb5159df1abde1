// Counters in pinned memory that the device writes as it comes to each exchange.
#include "cuda/arrivals.h"

#include <algorithm>
#include <utility>

#include "cuda/device.h"
#include "kernels/counter/cuda.h"

namespace hycrt {

using hyc::kernels::cuda::Counters;
using hyc::kernels::cuda::kMostCounters;

Arrivals::~Arrivals() {
  if (counters_) cudaFreeHost(counters_);
}

Status Arrivals::open(int channels) {
  channels_ = channels;
  const size_t count = static_cast<size_t>(channels) + 2;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMallocHost(reinterpret_cast<void**>(&counters_), count * sizeof *counters_),
                                   "allocating pinned memory"));
  std::fill(counters_, counters_ + count, 0);
  return {};
}

void Arrivals::begin(std::shared_ptr<const Exchange> exchange, cudaStream_t stream) {
  Counters counters;
  for (int channel : exchange->channels) {
    if (counters.count == kMostCounters) countUp(stream, std::exchange(counters, {}));
    counters.at[counters.count++] = counters_ + channel;
  }
  if (counters.count == kMostCounters) countUp(stream, std::exchange(counters, {}));
  counters.at[counters.count++] = counters_ + channels_;
  const std::lock_guard<std::mutex> lock(mutex_);
  (isRecording_ ? recorded_.push_back(std::move(exchange)) : expected_.push_back(std::move(exchange)));
  countUp(stream, counters);
}

void Arrivals::end(cudaStream_t stream) {
  Counters counters;
  counters.at[counters.count++] = counters_ + channels_ + 1;
  countUp(stream, counters);
}

void Arrivals::beginRecording() {
  const std::lock_guard<std::mutex> lock(mutex_);
  isRecording_ = true;
}

void Arrivals::endRecording(bool failed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  isRecording_ = false;
  if (failed) recorded_.clear();
}

void Arrivals::replay() {
  const std::lock_guard<std::mutex> lock(mutex_);
  expected_.insert(expected_.end(), recorded_.begin(), recorded_.end());
}

Arrivals::Progress Arrivals::publish(HostExchanger& host) {
  const uint64_t ended = read(channels_ + 1), begun = read(channels_);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (; seen_ < begun && !expected_.empty(); ++seen_) {
    last_ = std::move(expected_.front());
    expected_.pop_front();
    for (int channel : last_->channels) host.announce(channel, read(channel));
  }
  return {begun, ended, last_};
}

// Each of its channels counts it as the newest item.
std::vector<int> Arrivals::missingFrom(const Exchange& last, const HostExchanger& host) const {
  std::vector<int> missing;
  for (int channel : last.channels) {
    for (int rank : host.missingAt(channel, read(channel) - 1)) {
      if (std::find(missing.begin(), missing.end(), rank) == missing.end()) missing.push_back(rank);
    }
  }
  std::sort(missing.begin(), missing.end());
  return missing;
}

}  // namespace hycrt
