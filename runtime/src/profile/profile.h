// Profile: how long each statement of a rank's functions takes, summed over steps.
//
// Generated code marks the end of every statement that takes time (mark of hycrt/context.h); what the n-th of a
// function is, the compiler has written to ops.json, so that nothing is named here. The first step only counts the
// marks, which says how much memory is needed; from then on a mark is a reading of the clock and two sums. On a device
// it is an event in its stream, whose times are taken when the step is over.
#ifndef HYCRT_SRC_PROFILE_PROFILE_H_
#define HYCRT_SRC_PROFILE_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/exchanger.h"
#include "hycrt/accelerator.h"
#include "hycrt/context.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

// Of one statement, or of whatever else is told apart, in all measured steps.
struct ProfiledTime {
  int64_t ns = 0;
  int64_t lateNs = 0;  // the part that this rank waited for ranks which had not come
};

struct ProfiledFunction {
  std::string name;        // "forward", "backward.1"
  int64_t executions = 0;  // in all measured steps
  size_t marks = 0;        // of one execution
  std::vector<ProfiledTime> calls;
  std::vector<std::pair<size_t, int>>
      merged;  // calls that end with one mark: the first, which has the time, and how many
};

class Profile {
 public:
  // All outlive it. `device`: what the program computes on; null: this host.
  Profile(const Entry& entry, const Exchanger& exchanger, Accelerator* device);

  void beginStep();
  void filledInputs();
  void beginFunction(const Instruction& instruction);
  void mark(int calls);
  void endFunction();
  void exchanged();  // with other stages
  // Once what was put on a device is done.
  Status endStep();

  int64_t steps() const { return steps_; }
  const std::vector<ProfiledFunction>& functions() const { return functions_; }
  const ProfiledTime& inputs() const { return inputs_; }
  const ProfiledTime& transfers() const { return transfers_; }
  const ProfiledTime& rest() const { return rest_; }  // of the steps' time
  // Whom this rank waited for, by rank; empty where the host does not wait.
  const std::vector<int64_t>& lateNsByRank() const { return lateByRank_; }
  // What it takes of memory beside the arenas.
  int64_t bytes() const;

 private:
  size_t indexOf(const Instruction& instruction) const;
  // What has passed since the last call belongs to `time`.
  void lap(ProfiledTime* time);
  void makeRoom();

  const Exchanger& exchanger_;
  Accelerator* const device_;
  int virtualStages_ = 1;
  bool counts_ = true;  // the first step
  int64_t steps_ = 0;
  std::vector<ProfiledFunction> functions_;  // forward and backward by virtual stage, reduce, apply
  ProfiledTime inputs_, transfers_, rest_;
  ProfiledFunction* function_ = nullptr;  // that is being executed
  size_t next_ = 0;                       // its call that is to end
  int64_t lastNs_ = 0, lastLateNs_ = 0;
  std::vector<int64_t> lateBefore_, lateByRank_;  // when the step began; in all measured steps
  std::vector<ProfiledTime*> pending_;            // of a device: what each of its marks ends; null: nothing that counts
  Status status_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_PROFILE_PROFILE_H_
