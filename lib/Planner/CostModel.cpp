// Sums over layers. docs/planning.md has the formulas, and what they leave out.
#include "hyc/Planner/CostModel.h"

#include "Probe.h"
#include "hyc/Pipelines/Pipelines.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace hyc;

class CostModel::Impl {
public:
  Impl(const ModelSource &source, const Plan &base, const MachineRates &rates)
      : source(source), base(base), rates(rates) {}

  LogicalResult open() {
    Trained *first = trainedFor(0);
    if (!first)
      return failure();
    layers = first->layers;
    auto func = first->module->lookupSymbol<FuncOp>("microbatch");
    batch = cast<RankedTensorType>(func.getArgument(0).getType()).getDimSize(0);
    ScopedDiagnosticHandler silence(first->module->getContext(), [](Diagnostic &) { return success(); });
    takesAnyBatch = trainedFor(2 * batch) != nullptr;
    return success();
  }

  const ModelCost *costOfModel(const Layout &layout) {
    if (!takesAnyBatch) // what one rank has of it follows from dp
      return layout.microBatch * layout.dp == batch ? probed(layout) : nullptr;
    // Probed are 1, 2, 4, 16, 64, … samples; the share that products reach grows little beyond a few.
    Layout low = layout;
    low.dp = 1;
    low.microBatch = 1;
    auto next = [](int64_t size) { return size < 4 ? 2 * size : 4 * size; };
    while (next(low.microBatch) <= layout.microBatch)
      low.microBatch = next(low.microBatch);
    if (low.microBatch == layout.microBatch)
      return probed(low);
    auto [found, isNew] = between.try_emplace(keyOf(layout, 1));
    if (isNew) {
      Layout high = low;
      high.microBatch = next(low.microBatch);
      const ModelCost *a = probed(low), *b = probed(high);
      if (a && b)
        found->second = interpolate(*a, *b,
                                    static_cast<double>(layout.microBatch - low.microBatch) /
                                        static_cast<double>(high.microBatch - low.microBatch));
    }
    return found->second ? &*found->second : nullptr;
  }

  struct Trained {
    OwningOpRef<ModuleOp> module;
    ModelLayers layers;
  };
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, std::string>;

  static Key keyOf(const Layout &layout, int64_t dp) {
    return {layout.tp, dp, layout.microBatch, layout.sequenceParallel, layout.recompute};
  }

  const ModelCost *probed(const Layout &layout) {
    auto [found, isNew] = costs.try_emplace(keyOf(layout, layout.dp));
    if (isNew)
      if (Trained *model = trainedFor(layout.microBatch * layout.dp)) {
        ++probes;
        found->second = probe(*model->module, model->layers, base, layout, rates);
      }
    return found->second ? &*found->second : nullptr;
  }

  /// The model for so many samples, 0 for those of its own; null where it has others.
  Trained *trainedFor(int64_t samples) {
    auto [found, isNew] = models.try_emplace(samples);
    if (!isNew)
      return found->second.get();
    FailureOr<OwningOpRef<ModuleOp>> module = source(samples);
    if (failed(module))
      return nullptr;
    FailureOr<ModelLayers> reduced = reduceAndTrain(**module, base);
    if (failed(reduced) || (layers.count > 0 && reduced->count != layers.count))
      return nullptr;
    found->second = std::make_unique<Trained>(Trained{std::move(*module), std::move(*reduced)});
    return found->second.get();
  }

  static ModelCost interpolate(const ModelCost &a, const ModelCost &b, double part);

  ModelSource source;
  Plan base;
  MachineRates rates;
  ModelLayers layers;
  int64_t batch = 0;
  bool takesAnyBatch = false;
  size_t probes = 0;
  std::map<int64_t, std::unique_ptr<Trained>> models;
  std::map<Key, std::optional<ModelCost>> costs, between;
};

static constexpr double LayerCost::*kFigures[] = {
    &LayerCost::forward, &LayerCost::backward,   &LayerCost::forwardExchanges, &LayerCost::backwardExchanges,
    &LayerCost::update,  &LayerCost::parameters, &LayerCost::gradients,        &LayerCost::optimizer,
    &LayerCost::saved,   &LayerCost::transient,  &LayerCost::communication,    &LayerCost::workspace,
    &LayerCost::other,   &LayerCost::crossing,   &LayerCost::largestGradient,  &LayerCost::largestParameter,
    &LayerCost::tensors, &LayerCost::divisible,  &LayerCost::divisibleBytes};

ModelCost CostModel::Impl::interpolate(const ModelCost &a, const ModelCost &b, double part) {
  ModelCost result = a;
  for (size_t layer = 0; layer < result.layers.size(); ++layer)
    for (double LayerCost::*figure : kFigures)
      result.layers[layer].*figure += part * (b.layers[layer].*figure - a.layers[layer].*figure);
  return result;
}

CostModel::CostModel(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
CostModel::~CostModel() = default;

std::unique_ptr<CostModel> CostModel::create(const ModelSource &source, const Plan &base, const MachineRates &rates) {
  auto impl = std::make_unique<Impl>(source, base, rates);
  if (failed(impl->open()))
    return nullptr;
  return std::unique_ptr<CostModel>(new CostModel(std::move(impl)));
}

int64_t CostModel::fixedBatch() const { return impl->takesAnyBatch ? 0 : impl->batch; }
size_t CostModel::countLayers() const { return impl->layers.count; }
const std::string &CostModel::opOfLayer(size_t layer) const { return impl->layers.ops[layer]; }
size_t CostModel::countProbes() const { return impl->probes; }
const ModelCost *CostModel::costOfModel(const Layout &layout) { return impl->costOfModel(layout); }

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

/// Chunks that hold no more than `most` seconds each, as few as can be, filled from the last one on: the first stages
/// have most micro-batches in flight, and least room.
static std::vector<size_t> fill(const std::vector<LayerCost> &layers, double most) {
  std::vector<size_t> ends{layers.size()};
  double seconds = 0;
  for (size_t layer = layers.size(); layer-- > 0;) {
    if (seconds + layers[layer].micro() > most && layer + 1 < ends.back()) {
      ends.push_back(layer + 1);
      seconds = 0;
    }
    seconds += layers[layer].micro();
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

std::vector<size_t> CostModel::cut(const ModelCost &model, int64_t chunks) const {
  size_t wanted = static_cast<size_t>(chunks), count = model.layers.size();
  double low = 0, high = 0;
  for (const LayerCost &layer : model.layers) {
    low = std::max(low, layer.micro());
    high += layer.micro();
  }
  for (int round = 0; round < 40 && low < high; ++round) {
    double middle = (low + high) / 2;
    (fill(model.layers, middle).size() <= wanted ? high : low) = middle;
  }
  std::vector<size_t> ends = fill(model.layers, high * (1 + 1e-9));
  // Fewer chunks than wanted: the longest fall in two, the first of them first.
  while (ends.size() < wanted && ends.size() < count) {
    size_t longest = 0, most = 0;
    for (size_t chunk = 0, begin = 0; chunk < ends.size(); begin = ends[chunk++])
      if (ends[chunk] - begin > most)
        most = ends[chunk] - begin, longest = chunk;
    size_t begin = longest == 0 ? 0 : ends[longest - 1];
    ends.insert(ends.begin() + static_cast<std::ptrdiff_t>(longest), begin + most / 2);
  }
  return ends;
}

//===----------------------------------------------------------------------===//
// A layout
//===----------------------------------------------------------------------===//

namespace {
/// One stage: sums over its layers, and the largest of what they have one after the other.
struct StageCost {
  LayerCost sum, most;
  bool holdsAll = false;
};

class LayoutCosts {
public:
  LayoutCosts(const ModelCost &model, const Layout &layout, const MachineRates &rates, const Plan &base)
      : model(model), layout(layout), rates(rates), base(base), dp(static_cast<double>(layout.dp)),
        micro(static_cast<double>(layout.gradAccum)) {}

  LayoutCost of(const std::vector<size_t> &ends) {
    std::vector<StageCost> stages = gather(ends);
    LayoutCost result;
    double slowest = 0, all = 0, kernels = 0, waits = 0, after = 0;
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      addMemory(stages[stage], inFlight(static_cast<int64_t>(stage)), result);
      double computed = stages[stage].sum.forward + stages[stage].sum.backward;
      double waited = waitsOfMicroBatch(stages[stage], stage);
      all += computed + waited;
      if (computed + waited > slowest)
        slowest = computed + waited, kernels = computed, waits = waited;
      after = std::max(after, afterMicroBatches(stages[stage]));
    }
    // Filling and draining takes a micro-batch's way through all stages, less where stages have several pieces.
    result.idle = (all - slowest) / static_cast<double>(layout.virtualStages);
    result.computation = micro * kernels + update(stages);
    result.exposed = micro * waits + after;
    result.seconds = result.idle + result.computation + result.exposed;
    return result;
  }

private:
  std::vector<StageCost> gather(const std::vector<size_t> &ends) const {
    std::vector<StageCost> stages(static_cast<size_t>(layout.pp));
    for (size_t chunk = 0, begin = 0; chunk < ends.size(); begin = ends[chunk++]) {
      StageCost &stage = stages[chunk % stages.size()];
      for (size_t layer = begin; layer < ends[chunk]; ++layer)
        for (double LayerCost::*figure : kFigures) {
          stage.sum.*figure += model.layers[layer].*figure;
          stage.most.*figure = std::max(stage.most.*figure, model.layers[layer].*figure);
        }
      stage.holdsAll = layout.pp == 1;
    }
    if (layout.pp == 1)
      for (auto bytes : {&LayerCost::parameters, &LayerCost::gradients, &LayerCost::optimizer})
        stages[0].sum.*bytes -= model.tied.*bytes;
    return stages;
  }

  /// Micro-batches that a stage has begun and not ended, in pieces of the stage.
  double inFlight(int64_t stage) const {
    if (layout.schedule == "gpipe")
      return micro;
    double pieces = static_cast<double>(layout.virtualStages), pp = static_cast<double>(layout.pp);
    double ahead = pp - static_cast<double>(stage);
    if (pieces == 1)
      return std::min(micro, ahead);
    return std::min(micro, (2 * ahead - 1 + (pieces - 1) * pp) / pieces);
  }

  void addMemory(const StageCost &stage, double slots, LayoutCost &result) const {
    const LayerCost &sum = stage.sum;
    double states = 0, saved = layout.offloadActivations == "none" ? slots * sum.saved : sum.saved;
    if (layout.offloadParam == "none")
      states += sum.parameters / (layout.zero >= 3 ? dp : 1);
    if (layout.offloadGradients == "none")
      states += sum.gradients / (layout.zero >= 2 ? dp : 1);
    if (layout.offloadOptimizer == "none")
      states += sum.optimizer / (layout.zero >= 1 ? dp : 1);
    double least = states + model.fixed + (layout.offloadActivations == "none" ? saved : 0);
    double passing = stage.most.transient + stage.most.communication + stage.most.workspace + stage.most.other;
    if (layout.zero >= 2 || layout.offloadGradients != "none")
      passing += stage.most.largestGradient;
    if (layout.zero >= 3 || layout.offloadParam != "none")
      passing += stage.most.largestParameter * static_cast<double>(1 + layout.prefetch);
    result.leastBytes = std::max(result.leastBytes, least);
    result.bytes = std::max(result.bytes, states + saved + model.fixed + passing);
  }

  /// An exchange over dp, of which each sends so many times the (n − 1)/n of it.
  double overData(double bytes, double times) const {
    double message = std::min(bytes, static_cast<double>(*base.reduceBucket) * 4);
    return rates.exchangeSeconds({{{layout.dp, layout.tp}}}, message, times * bytes * (dp - 1) / dp);
  }

  /// The same for so many tensors, each by itself.
  double oneByOne(double bytes, double tensors) const {
    return tensors > 0 ? tensors * overData(bytes / tensors, 1) : 0;
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
      double reduced = oneByOne(sum.gradients, sum.tensors), gathered = oneByOne(sum.divisibleBytes, sum.divisible);
      bool isAhead = layout.prefetch > 0;
      if (layout.zero == 2)
        seconds += hidden(reduced, sum.backward);
      else if (isAhead)
        seconds += hidden(gathered, sum.forward) + hidden(gathered + reduced, sum.backward);
      else
        seconds += 2 * gathered + reduced; // a gather waits for the sum before it
    }
    double moved = 0;
    if (layout.offloadParam != "none")
      moved += 2 * sum.parameters / (layout.zero >= 3 ? dp : 1);
    if (layout.offloadGradients != "none")
      moved += 2 * sum.gradients / (layout.zero >= 2 ? dp : 1);
    if (layout.offloadActivations != "none")
      moved += 2 * sum.saved;
    return seconds + moved / rates.host;
  }

  /// What is left of an exchange that goes on while there is work.
  static double hidden(double seconds, double work) { return std::max(0.0, seconds - work); }

  double afterMicroBatches(const StageCost &stage) const {
    double seconds = 0, owners = layout.zero >= 1 ? dp : 1;
    if (layout.dp > 1 && layout.zero < 2)
      seconds += overData(stage.sum.gradients, layout.zero == 0 ? 2 : 1);
    if (layout.dp > 1 && layout.zero >= 1)
      seconds += overData(stage.sum.parameters - (layout.zero == 3 ? stage.sum.divisibleBytes : 0), 1);
    if (layout.pp > 1 && model.tied.gradients > 0)
      seconds += rates.exchangeSeconds({{{2, (layout.pp - 1) * layout.tp * layout.dp}}}, model.tied.gradients,
                                       model.tied.gradients);
    if (layout.offloadOptimizer != "none")
      seconds += 2 * stage.sum.optimizer / owners / rates.host;
    return seconds;
  }

  double update(const std::vector<StageCost> &stages) const {
    double seconds = 0;
    for (const StageCost &stage : stages)
      seconds = std::max(seconds, stage.sum.update / (layout.zero >= 1 ? dp : 1));
    return seconds;
  }

  const ModelCost &model;
  const Layout &layout;
  const MachineRates &rates;
  const Plan &base;
  double dp, micro;
};
} // namespace

LayoutCost CostModel::costOf(const ModelCost &model, const Layout &layout, const std::vector<size_t> &ends) const {
  return LayoutCosts(model, layout, impl->rates, impl->base).of(ends);
}
