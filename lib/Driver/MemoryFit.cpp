// Candidates in the order of what they cost, each planned before it is named.
#include "MemoryFit.h"

#include "MemoryReport.h"
#include "hyc/Driver/DriverError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace hyc;

static constexpr size_t kProposals = 3;
/// A model of 175B parameters takes seconds to plan: the search ends before patience does.
static constexpr size_t kMostPlans = 16;
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

namespace {
/// How a job is laid out, and how much the change costs, in doublings of what is cheap.
struct Layout {
  int64_t tp = 1, pp = 1, dp = 1, microBatch = 1, gradAccum = 1;
  double cost = 0;

  int64_t ranks() const { return tp * pp * dp; }
};
} // namespace

static CompileOptions withLayout(CompileOptions options, const Layout &layout) {
  auto set = [](Setting<int64_t> &setting, int64_t value, const char *flag) {
    setting.offer(value, Origin::Flag, flag);
  };
  set(options.tp, layout.tp, "--tp");
  set(options.pp, layout.pp, "--pp");
  set(options.dp, layout.dp, "--dp");
  set(options.microBatch, layout.microBatch, "--micro-batch");
  set(options.gradAccum, layout.gradAccum, "--grad-accum");
  options.planFile.clear(); // its cuts and shardings belong to another mesh
  return options;
}

/// Halving the micro-batch costs little; a stage more costs bubbles; tensor parallelism exchanges in every layer; more
/// ranks cost money.
static double costOf(const Layout &from, const Layout &to) {
  auto doublings = [](int64_t a, int64_t b) { return std::log2(static_cast<double>(b) / static_cast<double>(a)); };
  return doublings(to.microBatch, from.microBatch) + 2 * doublings(from.pp, to.pp) + 3 * doublings(from.tp, to.tp) +
         100 * doublings(from.ranks(), to.ranks());
}

/// Layouts of the same global batch with as much or more model parallelism, cheapest first.
static std::vector<Layout> candidates(const Layout &from) {
  std::vector<Layout> layouts;
  int64_t globalBatch = from.microBatch * from.gradAccum * from.dp;
  for (int64_t ranks = from.ranks(); ranks <= std::min<int64_t>(kMaxRanks, 16 * from.ranks()); ranks *= 2)
    for (int64_t tp = from.tp; tp <= ranks; tp *= 2)
      for (int64_t pp = from.pp; tp * pp <= ranks; pp *= 2) {
        int64_t dp = ranks / (tp * pp);
        if (ranks % (tp * pp) != 0 || globalBatch % dp != 0)
          continue;
        for (int64_t microBatch = from.microBatch; microBatch >= 1; microBatch /= 2) {
          if (globalBatch % (dp * microBatch) != 0)
            continue;
          Layout layout{tp, pp, dp, microBatch, globalBatch / (dp * microBatch), 0};
          layout.cost = costOf(from, layout);
          if (layout.cost > 0)
            layouts.push_back(layout);
        }
      }
  llvm::stable_sort(layouts, [](const Layout &a, const Layout &b) { return a.cost < b.cost; });
  return layouts;
}

/// The flags in which `to` differs from `from`.
static std::string describe(const Layout &from, const Layout &to) {
  std::string text;
  auto add = [&](StringRef flag, int64_t before, int64_t after) {
    if (before != after)
      text += (Twine(text.empty() ? "--" : " --") + flag + " " + Twine(after)).str();
  };
  add("tp", from.tp, to.tp);
  add("pp", from.pp, to.pp);
  add("dp", from.dp, to.dp);
  add("micro-batch", from.microBatch, to.microBatch);
  add("grad-accum", from.gradAccum, to.gradAccum);
  if (to.ranks() != from.ranks())
    text += " (on " + std::to_string(to.ranks()) + " ranks)";
  return text;
}

static const StageAccount &neediest(const JobAccount &job) {
  return *std::max_element(job.stages.begin(), job.stages.end(), [](const StageAccount &a, const StageAccount &b) {
    return a.deviceBytes() < b.deviceBytes();
  });
}

/// Bytes of what is there for the whole run: no layout can hold less of it than its share.
static int64_t persistentBytes(const StageAccount &stage) {
  int64_t bytes = 0;
  for (const ArenaAccount &arena : stage.arenas)
    for (const AccountedTensor &tensor : arena.tensors)
      bytes += arena.isOnDevice() && tensor.kind == TensorKind::State ? tensor.item.bytes : 0;
  return bytes;
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
  const StageAccount &stage = neediest(job);
  std::string text = describeRanks(job, stage) + (job.tp * job.dp > 1 ? " need " : " needs ") + formatBytes(need) +
                     " (" + std::to_string(need) + " bytes) of device memory" + (job.tp * job.dp > 1 ? " each" : "") +
                     ", --device-memory is " + formatBytes(limit) + describeNeed(job, stage);

  Layout from{job.tp, job.pp, job.dp, microBatch, *options.gradAccum, 0};
  int64_t states = persistentBytes(stage);
  std::string proposals;
  size_t plans = 0, found = 0;
  for (const Layout &layout : candidates(from)) {
    if (found == kProposals || plans == kMostPlans)
      break;
    // States split over tp and pp at best.
    double share = static_cast<double>(from.tp * from.pp) / static_cast<double>(layout.tp * layout.pp);
    if (static_cast<double>(states) * share > static_cast<double>(limit))
      continue;
    // More ranks only where these cannot do it.
    if (found > 0 && layout.ranks() > from.ranks())
      break;
    ++plans;
    std::optional<JobAccount> account = replan(withLayout(options, layout));
    if (!account || account->mostDeviceBytes() > limit)
      continue;
    ++found;
    proposals += "\n    " + describe(from, layout) + ": " + formatBytes(account->mostDeviceBytes());
  }
  if (found > 0)
    text += "\n  what fits, cheapest first, at the same global batch" +
            std::string(options.planFile.empty() ? "" : " (without --plan)") + ":" + proposals;
  else
    text += "\n  none of " + std::to_string(plans) +
            " layouts that were planned fits; a smaller model, sequence or batch, or more ranks, is needed";
  return makeError(ExitCode::Data, text);
}
