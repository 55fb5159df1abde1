// What --lora says: adapters of low rank beside linear layers, in the words of peft's adapter_config.json.
#ifndef HYC_PLAN_ADAPTERSETTINGS_H
#define HYC_PLAN_ADAPTERSETTINGS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hyc {

/// Of every linear layer but the one that makes the model's output, as a target.
inline constexpr llvm::StringLiteral kAllLinear = "all-linear";

struct AdapterSettings {
  static constexpr int64_t kMostRank = 65536;
  static constexpr double kMostAlpha = 1e9;

  int64_t rank = 0;
  double alpha = 0; ///< as peft's lora_alpha; by default the rank
  std::string variant = "lora";
  /// Each the end of a module's path, from a dot on, as peft's target_modules; or a pattern of whole paths, where it
  /// has characters that names do not have.
  std::vector<std::string> targets;

  /// "rank=8,alpha=16,targets=q_proj,v_proj": an item without "=" goes on with the list before it. An error says what
  /// is wrong and what is expected, but not which flag.
  static llvm::Expected<AdapterSettings> parse(llvm::StringRef text);
  /// What the members' types do not hold.
  llvm::Error check() const;

  /// Whether `text` of --lora is the path of an adapter and no list of settings.
  static bool isFolder(llvm::StringRef text) { return !text.empty() && !text.contains('='); }

  /// The factor of what A and B make: alpha / rank, and of rank-stabilised adapters alpha / √rank.
  double scale() const;
  /// Whether the length of each output's weights is a parameter, beside A and B for their direction (DoRA).
  bool hasMagnitudes() const { return variant == "dora"; }
};

} // namespace hyc

#endif // HYC_PLAN_ADAPTERSETTINGS_H
