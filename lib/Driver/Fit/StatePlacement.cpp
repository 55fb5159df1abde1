// The greedy choice, stage by stage.
#include "Fit/StatePlacement.h"

#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Plan/StateProperties.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

using namespace mlir;
using namespace hyc;

std::vector<MovableParam> hyc::collectMovable(ModuleOp module) {
  llvm::StringMap<int64_t> uses;
  if (auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch))
    microbatch.walk(
        [&](ReadOp read) { uses[read.getSource()] += std::distance(read->user_begin(), read->user_end()); });
  std::vector<MovableParam> params;
  for (const ParamStates &states : collectParamStates(module)) {
    ParamOp param = states.param;
    StateOp gradient = states.gradient;
    if (!gradient || !isa<FloatType>(param.getTensorType().getElementType()))
      continue;
    MovableParam movable;
    movable.name = param.getSymName().str();
    movable.gradient = gradient.getSymName().str();
    movable.used = SymbolTable::getSymbolName(states.used()).str();
    for (StateOp state : states.optimizer)
      movable.optimizer.push_back(state.getSymName().str());
    if (states.copy)
      movable.optimizer.push_back(movable.name);
    movable.uses = std::max<int64_t>(1, uses.lookup(movable.used));
    params.push_back(std::move(movable));
  }
  return params;
}

namespace {
enum Kind { kOptimizer, kGradient, kUsed };
constexpr Kind kKinds[] = {kOptimizer, kGradient, kUsed};

/// What can leave one stage, and what that costs there.
struct Item {
  size_t param;
  Kind kind;
  double bytes, seconds;
};

class StageChoice {
public:
  StageChoice(const StageAccount &stage, const std::vector<MovableParam> &params, const PlacementTerms &terms)
      : params(params) {
    for (const ArenaAccount &arena : stage.arenas)
      if (arena.isOnDevice())
        for (const AccountedTensor &tensor : arena.tensors)
          if (tensor.kind == TensorKind::State)
            bytes[tensor.name] += static_cast<double>(tensor.item.bytes);
    for (size_t index = 0; index < params.size(); ++index)
      addItems(index, terms);
  }

  /// Adds what it takes to `chosen`, which may hold what other stages have chosen of parameters of both.
  bool free(double excess, std::vector<std::vector<bool>> &chosen) {
    std::vector<const Item *> taken;
    for (const Item &item : items)
      if (chosen[item.param][item.kind])
        excess -= item.bytes;
    while (excess > 0) {
      const Item *best = next(excess, chosen);
      if (!best)
        return false;
      chosen[best->param][best->kind] = true;
      taken.push_back(best);
      excess -= best->bytes;
    }
    // Dearest first: what a later and larger one has made needless.
    for (const Item *item : llvm::reverse(taken))
      if (excess + item->bytes <= 0 && !isNeeded(*item, chosen)) {
        chosen[item->param][item->kind] = false;
        excess += item->bytes;
      }
    return true;
  }

  /// All that it can free.
  double most() const {
    std::vector<std::vector<bool>> chosen(params.size(), std::vector<bool>(std::size(kKinds)));
    double bytes = 0;
    while (const Item *item = cheapest(chosen)) {
      chosen[item->param][item->kind] = true;
      bytes += item->bytes;
    }
    return bytes;
  }

private:
  double bytesOf(const std::string &symbol) const { return bytes.lookup(symbol); }

  void addItems(size_t index, const PlacementTerms &terms) {
    const MovableParam &param = params[index];
    auto micro = static_cast<double>(terms.microBatches);
    double gradient = bytesOf(param.gradient), used = bytesOf(param.used), states = 0;
    for (const std::string &symbol : param.optimizer)
      states += bytesOf(symbol);
    auto add = [&](Kind kind, double freed, double moved, double moves) {
      if (freed > 0)
        items.push_back({index, kind, freed, moved / terms.hostRate + moves * terms.launch});
    };
    add(kOptimizer, states, 2 * states + gradient + used, 2.0 * static_cast<double>(param.optimizer.size()) + 2);
    add(kGradient, gradient, 2 * micro * gradient, 2 * micro);
    double uses = micro * static_cast<double>(param.uses);
    add(kUsed, used, uses * used, uses);
  }

  /// A gradient waits where its update is.
  bool isAvailable(const Item &item, const std::vector<std::vector<bool>> &chosen) const {
    return !chosen[item.param][item.kind] && (item.kind != kGradient || chosen[item.param][kOptimizer]);
  }
  static bool isNeeded(const Item &item, const std::vector<std::vector<bool>> &chosen) {
    return item.kind == kOptimizer && chosen[item.param][kGradient];
  }

  /// The cheapest by seconds a byte, or where that costs less, the cheapest that suffices by itself.
  const Item *next(double excess, const std::vector<std::vector<bool>> &chosen) const {
    const Item *best = cheapest(chosen);
    for (const Item &item : items)
      if (isAvailable(item, chosen) && item.bytes >= excess && item.seconds < best->seconds)
        best = &item;
    return best;
  }

  /// By seconds a byte; among equals the larger, then the first.
  const Item *cheapest(const std::vector<std::vector<bool>> &chosen) const {
    const Item *best = nullptr;
    for (const Item &item : items) {
      if (!isAvailable(item, chosen))
        continue;
      double own = item.seconds / item.bytes, least = best ? best->seconds / best->bytes : 0;
      if (!best || own < least || (own == least && item.bytes > best->bytes))
        best = &item;
    }
    return best;
  }

  const std::vector<MovableParam> &params;
  llvm::StringMap<double> bytes; ///< by symbol
  std::vector<Item> items;
};
} // namespace

/// Has the rule say that what holds a property is kept on the host.
static void moveOut(PlanRule &rule, StateProperty::Holder holder) {
  for (const StateProperty &property : kStateProperties)
    if (property.kind == StateProperty::Kind::Placement && property.holder == holder)
      rule.states[property.key] = dist::kOnHost;
}

static std::vector<PlanRule> rulesOf(const std::vector<MovableParam> &params,
                                     const std::vector<std::vector<bool>> &chosen) {
  std::vector<PlanRule> rules;
  for (size_t index = 0; index < params.size(); ++index) {
    PlanRule rule{params[index].name, ""};
    if (chosen[index][kOptimizer]) {
      moveOut(rule, StateProperty::Holder::Optimizer);
      moveOut(rule, StateProperty::Holder::Master);
    }
    if (chosen[index][kGradient])
      moveOut(rule, StateProperty::Holder::Gradient);
    if (chosen[index][kUsed])
      moveOut(rule, StateProperty::Holder::Used);
    if (!rule.states.empty())
      rules.push_back(std::move(rule));
  }
  return rules;
}

std::optional<std::vector<PlanRule>> hyc::placeStates(const JobAccount &job, const std::vector<MovableParam> &params,
                                                      const std::vector<int64_t> &excess, const PlacementTerms &terms) {
  std::vector<std::vector<bool>> chosen(params.size(), std::vector<bool>(std::size(kKinds)));
  for (size_t index = 0; index < job.stages.size(); ++index)
    if (!StageChoice(job.stages[index], params, terms).free(static_cast<double>(excess[index]), chosen))
      return std::nullopt;
  return rulesOf(params, chosen);
}

std::vector<int64_t> hyc::movableBytes(const JobAccount &job, const std::vector<MovableParam> &params) {
  std::vector<int64_t> bytes;
  for (const StageAccount &stage : job.stages)
    bytes.push_back(static_cast<int64_t>(StageChoice(stage, params, {}).most()));
  return bytes;
}
