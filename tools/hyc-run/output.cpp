// Looking whether a write would wait, before it does.
#include "output.h"

#include <limits.h>
#include <poll.h>

#include <algorithm>

#include "base/clock.h"
#include "job.h"

namespace hycrun {
namespace {

constexpr int kPollMs = 100;
constexpr int64_t kReaderMs = 1000;  // for a reader that is slow, once the run is to end

}  // namespace

bool Output::takes(FILE* to) {
  bool& isLeftOut = isLeftOut_[to == stderr];
  pollfd item{fileno(to), POLLOUT, 0};
  int64_t endMs = 0;  // until when the reader is waited for
  for (;;) {
    // What is closed or fails is ready, too: the write tells how.
    const bool isReady = poll(&item, 1, isLeftOut ? 0 : kPollMs) > 0;
    if (isReady) isLeftOut = false;
    if (isReady || isLeftOut) return isReady;
    if (!signals_.isEndWanted()) continue;
    if (endMs == 0) endMs = hycrt::monotonicMs() + kReaderMs;
    isLeftOut = hycrt::monotonicMs() > endMs;
  }
}

// A pipe that takes anything takes so much.
void Output::print(FILE* to, const std::string& text) {
  for (size_t begin = 0; begin < text.size(); begin += PIPE_BUF) {
    if (!takes(to)) return;
    std::fwrite(text.data() + begin, 1, std::min<size_t>(text.size() - begin, PIPE_BUF), to);
    std::fflush(to);
  }
}

}  // namespace hycrun
