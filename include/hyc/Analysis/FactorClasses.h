// FactorClasses: which dimensions of a program are one and the same index.
//
// Every op's sharding rule says which of its operands' and results' dimensions share a factor. Followed through a whole
// function, through parameters and their states, equal factors form classes: the batch, the heads of layer 3, the
// vocabulary. A mesh axis splits a class as a whole, or not at all. The one surprise: where a reshape merges
// dimensions, only the major one joins the class of the merged dimension, since only it can be split contiguously.
//
// Where one operand of an op has an index once for several of another's, as attention has a key head for a group of
// query heads, the two are strands of one class: split alike as far as both divide, and beyond that the coarser one is
// repeated. Every other class is one strand.
//
// Example: x (b,s,k) · fc1 (k,n) -> gelu -> · fc2 (n,m): n of fc1, of the activation and of fc2 is one class, the inner
// factor of contraction-elementwise-contraction, and no other op knows it.
//
// An analysis of a pass manager: what changes attributes alone may mark it preserved.
#ifndef HYC_ANALYSIS_FACTORCLASSES_H
#define HYC_ANALYSIS_FACTORCLASSES_H

#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace hyc {

class FactorClasses {
public:
  /// Where a class occurs in one op's rule.
  struct Occurrence {
    mlir::Operation *op;
    int factor;
    FactorKind kind;
  };

  /// Builds the classes of `func`, and of the params and states that its ops name.
  explicit FactorClasses(FuncOp func);

  /// The class of a value's or a symbol's dimension; -1 for a dimension that the function does not know.
  int classOf(mlir::Value value, int64_t dim) const;
  int classOf(mlir::StringAttr symbol, int64_t dim) const;
  /// The class of factor `factor` of `op`'s rule; -1 where the factor has no dimension of its own.
  int classOf(mlir::Operation *op, int factor) const;

  /// The strand of a dimension, and of the dimensions that are a factor by themselves; -1 as classes are.
  int strandOf(mlir::Value value, int64_t dim) const;
  int strandOf(mlir::StringAttr symbol, int64_t dim) const;
  int strandOf(mlir::Operation *op, int factor) const;
  /// What all the strand's dimensions are multiples of.
  int64_t getStrandSize(int strand) const { return strandSizes[strand]; }

  /// Every class once.
  llvm::ArrayRef<int> getClasses() const { return roots; }
  llvm::ArrayRef<Occurrence> getOccurrences(int cls) const;
  /// What all the class's dimensions are multiples of; their size, unless reshapes merge some of them.
  int64_t getSize(int cls) const { return sizes[cls]; }

  /// The rule of an op of the function, computed once; null for ops without one.
  const ShardingRule *getRule(mlir::Operation *op) const;

  /// Whether zeros in this index stay zeros, and contribute nothing, in every op that has it. Only then may its last
  /// shards be padded.
  bool preservesZeros(int cls) const { return !findUseOfPadding(cls); }
  /// The first op that has the index and would let padding of it reach other values; null where none does.
  mlir::Operation *findUseOfPadding(int cls) const;

private:
  using Key = std::pair<const void *, int64_t>;
  int node(const void *key, int64_t dim, int64_t size);
  int find(int node) const;
  /// Makes two dimensions one index; `repeated` where one of them is coarser, so that they stay two strands.
  void unite(int a, int b, bool repeated = false);
  void addOp(mlir::Operation *op);
  void linkSymbol(mlir::StringAttr symbol, mlir::Value value);

  llvm::DenseMap<Key, int> nodes;
  mutable std::vector<int> parent, strandParent;
  std::vector<int64_t> sizes, strandSizes;
  llvm::DenseMap<mlir::Operation *, ShardingRule> rules;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int>> factorNodes;
  llvm::SmallVector<int> roots;
  llvm::DenseMap<int, llvm::SmallVector<Occurrence>> occurrences;
};

} // namespace hyc

#endif // HYC_ANALYSIS_FACTORCLASSES_H
