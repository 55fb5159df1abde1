// Patience: how long a rank is waited for, and what is said of it, for every way to exchange.
//
// Whoever waits looks from time to time. Time counts in which none of the missing ranks moves, nor a rank that these
// wait for: no exchange, no instruction of the schedule, no bytes of a file (base/progress.h), and none of a message
// that comes from it, since on a slow link what it says of itself waits behind these. Nor does time count in which the
// waiting process is stopped itself, so that a job may be suspended as a whole. After --exchange-timeout the wait is
// over, with a line that names the missing ranks, how they are, and who has come; peers hear it as this rank's last
// words. Who waits for the rank that is missing says so at once; who only waits for another that waits comes later, and
// so do all but the first of those who wait for the same rank, so that one line tells of it.
#ifndef HYCRT_SRC_COMM_PATIENCE_H_
#define HYCRT_SRC_COMM_PATIENCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/transport.h"
#include "hycrt/mesh.h"
#include "hycrt/status.h"

namespace hycrt {

inline constexpr int64_t kDefaultPatienceMs = 600000;

// Who takes part in an exchange; ascending. A rank may have come and yet not have done its part.
struct Attendance {
  std::vector<int> arrived, missing;
};

class Patience {
 public:
  struct Options {
    int64_t limitMs = kDefaultPatienceMs;  // 0: for ever
    std::string ownHost = {};              // what ranks of this machine are said to be on; empty: nothing is said of it
    // Takes lines for people, on the thread that looks.
    std::function<void(const std::string&)> note = {};
  };
  // `what` is asked for lines only; `attend` is given lists that are empty.
  struct Wait {
    FunctionRef<std::string()> what;
    FunctionRef<void(Attendance&)> attend;
  };

  // `transport` and `mesh` outlive it.
  Patience(Transport& transport, const Mesh& mesh, int self, Options options);

  // A new wait begins, or the one that there is moves on.
  void begin();
  // Once in a while as it lasts: kUnavailable where it has lasted too long.
  Status look(const Wait& wait);
  void end();
  // Whom the wait that lasted too long was for; -1: none has.
  int blamed() const { return blamed_; }

 private:
  bool waitsItself(int rank) const;
  void follow();
  uint64_t sumOfMoves() const;
  int64_t delayMs() const;
  bool isFirstToSpeak() const;
  void tell(const Wait& wait);
  std::string sentence(const Wait& wait) const;
  std::vector<int> whomToBlame() const;
  std::string describeMissing(int rank) const;
  std::string conditionOf(int rank) const;
  bool isSlow(int rank) const;

  Transport& transport_;
  const Mesh& mesh_;
  const int self_;
  const Options options_;
  int64_t lastLookMs_ = 0, waitedMs_ = 0, nextNoteMs_ = 0;
  bool toldThatItWaits_ = false;
  int blamed_ = -1;
  uint64_t moves_ = 0;
  // They keep their capacity, since a step must not allocate.
  Attendance attendance_;
  std::vector<int> awaited_;  // the missing, and whom these wait for
  // Of the first missing rank, halfway: what a process that hangs in the kernel looks like later, too.
  ProcessLook before_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_PATIENCE_H_
