// What a program is for. A model trains, unless an entry says otherwise.
//
// A module that trains may hold another, @evaluate: the same model over the same parameters, as it is evaluated. And it
// may hold one for each further size of a dimension of its inputs, such as @seq_128: the same model over the same
// states, as it trains with shorter samples. All go through the phases side by side, and become one program with
// several entries a stage. The module around is of the largest size.
#ifndef HYC_ANALYSIS_ENTRY_H
#define HYC_ANALYSIS_ENTRY_H

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

namespace hyc {

/// Of the module.
inline constexpr llvm::StringLiteral kEntryAttribute = "hyc.entry", kEvaluate = "evaluate";
/// Of a module in which no place of the samples' length sees one behind it, whatever attention is written as.
inline constexpr llvm::StringLiteral kCausalAttribute = "hyc.causal";
/// Of each module of several sizes: `{dim = "seq", size = 128 : i64}`.
inline constexpr llvm::StringLiteral kSizeAttribute = "hyc.size";

/// Whether the program tells how well the parameters do, and changes none: see hyc-enter-evaluation.
inline bool isEvaluation(mlir::ModuleOp module) {
  auto entry = module->getAttrOfType<mlir::StringAttr>(kEntryAttribute);
  return entry && entry.getValue() == kEvaluate;
}

/// The module inside that evaluates what this one trains; null if there is none.
inline mlir::ModuleOp evaluationOf(mlir::ModuleOp module) {
  for (auto inside : module.getOps<mlir::ModuleOp>())
    if (isEvaluation(inside))
      return inside;
  return {};
}

/// What a module of several sizes says of itself.
struct ModelSize {
  llvm::StringRef dim;
  int64_t size = 0;
};

/// The size that a module is of; none: there are not several.
inline std::optional<ModelSize> sizeOf(mlir::ModuleOp module) {
  auto said = module->getAttrOfType<mlir::DictionaryAttr>(kSizeAttribute);
  auto dim = said ? said.getAs<mlir::StringAttr>("dim") : mlir::StringAttr();
  auto size = said ? said.getAs<mlir::IntegerAttr>("size") : mlir::IntegerAttr();
  return dim && size ? std::optional(ModelSize{dim.getValue(), size.getInt()}) : std::nullopt;
}

/// The modules inside that train smaller sizes, in their order; one without a name is none.
inline llvm::SmallVector<mlir::ModuleOp> sizesInside(mlir::ModuleOp module) {
  llvm::SmallVector<mlir::ModuleOp> sizes;
  for (auto inside : module.getOps<mlir::ModuleOp>())
    if (sizeOf(inside) && inside.getSymName() && !isEvaluation(inside))
      sizes.push_back(inside);
  return sizes;
}

/// What the module of a further size, its entry, is called: letters and digits alone, and "_" before the size.
std::string nameOfSize(ModelSize size);

/// How an input tells up to which place of the dimension of several sizes a sample reaches.
enum class LengthTeller {
  none,
  labels,  ///< up to the last label that the loss counts
  presence ///< up to the last number that is not 0: an attention mask's
};

/// What argument `argument` of a function over the model's inputs tells of it.
LengthTeller lengthToldBy(FuncOp function, unsigned argument);

/// Whether some phase makes a function, a mesh or a module of this name, so that no parameter may have it.
inline bool isNameOfAPhase(llvm::StringRef name) {
  auto [stem, number] = name.rsplit('.'); // @forward.0
  bool isNumbered = !number.empty() && llvm::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (isNumbered)
    return stem == "forward" || stem == "backward" || stem == "reduce" || stem == "apply";
  return name == kTrain || name == kMicrobatch || name == kApply || name == "mesh" || name == kEvaluate;
}

/// Visits what is in the module's own functions, and not in those of a module inside.
template <typename Callback> void walkFunctions(mlir::ModuleOp module, Callback callback) {
  for (auto function : module.getOps<FuncOp>())
    function.walk(callback);
}

} // namespace hyc

#endif // HYC_ANALYSIS_ENTRY_H
