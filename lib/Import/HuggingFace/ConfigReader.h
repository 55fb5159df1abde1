// The keys of a config.json, each with the type and the range that it may have. A key that is missing or null leaves
// the value as it is: its default. "a|b" is a key with two names: a goes before b. What is wrong is a diagnostic at the
// value, with what was found and what was expected. The reader knows which keys were asked for, so that none of the
// file's is overlooked.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_CONFIGREADER_H
#define HYC_LIB_IMPORT_HUGGINGFACE_CONFIGREADER_H

#include "hyc/Support/LocatedJson.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace hyc {

inline constexpr int64_t kMaxLayers = 100000, kMaxWidth = int64_t(1) << 20, kMaxPositions = int64_t(1) << 31;

/// Whether a key says nothing about what any model computes: files, tokens, generation, other heads.
bool isAboutOtherThings(llvm::StringRef key);

class ConfigReader {
public:
  /// `name` stands for the file in messages.
  ConfigReader(mlir::MLIRContext &context, llvm::StringRef name) : context(context), name(name) {}

  mlir::InFlightDiagnostic error(TextPosition at = {0, 0});
  llvm::LogicalResult parse(llvm::StringRef text);
  /// The keys below are those of the object at `key`, until leave(). False where there is none.
  bool enter(llvm::StringRef key);
  void leave();
  /// Whether the value of `key` is an object of objects.
  bool isNested(llvm::StringRef key);

  bool has(llvm::StringRef key) { return find(key) != nullptr; }
  bool isNull(llvm::StringRef key);
  llvm::LogicalResult readSize(llvm::StringRef key, int64_t &value, int64_t least, int64_t most);
  llvm::LogicalResult readNumber(llvm::StringRef key, double &value, bool mayBeZero);
  llvm::LogicalResult readShare(llvm::StringRef key, double &value);
  llvm::LogicalResult readBool(llvm::StringRef key, bool &value);
  /// One of `choices`, or any where there are none.
  llvm::LogicalResult readString(llvm::StringRef key, std::string &value, llvm::ArrayRef<llvm::StringRef> choices);
  llvm::LogicalResult readSizes(llvm::StringRef key, std::vector<int64_t> &values, int64_t least, int64_t most);
  llvm::LogicalResult readNumbers(llvm::StringRef key, std::vector<double> &values);
  /// An array of strings, each to be one of `choices`.
  llvm::LogicalResult readWords(llvm::StringRef key, std::vector<std::string> &values,
                                llvm::ArrayRef<llvm::StringRef> choices);
  /// Null, false, 0 and what is empty: the model without what `key` asks for, which hyc does not build.
  llvm::LogicalResult refuse(llvm::StringRef key);
  /// Of the object that was entered, keys that are none of `known`.
  llvm::LogicalResult refuseOthers(llvm::ArrayRef<llvm::StringRef> known);
  /// The members of the object at `key`, all strings, in their order, each to be one of `choices`.
  llvm::LogicalResult readStrings(llvm::StringRef key, std::vector<std::pair<std::string, std::string>> &values,
                                  llvm::ArrayRef<llvm::StringRef> choices);
  /// How many members the object at `key` has; none where there is none.
  std::optional<int64_t> countMembers(llvm::StringRef key);
  llvm::LogicalResult wrong(llvm::StringRef key, const llvm::Twine &expected);

  /// A warning for each key of the root that nobody has asked for and `isKnown` does not know.
  void reportUnread(llvm::StringRef type, llvm::function_ref<bool(llvm::StringRef)> isKnown);
  /// The same for the object that was entered.
  void reportOthers(llvm::StringRef type, llvm::function_ref<bool(llvm::StringRef)> isKnown);

private:
  /// The value of the first of a key's names that is there and not null.
  const JsonValue *find(llvm::StringRef key);
  llvm::LogicalResult wrong(llvm::StringRef key, const JsonValue &found, const llvm::Twine &expected);
  void report(const JsonValue &from, llvm::StringRef type, llvm::function_ref<bool(llvm::StringRef)> isKnown);

  mlir::MLIRContext &context;
  llvm::StringRef name;
  template <typename Element>
  llvm::LogicalResult readArray(llvm::StringRef key, const llvm::Twine &expected,
                                llvm::function_ref<std::optional<Element>(const JsonValue &)> read,
                                std::vector<Element> &values);

  JsonValue root;
  llvm::SmallVector<const JsonValue *> outer; ///< what leave() goes back to
  const JsonValue *object = &root;
  llvm::StringSet<> asked;      ///< of the root's keys
  llvm::StringSet<> askedInner; ///< of those of the object that was entered last
};

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_CONFIGREADER_H
