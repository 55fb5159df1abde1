// Balances layers over chunks, then lets backward ops, parameters and states follow. Which stages hold a parameter
// follows from the chunks that use it.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Layers.h"
#include "hyc/Analysis/Origin.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Support/NamePattern.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"
#include <limits>
#include <numeric>
#include <set>

namespace hyc {
#define GEN_PASS_DEF_ASSIGNSTAGES
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

using Weights = std::vector<int64_t>;

/// Ends of `parts` contiguous, non-empty parts that minimise first the heaviest part, then the sum of squares.
std::vector<size_t> balance(const Weights &weights, size_t parts) {
  size_t n = weights.size();
  Weights prefix(n + 1, 0);
  std::partial_sum(weights.begin(), weights.end(), prefix.begin() + 1);
  auto weight = [&](size_t begin, size_t end) { return prefix[end] - prefix[begin]; };
  // cost[k][i]: the least cost of cutting the first i layers into k parts.
  auto solve = [&](auto combine, auto cost0) {
    using Cost = decltype(cost0);
    const Cost infinite = std::numeric_limits<Cost>::max();
    std::vector<std::vector<Cost>> cost(parts + 1, std::vector<Cost>(n + 1, infinite));
    std::vector<std::vector<size_t>> from(parts + 1, std::vector<size_t>(n + 1, 0));
    cost[0][0] = 0;
    for (size_t k = 1; k <= parts; ++k)
      for (size_t i = k; i <= n; ++i)
        for (size_t j = k - 1; j < i; ++j) {
          if (cost[k - 1][j] == infinite)
            continue;
          Cost candidate = combine(cost[k - 1][j], weight(j, i));
          if (candidate < cost[k][i]) {
            cost[k][i] = candidate;
            from[k][i] = j;
          }
        }
    return std::pair(cost[parts][n], from);
  };
  int64_t heaviest = solve([](int64_t a, int64_t w) { return std::max(a, w); }, int64_t(0)).first;
  auto from =
      solve([&](double a,
                int64_t w) { return w > heaviest ? std::numeric_limits<double>::max() : a + double(w) * double(w); },
            double(0))
          .second;
  std::vector<size_t> ends(parts);
  for (size_t k = parts, i = n; k > 0; i = from[k][i], --k)
    ends[k - 1] = i;
  return ends;
}

struct AssignStages : hyc::impl::AssignStagesBase<AssignStages> {
  using AssignStagesBase::AssignStagesBase;

  void runOnOperation() override {
    module = getOperation();
    func = module.lookupSymbol<FuncOp>(kMicrobatch);
    mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to plan for";
      return signalPassFailure();
    }
    chunks = mesh.getChunks();
    findFloatingOps();
    if (failed(assignLayers()))
      return signalPassFailure();
    assignFloatingOps();
    assignBackwardOps();
    assignStates();
    if (failed(checkBuffers()))
      return signalPassFailure();
  }

private:
  int64_t chunkOf(Operation *op) { return dist::chunkOf(op).value_or(-1); }
  void setChunk(Operation *op, int64_t chunk) {
    op->setAttr(dist::kStage, Builder(&getContext()).getI64IntegerAttr(chunk));
  }

  LogicalResult assignLayers() {
    SmallVector<Layer> layers = findLayers(func);
    if (static_cast<int64_t>(layers.size()) < chunks)
      return reportTooFewLayers(layers.size());
    FailureOr<std::vector<size_t>> chosen = cuts.empty() ? balanced(layers) : cutAt(layers);
    if (failed(chosen))
      return failure();
    const std::vector<size_t> &ends = *chosen;
    size_t chunk = 0;
    for (auto [index, layer] : llvm::enumerate(layers)) {
      while (index >= ends[chunk])
        ++chunk;
      for (Operation *op : layer)
        if (chunkOf(op) < 0)
          setChunk(op, static_cast<int64_t>(chunk));
    }
    return success();
  }

  LogicalResult reportTooFewLayers(size_t layers) {
    int64_t stages = mesh.getStages(), virtualStages = mesh.getVirtualStages();
    InFlightDiagnostic error = func.emitError("has ") << layers << " layers, expected at least " << chunks;
    if (virtualStages == 1)
      return error << ", one a pipeline stage; lower --pp to at most " << layers;
    error << " = --pp " << stages << " × --virtual-stages " << virtualStages << ", one a virtual stage; lower ";
    if (static_cast<int64_t>(layers) >= 2 * stages)
      return error << "--virtual-stages to at most " << static_cast<int64_t>(layers) / stages;
    return error << "--pp, or leave out --virtual-stages";
  }

  FailureOr<std::vector<size_t>> balanced(ArrayRef<Layer> layers) {
    FailureOr<Weights> weights = weigh(layers);
    if (failed(weights))
      return failure();
    return balance(*weights, chunks);
  }

  /// The layers' ends as `cuts` has them: each names an op of the layer that begins the next chunk.
  FailureOr<std::vector<size_t>> cutAt(ArrayRef<Layer> layers) {
    if (static_cast<int64_t>(cuts.size()) != chunks - 1)
      return func.emitError("is cut at ") << cuts.size() << " ops, expected " << chunks - 1 << " for " << chunks
                                          << (mesh.getVirtualStages() == 1 ? " stages" : " virtual stages");
    std::vector<size_t> ends;
    for (const std::string &id : cuts) {
      auto layer = llvm::find_if(layers, [&](const Layer &candidate) {
        return llvm::any_of(candidate, [&](Operation *op) { return getId(op) == id; });
      });
      size_t begin = layer - layers.begin();
      if (layer == layers.end())
        return func.emitError("is to be cut before op \"") << id << "\", which no layer has";
      if (begin == 0 || (!ends.empty() && begin <= ends.back()))
        return func.emitError("is to be cut before op \"")
               << id << "\", which leaves the stage before it without a layer";
      ends.push_back(begin);
    }
    ends.push_back(layers.size());
    return ends;
  }

  FailureOr<Weights> weigh(ArrayRef<Layer> layers) {
    StringRef name = method.getValue();
    if (name == "uniform")
      return Weights(layers.size(), 1);
    if (name == "parameters") {
      Weights weights;
      for (const Layer &layer : layers)
        weights.push_back(parameterElements(layer));
      return weights;
    }
    if (!name.consume_front("type:")) {
      module.emitError("partition method is \"") << method << "\", expected parameters, uniform or type:REGEX";
      return failure();
    }
    llvm::Expected<NamePattern> pattern = NamePattern::compile(name);
    if (!pattern) {
      module.emitError("partition method has the invalid regular expression \"")
          << name.take_front(100) << "\": " << llvm::toString(pattern.takeError());
      return failure();
    }
    Weights weights;
    for (const Layer &layer : layers)
      weights.push_back(llvm::any_of(layer, [&](Operation *op) { return pattern->match(getId(op)); }));
    if (llvm::all_of(weights, [](int64_t weight) { return weight == 0; })) {
      module.emitError("no op has an id that matches \"") << name << "\"";
      return failure();
    }
    return weights;
  }

  /// The parameter that is read, itself or a copy of it; else the state's name.
  StringRef parameterOf(ReadOp read) {
    auto state = getAnalysis<SymbolTable>().lookup<StateOp>(read.getSource());
    return state && state.getParam() ? *state.getParam() : read.getSource();
  }

  /// Elements of the parameters that a layer's ops use, each counted once.
  int64_t parameterElements(const Layer &layer) {
    std::set<StringRef> seen;
    int64_t elements = 0;
    SmallVector<Value> work;
    for (Operation *op : layer)
      llvm::append_range(work, op->getOperands());
    while (!work.empty()) {
      Operation *def = work.pop_back_val().getDefiningOp();
      if (!def)
        continue;
      if (auto read = dyn_cast<ReadOp>(def)) {
        if (seen.insert(parameterOf(read)).second)
          elements += cast<RankedTensorType>(read.getType()).getNumElements();
      } else if (chunkOf(def) < 0 && !llvm::is_contained(layer, def) && isFloating(def)) {
        llvm::append_range(work, def->getOperands());
      }
    }
    return elements;
  }

  /// Finds the ops that depend on no input: they may stand in whichever chunk uses them.
  void findFloatingOps() {
    for (Operation &op : func.getBody().front())
      if (llvm::all_of(op.getOperands(), [&](Value operand) { return floating.contains(operand.getDefiningOp()); }))
        floating.insert(&op);
  }
  bool isFloating(Operation *op) { return floating.contains(op); }

  /// Ops on parameters and constants alone go to the first chunk that uses them.
  void assignFloatingOps() {
    for (Operation &op : llvm::reverse(func.getBody().front())) {
      if (chunkOf(&op) >= 0 || isBackward(&op) || isa<ReturnOp>(op))
        continue;
      int64_t first = chunks;
      for (Operation *user : op.getUsers())
        if (!isBackward(user) && chunkOf(user) >= 0)
          first = std::min(first, chunkOf(user));
      // Used by backward ops only, or by nothing: settled with them.
      if (first < chunks)
        setChunk(&op, first);
    }
  }

  /// A backward op goes to its origin's chunk, but never after a chunk whose cotangents it reads.
  void assignBackwardOps() {
    llvm::StringMap<int64_t> chunkOfId;
    for (Operation &op : func.getBody().front())
      if (!isBackward(&op) && !getId(&op).empty() && chunkOf(&op) >= 0)
        chunkOfId[getId(&op)] = chunkOf(&op);
    for (Operation &op : func.getBody().front()) {
      if (chunkOf(&op) >= 0 || isa<ReturnOp>(op))
        continue;
      int64_t chunk = findOfOrigin(getId(&op), chunkOfId).value_or(-1), bound = chunks - 1;
      for (Value operand : op.getOperands())
        if (Operation *def = operand.getDefiningOp(); def && chunkOf(def) >= 0 && isBackward(def) && !isFloating(def))
          bound = std::min(bound, chunkOf(def));
      if (isa<AccumulateOp>(op)) // where the contribution is made: those of a tied parameter meet once a step
        chunk = chunkOf(op.getOperand(0).getDefiningOp());
      if (isa<WriteOp>(op)) // of what no input has a part in, such as a count
        if (Operation *def = op.getOperand(0).getDefiningOp())
          chunk = chunkOf(def);
      // Cotangents are summed where the last of them is made, so that one tensor crosses to the chunk before.
      setChunk(&op, chunk < 0 || isa<AddOp>(op) ? bound : std::min(chunk, bound));
    }
  }

  /// The stages of what uses the op's results: an op that costs nothing is repeated wherever its own result is used.
  void addStagesOfUsers(Operation *op, std::set<int64_t> &stages) {
    for (Operation *user : op->getUsers())
      if (isFree(user))
        addStagesOfUsers(user, stages);
      else
        stages.insert(mesh.getStageOf(chunkOf(user)));
  }

  /// A parameter, and its states, are where it is read; those of a quantised tensor where it is quantised or its
  /// products are scaled back; run-wide states everywhere.
  void assignStates() {
    llvm::StringMap<std::set<int64_t>> heldBy;
    for (Operation &op : func.getBody().front()) {
      if (auto read = dyn_cast<ReadOp>(op))
        addStagesOfUsers(read, heldBy[parameterOf(read)]);
      if (auto write = dyn_cast<WriteOp>(op))
        heldBy[write.getTarget()].insert(mesh.getStageOf(chunkOf(&op)));
      if (auto accumulate = dyn_cast<AccumulateOp>(op))
        if (auto state = getAnalysis<SymbolTable>().lookup<StateOp>(accumulate.getTarget()))
          heldBy[state.getParam().value_or(state.getSymName())].insert(mesh.getStageOf(chunkOf(&op)));
    }
    module.walk([&](UpdateFp8ScaleOp update) {
      StringRef names[] = {update.getScale(), update.getInverse(), update.getHistory(), update.getAmax()};
      std::set<int64_t> together;
      for (StringRef name : names)
        together.insert(heldBy[name].begin(), heldBy[name].end());
      for (StringRef name : names)
        heldBy[name] = together;
    });
    Builder builder(&getContext());
    SmallVector<int64_t> all(mesh.getStages());
    std::iota(all.begin(), all.end(), 0);
    for (Operation &op : module.getBody()->getOperations()) {
      auto state = dyn_cast<StateOp>(op);
      if (!state && !isa<ParamOp>(op))
        continue;
      StringRef owner = state ? state.getParam().value_or(state.getSymName()) : cast<ParamOp>(op).getSymName();
      const std::set<int64_t> &held = heldBy[owner];
      bool everywhere = state && !state.getParam() && !state.getFacts().isOfQuantized;
      // A parameter that nothing reads still has its place in checkpoints: stage 0 keeps it.
      SmallVector<int64_t> list = everywhere     ? all
                                  : held.empty() ? SmallVector<int64_t>{0}
                                                 : SmallVector<int64_t>(held.begin(), held.end());
      op.setAttr(dist::kStages, builder.getDenseI64ArrayAttr(list));
    }
  }

  /// What the model writes is the same for all that read it only where one stage has it.
  LogicalResult checkBuffers() {
    for (auto write : func.getBody().front().getOps<WriteOp>()) {
      auto buffer = module.lookupSymbol<ParamOp>(write.getTargetAttr());
      auto stages = buffer ? buffer->getAttrOfType<DenseI64ArrayAttr>(dist::kStages) : DenseI64ArrayAttr();
      if (stages && stages.size() > 1)
        return write.emitOpError("[stages.buffer] writes ")
               << write.getTargetAttr() << ", which stages " << stages.asArrayRef()
               << " use, expected one stage; cut the model elsewhere, or lower --pp";
    }
    return success();
  }

  ModuleOp module;
  FuncOp func;
  dist::MeshOp mesh;
  int64_t chunks = 1;
  llvm::DenseSet<Operation *> floating;
};
} // namespace
