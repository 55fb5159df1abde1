// What normalizations are written in: statistics of rows (the last dimension), repeated along them, and products of
// them. Each function looks at values as exporters leave them and gives null for what is something else.
#ifndef HYC_LIB_TRANSFORMS_MODEL_ROWSTATISTICS_H
#define HYC_LIB_TRANSFORMS_MODEL_ROWSTATISTICS_H

#include "dialects/Hyc/HycDialect.h"

namespace hyc {

/// What a statistic of each row is repeated from, without dimensions of size 1.
mlir::Value repeatedAlongRow(mlir::Value value);

/// The vector over the last dimension that a value repeats.
mlir::Value repeatedOverRows(mlir::Value value);

mlir::Value skipReshapes(mlir::Value value);

/// x where `value` is the mean of each row of x.
mlir::Value meanOf(mlir::Value value);

/// x where `value` is x², as a product or a power.
mlir::Value squareOf(mlir::Value value);

/// A factor of a product; `inverse`: it divides.
struct ProductFactor {
  mlir::Value value;
  bool inverse;
};

/// The factors of a product, five at most; `whole`, where it is one of them, is not looked into.
llvm::SmallVector<ProductFactor> collectFactors(mlir::Value product, mlir::Value whole = {});

/// The statistic by whose square root `factor`, repeated along rows, divides (or multiplies, with `inverse`), whether
/// written as a root, its reciprocal, or a reciprocal root.
mlir::Value squareBelowRoot(mlir::Value factor, bool inverse);

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_MODEL_ROWSTATISTICS_H
