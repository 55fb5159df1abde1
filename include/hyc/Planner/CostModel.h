// CostModel: what any layout of a model costs, from what each kind of layer costs under one way of splitting it.
//
// A model of equal layers is cut down to two of them, and each layer made a pipeline stage of its own: the programs of
// such a probe say to the byte and to the clock's tick what one layer keeps, computes and exchanges on one rank. A
// layout's cost is then a sum over the layers of its stages, with as many micro-batches in flight as the schedule has,
// and with what data parallelism exchanges and divides. Probes are made for each tp, micro-batch, recomputation and way
// of splitting sequences when they are first asked for; between two micro-batches all is linear.
//
// The surprise: two figures of memory. `bytes` is the estimate, and `leastBytes` what states and saved activations
// alone take, by which a search may pass a layout over; tests hold it below exact accounts.
#ifndef HYC_PLANNER_COSTMODEL_H
#define HYC_PLANNER_COSTMODEL_H

#include "hyc/Analysis/MachineRates.h"
#include "hyc/Planner/Layout.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace hyc {

/// Reads the model for so many samples at once; fails where it has another batch.
using ModelSource = std::function<mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>(int64_t batch)>;

/// Of one layer, on one rank: seconds of one micro-batch, and bytes.
struct LayerCost {
  double forward = 0, backward = 0;                   ///< kernels
  double forwardExchanges = 0, backwardExchanges = 0; ///< that they wait for
  double forwardStarts = 0, backwardStarts = 0;       ///< of the thread that starts both, beside them
  double update = 0;                                  ///< of all its states
  double updateLaunching = 0, updateLaunches = 0;     ///< of that, kernels that launch decides; launches of all
  double operations = 0;                              ///< floating-point, of forward and backward: linear in samples
  double parameters = 0, gradients = 0, optimizer = 0;
  double saved = 0;     ///< of one micro-batch until its backward
  double transient = 0; ///< activations beside those
  double communication = 0, workspace = 0, other = 0;
  double crossing = 0; ///< to the next layer
  double largestGradient = 0, largestParameter = 0;
  double tensors = 0;                       ///< that are trained, whose gradients ZeRO 2 sums one by one
  double divisible = 0, divisibleBytes = 0; ///< parameters that ZeRO 3 divides and gathers one by one

  double micro() const { return kernels() + forwardExchanges + backwardExchanges; }
  /// With what the device waits for the thread that starts them: it runs ahead through layers, not from one pass to
  /// the other, between which stages meet.
  double kernels() const {
    return std::max(forward, forwardStarts - forwardExchanges) + std::max(backward, backwardStarts - backwardExchanges);
  }
};

/// Every layer of the model under one way of splitting it.
struct ModelCost {
  std::vector<LayerCost> layers;
  std::vector<std::vector<LayerCost>> ofKinds; ///< on each kind of ranks that the machine has; none: all are alike
  LayerCost tied;                              ///< of states that two layers have: their bytes, once
  double fixed = 0;                            ///< of a rank
};

/// One stage: sums over its layers, and the largest of what they have one after the other.
struct StageCost {
  LayerCost sum, most;
  std::vector<size_t> firstLayers; ///< of each chunk
  std::vector<LayerCost> ofKinds;  ///< the sum on each kind of ranks that is among the stage's
  std::vector<size_t> kinds;
  bool isLikeLast = false; ///< the same as of the stage before
};

/// Of the stage that needs most of it.
struct LayoutCost {
  double seconds = 0, computation = 0, exposed = 0, idle = 0;
  double bytes = 0, leastBytes = 0; ///< where ranks differ in memory: as if all had what the machine says
  double ownBytes = 0;              ///< of `bytes` what it is on the ranks that it is of, and their stage
  size_t tightest = 0;
  /// Micro-batches of a step by coordinate of dp, where equal shares would wait for the slowest; else empty.
  std::vector<int64_t> shares = {};
  /// Of a layout that moves single states (Layout::room): it moves none of some kind that it may move, so that it is
  /// another layout by another name.
  bool isRedundant = false;
};

class CostModel {
public:
  /// `base`: what the layouts have in common. Fails, after an error, where the model cannot be read or trained.
  static std::unique_ptr<CostModel> create(const ModelSource &source, const Plan &base, const MachineRates &rates);
  ~CostModel();

  /// The batch that the model was exported with; 0: it takes any.
  int64_t fixedBatch() const;
  size_t countLayers() const;
  /// An op of the layer, by which a plan cuts before it.
  const std::string &opOfLayer(size_t layer) const;

  /// Nothing where no rank can have its part of the model.
  const ModelCost *costOfModel(const Layout &layout);
  /// Ends of the chunks of layers that a layout's stages compute, so that the slowest takes least time: where ranks are
  /// not equally fast, slow ones get fewer. As many as the layout has stages and pieces, or fewer.
  std::vector<size_t> cut(const ModelCost &model, const Layout &layout) const;
  /// What stages have that are cut so: the same for every ZeRO stage, offload and schedule.
  std::vector<StageCost> sum(const ModelCost &model, const Layout &layout, const std::vector<size_t> &ends) const;
  LayoutCost costOf(const ModelCost &model, const Layout &layout, const std::vector<StageCost> &stages) const;
  LayoutCost costOf(const ModelCost &model, const Layout &layout, const std::vector<size_t> &ends) const {
    return costOf(model, layout, sum(model, layout, ends));
  }

  /// Probes keep what they planned from now on, and can be timed again on another machine: a plan is long, a clock
  /// short.
  void keepPrograms();
  /// Only after keepPrograms, and before it no probe; what costOfModel gave is the new machine's, or gone.
  void setRates(const MachineRates &rates);

  /// Seconds that no layout of a model with so many operations a micro-batch, summed over layers on one rank each,
  /// goes below: its operations at the machine's highest rate, stages even, in up to `pieces` pieces. Nothing where
  /// ranks are of several kinds, which may share a batch unevenly.
  std::optional<double> leastSeconds(double operations, const Layout &layout, int64_t pieces) const;

  size_t countProbes() const;

private:
  class Impl;
  explicit CostModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace hyc

#endif // HYC_PLANNER_COSTMODEL_H
