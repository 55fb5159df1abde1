// Translator: a Program written in the operators of ONNX. Each aten operator is one row of a table, a function that
// adds the nodes which mean the same; numbers among the arguments become constants of the type that torch would give
// them.
#ifndef HYC_LIB_IMPORT_TORCHEXPORT_TRANSLATOR_H
#define HYC_LIB_IMPORT_TORCHEXPORT_TRANSLATOR_H

#include "Program.h"
#include "lib/Import/ONNX/AssembledModel.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/LogicalResult.h"

#include <memory>

namespace hyc::torchexport {

/// ONNX's number of an element type.
int32_t onnxType(ScalarType type);

/// Whether a result is a view of an operand: only Unknown where it depends on sizes that are not known.
enum class Sharing { Never, Always, Unknown };

class NodeTranslation;
/// How an aten operator is translated.
using Translation = void (*)(NodeTranslation &node);
using TranslationTable = llvm::StringMap<Translation>;

class Translator {
public:
  Translator(mlir::MLIRContext &context, llvm::StringRef path, const Program &program);
  /// Reports what is wrong and returns nothing; unknown operators are reported together.
  llvm::FailureOr<onnx::AssembledModel> run();

private:
  friend class NodeTranslation;
  struct View;
  void findLiveNodes();
  llvm::LogicalResult checkOperators();
  llvm::LogicalResult checkComplex();
  bool isComplex(llvm::StringRef value) const;
  /// Whether an operand or a result is.
  bool isComplex(const Node &node) const;
  Translation translationOf(const Node &node) const;
  void addTensors();
  llvm::LogicalResult addInputs();
  void addOutputs();
  /// The graph that is being written: a body, while one is open.
  onnxfile::Graph &graph() { return open.empty() ? *result.model.mutable_graph() : *open.back(); }
  /// Begins a body, ends it, or notes a condition.
  void mark(const Node &node);
  /// The ONNX graph's name of a torch graph's value, as it is where translation has got to.
  std::string nameOf(llvm::StringRef value) const;
  void findStorage();
  /// What is wrong with writing into a value at the present node; empty if its users can be told from those of others.
  std::string objectionToWriting(llvm::StringRef value) const;
  /// Makes `now` what a value is from here on, and with it what it is a view of and what views there are of that.
  bool store(llvm::StringRef value, const std::string &now);
  bool storeInBase(llvm::StringRef view, const std::string &now, int depth);
  bool renewViews(llvm::StringRef base, llvm::StringRef but, int depth);
  bool isWanted(llvm::StringRef value, llvm::StringRef but) const;
  bool isCertain(const View &view, NodeTranslation &made) const;
  void markMutations();
  llvm::LogicalResult findStops();

  mlir::Location loc;
  const Program &program;
  onnx::AssembledModel result;
  /// One name for all that are the very same tensor: the results of writing in place, the graph's names of one buffer.
  llvm::StringRef canonical(llvm::StringRef value) const {
    auto found = sameAs.find(value);
    return found == sameAs.end() ? value : llvm::StringRef(found->second);
  }

  // All by canonical names.
  llvm::StringMap<std::string> sameAs;
  llvm::StringMap<std::string> written; ///< what a value has become
  struct View {
    size_t node;
    std::string base; ///< what it is a view of
    Sharing sharing;
  };
  llvm::MapVector<llvm::StringRef, View> viewOf;         ///< in the program's order
  llvm::StringMap<std::vector<llvm::StringRef>> viewsOf; ///< by their base
  size_t renewals = 0;
  std::vector<std::unique_ptr<onnxfile::Graph>> open; ///< bodies within one another
  std::vector<onnxfile::Graph> finished;              ///< that their node has not taken yet
  std::vector<std::string> conditions{""};            ///< of the program, and of each body that is open
  llvm::StringMap<size_t> lastUse;                    ///< the node that asks for a value last
  std::vector<bool> stops;             ///< by node: whether its results have no gradient, though operands do
  size_t current = 0;                  ///< the node being translated
  llvm::StringMap<std::string> shared; ///< what several nodes use, by what it is
  std::vector<bool> isLive;            ///< by node: whether an output or a write depends on it
};

/// A value of the ONNX graph.
using Name = std::string;

/// Attributes of a node, by their kind.
struct Attributes {
  std::vector<std::pair<llvm::StringRef, int64_t>> integers = {};
  std::vector<std::pair<llvm::StringRef, double>> numbers = {};
  std::vector<std::pair<llvm::StringRef, std::vector<int64_t>>> lists = {};
  std::vector<std::pair<llvm::StringRef, std::string>> texts = {};
};

/// One node being translated. What is asked for and is not there, or is of another kind, is reported once, and `failed`
/// tells; names and numbers that come back then mean nothing.
class NodeTranslation {
public:
  /// `suffix` tells what is added from what the same node became before.
  NodeTranslation(Translator &owner, const Node &node, llvm::StringRef suffix = "")
      : owner(owner), node(node), suffix(suffix.str()) {}

  mlir::InFlightDiagnostic error();
  bool failed() const { return hasFailed; }
  /// Reports the first argument that torch's schema of the operator does not have: what hyc knows nothing of would
  /// change what the operator computes.
  bool checkArguments();

  /// Whether the argument is given, and not as None: what equals its default is left out of archives.
  bool has(llvm::StringRef name) const { return find(name) != nullptr; }
  Name tensor(llvm::StringRef name);
  std::vector<Name> tensors(llvm::StringRef name);
  /// Those of a list, each of the type of the node's result, as torch makes them before it joins them.
  std::vector<Name> promotedTensors(llvm::StringRef name);
  /// The same of a list to be joined: torch takes a vector of no elements for nothing, whatever the others' rank.
  std::vector<Name> joinedTensors(llvm::StringRef name);
  int64_t integer(llvm::StringRef name, std::optional<int64_t> otherwise = std::nullopt);
  std::vector<int64_t> integers(llvm::StringRef name);
  /// One of a list, which has to be known when exporting; others may be symbols.
  int64_t integerAt(llvm::StringRef name, int64_t index);
  /// None where the argument is not given.
  std::vector<double> numbers(llvm::StringRef name);
  double number(llvm::StringRef name, std::optional<double> otherwise = std::nullopt);
  bool boolean(llvm::StringRef name, bool otherwise);
  bool isText(llvm::StringRef name) const;
  /// Whether an integer is known when compiling, or left to its default.
  bool isNumber(llvm::StringRef name) const;
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  /// Of a list of any kind.
  int64_t listSize(llvm::StringRef name);
  /// A list of sizes, computed where some are symbols, as a vector; -1 becomes `open`.
  Name shape(llvm::StringRef name, int64_t open = -1);
  /// A size as a vector of one element.
  Name size(llvm::StringRef name, int64_t otherwise);
  /// A tensor or a number; the latter as a tensor of `type`.
  Name operand(llvm::StringRef name, ScalarType type);
  /// The type that torch computes in for these operands: the widest of the tensors', or what a number asks for.
  ScalarType commonType(llvm::ArrayRef<llvm::StringRef> names);

  /// The real and the imaginary part of an argument that is one complex number.
  std::optional<std::pair<double, double>> complexNumber(llvm::StringRef name);
  /// Whether a tensor argument is of complex numbers, and so of pairs.
  bool isComplex(llvm::StringRef argument);
  /// What the archive says of a tensor argument or of a result.
  const TensorMeta &metaOf(llvm::StringRef argument);
  const TensorMeta &resultMeta(size_t index = 0);
  /// Of the tensors of a list, without those that are None; never empty.
  std::vector<const TensorMeta *> metasOf(llvm::StringRef argument);
  int64_t tensorRank(llvm::StringRef argument) { return static_cast<int64_t>(metaOf(argument).sizes.size()); }
  /// A size that has to be a number.
  int64_t sizeOf(llvm::StringRef argument, int64_t dim);
  /// `dim` counted from the front.
  int64_t dimension(llvm::StringRef name, int64_t tensorRank, std::optional<int64_t> otherwise = std::nullopt);
  size_t resultCount() const { return node.results.size(); }

  // The graph that is written.
  /// A node with one new result.
  Name emit(llvm::StringRef type, std::vector<Name> inputs, const Attributes &attributes = {});
  /// A node with `count` new results.
  std::vector<Name> emitAll(llvm::StringRef type, std::vector<Name> inputs, const Attributes &attributes, int count);
  /// A node whose results are those of the node being translated.
  void emitResults(llvm::StringRef type, std::vector<Name> inputs, const Attributes &attributes = {});
  /// The same with graphs, the last that have ended, as attributes of these names.
  void emitWithBodies(llvm::StringRef type, std::vector<Name> inputs, const Attributes &attributes,
                      llvm::ArrayRef<llvm::StringRef> bodies);
  /// The condition under which a loop begins.
  Name condition();
  /// Makes a value the `index`-th result.
  void finish(const Name &value, size_t index = 0);
  /// Writes into the tensor that an argument names: whoever asks for it from here on gets `value`.
  void write(llvm::StringRef argument, const Name &value);
  /// The same of whatever the first argument names and the node's first result.
  void writeResult();
  Name constant(ScalarType type, double value);
  Name constant(llvm::ArrayRef<int64_t> values);
  Name cast(const Name &value, ScalarType type);
  /// What an earlier node has made under this name, for others to use; empty at first.
  Name &shared(llvm::StringRef what);
  /// The node of the ONNX graph that `value` comes from, past those that convert or rename it; null of inputs. `value`
  /// becomes what the node calls it.
  const onnxfile::Node *sourceOf(Name &value);
  /// What an integer of the ONNX graph is, where a constant alone makes it.
  std::optional<int64_t> knownInteger(Name value);
  /// Filled with one value, of a shape that is a vector.
  Name filled(ScalarType type, const Name &shape, double value);

private:
  const Argument *find(llvm::StringRef name) const;
  /// What the archive says of the list's `index`-th tensor; null where it says nothing.
  const TensorMeta *metaAt(llvm::StringRef list, size_t index) const;
  const Argument *need(llvm::StringRef name, llvm::StringRef what);
  Name sizeElement(const JsonValue &element, int64_t open);
  onnxfile::Node &add(llvm::StringRef type, const std::vector<Name> &inputs, const Attributes &attributes);

  Translator &owner;
  const Node &node;
  std::string suffix;
  bool hasFailed = false;
  int made = 0;
};

/// The operator's name alone: "reshape" of "aten.reshape.default".
llvm::StringRef operatorOf(llvm::StringRef target);
/// Whether what an operator gives lies in the memory of its first operand; their types are null where nobody knows
/// them.
Sharing sharingOf(NodeTranslation &node, llvm::StringRef target, const TensorMeta *from, const TensorMeta *to);
/// The tensors that an argument names, as the program calls them.
void forEachTensor(const Node &node, const Argument &argument, llvm::function_ref<void(llvm::StringRef)> visit);

/// `values`, with the dimension first, at the positions of a vector along dimension `dim` of a tensor.
Name putAt(NodeTranslation &node, const Name &self, int64_t tensorRank, int64_t dim, const Name &positions,
           const Name &values, const char *reduction);
/// `values` in the place of the elements from `begin` to `end` of dimension `dim`, which has `size`.
Name putRange(NodeTranslation &node, const Name &self, int64_t dim, int64_t size, int64_t begin, int64_t end,
              const Name &values);
/// Whether the rows of a table that the node looks up are to have gradients divided by how often each is; says that
/// hyc does not.
bool dividesByFrequency(NodeTranslation &node);
/// Gives losses of single elements or samples, their mean or their sum, as the node's `reduction` says.
void finishLoss(NodeTranslation &node, const Name &losses);
/// The root of sums of squares. Where nothing was added up torch gives norms and deviations no gradient.
Name rootOf(NodeTranslation &node, const Name &squares, ScalarType type);
/// (Σ |x|^order)^(1/order) over dimensions, or over all where none are named, and its limits; gradients are as those of
/// `rootOf`.
Name normOf(NodeTranslation &node, const Name &value, double order, ScalarType type, const std::vector<int64_t> &dims,
            bool keepsDims);
/// Softmax along a dimension, 0 in rows that are masked as a whole.
Name safeSoftmaxOf(NodeTranslation &node, const Name &scores, const Name &isMasked, int64_t dim, ScalarType type);
/// What a tensor is once a view of it, made by this node, has become `now`; empty where hyc does not know.
Name putIntoBase(NodeTranslation &view, llvm::StringRef target, const Name &now);

/// The translation of an operator, or of the one whose result it writes into its operand.
Translation findAnyTranslation(llvm::StringRef target);
/// Null for an operator that hyc does not know.
Translation findTranslation(llvm::StringRef target);
/// Branches and loops, whose graphs have been written when it is their turn.
Translation findControlFlow(llvm::StringRef target);
/// What is done where an operand or a result is complex.
const TranslationTable &complexTranslations();
/// "aten.add.Tensor" for "aten.add_.Tensor", which writes its result into its first operand, and for "aten.add.out",
/// which writes it into the one called out, where hyc knows the former; else nothing.
std::optional<std::string> withoutWriting(llvm::StringRef target);
inline constexpr llvm::StringLiteral kOutArgument = "out";
inline bool writesOut(llvm::StringRef target) { return target.ends_with(".out"); }
/// The argument that such a node writes into; null where it is not there.
const Argument *writtenArgument(const Node &node);

/// Why an operator will never be read, and what serves instead; empty for all others.
llvm::StringRef refusalOf(llvm::StringRef target);
/// Every operator that has a refusal of its own.
llvm::SmallVector<llvm::StringRef> allRefused();

/// The arguments of torch's schema of an operator in their order; nothing for one that is not torch's own.
std::optional<llvm::SmallVector<llvm::StringRef>> argumentsOf(llvm::StringRef target);

/// Every operator that hyc knows.
const TranslationTable &allTranslations();

// One function a file; each adds its rows.
void addElementwise(TranslationTable &table);
void addActivation(TranslationTable &table);
void addShape(TranslationTable &table);
void addPadding(TranslationTable &table);
void addIndex(TranslationTable &table);
void addReduction(TranslationTable &table);
void addContraction(TranslationTable &table);
void addConvolution(TranslationTable &table);
void addResize(TranslationTable &table);
void addNormalization(TranslationTable &table);
void addLoss(TranslationTable &table);
void addExperts(TranslationTable &table);
void addWindow(TranslationTable &table);
void addScatter(TranslationTable &table);
void addJoin(TranslationTable &table);
void addRandom(TranslationTable &table);
void addStrided(TranslationTable &table);
void addDistance(TranslationTable &table);
void addBits(TranslationTable &table);
void addRecurrent(TranslationTable &table);
void addMargin(TranslationTable &table);
void addOrder(TranslationTable &table);
void addSpecial(TranslationTable &table);
void addAdaptivePool(TranslationTable &table);
void addMatrix(TranslationTable &table);

} // namespace hyc::torchexport

#endif // HYC_LIB_IMPORT_TORCHEXPORT_TRANSLATOR_H
