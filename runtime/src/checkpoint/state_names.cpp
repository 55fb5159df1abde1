// The table of roles, as checkpoints see them.
#include "checkpoint/state_names.h"

#include <cstring>

namespace hycrt {
namespace {

constexpr const char* kOptimizerState = "optimizer.state.";
constexpr const char* kFp8State = "fp8.state.";
constexpr const char* kStep = ".step";

bool beginsWith(const std::string& text, const char* begin) { return text.rfind(begin, 0) == 0; }

bool endsWith(const std::string& text, const char* end) {
  const size_t length = std::strlen(end);
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}

// Optimizers call the mean of gradients "adam.m", and that of their squares "adam.v".
struct Moment {
  const char* ending;
  const char* torchName;
};
constexpr Moment kMoments[] = {{".m", "exp_avg"}, {".v", "exp_avg_sq"}, {"momentum", "momentum_buffer"}};

std::string momentName(const std::string& role) {
  for (const Moment& row : kMoments) {
    if (endsWith(role, row.ending)) return row.torchName;
  }
  return role;
}

}  // namespace

Keeping keepingOf(const std::string& role) {
  if (role == "compute") return Keeping::kCopy;
  if (role == "codes" || role == "codes.scale") return Keeping::kRemade;
  if (role == "gradient" || role == "output") return Keeping::kNothing;
  if (role == "step" || role == "applied_step" || beginsWith(role, "loss_scale")) return Keeping::kCounter;
  return beginsWith(role, "fp8.") ? Keeping::kOptional : Keeping::kTensor;
}

std::string checkpointName(const std::string& name, const std::string& role) {
  if (role == "parameter" || role == "compute") return name;
  if (beginsWith(role, "fp8.")) return kFp8State + name;
  return kOptimizerState + name + "." + momentName(role);
}

bool hasStepBeside(const std::string& role) { return endsWith(role, kMoments[0].ending); }

std::string stepName(const std::string& parameter) { return kOptimizerState + parameter + kStep; }

bool isStepName(const std::string& tensor) { return beginsWith(tensor, kOptimizerState) && endsWith(tensor, kStep); }

std::optional<StateName> splitStateName(const std::string& tensor) {
  if (isParameterName(tensor)) return StateName{tensor, ""};
  const size_t begin = std::strlen(kOptimizerState), dot = tensor.rfind('.');
  if (!beginsWith(tensor, kOptimizerState) || dot < begin) return std::nullopt;
  return StateName{tensor.substr(begin, dot - begin), tensor.substr(dot + 1)};
}

bool isParameterName(const std::string& tensor) {
  return !beginsWith(tensor, kOptimizerState) && !beginsWith(tensor, kFp8State);
}

bool isOptionalTensor(const std::string& tensor) { return beginsWith(tensor, kFp8State) || isStepName(tensor); }

}  // namespace hycrt
