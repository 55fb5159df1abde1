// One layout: sums over the layers of each stage, and what data parallelism exchanges and divides.
#include "LayoutCosts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <queue>

using namespace hyc;

static bool areEqual(const LayerCost &a, const LayerCost &b) {
  return llvm::all_of(kFigures, [&](double LayerCost::*figure) { return a.*figure == b.*figure; });
}

/// What waits for a stage's slowest rank.
static void takeSlowest(StageCost &stage) {
  for (size_t kind : stage.kinds)
    for (double LayerCost::*figure : {&LayerCost::forward, &LayerCost::backward, &LayerCost::forwardStarts,
                                      &LayerCost::backwardStarts, &LayerCost::update})
      stage.sum.*figure = kind == stage.kinds.front() ? stage.ofKinds[kind].*figure
                                                      : std::max(stage.sum.*figure, stage.ofKinds[kind].*figure);
}

/// Adds to the kernels of a chunk, the layers from `begin` to `end`, what the device waits for the thread that starts
/// them: it runs ahead through the layers of a pass, in their order, and not from one pass to the other.
static void addWaits(const std::vector<LayerCost> &layers, size_t begin, size_t end, LayerCost &sum) {
  double started = 0, done = 0, busy = 0;
  auto take = [&](double kernels, double exchanges, double starts) {
    started += starts;
    busy += kernels + exchanges;
    done = std::max(done + kernels + exchanges, started);
  };
  for (size_t layer = begin; layer < end; ++layer)
    take(layers[layer].forward, layers[layer].forwardExchanges, layers[layer].forwardStarts);
  sum.forward += done - busy;
  started = done = busy = 0;
  for (size_t layer = end; layer-- > begin;)
    take(layers[layer].backward, layers[layer].backwardExchanges, layers[layer].backwardStarts);
  sum.backward += done - busy;
}

std::vector<StageCost> hyc::sumStages(const ModelCost &model, const Layout &layout, const std::vector<size_t> &ends,
                                      const MachineRates &rates) {
  std::vector<StageCost> stages(static_cast<size_t>(layout.pp));
  int64_t ranks = layout.tp * layout.dp;
  for (size_t stage = 0; stage < stages.size() && !model.ofKinds.empty(); ++stage) {
    stages[stage].ofKinds.resize(model.ofKinds.size());
    stages[stage].kinds = rates.kindsAmong(static_cast<int64_t>(stage) * ranks, ranks);
  }
  for (size_t chunk = 0, begin = 0; chunk < ends.size(); begin = ends[chunk++]) {
    StageCost &stage = stages[chunk % stages.size()];
    stage.firstLayers.push_back(begin);
    for (size_t layer = begin; layer < ends[chunk]; ++layer) {
      for (double LayerCost::*figure : kFigures) {
        stage.sum.*figure += model.layers[layer].*figure;
        stage.most.*figure = std::max(stage.most.*figure, model.layers[layer].*figure);
      }
      for (size_t kind : stage.kinds)
        for (double LayerCost::*figure : kFigures)
          stage.ofKinds[kind].*figure += model.ofKinds[kind][layer].*figure;
    }
    if (rates.dispatch > 0) {
      addWaits(model.layers, begin, ends[chunk], stage.sum);
      for (size_t kind : stage.kinds)
        addWaits(model.ofKinds[kind], begin, ends[chunk], stage.ofKinds[kind]);
    }
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    takeSlowest(stages[stage]);
    stages[stage].isLikeLast = stage > 0 && stages[stage].kinds.empty() &&
                               areEqual(stages[stage].sum, stages[stage - 1].sum) &&
                               areEqual(stages[stage].most, stages[stage - 1].most);
  }
  if (layout.pp == 1)
    for (auto bytes : {&LayerCost::parameters, &LayerCost::gradients, &LayerCost::optimizer})
      stages[0].sum.*bytes -= model.tied.*bytes;
  return stages;
}

namespace {
class LayoutCosts {
public:
  LayoutCosts(const ModelCost &model, const Layout &layout, const MachineRates &rates, const Plan &base)
      : model(model), layout(layout), rates(rates), base(base), dp(static_cast<double>(layout.dp)),
        micro(static_cast<double>(layout.gradAccum)) {}

  LayoutCost of(const std::vector<StageCost> &stages) {
    LayoutCost result;
    double slowest = 0, all = 0, kernels = 0, waits = 0, after = 0, waited = 0;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      addMemory(stages[stage], stage, result);
      double computed = stages[stage].sum.kernels() + addingGradients(stages[stage]);
      // Of a long pipeline most stages are alike, but for the first and the last, which have one neighbour.
      if (layout.room > 0 || stage < 2 || stage + 1 == stages.size() || !stages[stage].isLikeLast) {
        waited = waitsOfMicroBatch(stages[stage], stage);
        after = std::max(after, afterMicroBatches(stages[stage]));
      }
      all += computed + waited;
      if (computed + waited > slowest)
        slowest = computed + waited, kernels = computed, waits = waited;
    }
    // Filling and draining takes a micro-batch's way through all stages, less where stages have several pieces.
    result.idle = (all - slowest) / static_cast<double>(layout.virtualStages);
    // Where ranks are not equally fast, each coordinate may take what it makes while the others make theirs.
    double longest = micro;
    if (canShare())
      longest = share(stages, slowest, result.shares);
    result.computation = longest * kernels + update(stages);
    result.exposed = longest * waits + after;
    result.seconds = result.idle + result.computation + result.exposed;
    result.isRedundant = layout.room > 0 && isRedundant();
    return result;
  }

private:
  int64_t firstRank(size_t stage) const { return static_cast<int64_t>(stage) * layout.tp * layout.dp; }

  /// How much of the machine's device memory the poorest rank of the stage has; of a stage that is not limited, while
  /// others are, all there is.
  double roomOf(size_t stage) const {
    if (rates.kinds.empty() || rates.deviceMemory == 0)
      return 1;
    double least = rates.slowestAmong(firstRank(stage), layout.tp * layout.dp).deviceMemory;
    return least > 0 ? least / rates.deviceMemory : std::numeric_limits<double>::infinity();
  }

  /// Whether ranks of one stage may take different numbers of micro-batches (hyc-run --batch-shares).
  bool canShare() const { return !model.ofKinds.empty() && layout.dp > 1 && layout.zero <= 1 && layout.gradAccum > 1; }

  /// Deals a step's micro-batches to whoever would end first. Gives how many micro-batches of `slowest` seconds the
  /// last coordinate takes as long for; leaves `shares` empty where they are equal.
  double share(const std::vector<StageCost> &stages, double slowest, std::vector<int64_t> &shares) const {
    std::vector<double> seconds; // of a micro-batch, by coordinate
    for (int64_t coordinate = 0; coordinate < layout.dp; ++coordinate) {
      double most = 0;
      for (size_t stage = 0; stage < stages.size(); ++stage)
        for (size_t kind : rates.kindsAmong(firstRank(stage) + coordinate * layout.tp, layout.tp)) {
          const LayerCost &own = stages[stage].ofKinds[kind];
          most = std::max(most, own.kernels() + waitsOfMicroBatch(stages[stage], stage)); // ZeRO 0 and 1
        }
      seconds.push_back(most);
    }
    using Turn = std::pair<double, int64_t>; // when it would end one more, and which coordinate
    std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> next;
    shares.assign(seconds.size(), 1);
    for (size_t coordinate = 0; coordinate < seconds.size(); ++coordinate)
      next.push({2 * seconds[coordinate], static_cast<int64_t>(coordinate)});
    for (int64_t left = (layout.gradAccum - 1) * layout.dp; left > 0; --left) {
      auto [end, coordinate] = next.top();
      next.pop();
      auto index = static_cast<size_t>(coordinate);
      ++shares[index];
      next.push({static_cast<double>(shares[index] + 1) * seconds[index], coordinate});
    }
    double last = 0;
    for (auto [count, each] : llvm::zip_equal(shares, seconds))
      last = std::max(last, static_cast<double>(count) * each);
    if (llvm::all_equal(shares))
      shares.clear();
    return last / slowest;
  }

  /// Micro-batches that a stage has begun and not ended, in pieces of the stage.
  double inFlight(int64_t stage) const {
    if (layout.schedule == PipelineSchedule::GPipe)
      return micro;
    double pieces = static_cast<double>(layout.virtualStages), pp = static_cast<double>(layout.pp);
    double ahead = pp - static_cast<double>(stage);
    if (pieces == 1)
      return std::min(micro, ahead);
    return std::min(micro, (2 * ahead - 1 + (pieces - 1) * pp) / pieces);
  }

  /// Of what the layout moves off the device the part that is moved, of the stage at hand.
  struct Moved {
    double optimizer = 0, gradients = 0, parameters = 0;
  };

  /// All of it; or of a layout that moves single states as little as has to, cheapest first.
  Moved movedOf(const StageCost &stage, double slots, double share) const {
    Moved all{layout.offloadOptimizer != OffloadPlace::None ? 1.0 : 0.0,
              layout.offloadGradients != OffloadPlace::None ? 1.0 : 0.0,
              layout.offloadParam != OffloadPlace::None ? 1.0 : 0.0};
    if (layout.room <= 0)
      return all;
    Moved part;
    double excess = bytesOf(stage, slots, all, part) / share - layout.room;
    auto move = [&](double Moved::*what, double bytes) {
      if (all.*what == 0 || bytes <= 0)
        return;
      part.*what = std::clamp(excess * share / bytes, 0.0, 1.0);
      excess -= part.*what * bytes / share;
    };
    move(&Moved::optimizer, optimizerOf(stage));
    move(&Moved::gradients, gradientsOf(stage));
    move(&Moved::parameters, parametersOf(stage));
    return part;
  }

  /// What the optimizer keeps may be found not to have to move, and then be right after all.
  bool isRedundant() const {
    bool others = layout.offloadGradients != OffloadPlace::None || layout.offloadParam != OffloadPlace::None;
    return (layout.offloadOptimizer != OffloadPlace::None && mostMoved.optimizer == 0 && others) ||
           (layout.offloadGradients != OffloadPlace::None && mostMoved.gradients == 0) ||
           (layout.offloadParam != OffloadPlace::None && mostMoved.parameters == 0);
  }

  double optimizerOf(const StageCost &stage) const { return stage.sum.optimizer / (layout.zero >= 1 ? dp : 1); }
  double gradientsOf(const StageCost &stage) const { return stage.sum.gradients / (layout.zero >= 2 ? dp : 1); }
  double parametersOf(const StageCost &stage) const { return stage.sum.parameters / (layout.zero >= 3 ? dp : 1); }

  double statesOf(const StageCost &stage, const Moved &moved) const {
    return parametersOf(stage) * (1 - moved.parameters) + gradientsOf(stage) * (1 - moved.gradients) +
           optimizerOf(stage) * (1 - moved.optimizer);
  }

  /// With room for one at a time of what is moved, all of it or a part.
  double bytesOf(const StageCost &stage, double slots, const Moved &room, const Moved &moved) const {
    double saved = layout.offloadActivations == OffloadPlace::None ? slots * stage.sum.saved : stage.sum.saved;
    double passing = stage.most.transient + stage.most.communication + stage.most.workspace + stage.most.other;
    if (layout.zero >= 2 || room.gradients > 0)
      passing += stage.most.largestGradient;
    if (layout.dp > 1 &&
        sentOf(stage.sum.gradients) < stage.sum.gradients) // all of them are rounded before they are sent
      passing += sentOf(stage.sum.gradients);
    if (layout.zero >= 3 || room.parameters > 0)
      passing += stage.most.largestParameter * static_cast<double>(1 + layout.prefetch);
    return statesOf(stage, moved) + saved + model.fixed + passing;
  }

  void addMemory(const StageCost &stage, size_t index, LayoutCost &result) {
    double slots = inFlight(static_cast<int64_t>(index)), share = roomOf(index);
    Moved all{layout.offloadOptimizer != OffloadPlace::None ? 1.0 : 0.0,
              layout.offloadGradients != OffloadPlace::None ? 1.0 : 0.0,
              layout.offloadParam != OffloadPlace::None ? 1.0 : 0.0};
    moved = movedOf(stage, slots, share);
    mostMoved = {std::max(mostMoved.optimizer, moved.optimizer), std::max(mostMoved.gradients, moved.gradients),
                 std::max(mostMoved.parameters, moved.parameters)};
    double saved = layout.offloadActivations == OffloadPlace::None ? slots * stage.sum.saved : 0;
    double least = statesOf(stage, all) + model.fixed + saved;
    result.leastBytes = std::max(result.leastBytes, least / share);
    double bytes = bytesOf(stage, slots, all, moved);
    if (bytes / share > result.bytes) {
      result.bytes = bytes / share;
      result.ownBytes = bytes;
      result.tightest = index;
    }
  }

  /// An exchange over dp, of which each sends the (n − 1)/n of it, twice where all get the sum: as many as its buckets,
  /// each of one tensor at the least. Sums that all get are not cut.
  double overData(double bytes, Traffic traffic, double tensors = 1) const {
    int64_t bucket = traffic == Traffic::AllGather ? *base.gatherBucket : *base.reduceBucket;
    double least = bytes / std::max(1.0, tensors), message = bytes;
    if (traffic != Traffic::AllReduce)
      message = std::min(bytes, std::max(static_cast<double>(bucket) * 4, least));
    double times = traffic == Traffic::AllReduce ? 2 : 1, buckets = bytes > 0 ? bytes / message : 1;
    return buckets *
           rates.exchangeSeconds({{{layout.dp, layout.tp}}}, message, times * message * (dp - 1) / dp, traffic);
  }

  /// Of gradients that all get the sum of: they are rounded for it where --communication-type says so.
  double sentOf(double gradients) const {
    if (layout.zero > 0)
      return gradients;
    const std::string &kept = *base.gradientAccumulationType, &sent = *base.communicationType;
    auto bytes = [](const std::string &type) { return type == "f32" ? 4.0 : 2.0; };
    return sent.empty() ? gradients : gradients * bytes(sent) / bytes(kept);
  }

  /// The same for so many tensors, each by itself.
  double oneByOne(double bytes, double tensors, Traffic traffic) const {
    return tensors > 0 ? tensors * overData(bytes / tensors, traffic) : 0;
  }

  /// Of one micro-batch: for tp, for the next stage, for states that are divided or elsewhere.
  double waitsOfMicroBatch(const StageCost &stage, size_t index) const {
    const LayerCost &sum = stage.sum;
    double seconds = sum.forwardExchanges + sum.backwardExchanges;
    if (layout.pp > 1) {
      double sides = index == 0 || index + 1 == static_cast<size_t>(layout.pp) ? 1 : 2;
      if (layout.virtualStages > 1)
        sides = 2 * static_cast<double>(layout.virtualStages);
      seconds += sides * rates.transferSeconds(layout.tp * layout.dp, stage.most.crossing);
    }
    if (layout.zero >= 2 && layout.dp > 1) {
      // Backward makes gradients and uses parameters: one link carries both.
      double reduced = oneByOne(sum.gradients, sum.tensors, Traffic::ReduceScatter);
      double gathered = oneByOne(sum.divisibleBytes, sum.divisible, Traffic::AllGather);
      bool isAhead = layout.prefetch > 0;
      if (layout.zero == 2)
        seconds += std::max(hidden(reduced, sum.backward), lastReductions(stage));
      else if (isAhead)
        seconds += std::max(hidden(gathered, sum.forward), firstGathers(stage)) +
                   std::max(hidden(gathered + reduced, sum.backward), lastReductions(stage));
      else
        seconds += 2 * gathered + reduced; // a gather waits for the sum before it
    }
    double bytes = 2 * (moved.parameters * parametersOf(stage) + moved.gradients * gradientsOf(stage));
    if (layout.offloadActivations != OffloadPlace::None)
      bytes += 2 * sum.saved;
    return seconds + bytes / rates.host;
  }

  /// Under ZeRO 2 and 3, kernels that add each gradient's part to what earlier micro-batches gave.
  double addingGradients(const StageCost &stage) const {
    if (layout.zero < 2 || layout.dp == 1)
      return 0;
    double bytes = 3 * stage.sum.gradients / dp;
    return std::max(bytes / (rates.memory * rates.memoryShare), stage.sum.tensors * rates.launch);
  }

  /// The gradients that backward makes last have nothing behind them that their reduction could go on beside.
  double lastReductions(const StageCost &stage) const {
    double seconds = 0;
    for (size_t index : stage.firstLayers) {
      const LayerCost &layer = model.layers[index];
      double all = oneByOne(layer.gradients, layer.tensors, Traffic::ReduceScatter);
      double last = layer.gradients > 0 ? all * layer.largestGradient / layer.gradients : 0;
      seconds += std::max(hidden(all, layer.backward), last);
    }
    return seconds;
  }

  /// What the first kernels of a pass read is awaited before there is anything to compute.
  double firstGathers(const StageCost &stage) const {
    double seconds = 0;
    for (size_t index : stage.firstLayers)
      if (const LayerCost &layer = model.layers[index]; layer.divisible > 0)
        seconds += overData(std::min(layer.largestParameter, layer.divisibleBytes), Traffic::AllGather);
    return seconds;
  }

  /// What an exchange takes that goes on while there is work, which it slows down.
  double hidden(double seconds, double work) const {
    return std::max(seconds - work, (1 - rates.overlapShare) * seconds);
  }

  double afterMicroBatches(const StageCost &stage) const {
    double seconds = 0;
    if (layout.dp > 1 && layout.zero < 2)
      seconds += overData(sentOf(stage.sum.gradients), layout.zero == 0 ? Traffic::AllReduce : Traffic::ReduceScatter,
                          stage.sum.tensors);
    if (layout.dp > 1 && layout.zero >= 1)
      seconds += overData(stage.sum.parameters - (layout.zero == 3 ? stage.sum.divisibleBytes : 0), Traffic::AllGather,
                          stage.sum.tensors);
    if (layout.pp > 1 && model.tied.gradients > 0)
      seconds += rates.exchangeSeconds({{{2, (layout.pp - 1) * layout.tp * layout.dp}}}, sentOf(model.tied.gradients),
                                       sentOf(model.tied.gradients));
    // A GPU's updates go both ways at once.
    double ways = *base.target == TargetKind::Cuda ? 1 / kShareOfBothWays : 2;
    return seconds + ways * moved.optimizer * optimizerOf(stage) / rates.host;
  }

  double update(const std::vector<StageCost> &stages) const {
    double seconds = 0;
    for (const StageCost &stage : stages) {
      const LayerCost &sum = stage.sum;
      double divided = sum.updateLaunching + (sum.update - sum.updateLaunching) / dp;
      seconds = std::max(seconds, layout.zero >= 1 ? std::max(divided, sum.updateLaunches) : sum.update);
    }
    return seconds;
  }

  const ModelCost &model;
  const Layout &layout;
  const MachineRates &rates;
  const Plan &base;
  double dp, micro;
  Moved moved;     ///< of the stage that memory was added up of last
  Moved mostMoved; ///< of any
};
} // namespace

/// Of any product, whatever its type and size.
static double highestRate(const MachineRates &rates) {
  double share = rates.productShare.empty() ? 1 : 0;
  for (const SizedValue &point : rates.productShare)
    share = std::max(share, point.value);
  return std::max({rates.products, rates.narrowProducts, rates.fp8Products}) * std::max(share, rates.attentionShare);
}

/// The slowest stage takes no less than the average. All micro-batches but a part of one go through it, and one
/// through all stages, less where each has several pieces (see LayoutCosts::of).
std::optional<double> hyc::leastSecondsOf(double operations, const Layout &layout, int64_t pieces,
                                          const MachineRates &rates) {
  if (!rates.kinds.empty())
    return std::nullopt;
  double all = operations / highestRate(rates);
  double part = 1 / static_cast<double>(pieces), even = all / static_cast<double>(layout.pp);
  return (static_cast<double>(layout.gradAccum) - part) * even + part * all;
}

LayoutCost hyc::costOfLayout(const ModelCost &model, const Layout &layout, const std::vector<StageCost> &stages,
                             const MachineRates &rates, const Plan &base) {
  return LayoutCosts(model, layout, rates, base).of(stages);
}
