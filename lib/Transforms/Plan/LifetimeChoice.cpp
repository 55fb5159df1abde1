// Costs are those of one rank; see RankCost.h.
#include "LifetimeChoice.h"

#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/RankCost.h"
#include "hyc/Analysis/RecomputationProblem.h"
#include "hyc/Analysis/Repetition.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::plan;

static bool isNeededInBackward(Value value) { return llvm::any_of(value.getUsers(), isBackward); }

//===----------------------------------------------------------------------===//
// Cheap expansions
//===----------------------------------------------------------------------===//

namespace {
/// What executing ops again costs, and what it saves.
struct Balance {
  double flops = 0, savedBytes = 0;

  void add(Operation *op, dist::MeshOp mesh) {
    flops += static_cast<double>(flopsPerRank(op, mesh));
    for (Value result : op->getResults())
      if (isNeededInBackward(result))
        savedBytes += static_cast<double>(bytesPerRank(result, mesh));
  }
  bool costsLessPerByteThan(const Balance &other) const { return flops * other.savedBytes < other.flops * savedBytes; }
};
} // namespace

/// Contracts two values that depend on inputs into one that is larger than both together.
static bool isExpansion(EinsumOp op, const llvm::DenseSet<Value> &fromInputs, dist::MeshOp mesh) {
  return fromInputs.contains(op.getLhs()) && fromInputs.contains(op.getRhs()) &&
         bytesPerRank(op.getResult(), mesh) > bytesPerRank(op.getLhs(), mesh) + bytesPerRank(op.getRhs(), mesh);
}

/// `first` and the forward ops that follow from it, up to contractions.
static SmallVector<Operation *> followUntilContraction(EinsumOp first, const Candidates &candidates) {
  SmallVector<Operation *> region{first};
  llvm::DenseSet<Operation *> seen{first};
  for (size_t next = 0; next < region.size(); ++next)
    for (Operation *user : region[next]->getUsers())
      if (!isa<EinsumOp>(user) && (candidates.contains(user) || (isFree(user) && !isBackward(user))) &&
          seen.insert(user).second)
        region.push_back(user);
  return region;
}

SmallVector<Operation *> plan::findCheapExpansions(FuncOp func, dist::MeshOp mesh, const Candidates &candidates) {
  llvm::DenseSet<Value> fromInputs;
  fromInputs.insert_range(func.getArguments());
  SmallVector<EinsumOp> expansions;
  Balance forward;
  for (Operation &op : func.getBody().front()) {
    if (isBackward(&op))
      continue;
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return fromInputs.contains(operand); }))
      fromInputs.insert_range(op.getResults());
    forward.add(&op, mesh);
    auto product = dyn_cast<EinsumOp>(op);
    if (product && candidates.contains(product) && isExpansion(product, fromInputs, mesh))
      expansions.push_back(product);
  }
  llvm::SetVector<Operation *> chosen;
  for (EinsumOp expansion : expansions) {
    SmallVector<Operation *> region = followUntilContraction(expansion, candidates);
    Balance balance;
    for (Operation *op : region)
      balance.add(op, mesh);
    if (balance.costsLessPerByteThan(forward))
      for (Operation *op : region)
        if (candidates.contains(op))
          chosen.insert(op);
  }
  return chosen.takeVector();
}

//===----------------------------------------------------------------------===//
// Minimum cut under a budget
//===----------------------------------------------------------------------===//

/// What an exchanged byte costs, in floating-point operations: between shared memory on one machine (about 10) and
/// links between accelerators (some hundred). Only the order of choices depends on it.
static constexpr int64_t kFlopsPerExchangedByte = 64;

namespace {
/// The forward graph of one chunk, as a problem, and the ops behind its numbers.
class ChunkProblem {
public:
  ChunkProblem(dist::MeshOp mesh, int64_t chunk, const Candidates &candidates, ArrayRef<Layer> layers)
      : mesh(mesh), chunk(chunk), candidates(candidates) {
    for (auto [index, layer] : llvm::enumerate(layers))
      for (Operation *op : layer)
        groupOf[op] = static_cast<int>(index);
  }

  void add(Operation *op) {
    if (chunkOf(op) != chunk || op->getNumResults() == 0 || (isFree(op) && op->getNumOperands() == 0))
      return;
    std::vector<int> operands;
    for (Value operand : op->getOperands())
      if (int value = valueOf(operand); value >= 0)
        operands.push_back(value);
    bool isView = isFree(op);
    int64_t cost = flopsPerRank(op, mesh) + kFlopsPerExchangedByte * exchangedBytesPerRank(op, mesh);
    int number = problem.addOp(isView ? 0 : cost, isView || candidates.contains(op), groupOf.lookup(op), operands);
    ops.push_back(op);
    for (Value result : op->getResults()) {
      int value = values[result] =
          problem.addValue(number, isView ? RecomputationProblem::kNeverSaved : bytesPerRank(result, mesh));
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return isBackward(user) && chunkOf(user) <= chunk; }))
        problem.need(value);
    }
  }

  SmallVector<Operation *> choose(int64_t bytes) const {
    Recomputation choice = problem.saveWithin(bytes);
    SmallVector<Operation *> chosen;
    for (auto [op, repeated] : llvm::zip_equal(ops, choice.repeated))
      if (repeated && candidates.contains(op))
        chosen.push_back(op);
    return chosen;
  }

private:
  static int64_t chunkOf(Operation *op) { return dist::chunkOf(op).value_or(0); }

  /// The number of an operand: -1 for what is there anyway (inputs, parameters), a value that can only be saved for
  /// what has come from another chunk.
  int valueOf(Value operand) {
    auto [entry, isNew] = values.try_emplace(operand, -1);
    Operation *def = operand.getDefiningOp();
    if (isNew && def && !isFree(def))
      entry->second = problem.addValue(-1, bytesPerRank(operand, mesh));
    return entry->second;
  }

  dist::MeshOp mesh;
  int64_t chunk;
  const Candidates &candidates;
  llvm::DenseMap<Operation *, int> groupOf;
  RecomputationProblem problem;
  SmallVector<Operation *> ops;
  llvm::DenseMap<Value, int> values;
};
} // namespace

SmallVector<Operation *> plan::chooseWithinBudget(FuncOp func, dist::MeshOp mesh, int64_t chunk,
                                                  const Candidates &candidates, ArrayRef<Layer> layers, int64_t bytes) {
  ChunkProblem problem(mesh, chunk, candidates, layers);
  for (Operation &op : func.getBody().front())
    if (!isBackward(&op))
      problem.add(&op);
  return problem.choose(bytes);
}
