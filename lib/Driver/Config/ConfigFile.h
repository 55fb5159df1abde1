// ConfigFile: a ds_config.json, read against the table of keys. Here is decided whether the file is well-formed; what
// its values lead to is ConfigResolution's part.
#ifndef HYC_LIB_DRIVER_CONFIG_CONFIGFILE_H
#define HYC_LIB_DRIVER_CONFIG_CONFIGFILE_H

#include "Config/ConfigKeys.h"
#include "hyc/Support/LocatedJson.h"

#include <memory>

namespace hyc {

/// One key that the file gives. A null value counts as not given.
struct ConfigEntry {
  const ConfigKey *key;
  const JsonValue *value;
  std::string spelled; ///< the path as written: an alias, or what `amp.*` stands for
  TextPosition keyAt;

  /// "auto": left to hyc.
  bool isAuto() const { return value->getString() == "auto"; }
};

class ConfigFile {
public:
  /// No keys.
  ConfigFile() = default;
  /// Unknown keys, wrong types and values out of range are located errors (65).
  static llvm::Expected<ConfigFile> read(const std::string &path);
  static llvm::Expected<ConfigFile> parse(llvm::StringRef text, llvm::StringRef path);

  const std::vector<ConfigEntry> &getEntries() const { return entries; }
  /// By the path of its row; null where it is not given.
  const ConfigEntry *find(llvm::StringRef path) const;
  /// The value of a key that is given and not "auto".
  const JsonValue *get(llvm::StringRef path) const;

  /// `ds.json:3:5: train_batch_size`, which messages and --explain-config call the source of a value.
  std::string sourceOf(const ConfigEntry &entry) const;
  /// A located error (65) at the value of `entry`: `ds.json:3:5: stage is 7, WHAT`.
  llvm::Error refuse(const ConfigEntry &entry, const llvm::Twine &what) const;

private:
  llvm::Error readObject(const JsonValue &object, const std::string &prefix);
  llvm::Error readMember(const JsonValue::Member &member, const std::string &path);
  llvm::Error add(const ConfigKey &key, const JsonValue::Member &member, const std::string &path);
  llvm::Error unknownKey(const JsonValue::Member &member, const std::string &path) const;
  llvm::Error checkType(const ConfigEntry &entry) const;

  std::string path;
  std::unique_ptr<JsonValue> root; ///< entries point into it
  std::vector<ConfigEntry> entries;
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_CONFIG_CONFIGFILE_H
