// Candidates in the order of what they cost, each planned before it is named.
#include "Fit/MemoryFit.h"

#include "Fit/FitCandidates.h"
#include "Report/MemoryReport.h"
#include "hyc/Support/ByteCount.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/STLExtras.h"

#include <chrono>
#include <map>
#include <tuple>

using namespace llvm;
using namespace hyc;

static constexpr size_t kProposals = 3;
/// A model of 175B parameters takes seconds to plan: the search ends before patience does.
static constexpr size_t kMostPlans = 24;
static constexpr size_t kTensorsNamed = 4;

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
  text += "\n  fixed (code, stacks, heap) " + formatBytes(stage.fixedBytes);
  text += "\n  largest tensors alive at the peaks:";
  for (const auto &entry : ArrayRef(largest).take_front(kTensorsNamed)) {
    const AccountedTensor &tensor = entry.first->tensors[entry.second.tensor];
    text += "\n    " + formatBytes(bytesOf(entry)) + "  " + tensor.name + " (" + tensor.type +
            (entry.second.copies > 1 ? ", " + std::to_string(entry.second.copies) + " copies" : "") + ")";
  }
  return text;
}

namespace {
/// Tells how far the search is, a second after it was told last.
class SearchProgress {
public:
  explicit SearchProgress(const CompileListener &listener) : listener(listener) {}
  ~SearchProgress() {
    if (said)
      listener.tellProgress("");
  }

  void tell(size_t plans, size_t found) {
    auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::seconds(1))
      return;
    last = now;
    said = true;
    listener.tellProgress("does not fit; looking for what would: " + std::to_string(plans) + " of at most " +
                          std::to_string(kMostPlans) + " plans, " + std::to_string(found) +
                          (found == 1 ? " fits" : " fit"));
  }

private:
  const CompileListener &listener;
  bool said = false;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

struct Proposals {
  std::string text; ///< one line each
  size_t found = 0, plans = 0;
};
} // namespace

static Proposals findProposals(const JobAccount &job, const CompileOptions &options, const FitCandidate &from,
                               int64_t limit, const Replan &replan, const CompileListener &listener) {
  FitBounds bounds(job, from);
  Proposals proposals;
  SearchProgress progress(listener);
  auto plan = [&](const FitCandidate &candidate) {
    progress.tell(proposals.plans, proposals.found);
    ++proposals.plans;
    std::optional<JobAccount> account = replan(withCandidate(options, candidate));
    if (account)
      bounds.learn(candidate, *account);
    return account;
  };
  const std::vector<FitCandidate> candidates = makeCandidates(from);
  std::map<std::tuple<int64_t, int64_t, int64_t>, bool> hopeful; // by mesh
  for (const FitCandidate &candidate : candidates) {
    // More ranks only where these cannot do it.
    if (proposals.found == kProposals || proposals.plans == kMostPlans ||
        (proposals.found > 0 && candidate.ranks() > from.ranks()))
      break;
    if (bounds.atLeast(candidate) > static_cast<double>(limit))
      continue;
    if (auto [mesh, isNew] = hopeful.try_emplace(candidate.mesh(), true); isNew) {
      std::optional<JobAccount> least = plan(mostFrugal(candidates, candidate));
      mesh->second = !least || least->mostDeviceBytes() <= limit;
    }
    if (!hopeful[candidate.mesh()])
      continue;
    std::optional<JobAccount> account = plan(candidate);
    if (!account || account->mostDeviceBytes() > limit)
      continue;
    ++proposals.found;
    proposals.text += "\n    " + describeChange(from, candidate) + ": " + formatBytes(account->mostDeviceBytes());
  }
  return proposals;
}

Error hyc::checkFit(const JobAccount &job, const CompileOptions &options, int64_t microBatch, const Replan &replan,
                    const CompileListener &listener) {
  if (options.deviceMemory->empty())
    return Error::success();
  Expected<int64_t> parsed = parseByteCount("device-memory", *options.deviceMemory);
  if (!parsed)
    return parsed.takeError();
  int64_t limit = *parsed, need = job.mostDeviceBytes();
  if (need <= limit)
    return Error::success();
  const StageAccount &stage = neediestStage(job);
  std::string text = describeRanks(job, stage) + (job.ranksPerStage() > 1 ? " need " : " needs ") + formatBytes(need) +
                     " (" + std::to_string(need) + " bytes) of device memory" +
                     (job.ranksPerStage() > 1 ? " each" : "") + ", --device-memory is " + formatBytes(limit) +
                     describeNeed(job, stage);

  Proposals proposals = findProposals(job, options, describeChoice(job, options, microBatch), limit, replan, listener);
  if (proposals.found > 0)
    text += "\n  what fits, cheapest first, at the same global batch" +
            std::string(options.planFile->empty() ? "" : " (without --plan)") + ":" + proposals.text;
  else
    text += "\n  none of " + std::to_string(proposals.plans) +
            " choices that were planned fits; a smaller model, sequence or batch, or more ranks, is needed";
  return makeError(ExitCode::Data, text);
}
