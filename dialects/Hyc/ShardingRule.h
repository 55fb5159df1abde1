// ShardingRule: how the dimensions of an op's operands and results correspond.
//
// A factor is one independent index of the op's computation: the matmul (i,k),(k,j)->(i,j) has three. Every dimension
// of every tensor is a list of factors, major to minor (a reshape that merges two dimensions maps one dimension to two
// factors), or empty when it has size 1 and corresponds to nothing. The one surprise: an op that may not be split along
// a dimension still gives it a factor, of kind `replicated`, so that operands and results agree on who is whole.
#ifndef HYC_DIALECTS_HYC_SHARDINGRULE_H
#define HYC_DIALECTS_HYC_SHARDINGRULE_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>
#include <string>

namespace hyc {

enum class FactorKind {
  parallel,   // splitting it splits the results that have it, and leaves partial sums in those that lack it
  sum,        // contracted in every result: splitting it leaves partial sums
  max,        // contracted by maximum: splitting it leaves partial maxima
  replicated, // must be whole on every rank
  exchanged,  // contracted by exchanges inside the op, which partitioning writes out: no result is partial
};

struct Factor {
  int64_t size;
  FactorKind kind;
};

using DimFactors = llvm::SmallVector<int, 1>;           // factors of one dimension, major to minor
using TensorFactors = llvm::SmallVector<DimFactors, 4>; // one entry a dimension

struct ShardingRule {
  llvm::SmallVector<Factor, 6> factors;
  llvm::SmallVector<TensorFactors, 4> operands;
  llvm::SmallVector<TensorFactors, 2> results;

  int addFactor(int64_t size, FactorKind kind = FactorKind::parallel) {
    factors.push_back({size, kind});
    return static_cast<int>(factors.size()) - 1;
  }

  /// `(i,k),(k,j)->(i,j)` with kinds and sizes, as tests and dumps show it.
  std::string str() const;
};

} // namespace hyc

#endif // HYC_DIALECTS_HYC_SHARDINGRULE_H
