// What is known of the masks of attention: of those that are constant their values, of those that the model's inputs
// decide how they were put together.
#ifndef HYC_LIB_TRANSFORMS_MODEL_ATTENTIONMASKS_H
#define HYC_LIB_TRANSFORMS_MODEL_ATTENTIONMASKS_H

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Support/OpIds.h"
#include "mlir/IR/PatternMatch.h"

namespace hyc {

enum class MaskKind { None, Causal, Other };

/// At this distance below the row's maximum a score has probability 0 in single precision and in half.
inline constexpr double kMaskedScore = -1e4;

/// Evaluates and classifies masks; all layers share one as a rule.
class Masks {
public:
  std::optional<HostTensor> evaluate(mlir::Value value) { return evaluator.evaluate(value); }
  /// Which scores of the last two dimensions are kept: by an added tensor (0 or very negative) or a boolean.
  MaskKind classify(const HostTensor &mask);

private:
  ConstantEvaluator evaluator;
  llvm::SmallVector<std::pair<HostTensor, MaskKind>, 1> classified;
};

/// A mask that inputs decide, as hyc.attention takes it: all of it but a triangle that it has been joined with.
struct InputMask {
  bool isCausal = false;
  mlir::Value mask; ///< null: nothing is left
};

/// Makes them, each right behind the condition that it comes from, which all layers share as a rule.
class InputMasks {
public:
  InputMasks(OpIds &ids, Masks &masks) : ids(ids), masks(masks) {}

  /// Of `condition`, whose dimensions are called by `letters`; `wanted` names batch, heads ('1': there are none),
  /// queries and keys.
  InputMask of(mlir::Value condition, llvm::StringRef letters, llvm::StringRef wanted);

  /// Whether `rows` holds for the rows, along the last dimension, in which `condition` keeps nothing; both have
  /// dimensions called by `letters`.
  static bool areOfNothing(mlir::Value rows, mlir::Value condition, llvm::StringRef letters);

private:
  /// A value whose dimensions have names, '-' where all along it is one element.
  struct Named {
    mlir::Value value;
    std::string letters;
  };
  struct Made {
    Named from;
    std::string wanted;
    InputMask mask;
  };

  static Named withoutCopies(Named named);
  void collect(Named named, llvm::StringRef wanted, InputMask &mask, llvm::SmallVectorImpl<Named> &parts);
  mlir::Value arranged(mlir::IRRewriter &rewriter, const Named &part, llvm::StringRef present);
  template <typename OpT, typename... Args>
  mlir::Value create(mlir::IRRewriter &rewriter, mlir::Value cause, Args &&...args);

  OpIds &ids;
  Masks &masks;
  llvm::SmallVector<Made, 1> made;
};

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_MODEL_ATTENTIONMASKS_H
