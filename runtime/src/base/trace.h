// Trace: when a rank computed, waited and communicated, for chrome://tracing, Perfetto and the tests.
//
// Events are kept in memory that is reserved beforehand and written when the run is over, so that tracing costs two
// readings of the clock an event. Each track is filled by one thread.
#ifndef HYCRT_SRC_BASE_TRACE_H_
#define HYCRT_SRC_BASE_TRACE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hycrt/status.h"

namespace hycrt {

enum class TraceTrack : uint8_t {
  kComputation,    // instructions of the schedule
  kWait,           // within them: the caller waits for others
  kCommunication,  // work on collectives, on whichever thread it is done
};
inline constexpr int kTraceTracks = 3;

struct TraceEvent {
  TraceTrack track;
  const char* kind;   // "forward", "all_gather"; both texts outlive the trace
  const char* cause;  // the op that asked for it; or empty
  int64_t beginNs;    // CLOCK_MONOTONIC, which the ranks of a machine share
  int64_t endNs;
  int64_t microBatch = -1;
};

class Trace {
 public:
  // Keeps at most `capacity` events a track; what comes later is counted only.
  explicit Trace(size_t capacity);

  // Nothing is kept while off, which is how it begins.
  void setOn(bool on) { on_ = on; }
  void add(const TraceEvent& event);

  int64_t dropped() const { return dropped_; }
  // Of memory that events have been written to.
  int64_t bytes() const;

  // The events as members of a JSON array, one a line, each followed by a comma; rank is their process.
  std::string toJsonLines(int rank) const;

 private:
  std::atomic<bool> on_{false};
  std::atomic<int64_t> dropped_{0};
  size_t capacity_;
  std::vector<TraceEvent> tracks_[kTraceTracks];
};

// One rank's part of a file that the ranks write in turn: the first makes `partial`, which must not exist, and opens
// the array; the last closes it and gives the file its name.
Status appendTrace(const Trace& trace, const std::string& partial, const std::string& path, int rank, int worldSize);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_TRACE_H_
