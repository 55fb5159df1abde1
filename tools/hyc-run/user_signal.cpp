// The decision, and its words.
#include "user_signal.h"

#include <csignal>

#include "job.h"

namespace hycrun {

SignalEffect effectOf(int signal, bool canSave, bool isAsked) {
  using Kind = SignalEffect::Kind;
  if (signal == SIGUSR1) return {Kind::kTellsWhere};
  const std::string name = Signals::nameOf(signal);
  if (signal == SIGUSR2 && !canSave) {
    return {Kind::kNothing,
            name + " asks for a checkpoint, and there is no folder for one (--checkpoint DIR); training goes on"};
  }
  const std::string saves = name + ": a checkpoint is written after this step";
  if (signal == SIGUSR2) return {Kind::kSaves, saves};
  if (signal == SIGTERM && canSave && !isAsked) {
    return {Kind::kSavesAndEnds, saves + ", and the run ends; another SIGTERM ends it at once"};
  }
  return {Kind::kEnds, "stopped by " + name + "; all ranks were ended"};
}

}  // namespace hycrun
