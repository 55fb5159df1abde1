// What is looked at, and what is said.
#include "run/nonfinite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "io/state_window.h"
#include "kernels/narrow_float.h"

namespace hycrt {
namespace {

const char* describe(double value) { return std::isnan(value) ? "NaN" : value < 0 ? "-infinity" : "infinity"; }

// Constants that are kept among the parameters may be infinite, as masks are.
bool isTrained(const Program& program, const StateDesc& parameter) {
  return std::any_of(program.states.begin(), program.states.end(), [&](const StateDesc& state) {
    return std::strcmp(state.role, "gradient") == 0 && std::strcmp(state.name, parameter.name) == 0;
  });
}

template <typename T, typename Wide>
std::optional<double> firstIn(const std::byte* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T stored;
    std::memcpy(&stored, values + i * int64_t{sizeof(T)}, sizeof stored);
    const Wide value = static_cast<Wide>(stored);
    if (!std::isfinite(value)) return double{value};
  }
  return std::nullopt;
}

// Integers are always finite.
std::optional<double> firstNonfinite(DType dtype, const std::byte* values, int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return firstIn<float, float>(values, count);
    case DType::kF64:
      return firstIn<double, double>(values, count);
    case DType::kBF16:
      return firstIn<hyc::kernels::Bf16, float>(values, count);
    case DType::kF16:
      return firstIn<hyc::kernels::F16, float>(values, count);
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Status checkFiniteStep(const StepRecord& record, int64_t counted, const Program& program) {
  const bool hasLoss = std::isfinite(record.loss);
  // Nothing is allocated for a step that is sound.
  if (counted != 0 && hasLoss && (record.evaluates || std::isfinite(record.gradNorm))) return {};
  const std::string where = (record.batches > 0 ? "evaluation after step "
                             : record.evaluates ? "batch "
                                                : "step ") +
                            std::to_string(record.step) + ": ";
  constexpr char kGoOn[] = "; --allow-nonfinite goes on all the same";
  if (counted == 0) return dataError(where + "no label of it counts, so that it has no loss" + kGoOn);
  const std::string what = hasLoss ? std::string("the gradient norm is ") + describe(record.gradNorm)
                                   : std::string("the loss is ") + describe(record.loss);
  const char* const wayOut = record.evaluates ? "" : "; lower the learning rate, or clip gradients";
  const char* const byWhom =
      program.checksFinite ? "" : "; what hyc-compile --check-finite makes names the first op that gives such a value";
  return dataError(where + what + wayOut + byWhom + kGoOn);
}

Status checkFiniteWeights(const Context& ctx, const std::string& target) {
  for (const StateDesc& state : ctx.program().states) {
    if (std::strcmp(state.role, "parameter") != 0 || !isTrained(ctx.program(), state)) continue;
    HYCRT_RETURN_IF_ERROR(
        forEachWindow(state, {ctx.arenas(), ctx.file()}, WindowUse::kRead, [&](const StateWindow& window) -> Status {
          const std::optional<double> found = firstNonfinite(state.dtype, window.memory, window.count);
          if (!found) return {};
          return dataError(std::string("the trained weights are not saved to '") + target + "': " + state.name +
                           " holds " + describe(*found) + "; lower the learning rate, or take fewer --steps");
        }));
  }
  return {};
}

}  // namespace hycrt
