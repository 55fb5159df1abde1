// Each step with the reason why it is there, and why there.
#include "hyc/Pipelines/Pipelines.h"

#include "hyc/Transforms/Local/Passes.h"
#include "hyc/Transforms/Model/Passes.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "hyc/Transforms/Rank/Passes.h"
#include "hyc/Transforms/Train/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

static void buildModel(OpPassManager &passes) {
  // As exporters leave it: the two products of a rotation have one layout as long as nobody moved either.
  passes.addPass(createRaiseRope());
  // Layout first: the patterns below look at dimensions, which exporters merge and transpose at will.
  passes.addPass(createAbsorbLayout());
  passes.addPass(createRaiseGelu());
  passes.addPass(createRaiseLayerNorm());
  // After those of layers, since a centred value has a mean square, too.
  passes.addPass(createRaiseRmsNorm());
  passes.addPass(createRaiseAttention());
  // Again, since attention's result has one order and its reader may have wanted another.
  passes.addPass(createAbsorbLayout());
  // Last: only what attention reads tells into how many heads a weight falls.
  passes.addPass(createFactorParameters());
  // At the end, over what has been recognised: the same model from two front ends is the same text.
  passes.addPass(createNormalizeModel());
}

/// After differentiation, whose gradient ops have sensitivities of their own; before the optimizer, which has to know
/// of copies and of the loss scale.
static void buildPrecision(OpPassManager &passes, const PrecisionOptions &options, bool evaluates,
                           AttachOptimizerOptions &optimizer) {
  ConvertPrecisionOptions precision;
  precision.precision = options.compute == "fp8" ? "bf16" : options.compute;
  precision.gradientType = options.gradientAccumulation;
  passes.addPass(createConvertPrecision(precision));
  // After conversion: what is quantised are values of the compute type. An evaluation has no steps to measure, so it
  // computes in bf16.
  if (options.compute == "fp8" && !evaluates)
    passes.addPass(createQuantizeProducts());
  if (options.compute != "fp16" || evaluates)
    return; // where there is no backward, nothing can underflow in it
  const LossScaling &scaling = options.lossScaling;
  const bool isDynamic = scaling.lossScale == 0;
  ScaleLossOptions loss;
  loss.initialScale = isDynamic ? std::ldexp(1.0, static_cast<int>(scaling.initialScalePower)) : scaling.lossScale;
  passes.addPass(createScaleLoss(loss));
  optimizer.lossScaleWindow = isDynamic ? scaling.window : 0;
  optimizer.hysteresis = scaling.hysteresis;
  optimizer.consecutiveHysteresis = scaling.consecutiveHysteresis;
  optimizer.minLossScale = scaling.minLossScale;
}

static void buildTrain(OpPassManager &passes, const PipelineOptions &options) {
  AttachLossOptions loss;
  loss.loss = options.loss;
  loss.logits = options.logits;
  loss.labels = options.labels;
  loss.accuracy = options.evaluates;
  passes.addPass(createAttachLoss(loss));
  FreezeParametersOptions frozen;
  llvm::append_range(frozen.train, options.train);
  llvm::append_range(frozen.freeze, options.freeze);
  passes.addPass(createFreezeParameters(frozen));
  if (options.evaluates)
    passes.addPass(createEnterEvaluation());
  if (!options.dropout || options.evaluates)
    passes.addPass(createRemoveDropout());
  // Before forms, so that attention draws under one id, whole or decomposed; both before differentiation, which builds
  // the gradient of what is there.
  passes.addPass(createKeyRandomOps());
  passes.addPass(createApplyForms());

  // No CSE before this: it would merge the reads of a tied parameter, and with them the gradients of stages far apart.
  // And no canonicalization after it: folding shares constants between forward and backward, which stage cuts then have
  // to undo.
  passes.addPass(createDifferentiate());

  AttachOptimizerOptions optimizer;
  buildPrecision(passes, options.precision, options.evaluates, optimizer);
  optimizer.optimizer = options.optimizer;
  optimizer.beta1 = options.beta1;
  optimizer.beta2 = options.beta2;
  optimizer.epsilon = options.epsilon;
  optimizer.correctBias = options.correctBias;
  optimizer.cycleMomentum = options.cycleMomentum;
  optimizer.leastTrust = options.leastTrust;
  optimizer.mostTrust = options.mostTrust;
  optimizer.weightDecay = options.weightDecay;
  optimizer.momentum = options.momentum;
  optimizer.clipGradNorm = options.clipGradNorm;
  llvm::append_range(optimizer.noDecay, options.noDecay);
  passes.addPass(createAttachOptimizer(optimizer));
}

static void buildPlan(OpPassManager &passes, const PipelineOptions &options) {
  CreateMeshOptions mesh;
  mesh.dp = options.dp;
  mesh.tp = options.tp;
  mesh.pp = options.pp;
  mesh.virtualStages = options.virtualStages;
  passes.addPass(createCreateMesh(mesh));
  // Seeds first: propagation only carries on what parameters and inputs have, from a plan file or from structure.
  SeedShardingsOptions seeds;
  seeds.sequenceParallel = options.sequenceParallel;
  passes.addPass(createSeedShardings(seeds));
  passes.addPass(createPropagateShardings());
  // After propagation, which gives states the split of their parameter: flat shards are cut from what that leaves.
  ShardStatesOptions states;
  states.zero = options.zero;
  states.gradientReduction = options.gradientReduction;
  states.persistenceThreshold = options.persistenceThreshold;
  states.prefetch = options.prefetch;
  passes.addPass(createShardStates(states));
  PlaceStatesOptions places;
  places.optimizer = options.offloadOptimizer;
  places.parameters = options.offloadParam;
  places.gradients = options.offloadGradients;
  places.ratio = options.offloadRatio;
  places.maxInHost = options.maxInHost;
  passes.addPass(createPlaceStates(places));
  // Stages last of the properties: states follow their parameters, gradients the ops that make them.
  AssignStagesOptions stages;
  stages.method = options.partitionMethod;
  llvm::append_range(stages.cuts, options.cuts);
  passes.addPass(createAssignStages(stages));
  BuildScheduleOptions schedule;
  schedule.schedule = options.schedule;
  schedule.microBatches = options.microBatches;
  passes.addPass(createBuildSchedule(schedule));
  // After the schedule, which tells how many micro-batches' values are alive at once.
  AssignLifetimesOptions lifetimes;
  lifetimes.mode = options.recompute;
  lifetimes.partitionActivations = options.partitionActivations;
  lifetimes.offload = options.offloadActivations != "none";
  llvm::append_range(lifetimes.budgets, options.activationBudgets);
  passes.addPass(createAssignLifetimes(lifetimes));
}

static void buildLocal(OpPassManager &passes, const PipelineOptions &options) {
  // Before the cut: an exchange belongs to the stage of the op that asks for it.
  passes.addPass(createPartition());
  // After partitioning, so that exchanges are repeated too; before the cut, which saves what is still wanted.
  passes.addPass(createRecomputeActivations());
  passes.addPass(createOffloadActivations());
  passes.addPass(createCutStages());
  // After the cut, which tells which stages hold a gradient.
  ReduceGradientsOptions gradients;
  gradients.communicationType = options.precision.communication;
  passes.addPass(createReduceGradients(gradients));
  passes.addPass(createDistributeUpdate());
  // Last: what is under way at once is a question of a stage's functions.
  PrefetchParametersOptions prefetch;
  prefetch.maxLive = options.maxLiveParameters;
  prefetch.bucket = options.prefetchBucket;
  passes.addPass(createPrefetchParameters(prefetch));
  DelayWaitsOptions waits;
  waits.inFlight = options.reductionsInFlight;
  passes.addPass(createDelayWaits(waits));
  // Last: what moves is what the functions then use.
  MoveStatesOptions moves;
  moves.subGroup = options.subGroup;
  moves.readAhead = options.readAhead;
  moves.writeBehind = options.writeBehind;
  passes.addPass(createMoveStates(moves));
  OverlapMovesOptions overlap;
  overlap.distance = options.offloadPrefetch;
  passes.addPass(createOverlapMoves(overlap));
}

void hyc::buildForwardProgram(OpPassManager &passes) { passes.addPass(createMakeForwardProgram()); }

void hyc::buildPlacement(OpPassManager &passes, const PipelineOptions &options) {
  // Before CSE and clusters, which take in the pieces.
  passes.addPass(createDecomposeComposites());
  // Functions are cut and final by now, so equal reads, constants and broadcasts may become one.
  passes.addPass(mlir::createCSEPass());
  // Before clusters take in the additions.
  passes.addPass(createFuseBias());
  passes.addPass(createFormClusters());
  passes.addPass(createLowerToRank());
  // Before placement, which then sees fewer temporaries.
  passes.addPass(createReuseOperands());
  JobAccount *account = options.account;
  PlaceBuffersOptions placement;
  placement.threads = options.threads;
  placement.poison = options.poison;
  passes.addPass(createPlaceBuffers(placement, [account](StageAccount stage) {
    if (account)
      account->stages.push_back(std::move(stage));
  }));
}

void hyc::buildAccount(OpPassManager &passes, const PipelineOptions &options) {
  buildPlacement(passes, options);
  // After placement: what is adjacent, and in what layers differ, are questions of addresses.
  passes.addPass(createCoalesceReductions());
  BucketExchangesOptions buckets;
  buckets.reduceElements = options.reduceBucket;
  buckets.gatherElements = options.gatherBucket;
  passes.addPass(createBucketExchanges(buckets));
}

static void buildRank(OpPassManager &passes, const PipelineOptions &options) {
  buildAccount(passes, options);
  if (options.checkFinite)
    passes.addPass(createCheckFinite());
  passes.addPass(createShareLayers());
}

llvm::StringRef hyc::getName(Phase phase) {
  constexpr llvm::StringLiteral names[] = {"model", "train", "plan", "local", "rank"};
  return names[static_cast<size_t>(phase)];
}

void hyc::buildPhase(Phase phase, OpPassManager &passes, const PipelineOptions &options) {
  switch (phase) {
  case Phase::Model:
    return buildModel(passes);
  case Phase::Train:
    return buildTrain(passes, options);
  case Phase::Plan:
    return buildPlan(passes, options);
  case Phase::Local:
    return buildLocal(passes, options);
  case Phase::Rank:
    return buildRank(passes, options);
  }
}

void hyc::buildVerification(Phase phase, OpPassManager &passes) {
  switch (phase) {
  case Phase::Model:
    return passes.addPass(createVerifyModel());
  case Phase::Train:
    return passes.addPass(createVerifyTrain());
  case Phase::Plan:
    return passes.addPass(createVerifyPlan());
  case Phase::Local:
    passes.addPass(createVerifyLocal());
    // Only where functions agree with their neighbours does it make sense to step them together.
    return passes.addPass(createCheckCommunication());
  case Phase::Rank:
    return passes.addPass(createVerifyRank());
  }
}

void hyc::registerPipelines() {
  for (Phase phase : kPhases) {
    std::string name = ("hyc-" + getName(phase) + "-phase").str();
    std::string summary = ("All passes of phase " + getName(phase) + " under their defaults, and its check").str();
    PassPipelineRegistration<>(name, summary, [phase](OpPassManager &passes) {
      buildPhase(phase, passes, PipelineOptions());
      buildVerification(phase, passes);
    });
  }
}
