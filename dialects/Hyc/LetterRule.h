// Sharding rules from letters: each tensor's dimensions are named, equal letters are one factor.
#ifndef HYC_DIALECTS_HYC_LETTERRULE_H
#define HYC_DIALECTS_HYC_LETTERRULE_H

#include "dialects/Hyc/HycDialect.h"

#include <map>

namespace hyc {

/// Builds a rule from letter strings: each tensor's dimensions are named, equal letters are one factor. Letters of
/// `whole` are replicated, letters that no result has are sums.
struct LetterRule {
  ShardingRule rule;
  std::map<char, int> factorOf;

  TensorFactors add(llvm::StringRef letters, mlir::RankedTensorType type) {
    assert(static_cast<int64_t>(letters.size()) == type.getRank());
    TensorFactors dims;
    for (auto [letter, size] : llvm::zip_equal(letters, type.getShape())) {
      auto [entry, inserted] = factorOf.try_emplace(letter, 0);
      if (inserted)
        entry->second = rule.addFactor(size);
      dims.push_back({entry->second});
    }
    return dims;
  }

  void kind(llvm::StringRef letters, FactorKind kind) {
    for (char letter : letters)
      if (auto entry = factorOf.find(letter); entry != factorOf.end())
        rule.factors[entry->second].kind = kind;
  }
};

/// `operands` and `results` name the dimensions; a leading '*' stands for all leading dimensions that the rest does not
/// name (the same ones in every tensor).
ShardingRule letterRule(mlir::Operation *op, llvm::ArrayRef<llvm::StringRef> operands,
                        llvm::ArrayRef<llvm::StringRef> results, llvm::StringRef whole = "", llvm::StringRef sums = "");

/// Marks factors that no result has as sums: what a linear op that loses a dimension leaves.
ShardingRule withMissingAsSums(ShardingRule rule);

} // namespace hyc

#endif // HYC_DIALECTS_HYC_LETTERRULE_H
