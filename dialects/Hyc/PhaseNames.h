// What phases call things for one another: the functions of a module, and the attributes by which one phase tells the
// next what an op, argument, result or module is. The description of hyc.func tells their meaning; those that are
// about ranks are the dist dialect's (dialects/Dist/DistDialect.h).
#ifndef HYC_DIALECTS_HYC_PHASENAMES_H
#define HYC_DIALECTS_HYC_PHASENAMES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

/// The function of phase 1; those of phases 2 and 3. Phase 4 has one of each for every stage (dist::functionName).
inline constexpr llvm::StringLiteral kTrain = "train", kMicrobatch = "microbatch", kApply = "apply";

/// Of an argument: the input of this name, and what the loader is to fill it with (InputSources.h); of random keys
/// also the ids of the ops that draw.
inline constexpr llvm::StringLiteral kInput = "hyc.input", kSource = "hyc.source", kStreams = "hyc.streams";
/// Of an argument: a number of this name, which the runtime sets.
inline constexpr llvm::StringLiteral kScalar = "hyc.scalar";
/// Of a result: the model's output of this name.
inline constexpr llvm::StringLiteral kOutput = "hyc.output";
/// Of a result of a forward function and an argument of a backward one: the value of this id is kept for it.
inline constexpr llvm::StringLiteral kSaved = "hyc.saved";

/// Of the ops of @microbatch that belong to the backward pass.
inline constexpr llvm::StringLiteral kBackward = "hyc.backward";
inline bool isBackward(mlir::Operation *op) { return op->hasAttr(kBackward); }

/// Of a composite op that the plan wants decomposed.
inline constexpr llvm::StringLiteral kForm = "hyc.form", kDecomposed = "decomposed";

/// Of a module: the folder that its #hyc.file attributes are relative to.
inline constexpr llvm::StringLiteral kModelFolder = "hyc.model_folder";
/// Of a module: how the model's authors divide its parameters over ranks, as patterns of names.
inline constexpr llvm::StringLiteral kTensorPlan = "hyc.tensor_plan";

} // namespace hyc

#endif // HYC_DIALECTS_HYC_PHASENAMES_H
