// Range checks of what was typed.
#include "hyc/Driver/CompileOptions.h"
#include "hyc/Driver/DriverError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

#include <cmath>
#include <functional>

using namespace llvm;
using namespace hyc;

char DriverError::ID;

static Error checkCount(StringRef flag, std::optional<int64_t> value, int64_t least, int64_t most) {
  if (!value || (*value >= least && *value <= most))
    return Error::success();
  return usageError("--" + flag + " is " + Twine(*value) + ", expected " + Twine(least) + " to " + Twine(most));
}

/// At least `least`, finite.
static Error checkNumber(StringRef flag, double value, double least, StringRef expected) {
  if (std::isfinite(value) && value >= least)
    return Error::success();
  std::string text;
  raw_string_ostream(text) << value;
  return usageError("--" + flag + " is " + text + ", expected " + expected);
}

static Error checkChoice(StringRef flag, const std::optional<std::string> &value, ArrayRef<StringRef> choices) {
  if (!value || is_contained(choices, StringRef(*value)))
    return Error::success();
  return usageError("--" + flag + " is \"" + *value + "\", expected " + join(choices, " or "));
}

static Error checkPartitionMethod(const std::optional<std::string> &method) {
  if (!method || *method == "parameters" || *method == "uniform")
    return Error::success();
  StringRef pattern = *method;
  if (!pattern.consume_front("type:"))
    return usageError("--partition-method is \"" + *method + "\", expected parameters, uniform or type:REGEX");
  std::string problem;
  if (pattern.empty() || !Regex(pattern).isValid(problem))
    return usageError("--partition-method has \"" + pattern +
                      "\" as pattern: " + (pattern.empty() ? "it matches everything" : problem));
  return Error::success();
}

static Error checkMesh(const CompileOptions &options) {
  for (auto [flag, size] : {std::pair{"tp", options.tp}, {"pp", options.pp}, {"dp", options.dp}})
    if (Error error = checkCount(flag, size, 1, kMaxRanks))
      return error;
  int64_t tp = options.tp.value_or(1), pp = options.pp.value_or(1), dp = options.dp.value_or(1);
  // Each factor is at most 2^12, so the product fits.
  if (tp * pp * dp > kMaxRanks)
    return usageError("--tp × --pp × --dp = " + Twine(tp) + " × " + Twine(pp) + " × " + Twine(dp) + " = " +
                      Twine(tp * pp * dp) + " ranks, expected at most " + Twine(kMaxRanks));
  return Error::success();
}

Expected<std::pair<std::string, int64_t>> hyc::parseDim(const std::string &text) {
  auto [name, digits] = StringRef(text).split('=');
  int64_t size = 0;
  if (name.empty() || digits.getAsInteger(10, size) || size < 1 || size > (int64_t(1) << 31))
    return usageError("--dim is \"" + text + "\", expected NAME=N with N at least 1, as in batch=8");
  return std::pair{name.str(), size};
}

Error hyc::checkOptions(const CompileOptions &options) {
  for (const std::string &dim : options.dims)
    if (auto parsed = parseDim(dim); !parsed)
      return parsed.takeError();
  constexpr int64_t most = 65536;
  // Each check runs only if those before it passed; the first failure is what the user hears of.
  const std::function<Error()> checks[] = {
      [&] { return checkMesh(options); },
      [&] { return checkCount("micro-batch", options.microBatch, 1, most); },
      [&] { return checkCount("grad-accum", options.gradAccum, 1, most); },
      [&] { return checkCount("warmup-steps", options.warmupSteps, 0, int64_t(1) << 40); },
      [&] { return checkCount("threads", options.threads, 0, 4096); },
      [&] {
        return checkChoice("schedule", options.schedule, {"gpipe", "1f1b"});
      },
      [&] { return checkPartitionMethod(options.partitionMethod); },
      [&] {
        return checkChoice("weights", options.weights, {"read", "initialise-missing", "initialise"});
      },
      [&] {
        return checkChoice("optimizer", options.optimizer, {"adamw", "sgd"});
      },
      [&] {
        return checkChoice("lr-schedule", options.learningRateSchedule, {"constant", "linear", "cosine"});
      },
      [&] { return checkNumber("lr", options.learningRate, 0, "a number that is at least 0"); },
      [&] { return checkNumber("weight-decay", options.weightDecay, 0, "a number that is at least 0"); },
      [&] { return checkNumber("momentum", options.momentum, 0, "a number from 0 to below 1"); },
      [&] {
        return checkNumber("clip-grad-norm", options.clipGradNorm, 0, "a number that is at least 0; 0 does not clip");
      },
  };
  for (const std::function<Error()> &check : checks)
    if (Error error = check())
      return error;
  return Error::success();
}
