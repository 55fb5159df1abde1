// Arrivals: how far a rank's device has come among its exchanges, told by the device itself, since the host only puts
// them on a stream, or starts a recorded step that has them all.
//
// A kernel in front of each exchange moves counters on, one for each channel that the exchange is an item of and one
// for all exchanges; another behind it counts what is over. A thread of the host tells the peers what they say, so that
// a rank that waits in vain can say who did not come. All but open may be called by two threads.
#ifndef HYCRT_SRC_CUDA_ARRIVALS_H_
#define HYCRT_SRC_CUDA_ARRIVALS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/host_exchanger.h"
#include "hycrt/status.h"

namespace hycrt {

class Arrivals {
 public:
  struct Exchange {
    std::string name;
    std::vector<int> members;
    std::vector<int> channels;
  };

  ~Arrivals();
  Status open(int channels);

  // The device comes to `exchange` here. While a step is being recorded: whenever that is run.
  void begin(std::shared_ptr<const Exchange> exchange, cudaStream_t stream);
  // It is over here.
  void end(cudaStream_t stream);

  void beginRecording();
  // What was recorded since is no step if it `failed`.
  void endRecording(bool failed);
  // The recorded step is about to run once more.
  void replay();
  bool hasRecorded() const { return !recorded_.empty(); }

  struct Progress {
    uint64_t begun = 0, ended = 0;         // of all exchanges
    std::shared_ptr<const Exchange> last;  // begun; null: there was none
    bool operator==(const Progress& other) const { return begun == other.begun && ended == other.ended; }
  };
  // How far the device is, told to whoever shares a channel.
  Progress publish(HostExchanger& host);
  // Of publish().last: its members that have not come there; ascending.
  std::vector<int> missingFrom(const Exchange& last, const HostExchanger& host) const;

 private:
  uint64_t read(int counter) const { return static_cast<volatile uint64_t*>(counters_)[counter]; }

  uint64_t* counters_ = nullptr;  // pinned: by channel, then of all that have begun, then of all that are over
  int channels_ = 0;
  mutable std::mutex mutex_;  // of all below
  bool isRecording_ = false;
  std::vector<std::shared_ptr<const Exchange>> recorded_;
  std::deque<std::shared_ptr<const Exchange>> expected_;  // from number seen_ on, in the device's order
  uint64_t seen_ = 0;
  std::shared_ptr<const Exchange> last_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CUDA_ARRIVALS_H_
