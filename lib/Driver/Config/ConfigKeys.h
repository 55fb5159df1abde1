// ConfigKeys: what hyc does with each key of a DeepSpeed configuration, as data: one row a key (ConfigKeys.cpp). To
// connect a key to a new feature, name it in the setting's row (hyc/Plan/SettingTable.h), and change the key's row from
// `only` or `harmless` to `connect()`: reading, precedence, checks of type and range, and --explain-config follow.
#ifndef HYC_LIB_DRIVER_CONFIG_CONFIGKEYS_H
#define HYC_LIB_DRIVER_CONFIG_CONFIGKEYS_H

#include "hyc/Plan/SettingTable.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

class ConfigFile;
struct ConfigEntry;

/// What may stand behind a key. "auto" (hyc decides) and null (as if left out) always may.
struct ConfigType {
  enum Kind { Bool, Integer, Number, Text, Pair, Any } kind;
  double least = 0, most = 0;
  llvm::StringRef choices; ///< of Text, separated by '|'; empty: any string

  static constexpr ConfigType boolean() { return {Bool, 0, 0, {}}; }
  static constexpr ConfigType integer(double least, double most) { return {Integer, least, most, {}}; }
  static constexpr ConfigType number(double least, double most) { return {Number, least, most, {}}; }
  static constexpr ConfigType text(llvm::StringRef choices = {}) { return {Text, 0, 0, choices}; }
  /// Two numbers, each within the range.
  static constexpr ConfigType pair(double least, double most) { return {Pair, least, most, {}}; }
  static constexpr ConfigType any() { return {Any, 0, 0, {}}; }

  /// "an integer from 1 to 65536", "fp16, bf16 or fp32"
  std::string describe() const;
};

/// The setting that a key is connected to, as --explain-config shows it.
struct ShownSetting {
  std::string value;
  Origin origin = Origin::Default;
  std::string source;
};

struct Treatment {
  enum Kind {
    Connected, ///< decides the setting whose row names the key
    Harmless,  ///< changes neither the values nor the memory of a program of hyc, whatever it says
    Only,      ///< asks for a feature; without effect at its neutral values, refused at others
  } kind;
  /// Connected: offers what the value means to the setting. Errors are located.
  llvm::Error (*offer)(SettingRef, const ConfigEntry &, const ConfigFile &) = nullptr;
  bool isOneOfMany = false; ///< Connected: a key that is true where the setting is the first part of its path
  llvm::StringRef decider;  ///< Connected: what decides where the setting is 0
  llvm::StringRef neutral;  ///< Only: JSON scalars separated by '|'
};

struct ConfigKey {
  llvm::StringRef path;    ///< dotted; `flops_profiler.*` stands for every key of the object that has no row
  llvm::StringRef aliases; ///< dotted, separated by spaces
  ConfigType type;
  llvm::StringRef fallback; ///< DeepSpeed's default as JSON; empty: it has none
  Treatment treatment;
  llvm::StringRef why;   ///< Connected: what the value becomes. Otherwise: why it has no effect
  llvm::StringRef scope; ///< of scheduler.params: the types that take it, separated by '|'; optimizers know theirs
};

/// Every row, in the order in which --explain-config shows them.
llvm::ArrayRef<ConfigKey> getConfigKeys();

/// The row of the setting that a connected key decides.
const SettingRow &settingOf(const ConfigKey &key);
ShownSetting showSetting(const ConfigKey &key, const CompileOptions &options);

} // namespace hyc

#endif // HYC_LIB_DRIVER_CONFIG_CONFIGKEYS_H
