// Copies of the states in the memory of hosts (--copy neighbour): what hyc-run and its keepers say to each other.
//
// A keeper is a hyc-run that stays on a host from the first start of a job's ranks to the end of the last. It holds
// what the ranks of its host have written, and the same of the host before it in the ring, as files of a checkpoint
// (checkpoint/manifest.h) that have no folder: anonymous memory. Two of them are kept, the newest that all ranks know
// to be whole and the one that is being written. Ranks reach their host's keeper by a Unix socket, keepers each other
// by TLS with the job's token; nothing of it is ever on a disk.
//
// hyc-run tells a keeper by lines of JSON on its input what there is to do, and hears from it on its output:
//
//   encodeKeeperTask  ->  a line that isReady() takes
//   encodeRing        ->  nothing; who answers what comes next has heard it
//   kAskForHoldings   ->  lines of what it holds, each looked through byte by byte, and one that says that it is all;
//                         while it looks, a line a second that it is still at it
//   kAskForBytes      ->  that last line
#ifndef HYCRT_COPIES_H_
#define HYCRT_COPIES_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

// Which copy: after which step, and of which start of the ranks. A later start's are newer, whatever their step; of two
// copies of one step the bits may differ, where the layout did.
struct CopyKey {
  int64_t start = -1;  // -1: none at all
  int64_t step = 0;

  bool isNone() const { return start < 0; }
  bool operator==(const CopyKey& other) const { return start == other.start && step == other.step; }
  bool operator!=(const CopyKey& other) const { return !(*this == other); }
  bool operator<(const CopyKey& other) const { return start != other.start ? start < other.start : step < other.step; }
};
// "START/STEP", and "" of none.
std::string encodeCopyKey(const CopyKey& key);
// None where it is no such text.
CopyKey parseCopyKey(const std::string& text);
// What people are told: "the copy of step 12 in memory".
std::string describe(const CopyKey& key);

struct KeeperTask {
  std::string job, token;
  int number = 0;  // no other keeper of the job has it, before it or after
  bool plaintext = false;
  std::string interface, ports;  // as --interface and --ports
  int64_t patienceMs = 20000;    // for another keeper that takes nothing and gives nothing
};
std::string encodeKeeperTask(const KeeperTask& task);

// Where a keeper is found: by others at host and port, by its ranks at the socket.
struct KeeperAddress {
  int number = 0;
  std::string host;
  int port = 0;
  std::string socket;
};
bool isReady(const std::string& line, KeeperAddress* address);

// `next`: the number of the one that gets the copies; -1: nobody. `others`: who may hold what this one does not.
std::string encodeRing(int next, const std::vector<KeeperAddress>& others);

// Of one copy, what one keeper has of one rank's part; and of rank 0's, how many ranks there are.
struct CopyHolding {
  CopyKey key;
  int rank = 0;
  int64_t ranks = 0;                 // 0: it does not know
  bool hasTable = false;             // of the files that the rank has written
  std::set<std::string> files;       // that it has written
  std::set<std::string> held;        // those of them that are here, with all their bytes
  int64_t bytes = 0, mostBytes = 0;  // of the last line: of all that the keeper holds, and has held at one moment
};
inline constexpr char kAskForHoldings[] = "{\"list\":true}\n";
// The same without looking: only the last of the lines.
inline constexpr char kAskForBytes[] = "{\"count\":true}\n";
enum class KeeperLine {
  kHolding,
  kLast,
  kLooking,  // at what it holds: it lives, and its answer is still to come
  kOther,
};
KeeperLine parseHolding(const std::string& line, CopyHolding* holding);

// The newest copy of which every part is held by somebody; none: there is none. `why` tells what newer ones lack.
CopyKey newestWholeCopy(const std::vector<CopyHolding>& holdings, std::string* why);

// A keeper's life: serves until `input` ends. An error only where it could not begin.
Status keepCopies(int input, FILE* output);

}  // namespace hycrt

#endif  // HYCRT_COPIES_H_
