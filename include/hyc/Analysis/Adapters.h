// Adapters of low rank beside linear layers (hyc-insert-adapters), as later phases know them.
#ifndef HYC_ANALYSIS_ADAPTERS_H
#define HYC_ANALYSIS_ADAPTERS_H

#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <optional>

namespace hyc {

/// How the parameters of a layer's adapter are called behind the layer's path, as peft calls them: A and B, and of
/// DoRA the length of each output's weights.
inline constexpr llvm::StringLiteral kInnerName = ".lora_A.weight", kOuterName = ".lora_B.weight",
                                     kMagnitudeName = ".lora_magnitude_vector";

/// Of a parameter of an adapter: which of its dimensions is the adapter's rank.
inline constexpr llvm::StringLiteral kAdapterRank = "hyc.adapter_rank";

/// Of the magnitudes, which have no such dimension.
inline constexpr llvm::StringLiteral kAdapterMagnitudes = "hyc.adapter_magnitudes";

/// Of A: the layer's weight is stored [inputs, outputs].
inline constexpr llvm::StringLiteral kInputsFirst = "hyc.inputs_first";
/// Of a module that gets adapters: where their values lie, as {NAME = [#hyc.file, shape]}; what is not there starts by
/// rule.
inline constexpr llvm::StringLiteral kAdapterValues = "hyc.adapter_values";

inline std::optional<int64_t> adapterRankDim(ParamOp param) {
  auto dim = param->getAttrOfType<mlir::IntegerAttr>(kAdapterRank);
  return dim ? std::optional(dim.getInt()) : std::nullopt;
}

/// Whether the parameter belongs to an adapter.
inline bool isOfAdapter(ParamOp param) { return param->hasAttr(kAdapterRank) || param->hasAttr(kAdapterMagnitudes); }

} // namespace hyc

#endif // HYC_ANALYSIS_ADAPTERS_H
