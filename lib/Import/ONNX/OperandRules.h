// What an operator's code may rely on about its inputs: each row of the operators' table says it, and one function
// checks it before that code runs. A row cannot be written without.
#ifndef HYC_LIB_IMPORT_ONNX_OPERANDRULES_H
#define HYC_LIB_IMPORT_ONNX_OPERANDRULES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace hyc::onnx {
class NodeImport;

/// The rule of one input. Unless it says otherwise the input is given, is a tensor of any rank and element type, and
/// has at least one element.
struct OperandRule {
  enum class Form { Tensor, Sequence, Any };
  enum class Elements { Any, Real, Integer, Boolean };
  /// Whether there may be no elements: in a constant, such as the shape of a number, or when running, too.
  enum class Empty { Never, Constant, Always };
  static constexpr int64_t kAnyRank = 1 << 20, kNever = 1 << 20;

  llvm::StringRef name; // as the format calls it
  Form form = Form::Tensor;
  Elements elements = Elements::Any;
  Empty empty = Empty::Never;
  int64_t requiredFrom = 0; // the operator set from which on it has to be given
  int64_t leastRank = 0, mostRank = kAnyRank;
  bool isOne = false; // exactly one element

  OperandRule optional() const { return since(kNever); }
  OperandRule since(int64_t opset) const {
    return with([&](OperandRule &rule) { rule.requiredFrom = opset; });
  }
  OperandRule ranks(int64_t least, int64_t most = kAnyRank) const {
    return with([&](OperandRule &rule) { rule.leastRank = least, rule.mostRank = most; });
  }
  OperandRule rank(int64_t only) const { return ranks(only, only); }
  OperandRule real() const {
    return with([](OperandRule &rule) { rule.elements = Elements::Real; });
  }
  OperandRule integer() const {
    return with([](OperandRule &rule) { rule.elements = Elements::Integer; });
  }
  OperandRule boolean() const {
    return with([](OperandRule &rule) { rule.elements = Elements::Boolean; });
  }
  OperandRule orEmptyConstant() const {
    return with([](OperandRule &rule) { rule.empty = Empty::Constant; });
  }
  OperandRule orEmpty() const {
    return with([](OperandRule &rule) { rule.empty = Empty::Always; });
  }

private:
  template <typename Change> OperandRule with(Change change) const {
    OperandRule rule = *this;
    change(rule);
    return rule;
  }
};

inline OperandRule tensor(llvm::StringRef name) { return {.name = name}; }
/// One number: of rank 0, or the only element.
inline OperandRule one(llvm::StringRef name) { return {.name = name, .isOne = true}; }
/// Integers in a row, or none: axes, sizes, shapes.
inline OperandRule list(llvm::StringRef name) { return tensor(name).integer().ranks(0, 1).orEmpty(); }
/// A list of tensors.
inline OperandRule sequence(llvm::StringRef name) { return {.name = name, .form = OperandRule::Form::Sequence}; }

/// A tensor, a list of them, or an optional value that is not there.
inline OperandRule anything(llvm::StringRef name) { return {.name = name, .form = OperandRule::Form::Any}; }

/// The rules of an operator's inputs in their order.
struct OperandRules {
  llvm::SmallVector<OperandRule, 4> rules;
  bool repeatsLast = false; // any number of the last one, but at least one

  OperandRules(std::initializer_list<OperandRule> rules, bool repeatsLast = false)
      : rules(rules), repeatsLast(repeatsLast) {}
  /// Any number of one kind, at least one.
  static OperandRules many(const OperandRule &rule) { return {{rule}, true}; }
};

/// Reports the first input that breaks its rule: left out, of another form, rank, size or element type, or one too
/// many.
bool checkOperands(NodeImport &node, const OperandRules &rules);
} // namespace hyc::onnx

#endif // HYC_LIB_IMPORT_ONNX_OPERANDRULES_H
