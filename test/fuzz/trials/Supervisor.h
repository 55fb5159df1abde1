// Runs trials by their seeds in child processes, so that one that crashes, hangs or swells is a finding and the next
// one goes on. What came of each seed is counted, and the input of a finding kept.
#ifndef HYC_TEST_FUZZ_TRIALS_SUPERVISOR_H
#define HYC_TEST_FUZZ_TRIALS_SUPERVISOR_H

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hyc::fuzzing {

/// What came of one seed.
struct Verdict {
  int code = 0;                          ///< as the tool ends; -1: nothing was tried
  std::string finding = "";              ///< what should not be; empty: nothing
  std::string about = "";                ///< what it was tried on, for findings that say nothing
  std::string said = "";                 ///< the first error
  std::vector<std::string> reached = {}; ///< what is counted as having succeeded
};

/// One trial; what it reads it leaves in `folder`, which is its own.
using Trial = std::function<Verdict(uint64_t seed, const std::string &folder)>;

struct Supervision {
  uint64_t first = 0, count = 1000;
  std::string folder; ///< of inputs and findings
  std::string log;    ///< a file that gets a line for each trial; empty: none does
  int jobs = 1;
  int64_t seconds = 20;     ///< that a trial may take
  int64_t megabytes = 4096; ///< of addresses that a process may have
  bool isQuiet = false;
};

struct Finding {
  uint64_t seed;
  Verdict verdict;
  uint64_t times = 1;
};

struct Tally {
  uint64_t trials = 0;
  std::map<int, uint64_t> codes;
  std::map<std::string, uint64_t> reached;
  std::vector<Finding> findings; ///< one of each kind
};

/// Tells on standard error how far it is. Inputs of findings lie in FOLDER/found/SEED afterwards.
Tally superviseTrials(const Supervision &options, const Trial &trial);

/// One trial in a child process: its verdict, that of a crash, or that of a hang.
Verdict runAlone(const Supervision &options, const std::function<Verdict()> &trial);

/// "100000 trials: 40000 exit 0, …" and each finding.
std::string describe(const Tally &tally);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_TRIALS_SUPERVISOR_H
