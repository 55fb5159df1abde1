// Probes as they are asked for, and between them lines.
#include "hyc/Planner/CostModel.h"

#include "LayoutCosts.h"
#include "Probe.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Pipelines/Pipelines.h"

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
    auto func = first->module->lookupSymbol<FuncOp>(kMicrobatch);
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
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, Choice<RecomputeMode>>;

  static Key keyOf(const Layout &layout, int64_t dp) {
    return {layout.tp, dp, layout.microBatch, layout.sequenceParallel, layout.recompute};
  }

  const ModelCost *probed(const Layout &layout) {
    auto [found, isNew] = costs.try_emplace(keyOf(layout, layout.dp));
    if (isNew)
      if (Trained *model = trainedFor(layout.microBatch * layout.dp)) {
        ++probes;
        if (ModuleOp module = plannedFor(*model, layout))
          found->second = probe(module, model->layers, base, layout, rates);
        if (found->second && !keepsPrograms)
          found->second->programs = nullptr;
      }
    return found->second ? &found->second->cost : nullptr;
  }

  /// What probes of several ways of recomputation begin with; null where there is nothing. Those of one split are kept:
  /// a search goes on to the next when it has done all with one.
  ModuleOp plannedFor(Trained &model, const Layout &layout) {
    if (auto split = std::pair(layout.tp, layout.sequenceParallel); split != plannedSplit) {
      planned.clear();
      plannedSplit = split;
    }
    auto [found, isNew] = planned.try_emplace({layout.dp, layout.microBatch});
    if (isNew)
      found->second = planForProbes(*model.module, model.layers, base, layout);
    return found->second ? *found->second : ModuleOp();
  }

  void setRates(const MachineRates &changed) {
    rates = changed;
    between.clear();
    for (auto &[key, probed] : costs)
      if (probed)
        timeProbe(layers, rates, *probed);
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
  std::pair<int64_t, bool> plannedSplit; ///< of what is `planned`: tp, and whether the sequence is split over it
  std::map<std::pair<int64_t, int64_t>, OwningOpRef<ModuleOp>> planned; ///< by dp and micro-batch
  bool keepsPrograms = false;
  std::map<Key, std::optional<Probed>> costs;
  std::map<Key, std::optional<ModelCost>> between;
};

ModelCost CostModel::Impl::interpolate(const ModelCost &a, const ModelCost &b, double part) {
  ModelCost result = a;
  for (size_t layer = 0; layer < result.layers.size(); ++layer)
    for (double LayerCost::*figure : kFigures) {
      result.layers[layer].*figure += part * (b.layers[layer].*figure - a.layers[layer].*figure);
      for (size_t kind = 0; kind < result.ofKinds.size(); ++kind)
        result.ofKinds[kind][layer].*figure += part * (b.ofKinds[kind][layer].*figure - a.ofKinds[kind][layer].*figure);
    }
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

void CostModel::keepPrograms() { impl->keepsPrograms = true; }
void CostModel::setRates(const MachineRates &rates) { impl->setRates(rates); }

int64_t CostModel::fixedBatch() const { return impl->takesAnyBatch ? 0 : impl->batch; }
size_t CostModel::countLayers() const { return impl->layers.count; }
const std::string &CostModel::opOfLayer(size_t layer) const { return impl->layers.ops[layer]; }
size_t CostModel::countProbes() const { return impl->probes; }
const ModelCost *CostModel::costOfModel(const Layout &layout) { return impl->costOfModel(layout); }

std::vector<size_t> CostModel::cut(const ModelCost &model, const Layout &layout) const {
  return cutLayers(model, layout, impl->rates);
}
std::vector<StageCost> CostModel::sum(const ModelCost &model, const Layout &layout,
                                      const std::vector<size_t> &ends) const {
  return sumStages(model, layout, ends, impl->rates);
}
std::optional<double> CostModel::leastSeconds(double operations, const Layout &layout, int64_t pieces) const {
  return leastSecondsOf(operations, layout, pieces, impl->rates);
}
LayoutCost CostModel::costOf(const ModelCost &model, const Layout &layout, const std::vector<StageCost> &stages) const {
  return costOfLayout(model, layout, stages, impl->rates, impl->base);
}
