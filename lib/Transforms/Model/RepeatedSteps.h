// Steps that are written out one behind the other: where they are, and what each takes from where. RollSteps makes one
// op of them.
#ifndef HYC_LIB_TRANSFORMS_MODEL_REPEATEDSTEPS_H
#define HYC_LIB_TRANSFORMS_MODEL_REPEATEDSTEPS_H

#include "dialects/Hyc/HycDialect.h"

namespace hyc::model {

/// A result of the op at `position` of a step.
struct StepValue {
  size_t position = 0;
  unsigned result = 0;
  bool operator==(const StepValue &other) const { return position == other.position && result == other.result; }
};

/// Elements of `source` along one dimension, one a step: the slices at `offsets`, whose entry of `dim` is the least of
/// all steps'; the others are the same in every step.
struct StepElements {
  mlir::Value source;
  llvm::SmallVector<int64_t> offsets, shape; ///< shape of one slice, 1 along `dim`
  int64_t dim = 0;
  mlir::RankedTensorType type; ///< that a step sees
  bool operator==(const StepElements &other) const {
    return source == other.source && offsets == other.offsets && shape == other.shape && dim == other.dim &&
           type == other.type;
  }
};

/// Where an operand of a step's op comes from.
struct StepOperand {
  enum Kind { Internal, Carried, Element, Invariant } kind = Internal;
  StepValue from;      ///< Internal: of the same step; Carried: of the one before
  mlir::Value outside; ///< Invariant: it; Carried: what the first step takes
  size_t element = 0;  ///< Element: which
};

/// Equal ops, `period` of them a step, in so many steps one behind the other.
class RepeatedSteps {
public:
  /// Of the ops that count (constants and reads do not), those from `begin` on.
  RepeatedSteps(llvm::ArrayRef<mlir::Operation *> ops, size_t begin, size_t period, size_t count);

  /// Finds out where everything comes from; false where steps are not alike in that, or are none along a sequence.
  bool analyse();

  size_t countSteps() const { return count; }
  size_t getPeriod() const { return period; }
  mlir::Operation *at(size_t step, size_t position) const { return ops[step * period + position]; }
  llvm::ArrayRef<StepOperand> operandsOf(size_t position) const { return operands[position]; }
  /// Whether the op at `position` only takes a step's element: which, or nothing.
  std::optional<size_t> elementAt(size_t position) const { return sliced[position]; }
  /// Whether the op computes the same in every step.
  bool isInvariant(size_t position) const { return invariant[position]; }
  llvm::ArrayRef<StepElements> getElements() const { return elements; }
  bool isReverse() const { return direction < 0; }
  /// Whether anything behind the steps reads a value, and whether of the last step alone.
  bool isReadBehind(StepValue value) const;
  bool isReadOfLastOnly(StepValue value) const;
  bool contains(mlir::Operation *op) const { return places.contains(op); }

private:
  bool analyseOperand(size_t position, unsigned operand);
  bool analyseSlice(size_t position);
  std::optional<size_t> addElements(llvm::function_ref<mlir::Value(size_t)> sliceOf, mlir::RankedTensorType type);
  bool agree(int64_t step);
  std::optional<StepValue> valueIn(mlir::Value value, size_t step) const;

  llvm::ArrayRef<mlir::Operation *> ops;
  size_t period, count;
  llvm::DenseMap<mlir::Operation *, size_t> places;
  std::vector<llvm::SmallVector<StepOperand>> operands; ///< by position
  std::vector<std::optional<size_t>> sliced;
  std::vector<bool> invariant;
  llvm::SmallVector<StepElements> elements;
  int64_t direction = 0; ///< of the elements: 1, -1, or 0 as long as there are none
};

/// Whether two values are the same number wherever they stand: one value, or equal constants or reads.
bool areSame(mlir::Value a, mlir::Value b);

/// Constants and reads of parameters, which stand beside whoever uses them.
bool isLeaf(mlir::Operation *op);

} // namespace hyc::model

#endif // HYC_LIB_TRANSFORMS_MODEL_REPEATEDSTEPS_H
