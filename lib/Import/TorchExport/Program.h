// Program: what an archive says of the model, decoded from models/model.json (schema 8 of torch/_export/serde) and
// checked by itself. What the operators mean is not looked at here.
#ifndef HYC_LIB_IMPORT_TORCHEXPORT_PROGRAM_H
#define HYC_LIB_IMPORT_TORCHEXPORT_PROGRAM_H

#include "Archive.h"
#include "hyc/Support/LocatedJson.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <optional>
#include <vector>

namespace hyc::torchexport {

/// torch's numbers of types (torch/_export/serde/schema.py: ScalarType).
enum class ScalarType {
  U8 = 1,
  I8 = 2,
  I16 = 3,
  I32 = 4,
  I64 = 5,
  F16 = 6,
  F32 = 7,
  F64 = 8,
  C64 = 10,
  Bool = 12,
  BF16 = 13
};
inline bool isFloat(ScalarType type) {
  return type == ScalarType::F16 || type == ScalarType::BF16 || type == ScalarType::F32 || type == ScalarType::F64;
}
int64_t byteCount(ScalarType type);
std::optional<ScalarType> toScalarType(int64_t number);

/// A size that is a number, or a symbol that is bound when importing (SymbolicSizes.h).
struct Size {
  std::optional<int64_t> value;
  std::string
      symbol; ///< an expression over symbols where it is not one symbol alone; none where the archive has a number

  /// By their numbers, where they have some.
  bool operator==(const Size &other) const {
    return value && other.value ? *value == *other.value : symbol == other.symbol && value == other.value;
  }
};

struct TensorMeta {
  ScalarType type = ScalarType::F32;
  std::vector<Size> sizes, strides;
  int64_t offset = 0; ///< in elements, into its storage

  bool isEmpty() const {
    return llvm::any_of(sizes, [](const Size &size) { return size.value == 0; });
  }
};

/// One argument: exactly one of the schema's union, by its key ("as_tensor", "as_sym_ints", …).
struct Argument {
  std::string name;
  std::string kind;
  const JsonValue *value = nullptr;
};

/// What a graph within the graph calls a value, and what the whole program calls it.
using NameMap = llvm::StringMap<std::string>;

struct Node {
  std::string name, target; ///< "aten.add.Tensor"
  std::string scope;        ///< path of the module whose forward called it
  std::vector<Argument> arguments;
  std::vector<std::string> results;       ///< as the program calls them
  bool keepsGradient = false;             ///< called where no gradient is taken: torch.no_grad()
  std::shared_ptr<const NameMap> inGraph; ///< of the graph within the graph that the node is from, if any

  /// For messages: "\"linear\" of module \"h.0.mlp\"", and the same with what it calls.
  std::string nameForMessages() const { return "\"" + name + "\"" + moduleSuffix(); }
  std::string describe() const { return "node \"" + name + "\" (" + target + ")" + moduleSuffix(); }
  std::string moduleSuffix() const { return scope.empty() ? "" : " of module \"" + scope + "\""; }

  /// The program's name of a value that an argument names.
  std::string nameOf(llvm::StringRef value) const {
    auto found = inGraph ? inGraph->find(value) : NameMap::const_iterator();
    return inGraph && found != inGraph->end() ? found->second : value.str();
  }
};

/// Nodes that torch does not have. Those of a graph that a loop or a branch calls stand between one that begins it,
/// whose results are what it is given, and one that ends it, whose operands are what it gives; then comes the node that
/// calls it. A condition under which a loop goes on is the operand of one more: before its body, and in it.
inline constexpr llvm::StringLiteral kBodyBegins = "hyc.body_begins", kBodyEnds = "hyc.body_ends",
                                     kGoesOn = "hyc.goes_on";
inline bool isMarker(llvm::StringRef target) { return target.starts_with("hyc."); }

/// Where the values of a tensor of the model are.
struct StoredTensor {
  std::string name; ///< in the model: "h.0.attn.c_attn.weight"; the first of several that are tied
  bool isParameter = false;
  bool isTrained = false; ///< a parameter that has a gradient: torch's requires_grad
  TensorMeta meta;
  uint64_t offset = 0, bytes = 0; ///< in the archive
};

struct Program {
  JsonValue json; ///< arguments refer to it
  std::vector<StoredTensor> tensors;
  llvm::StringMap<size_t> tensorOf;                         ///< by the graph's name for it
  std::vector<std::string> inputs;                          ///< tensors that the user gives, by the graph's names
  std::vector<std::pair<std::string, std::string>> outputs; ///< the graph's name, the model's
  std::vector<std::pair<size_t, std::string>> mutations;    ///< of tensors: the graph's name of what replaces each
  std::vector<Node> nodes;
  llvm::StringMap<TensorMeta> values;
};

/// Decodes the archive's model. Errors say `FILE: what`.
llvm::Expected<Program> readProgram(const Archive &archive);

} // namespace hyc::torchexport

#endif // HYC_LIB_IMPORT_TORCHEXPORT_PROGRAM_H
