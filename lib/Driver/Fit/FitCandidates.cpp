// Enumeration, order and estimates of changes that make a job fit.
#include "Fit/FitCandidates.h"

#include "hyc/Plan/SettingTable.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace hyc;

//===----------------------------------------------------------------------===//
// A candidate as an edit of a plan
//===----------------------------------------------------------------------===//

namespace {
/// A setting that the search varies, and the field of a candidate that holds its value.
struct VariedSetting {
  SettingRef (*setting)(Plan &);
  SettingValue (*get)(const FitCandidate &);
  void (*set)(FitCandidate &, const SettingValue &);

  const SettingRow &row() const { return rowOf(setting); }
};

template <auto Member, auto Field> constexpr VariedSetting vary() {
  return {memberOfPlan<Member>, [](const FitCandidate &candidate) { return SettingValue(candidate.*Field); },
          [](FitCandidate &candidate, const SettingValue &value) {
            candidate.*Field = std::get<std::decay_t<decltype(candidate.*Field)>>(value);
          }};
}
} // namespace

using F = FitCandidate;
/// In the order in which a proposal names them.
static constexpr VariedSetting kVaried[] = {
    vary<&Plan::tp, &F::tp>(),
    vary<&Plan::pp, &F::pp>(),
    vary<&Plan::dp, &F::dp>(),
    vary<&Plan::zero, &F::zero>(),
    vary<&Plan::recompute, &F::recompute>(),
    vary<&Plan::offloadActivations, &F::offloadActivations>(),
    vary<&Plan::offloadOptimizer, &F::offloadOptimizer>(),
    vary<&Plan::offloadGradients, &F::offloadGradients>(),
    vary<&Plan::offloadParam, &F::offloadParam>(),
    vary<&Plan::microBatch, &F::microBatch>(),
    vary<&Plan::gradAccum, &F::gradAccum>(),
};

FitCandidate hyc::describeChoice(const JobAccount &job, const CompileOptions &options, int64_t microBatch) {
  FitCandidate choice;
  for (const VariedSetting &varied : kVaried)
    varied.set(choice, valueOf(varied.row().in(options)));
  choice.tp = job.tp, choice.pp = job.pp, choice.dp = job.dp;
  choice.microBatch = microBatch;
  return choice;
}

CompileOptions hyc::withCandidate(CompileOptions options, const FitCandidate &candidate) {
  for (const VariedSetting &varied : kVaried)
    offerTo(varied.row().in(options), varied.get(candidate), Origin::Flag, "--" + varied.row().flag.str());
  // Cuts and shardings belong to another mesh.
  options.planFile = "";
  PlanRules mesh;
  mesh.axes = options.rules.axes;
  mesh.order = options.rules.order;
  options.rules = mesh;
  return options;
}

std::string hyc::describeChange(const FitCandidate &from, const FitCandidate &to) {
  std::string text;
  for (const VariedSetting &varied : kVaried)
    if (SettingValue after = varied.get(to); after != varied.get(from))
      text += (text.empty() ? "--" : " --") + varied.row().flag.str() + " " + print(after);
  if (to.ranks() != from.ranks())
    text += " (on " + std::to_string(to.ranks()) + " ranks)";
  return text;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Communication that a ZeRO stage adds, as the steps of the cost: stages 1 and 2 move what plain data parallelism
/// moves (2 in smaller pieces), stage 3 half as much again and on the way of every use.
static double costOfZero(int64_t stage) { return stage == 3 ? 1.5 : 0.25 * static_cast<double>(stage); }

/// Computing a layer again is a third of its operations.
static double costOfRecomputation(StringRef mode) { return mode == "none" ? 0 : mode == "selective" ? 0.25 : 1.5; }

/// Saved activations cross to the host and back once a micro-batch, states once a step but all of them, gradients at
/// every addition, and parameters at every use.
static double costOfOffload(const FitCandidate &choice) {
  return (choice.offloadActivations == "none" ? 0 : 1.75) + (choice.offloadOptimizer == "none" ? 0 : 2) +
         (choice.offloadGradients == "none" ? 0 : 2.5) + (choice.offloadParam == "none" ? 0 : 3.5);
}

/// Halving the micro-batch costs little; a stage more costs bubbles; tensor parallelism exchanges in every layer; more
/// ranks cost money.
static double costOf(const FitCandidate &from, const FitCandidate &to) {
  auto doublings = [](int64_t a, int64_t b) { return std::log2(static_cast<double>(b) / static_cast<double>(a)); };
  return doublings(to.microBatch, from.microBatch) + 2 * doublings(from.pp, to.pp) + 3 * doublings(from.tp, to.tp) +
         100 * doublings(from.ranks(), to.ranks()) + costOfZero(to.zero) - costOfZero(from.zero) +
         costOfRecomputation(to.recompute) - costOfRecomputation(from.recompute) + costOfOffload(to) -
         costOfOffload(from);
}

/// `choice`, and what is left of it on the device once more is moved to the host.
static void addOffloaded(const FitCandidate &from, FitCandidate choice, std::vector<FitCandidate> &candidates) {
  auto places = [](const std::string &place, bool canMove) {
    return place == "none" && canMove ? std::vector<std::string>{"none", "cpu"} : std::vector<std::string>{place};
  };
  for (const std::string &activations : places(from.offloadActivations, choice.recompute != "auto"))
    for (const std::string &optimizer : places(from.offloadOptimizer, true))
      for (const std::string &gradients : places(from.offloadGradients, optimizer != "none"))
        for (const std::string &parameters : places(from.offloadParam, true)) {
          choice.offloadActivations = activations;
          choice.offloadOptimizer = optimizer;
          choice.offloadGradients = gradients;
          choice.offloadParam = parameters;
          choice.cost = costOf(from, choice);
          if (choice.cost > 0)
            candidates.push_back(choice);
        }
}

/// Adds a layout with each micro-batch, ZeRO stage, recomputation and offload that needs no more device memory than
/// `from` has.
static void addLayout(const FitCandidate &from, FitCandidate layout, int64_t globalBatch,
                      std::vector<FitCandidate> &candidates) {
  std::vector<std::string> modes{from.recompute};
  // "auto" is held to a limit of its own, and "layer" keeps least already.
  if (from.recompute == "none" || from.recompute == "selective")
    modes.push_back("layer");
  // One rank has nobody to divide anything with.
  int64_t mostZero = layout.dp > 1 ? 3 : from.zero;
  for (int64_t microBatch = from.microBatch; microBatch >= 1; microBatch /= 2) {
    if (globalBatch % (layout.dp * microBatch) != 0)
      continue;
    layout.microBatch = microBatch;
    layout.gradAccum = globalBatch / (layout.dp * microBatch);
    for (layout.zero = from.zero; layout.zero <= mostZero; ++layout.zero)
      for (const std::string &mode : modes) {
        layout.recompute = mode;
        addOffloaded(from, layout, candidates);
      }
  }
}

std::vector<FitCandidate> hyc::makeCandidates(const FitCandidate &from) {
  std::vector<FitCandidate> candidates;
  int64_t globalBatch = from.microBatch * from.gradAccum * from.dp;
  for (int64_t ranks = from.ranks(); ranks <= std::min<int64_t>(kMaxRanks, 16 * from.ranks()); ranks *= 2)
    for (int64_t tp = from.tp; tp <= ranks; tp *= 2)
      for (int64_t pp = from.pp; tp * pp <= ranks; pp *= 2) {
        FitCandidate layout = from;
        layout.tp = tp, layout.pp = pp, layout.dp = ranks / (tp * pp);
        if (ranks % (tp * pp) == 0 && globalBatch % layout.dp == 0)
          addLayout(from, layout, globalBatch, candidates);
      }
  llvm::stable_sort(candidates, [](const FitCandidate &a, const FitCandidate &b) { return a.cost < b.cost; });
  return candidates;
}

FitCandidate hyc::mostFrugal(const std::vector<FitCandidate> &candidates, const FitCandidate &mesh) {
  auto measures = [](const FitCandidate &candidate) {
    int moved = 0;
    for (const std::string *place : {&candidate.offloadActivations, &candidate.offloadOptimizer,
                                     &candidate.offloadGradients, &candidate.offloadParam})
      moved += *place != "none";
    return std::tuple(-candidate.microBatch, candidate.zero, candidate.recompute == "layer", moved);
  };
  FitCandidate most = mesh;
  for (const FitCandidate &candidate : candidates)
    if (candidate.mesh() == mesh.mesh() && measures(candidate) > measures(most))
      most = candidate;
  return most;
}

//===----------------------------------------------------------------------===//
// Estimates from below
//===----------------------------------------------------------------------===//

const StageAccount &hyc::neediestStage(const JobAccount &job) {
  return *std::max_element(job.stages.begin(), job.stages.end(), [](const StageAccount &a, const StageAccount &b) {
    return a.deviceBytes() < b.deviceBytes();
  });
}

/// Bytes of states in one arena of the neediest stage.
static double stateBytes(const JobAccount &job, StringRef arena) {
  double bytes = 0;
  if (const ArenaAccount *found = neediestStage(job).findArena(arena))
    for (const AccountedTensor &tensor : found->tensors)
      bytes += tensor.kind == TensorKind::State ? static_cast<double>(tensor.item.bytes) : 0;
  return bytes;
}

FitBounds::ActivationKey FitBounds::keyOf(const FitCandidate &candidate) {
  return {candidate.tp, candidate.pp, candidate.microBatch, candidate.recompute, candidate.offloadActivations};
}

FitBounds::FitBounds(const JobAccount &job, const FitCandidate &from) {
  // A stage holds at least its share of the whole, wherever the cuts are.
  double split = static_cast<double>(from.tp * from.pp), dp = static_cast<double>(from.dp);
  parameters = stateBytes(job, "parameters") * split * (from.zero >= 3 ? dp : 1);
  gradients = stateBytes(job, "gradients") * split * (from.zero >= 2 ? dp : 1);
  optimizer = stateBytes(job, "optimizer") * split * (from.zero >= 1 ? dp : 1);
  if (from.pp > 1 || from.zero > 0) {
    // Only a part of it is known to be the whole's: persistent parameters are divided by nobody, stages are uneven.
    for (double *bytes : {&parameters, &gradients, &optimizer})
      *bytes *= 0.5;
  }
  fixed = static_cast<double>(neediestStage(job).fixedBytes);
  learn(from, job);
}

void FitBounds::learn(const FitCandidate &candidate, const JobAccount &job) {
  const StageAccount &stage = neediestStage(job);
  double bytes = 0;
  for (const char *arena : {"activations", "communication"})
    if (const ArenaAccount *found = stage.findArena(arena))
      bytes += static_cast<double>(found->bytes);
  // Micro-batches in flight and buckets differ a little between layouts of one kind.
  activations[keyOf(candidate)] = 0.9 * bytes;
}

double FitBounds::atLeast(const FitCandidate &candidate) const {
  double split = static_cast<double>(candidate.tp * candidate.pp), dp = static_cast<double>(candidate.dp);
  double bytes = candidate.offloadGradients == "none" ? gradients / (candidate.zero >= 2 ? dp : 1) : 0;
  if (candidate.offloadParam == "none")
    bytes += parameters / (candidate.zero >= 3 ? dp : 1);
  if (candidate.offloadOptimizer == "none")
    bytes += optimizer / (candidate.zero >= 1 ? dp : 1);
  auto known = activations.find(keyOf(candidate));
  return fixed + bytes / split + (known == activations.end() ? 0 : known->second);
}
