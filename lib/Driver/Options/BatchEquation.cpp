// global batch = micro-batch × grad-accum × dp.
#include "hyc/Driver/OptionChecks.h"
#include "hyc/Support/DriverError.h"

using namespace llvm;
using namespace hyc;

/// As a ds_config calls it, or as the flag does.
static std::string batchName(const CompileOptions &options) {
  return options.globalBatch.getOrigin() == Origin::Flag ? "global-batch" : "train_batch_size";
}

static std::string equation(const CompileOptions &options) {
  return batchName(options) + " = micro-batch × grad-accum × dp";
}

static std::string sourceOf(const Setting<int64_t> &setting, StringRef name) {
  return setting.getSource().empty() ? (name + " by default").str() : setting.getSource();
}

/// A batch that a flag takes part in is the command line's to mend.
static ExitCode codeFor(const CompileOptions &options) {
  for (const Setting<int64_t> *setting : {&options.globalBatch, &options.microBatch, &options.gradAccum, &options.dp})
    if (setting->getOrigin() == Origin::Flag)
      return ExitCode::Usage;
  return ExitCode::Data;
}

/// All three are given and the product is another.
static Error contradiction(const CompileOptions &options) {
  int64_t micro = *options.microBatch, accum = *options.gradAccum, dp = *options.dp, train = *options.globalBatch;
  std::string fits;
  if (train % (accum * dp) == 0)
    fits += ", micro-batch " + std::to_string(train / (accum * dp));
  if (train % (micro * dp) == 0)
    fits += ", grad-accum " + std::to_string(train / (micro * dp));
  if (train % (micro * accum) == 0)
    fits += ", dp " + std::to_string(train / (micro * accum));
  return makeError(codeFor(options),
                   options.globalBatch.getSource() + " is " + Twine(train) + ", but " + equation(options) + " = " +
                       Twine(micro) + " × " + Twine(accum) + " × " + Twine(dp) + " = " + Twine(micro * accum * dp) +
                       " (" + sourceOf(options.microBatch, "micro-batch") + "; " +
                       sourceOf(options.gradAccum, "grad-accum") + "; " + sourceOf(options.dp, "dp") +
                       "); each of these fits: " + batchName(options) + " " + Twine(micro * accum * dp) + fits);
}

/// `missing` = train / (known × dp), a whole number within bounds.
static Error derive(const CompileOptions &options, Setting<int64_t> &missing, StringRef name,
                    const Setting<int64_t> &known, StringRef knownName) {
  int64_t train = *options.globalBatch, divisor = *known * *options.dp;
  if (train % divisor != 0 || train / divisor > kMaxBatch)
    return makeError(codeFor(options), options.globalBatch.getSource() + " is " + Twine(train) + ", but " +
                                           equation(options) + ": with " + knownName + " " + Twine(*known) + " (" +
                                           sourceOf(known, knownName) + ") and dp " + Twine(*options.dp) + " (" +
                                           sourceOf(options.dp, "dp") + ") it must be a multiple of " + Twine(divisor) +
                                           ", at most " + Twine(divisor * kMaxBatch) + ", so that " + name +
                                           " is a whole number");
  missing.offer(train / divisor, Origin::Derived,
                batchName(options) + " / (" + knownName.str() + " × dp) = " + std::to_string(train) + " / (" +
                    std::to_string(*known) + " × " + std::to_string(*options.dp) + ")");
  return Error::success();
}

Error hyc::resolveBatch(CompileOptions &options) {
  Setting<int64_t> &train = options.globalBatch, &micro = options.microBatch, &accum = options.gradAccum;
  if (!train.isGiven()) {
    // Without a micro-batch the model's own batch tells.
    if (micro.isGiven())
      train.offer(*micro * *accum * *options.dp, Origin::Derived, "micro-batch × grad-accum × dp");
    return Error::success();
  }
  if (!micro.isGiven())
    return derive(options, micro, "micro-batch", accum, "grad-accum");
  if (!accum.isGiven())
    return derive(options, accum, "grad-accum", micro, "micro-batch");
  if (*micro * *accum * *options.dp != *train)
    return contradiction(options);
  return Error::success();
}
