// Each step with the reason why it is there, and why there.
#include "hyc/Pipelines/Pipelines.h"

#include "InnerModules.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Cuts.h"
#include "hyc/Plan/AdapterSettings.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Local/Passes.h"
#include "hyc/Transforms/Model/Passes.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "hyc/Transforms/Rank/Passes.h"
#include "hyc/Transforms/Train/LossScale.h"
#include "hyc/Transforms/Train/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

/// Adds the same passes for all modules inside the one that trains: what evaluates, and further sizes.
static void buildAll(OpPassManager &passes, std::function<void(OpPassManager &)> build) {
  build(passes);
  passes.addPass(createRunInside(InnerModules::All, [build](OpPassManager &inside, ModuleOp) { build(inside); }));
}

/// Adds the same passes for the module that evaluates, inside the one that trains, where there is one.
static void buildBoth(OpPassManager &passes, std::function<void(OpPassManager &)> build) {
  build(passes);
  passes.addPass(
      createRunInside(InnerModules::Evaluation, [build](OpPassManager &inside, ModuleOp) { build(inside); }));
}

static void buildModel(OpPassManager &passes, const Plan &plan) {
  // As exporters leave it, before anything is moved from one step to another; and before all that looks at each op.
  passes.addPass(createRollSteps());
  // As exporters leave it: the two products of a rotation have one layout as long as nobody moved either.
  passes.addPass(createRaiseRope());
  // Layout first: the patterns below look at dimensions, which exporters merge and transpose at will.
  passes.addPass(createAbsorbLayout());
  // Before the experts' own functions are looked for, which stand between two of their products.
  passes.addPass(createRaiseExperts());
  passes.addPass(createRaiseGelu());
  passes.addPass(createRaiseLayerNorm());
  // After those of layers, since a centred value has a mean square, too.
  passes.addPass(createRaiseRmsNorm());
  passes.addPass(createRaiseAttention());
  // Again, since attention's result has one order and its reader may have wanted another.
  passes.addPass(createAbsorbLayout());
  // Last: only what attention reads tells into how many heads a weight falls.
  passes.addPass(createFactorParameters());
  // Once attention is whole: what else joins tokens is refused.
  if (*plan.separateDocuments)
    passes.addPass(createSeparateDocuments());
  // At the end, over what has been recognised: the same model from two front ends is the same text.
  passes.addPass(createNormalizeModel());
}

/// After differentiation, whose gradient ops have sensitivities of their own; before the optimizer, which has to know
/// of copies and of the loss scale.
static void buildPrecision(OpPassManager &passes, const Plan &plan, AttachOptimizerOptions &optimizer,
                           double normalizer) {
  ConvertPrecisionOptions precision;
  precision.precision =
      *plan.precision == Precision::FP8 ? std::string(wordOf(Precision::BF16)) : plan.precision->str();
  precision.gradientType = *plan.gradientAccumulationType;
  passes.addPass(createConvertPrecision(precision));
  // After conversion: what is quantised are values of the compute type. An evaluation has no steps to measure, so it
  // computes in bf16, beside training too.
  if (*plan.precision == Precision::FP8 && !plan.evaluates())
    passes.addPass(createQuantizeProducts());
  if (*plan.precision != Precision::FP16 || plan.evaluates())
    return; // where there is no backward, nothing can underflow in it
  const bool isDynamic = *plan.lossScale == 0;
  ScaleLossOptions loss;
  loss.initialScale = isDynamic ? std::ldexp(1.0, static_cast<int>(*plan.initialScalePower)) : *plan.lossScale;
  loss.normalizer = normalizer;
  passes.addPass(createScaleLoss(loss));
  optimizer.lossScaleWindow = isDynamic ? *plan.lossScaleWindow : 0;
  optimizer.hysteresis = plan.hysteresis;
  optimizer.consecutiveHysteresis = plan.consecutiveHysteresis;
  optimizer.minLossScale = plan.minLossScale;
}

static AttachLossOptions lossOf(const Plan &plan, bool evaluates) {
  AttachLossOptions loss;
  loss.loss = *plan.loss;
  loss.logits = *plan.logits;
  loss.labels = *plan.labels;
  loss.accuracy = evaluates;
  return loss;
}

/// What evaluates beside training: without what only training does, and over its parameters. After training's own
/// passes, which decide what is kept in which type.
static void buildEvaluation(OpPassManager &passes, const Plan &plan) {
  passes.addPass(createRunInside(InnerModules::Evaluation,
                                 [loss = lossOf(plan, /*evaluates=*/true)](OpPassManager &inside, ModuleOp) {
                                   inside.addPass(createAttachLoss(loss));
                                   inside.addPass(createEnterEvaluation());
                                   inside.addPass(createRemoveDropout());
                                   inside.addPass(createApplyForms());
                                   inside.addPass(createDifferentiate());
                                 }));
  passes.addPass(createShareParameters());
  ConvertPrecisionOptions precision;
  precision.precision =
      *plan.precision == Precision::FP8 ? std::string(wordOf(Precision::BF16)) : plan.precision->str();
  precision.gradientType = *plan.gradientAccumulationType;
  passes.addPass(createRunInside(InnerModules::Evaluation, [precision](OpPassManager &inside, ModuleOp) {
    inside.addPass(createConvertPrecision(precision));
  }));
}

/// Which parameters are trained, and the adapters beside them.
static void buildTrained(OpPassManager &passes, const Plan &plan) {
  FreezeParametersOptions frozen;
  llvm::append_range(frozen.train, *plan.train);
  llvm::append_range(frozen.freeze, *plan.freeze);
  frozen.adapted = plan.adapters.has_value();
  passes.addPass(createFreezeParameters(frozen));
  // Before adapters, which read weights in other ways than a linear layer does.
  if (*plan.frozenWeights != "full") {
    ChooseQuantizedOptions quantized;
    quantized.kind = *plan.frozenWeights;
    passes.addPass(createChooseQuantized(quantized));
  }
  if (!plan.adapters)
    return;
  // After freezing, so that no pattern is about what it adds; in what evaluates too, which has the same parameters.
  InsertAdaptersOptions adapters;
  adapters.rank = plan.adapters->rank;
  adapters.alpha = plan.adapters->alpha;
  adapters.variant = plan.adapters->variant;
  llvm::append_range(adapters.targets, plan.adapters->targets);
  buildBoth(passes, [adapters](OpPassManager &each) { each.addPass(createInsertAdapters(adapters)); });
}

/// Of the module around, with what evaluates; and of each further size, which has nothing inside. `normalizer`: see
/// ScaleLoss.
static void buildTrainOne(OpPassManager &passes, const Plan &plan, double normalizer) {
  // First, since a linear layer that makes an output is known by that output, which the loss takes the place of.
  buildTrained(passes, plan);
  passes.addPass(createAttachLoss(lossOf(plan, plan.evaluates())));
  if (plan.evaluates())
    passes.addPass(createEnterEvaluation());
  if (!*plan.dropout || plan.evaluates())
    passes.addPass(createRemoveDropout());
  // Before forms, so that attention draws under one id, whole or decomposed; both before differentiation, which builds
  // the gradient of what is there.
  passes.addPass(createKeyRandomOps());
  passes.addPass(createApplyForms());

  // No CSE before this: it would merge the reads of a tied parameter, and with them the gradients of stages far apart.
  // And no canonicalization after it: folding shares constants between forward and backward, which stage cuts then have
  // to undo.
  passes.addPass(createDifferentiate());
  // Before precision, which then decides for the merged product what it does for others.
  passes.addPass(createMergeProducts());

  AttachOptimizerOptions optimizer;
  buildPrecision(passes, plan, optimizer, normalizer);
  optimizer.optimizer = *plan.optimizer;
  optimizer.beta1 = (*plan.betas)[0];
  optimizer.beta2 = (*plan.betas)[1];
  optimizer.epsilon = plan.epsilon;
  optimizer.correctBias = plan.correctBias;
  optimizer.cycleMomentum = plan.cycleMomentum;
  optimizer.leastTrust = plan.leastTrust;
  optimizer.mostTrust = plan.mostTrust;
  optimizer.weightDecay = plan.weightDecay;
  optimizer.momentum = plan.momentum;
  optimizer.clipGradNorm = plan.clipGradNorm;
  llvm::append_range(optimizer.noDecay, *plan.noDecay);
  passes.addPass(createAttachOptimizer(optimizer));
  buildEvaluation(passes, plan);
  // Last, in what evaluates too: in which type each use reads a weight is decided by then.
  if (*plan.frozenWeights != "full")
    buildBoth(passes, [](OpPassManager &each) { each.addPass(createQuantizeFrozen()); });
}

static void buildTrain(OpPassManager &passes, const Plan &plan) {
  buildTrainOne(passes, plan, /*normalizer=*/0);
  // By the same passes: what is decided here, such as which parameters are trained, follows from the parameters.
  passes.addPass(createRunInside(InnerModules::Sizes, [plan](OpPassManager &inside, ModuleOp around) {
    buildTrainOne(inside, plan, normalizerOf(around));
  }));
}

void hyc::buildPlanUntilLifetimes(OpPassManager &passes, const Plan &plan) {
  CreateMeshOptions mesh;
  mesh.dp = plan.dp;
  mesh.tp = plan.tp;
  mesh.pp = plan.pp;
  mesh.virtualStages = plan.virtualStages;
  mesh.axes.assign(plan.rules.axes.begin(), plan.rules.axes.end());
  mesh.order.assign(plan.rules.order.begin(), plan.rules.order.end());
  passes.addPass(createCreateMesh(mesh));
  // Seeds first: propagation only carries on what parameters and inputs have, from a plan file or from structure.
  SeedShardingsOptions seeds;
  seeds.sequenceParallel = plan.sequenceParallel;
  passes.addPass(createSeedShardings(seeds));
  passes.addPass(createPropagateShardings());
  // After propagation, which gives states the split of their parameter: flat shards are cut from what that leaves.
  ShardStatesOptions states;
  states.zero = plan.zero;
  states.gradientReduction = *plan.gradientReduction;
  states.persistenceThreshold = plan.persistenceThreshold;
  states.prefetch = plan.prefetch;
  passes.addPass(createShardStates(states));
  PlaceStatesOptions places;
  places.optimizer = plan.offloadOptimizer->str();
  places.parameters = plan.offloadParam->str();
  places.gradients = plan.offloadGradients->str();
  places.ratio = plan.offloadRatio;
  places.maxInHost = plan.maxInHost;
  passes.addPass(createPlaceStates(places));
  // Stages last of the properties: states follow their parameters, gradients the ops that make them.
  AssignStagesOptions stages;
  stages.method = *plan.partitionMethod;
  llvm::append_range(stages.cuts, plan.rules.cuts);
  passes.addPass(createAssignStages(stages));
  BuildScheduleOptions schedule;
  schedule.schedule = plan.schedule->str();
  schedule.microBatches = plan.gradAccum;
  passes.addPass(createBuildSchedule(schedule));
}

static void buildLifetimes(OpPassManager &passes, const Plan &plan) {
  // After the schedule, which tells how many micro-batches' values are alive at once.
  AssignLifetimesOptions lifetimes;
  lifetimes.mode = plan.recompute->str();
  lifetimes.partitionActivations = plan.partitionActivations;
  lifetimes.offload = *plan.offloadActivations != OffloadPlace::None;
  llvm::append_range(lifetimes.budgets, plan.activationBudgets);
  passes.addPass(createAssignLifetimes(lifetimes));
  // What no op carries; from here on the module says everything that phases 4 and 5 act on.
  RecordPoliciesOptions policies;
  llvm::append_range(policies.policies, spellPolicies(plan));
  policies.target = plan.target->str();
  passes.addPass(createRecordPolicies(policies));
}

static void buildPlanOne(OpPassManager &passes, const Plan &plan) {
  buildPlanUntilLifetimes(passes, plan);
  buildLifetimes(passes, plan);
}

void hyc::buildPlanFromLifetimes(OpPassManager &passes, const Plan &plan) {
  buildLifetimes(passes, plan);
  // What evaluates beside training follows all of that.
  passes.addPass(createAdoptPlan());
  // Further sizes are planned by the same passes, cut where the largest is.
  passes.addPass(createRunInside(InnerModules::Sizes, [plan](OpPassManager &inside, ModuleOp around) {
    Plan cut = plan;
    auto microbatch = around.lookupSymbol<FuncOp>(kMicrobatch);
    dist::MeshOp mesh = dist::MeshOp::find(around);
    if (microbatch && mesh && mesh.getChunks() > 1)
      cut.rules.cuts = findCuts(microbatch, mesh.getChunks());
    buildPlanOne(inside, cut);
  }));
  // What then differs in where states are, or split over what, cannot be shared.
  passes.addPass(createCheckSizes());
}

static void buildPlan(OpPassManager &passes, const Plan &plan) {
  buildPlanUntilLifetimes(passes, plan);
  buildPlanFromLifetimes(passes, plan);
}

static void buildLocal(OpPassManager &passes) {
  // Before the cut: an exchange belongs to the stage of the op that asks for it.
  passes.addPass(createPartition());
  // After partitioning, so that exchanges are repeated too; before the cut, which saves what is still wanted.
  passes.addPass(createRecomputeActivations());
  passes.addPass(createOffloadActivations());
  passes.addPass(createCutStages());
  // After the cut, which tells which stages hold a gradient.
  passes.addPass(createReduceGradients());
  passes.addPass(createDistributeUpdate());
  // Last: what is under way at once is a question of a stage's functions.
  passes.addPass(createPrefetchParameters());
  passes.addPass(createAdvanceGathers());
  passes.addPass(createDelayWaits());
  // Last: what moves is what the functions then use.
  passes.addPass(createMoveStates());
  passes.addPass(createOverlapMoves());
}

void hyc::buildForwardProgram(OpPassManager &passes) { passes.addPass(createMakeForwardProgram()); }

/// What is chosen over tensors of what one call computes.
static void buildCalls(OpPassManager &passes) {
  // Before CSE and clusters, which take in the pieces.
  passes.addPass(createDecomposeComposites());
  passes.addPass(createHoistInvariants());
  // Functions are cut and final by now, so equal reads, constants and broadcasts may become one.
  passes.addPass(mlir::createCSEPass());
  // Before clusters take in the additions.
  passes.addPass(createFuseBias());
  passes.addPass(createFormClusters());
}

void hyc::buildPlacement(OpPassManager &passes, JobAccount *account) {
  buildAll(passes, buildCalls);
  // The modules inside become entries of the programs here.
  passes.addPass(createLowerToRank());
  // Before operands are reused: nothing may be written over what is kept.
  passes.addPass(createKeepConstants());
  // Before placement, which then sees fewer temporaries.
  passes.addPass(createReuseOperands());
  // Before placement, which gives windows the memory of activations that are gone.
  passes.addPass(createStreamUpdates());
  passes.addPass(createPlaceBuffers([account](StageAccount stage) {
    if (account)
      account->stages.push_back(std::move(stage));
  }));
}

void hyc::buildAccount(OpPassManager &passes, JobAccount *account) {
  buildPlacement(passes, account);
  // After placement: what is adjacent, and in what layers differ, are questions of addresses.
  passes.addPass(createCoalesceReductions());
  passes.addPass(createBucketExchanges());
}

static void buildRank(OpPassManager &passes, JobAccount *account) {
  buildAccount(passes, account);
  passes.addPass(createCheckFinite());
  passes.addPass(createShareLayers());
}

llvm::StringRef hyc::getName(Phase phase) {
  constexpr llvm::StringLiteral names[] = {"model", "train", "plan", "local", "rank"};
  return names[static_cast<size_t>(phase)];
}

void hyc::buildPhase(Phase phase, OpPassManager &passes, const Plan &plan, JobAccount *account) {
  switch (phase) {
  case Phase::Model:
    return buildAll(passes, [plan](OpPassManager &each) { buildModel(each, plan); });
  case Phase::Train:
    return buildTrain(passes, plan);
  case Phase::Plan:
    return buildPlan(passes, plan);
  case Phase::Local:
    return buildAll(passes, buildLocal);
  case Phase::Rank:
    return buildRank(passes, account);
  }
}

void hyc::buildVerification(Phase phase, OpPassManager &passes) {
  switch (phase) {
  case Phase::Model:
    return buildAll(passes, [](OpPassManager &each) { each.addPass(createVerifyModel()); });
  case Phase::Train:
    return passes.addPass(createVerifyTrain());
  case Phase::Plan:
    return buildAll(passes, [](OpPassManager &each) { each.addPass(createVerifyPlan()); });
  case Phase::Local:
    return buildAll(passes, [](OpPassManager &each) {
      each.addPass(createVerifyLocal());
      // Only where functions agree with their neighbours does it make sense to step them together.
      each.addPass(createCheckSchedules());
      each.addPass(createCheckCommunication());
    });
  case Phase::Rank:
    return passes.addPass(createVerifyRank());
  }
}

void hyc::registerPipelines() {
  for (Phase phase : kPhases) {
    std::string name = ("hyc-" + getName(phase) + "-phase").str();
    std::string summary = ("All passes of phase " + getName(phase) + " under their defaults, and its check").str();
    PassPipelineRegistration<>(name, summary, [phase](OpPassManager &passes) {
      buildPhase(phase, passes, Plan());
      buildVerification(phase, passes);
    });
  }
}
