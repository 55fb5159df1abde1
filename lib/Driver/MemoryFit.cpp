// Candidates in the order of what they cost, each planned before it is named.
#include "MemoryFit.h"

#include "FitCandidates.h"
#include "MemoryReport.h"
#include "hyc/Driver/DriverError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace hyc;

static constexpr size_t kProposals = 3;
/// A model of 175B parameters takes seconds to plan: the search ends before patience does.
static constexpr size_t kMostPlans = 24;
static constexpr size_t kTensorsNamed = 4;

Expected<int64_t> hyc::parseByteCount(StringRef flag, StringRef text) {
  constexpr std::pair<StringLiteral, int64_t> units[] = {{"KiB", int64_t(1) << 10},
                                                         {"MiB", int64_t(1) << 20},
                                                         {"GiB", int64_t(1) << 30},
                                                         {"TiB", int64_t(1) << 40},
                                                         {"KB", 1000},
                                                         {"MB", 1000 * 1000},
                                                         {"GB", 1000000000},
                                                         {"TB", 1000000000000}};
  StringRef digits = text;
  int64_t unit = 1;
  for (const auto &[name, bytes] : units)
    if (digits.consume_back(name)) {
      unit = bytes;
      break;
    }
  digits = digits.rtrim(' ');
  if (unit == 1)
    digits.consume_back("B");
  // "1.5GiB" is a whole number of bytes too, or nearly so.
  double number = 0;
  bool valid = !digits.empty() && !digits.starts_with("-") && !digits.getAsDouble(number, /*AllowInexact=*/true);
  double bytes = number * static_cast<double>(unit);
  if (valid && bytes >= 1 && bytes < 0x1p60)
    return static_cast<int64_t>(bytes);
  return usageError("--" + flag + " is \"" + text + "\", expected a size such as 24GiB, 512MiB or a number of bytes");
}

static std::string describeNeed(const JobAccount &job, const StageAccount &stage) {
  std::string text;
  std::vector<std::pair<const ArenaAccount *, AliveTensor>> largest;
  for (const ArenaAccount &arena : stage.arenas) {
    if (!arena.isOnDevice())
      continue;
    text += "\n  " + arena.name + " " + formatBytes(arena.bytes);
    if (!arena.peak.op.empty())
      text += ", peak at " + arena.peak.op + " in " + arena.peak.instruction;
    for (const AliveTensor &alive : arena.peak.alive)
      largest.push_back({&arena, alive});
  }
  auto bytesOf = [](const std::pair<const ArenaAccount *, AliveTensor> &entry) {
    return entry.first->tensors[entry.second.tensor].item.bytes * entry.second.copies;
  };
  llvm::stable_sort(largest, [&](const auto &a, const auto &b) { return bytesOf(a) > bytesOf(b); });
  text += "\n  largest tensors alive at the peaks:";
  for (const auto &entry : ArrayRef(largest).take_front(kTensorsNamed)) {
    const AccountedTensor &tensor = entry.first->tensors[entry.second.tensor];
    text += "\n    " + formatBytes(bytesOf(entry)) + "  " + tensor.name + " (" + tensor.type +
            (entry.second.copies > 1 ? ", " + std::to_string(entry.second.copies) + " copies" : "") + ")";
  }
  return text;
}

Error hyc::checkFit(const JobAccount &job, const CompileOptions &options, int64_t microBatch, const Replan &replan) {
  if (options.deviceMemory.empty())
    return Error::success();
  Expected<int64_t> parsed = parseByteCount("device-memory", options.deviceMemory);
  if (!parsed)
    return parsed.takeError();
  int64_t limit = *parsed, need = job.mostDeviceBytes();
  if (need <= limit)
    return Error::success();
  const StageAccount &stage = neediestStage(job);
  std::string text = describeRanks(job, stage) + (job.tp * job.dp > 1 ? " need " : " needs ") + formatBytes(need) +
                     " (" + std::to_string(need) + " bytes) of device memory" + (job.tp * job.dp > 1 ? " each" : "") +
                     ", --device-memory is " + formatBytes(limit) + describeNeed(job, stage);

  FitCandidate from = describeChoice(job, options, microBatch);
  FitBounds bounds(job, from);
  std::string proposals;
  size_t plans = 0, found = 0;
  for (const FitCandidate &candidate : makeCandidates(from)) {
    // More ranks only where these cannot do it.
    if (found == kProposals || plans == kMostPlans || (found > 0 && candidate.ranks() > from.ranks()))
      break;
    if (bounds.atLeast(candidate) > static_cast<double>(limit))
      continue;
    ++plans;
    std::optional<JobAccount> account = replan(withCandidate(options, candidate));
    if (!account)
      continue;
    bounds.learn(candidate, *account);
    if (account->mostDeviceBytes() > limit)
      continue;
    ++found;
    proposals += "\n    " + describeChange(from, candidate) + ": " + formatBytes(account->mostDeviceBytes());
  }
  if (found > 0)
    text += "\n  what fits, cheapest first, at the same global batch" +
            std::string(options.planFile.empty() ? "" : " (without --plan)") + ":" + proposals;
  else
    text += "\n  none of " + std::to_string(plans) +
            " choices that were planned fits; a smaller model, sequence or batch, or more ranks, is needed";
  return makeError(ExitCode::Data, text);
}
