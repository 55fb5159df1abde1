// What a checkpoint calls a state: parameters as the model does, what an optimizer keeps as torch's flattened optimizer
// states ("optimizer.state.fc.weight.exp_avg"). Copies in the compute type are made of the parameters again, codes of
// frozen weights of the model's files, gradients are none of a state between steps, and counters are numbers of the
// manifest.
#ifndef HYCRT_SRC_CHECKPOINT_STATE_NAMES_H_
#define HYCRT_SRC_CHECKPOINT_STATE_NAMES_H_

#include <optional>
#include <string>

namespace hycrt {

enum class Keeping {
  kTensor,    // written, and wanted when a run is resumed
  kOptional,  // the same, but a checkpoint of another precision has none: its first value then
  kCopy,      // of a parameter, which is what is wanted
  kRemade,    // made of the model's own weights again
  kCounter,   // a number of the manifest
  kNothing,
};

Keeping keepingOf(const std::string& role);

// The tensor's name; of a copy the parameter's.
std::string checkpointName(const std::string& name, const std::string& role);

// Whether torch keeps a count of steps beside this state, and what a checkpoint calls it: optimizer.state.NAME.step.
bool hasStepBeside(const std::string& role);
std::string stepName(const std::string& parameter);
bool isStepName(const std::string& tensor);

// optimizer.state.PARAMETER.KEY as what it is made of; a parameter's own name has no key. Other tensors are neither.
struct StateName {
  std::string parameter, key;
};
std::optional<StateName> splitStateName(const std::string& tensor);

// Whether this is one of the model's own tensors.
bool isParameterName(const std::string& tensor);

// Whether a run that does not know this tensor can do without: scales of another precision, counts of steps.
bool isOptionalTensor(const std::string& tensor);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_STATE_NAMES_H_
