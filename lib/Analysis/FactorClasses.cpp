// Union-find over (tensor, dimension) pairs, driven by the ops' sharding rules.
#include "hyc/Analysis/FactorClasses.h"

#include "mlir/IR/BuiltinOps.h"
#include <numeric>

using namespace mlir;
using namespace hyc;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

FactorClasses::FactorClasses(FuncOp func) {
  // What is inside of an op is that op's affair.
  for (Operation &op : func.getBody().front()) {
    if (auto access = dyn_cast<SymbolAccessOpInterface>(op))
      linkSymbol(access.getAccessedSymbol().getAttr(), access.getAccessedValue());
    else if (isa<ShardingRuleOpInterface>(op))
      addOp(&op);
  }
  // A state is split as its parameter is.
  for (auto state : func->getParentOfType<ModuleOp>().getOps<StateOp>()) {
    if (!state.getParamAttr())
      continue;
    for (auto [dim, size] : llvm::enumerate(state.getWholeType().getShape()))
      unite(node(state.getSymNameAttr().getAsOpaquePointer(), dim, size),
            node(state.getParamAttr().getAttr().getAsOpaquePointer(), dim, size));
  }
  for (int i = 0, e = static_cast<int>(parent.size()); i < e; ++i)
    if (find(i) == i)
      roots.push_back(i);
  for (Operation &op : func.getBody().front()) {
    auto rule = rules.find(&op);
    if (rule == rules.end())
      continue;
    for (auto [index, factor] : llvm::enumerate(rule->second.factors))
      if (int cls = classOf(&op, static_cast<int>(index)); cls >= 0)
        occurrences[cls].push_back({&op, static_cast<int>(index), factor.kind});
  }
}

int FactorClasses::node(const void *key, int64_t dim, int64_t size) {
  auto [entry, inserted] = nodes.try_emplace(Key(key, dim), static_cast<int>(parent.size()));
  if (inserted) {
    for (std::vector<int> *parents : {&parent, &strandParent})
      parents->push_back(entry->second);
    for (std::vector<int64_t> *all : {&sizes, &strandSizes})
      all->push_back(size);
  }
  return entry->second;
}

static int findRoot(std::vector<int> &parent, int node) {
  while (parent[node] != node)
    node = parent[node] = parent[parent[node]];
  return node;
}

int FactorClasses::find(int node) const { return findRoot(parent, node); }

/// The smaller root wins, so that classes are numbered in program order. Where a merged dimension meets its major
/// factor, what divides both can be split: 6 = 2 · 3 is cut like the 2.
static void uniteRoots(std::vector<int> &parent, std::vector<int64_t> &sizes, int a, int b) {
  a = findRoot(parent, a);
  b = findRoot(parent, b);
  if (a == b)
    return;
  parent[std::max(a, b)] = std::min(a, b);
  sizes[std::min(a, b)] = std::gcd(sizes[a], sizes[b]);
}

void FactorClasses::unite(int a, int b, bool repeated) {
  uniteRoots(parent, sizes, a, b);
  if (!repeated)
    uniteRoots(strandParent, strandSizes, a, b);
}

void FactorClasses::linkSymbol(StringAttr symbol, Value value) {
  for (auto [dim, size] : llvm::enumerate(tensorType(value).getShape()))
    unite(node(value.getAsOpaquePointer(), dim, size), node(symbol.getAsOpaquePointer(), dim, size));
}

/// Whether an operand has the factor as a dimension by itself, for each of which another has several.
static bool isRepeated(const ShardingRule &rule, int factor) {
  auto has = [&](bool alone) {
    return llvm::any_of(rule.operands, [&](const TensorFactors &dims) {
      return llvm::any_of(dims, [&](const DimFactors &factors) {
        return !factors.empty() && factors.front() == factor && (factors.size() == 1) == alone;
      });
    });
  };
  return has(true) && has(false);
}

void FactorClasses::addOp(Operation *op) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  SmallVector<int> &first = factorNodes[op];
  first.assign(rule.factors.size(), -1);
  SmallVector<int> finer(rule.factors.size(), -1); // of repeated factors: the dimensions that have several for each
  auto link = [&](Value value, const TensorFactors &dims) {
    for (auto [dim, factors] : llvm::enumerate(dims)) {
      int self = node(value.getAsOpaquePointer(), dim, tensorType(value).getDimSize(dim));
      if (factors.empty())
        continue;
      bool isFiner = factors.size() > 1 && isRepeated(rule, factors.front());
      int &known = (isFiner ? finer : first)[factors.front()];
      if (known >= 0)
        unite(known, self);
      else
        known = self;
    }
  };
  for (auto [value, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    link(value, dims);
  for (auto [value, dims] : llvm::zip_equal(op->getResults(), rule.results))
    link(value, dims);
  for (auto [coarse, fine] : llvm::zip_equal(first, finer))
    if (fine >= 0)
      unite(coarse, fine, /*repeated=*/true);
  rules[op] = std::move(rule);
}

int FactorClasses::classOf(Value value, int64_t dim) const {
  auto entry = nodes.find(Key(value.getAsOpaquePointer(), dim));
  return entry == nodes.end() ? -1 : find(entry->second);
}

int FactorClasses::classOf(StringAttr symbol, int64_t dim) const {
  auto entry = nodes.find(Key(symbol.getAsOpaquePointer(), dim));
  return entry == nodes.end() ? -1 : find(entry->second);
}

int FactorClasses::classOf(Operation *op, int factor) const {
  auto entry = factorNodes.find(op);
  if (entry == factorNodes.end() || entry->second[factor] < 0)
    return -1;
  return find(entry->second[factor]);
}

int FactorClasses::strandOf(Value value, int64_t dim) const {
  auto entry = nodes.find(Key(value.getAsOpaquePointer(), dim));
  return entry == nodes.end() ? -1 : findRoot(strandParent, entry->second);
}

int FactorClasses::strandOf(StringAttr symbol, int64_t dim) const {
  auto entry = nodes.find(Key(symbol.getAsOpaquePointer(), dim));
  return entry == nodes.end() ? -1 : findRoot(strandParent, entry->second);
}

int FactorClasses::strandOf(Operation *op, int factor) const {
  auto entry = factorNodes.find(op);
  if (entry == factorNodes.end() || entry->second[factor] < 0)
    return -1;
  return findRoot(strandParent, entry->second[factor]);
}

ArrayRef<FactorClasses::Occurrence> FactorClasses::getOccurrences(int cls) const {
  auto entry = occurrences.find(cls);
  return entry == occurrences.end() ? ArrayRef<Occurrence>() : ArrayRef(entry->second);
}

const ShardingRule *FactorClasses::getRule(Operation *op) const {
  auto entry = rules.find(op);
  return entry == rules.end() ? nullptr : &entry->second;
}

Operation *FactorClasses::findUseOfPadding(int cls) const {
  for (const Occurrence &occurrence : getOccurrences(cls))
    if (!cast<ShardingRuleOpInterface>(occurrence.op).preservesZeros(*getRule(occurrence.op), occurrence.factor))
      return occurrence.op;
  return nullptr;
}
