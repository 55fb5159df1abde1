// The keys of a config.json, each with the type and the range that it may have. A key that is missing or null leaves
// the value as it is: its default. What is wrong is a diagnostic at the value, with what was found and what was
// expected.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_CONFIGREADER_H
#define HYC_LIB_IMPORT_HUGGINGFACE_CONFIGREADER_H

#include "hyc/Support/LocatedJson.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <optional>

namespace hyc {

inline constexpr int64_t kMaxLayers = 100000, kMaxWidth = int64_t(1) << 20, kMaxPositions = int64_t(1) << 31;

class ConfigReader {
public:
  /// `name` stands for the file in messages.
  ConfigReader(mlir::MLIRContext &context, llvm::StringRef name) : context(context), name(name) {}

  mlir::InFlightDiagnostic error(TextPosition at = {0, 0});
  llvm::LogicalResult parse(llvm::StringRef text);
  /// The keys below are those of the object at `key`, until leave(). False where there is none.
  bool enter(llvm::StringRef key);
  void leave() { object = &root; }

  bool has(llvm::StringRef key) const { return find(key) != nullptr; }
  bool isNull(llvm::StringRef key) const { return object->get(key) && object->get(key)->isNull(); }
  llvm::LogicalResult readSize(llvm::StringRef key, int64_t &value, int64_t least, int64_t most);
  llvm::LogicalResult readNumber(llvm::StringRef key, double &value, bool mayBeZero);
  llvm::LogicalResult readShare(llvm::StringRef key, double &value);
  llvm::LogicalResult readBool(llvm::StringRef key, bool &value);
  llvm::LogicalResult readString(llvm::StringRef key, std::string &value, llvm::ArrayRef<llvm::StringRef> choices);
  /// The members of the object at `key`, all strings, in their order, each to be one of `choices`.
  llvm::LogicalResult readStrings(llvm::StringRef key, std::vector<std::pair<std::string, std::string>> &values,
                                  llvm::ArrayRef<llvm::StringRef> choices);
  llvm::LogicalResult wrong(llvm::StringRef key, const llvm::Twine &expected);

private:
  /// Null where the key is missing or null.
  const JsonValue *find(llvm::StringRef key) const {
    const JsonValue *value = object->get(key);
    return value && !value->isNull() ? value : nullptr;
  }
  llvm::LogicalResult wrong(llvm::StringRef key, const JsonValue &found, const llvm::Twine &expected) {
    return error(found.getPosition()) << "\"" << key << "\" is " << found.describe() << ", expected " << expected;
  }

  mlir::MLIRContext &context;
  llvm::StringRef name;
  JsonValue root;
  const JsonValue *object = &root;
};

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_CONFIGREADER_H
