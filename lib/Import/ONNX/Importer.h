// The state of one import: what each name of the graph stands for, and the operations that work alike on values known
// when compiling and on values of the running model. Each operator's own file uses these and nothing of MLIR's
// builders.
#ifndef HYC_IMPORT_ONNX_IMPORTER_H
#define HYC_IMPORT_ONNX_IMPORTER_H

#include "OnnxFile.h"
#include "OperandRules.h"
#include "TracedProgram.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/ONNX/Import.h"
#include "hyc/Support/OpIds.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>

namespace hyc::onnx {

/// Who reads a part of a merged parameter: the module without what tells its calls apart, empty where it is not known,
/// and the role in which it reads the part.
using Reader = std::pair<std::string, std::string>;
struct Shared;

/// What a name of the graph stands for: exactly one of these; none of them where an optional value is not there.
struct Binding {
  std::optional<HostTensor> constant; // known when compiling
  mlir::Value value;                  // computed when running; also the materialised constant, once there is one
  int parameter = -1;                 // a parameter: its initializer's index; every use reads it
  std::optional<std::vector<Binding>> sequence; // a list of tensors; how many is known when compiling
  mlir::RankedTensorType type;                  // of a tensor
  std::string scope;                            // id path of the op that made it

  bool isTensor() const { return static_cast<bool>(type); }
  bool isAbsent() const { return !type && !sequence; }
};

/// Of an initializer that an exporter has cut out of a parameter: where it lies in another that holds more of it.
struct PartOf {
  int whole;
  int64_t dim, offset;
};

/// What an initializer is to the model, and under which name the model knows it.
struct ParameterNaming {
  bool isParameter = false; // and not a constant that happens to be a float tensor
  bool trainable = true;
  bool folded = false;  // an exporter computed it from the parameter of this name
  int transposeOf = -1; // the initializer that it is a transposed copy of
  std::optional<PartOf> part;
  std::string apartFrom; // the parameter some of whose values it has, but as a parameter of its own
  std::string name;
  std::optional<double> start; // what every element starts from by the rule for models that have no values
  int valuesOf = -1;           // of a part of a merged parameter: the initializer that all of them start from
  int repeatedDims = 0;        // leading dimensions of the initializer, along which the parameter repeats
  mlir::RankedTensorType type; // of one that no initializer holds
};

/// Undoes what exporters do to the names of parameters.
class ParameterNames {
public:
  ParameterNames(const OnnxFile &file, const TracedProgram &traced);
  ParameterNaming operator()(int initializer) const;
  bool contains(llvm::StringRef initializer) const { return initializers.contains(initializer); }
  llvm::ArrayRef<const onnxfile::Node *> usersOf(llvm::StringRef tensor) const {
    auto found = users.find(tensor);
    return found == users.end() ? llvm::ArrayRef<const onnxfile::Node *>() : llvm::ArrayRef(found->second);
  }
  /// Names of what an initializer was computed from.
  llvm::SmallVector<llvm::StringRef> foldedInto(llvm::StringRef initializer) const;

  /// Whether an initializer is a constant only since nothing tells that it was computed from a parameter.
  bool mayBeParameter(int initializer) const;

private:
  /// Whether a node, of a type and at an input of which `isPlace` holds, reads an initializer.
  bool isReadWhere(llvm::StringRef initializer, llvm::function_ref<bool(llvm::StringRef, int)> isPlace) const;
  bool isParameterOfOne(const onnxfile::Tensor &tensor) const;
  ParameterNaming recoverGenerated(int initializer) const;
  int countRepeatedDims(int initializer) const;
  void findWhole(int initializer, llvm::StringRef parameter, ParameterNaming &naming) const;

  llvm::StringRef findFoldedParameter(llvm::StringRef initializer) const;

  const OnnxFile &file;
  const TracedProgram &traced;
  llvm::StringMap<const onnxfile::Value *> infos;
  llvm::StringMap<llvm::SmallVector<const onnxfile::Node *, 1>> users; // by tensor
  llvm::StringMap<int> initializers;                                   // by name
  llvm::StringMap<double> averages; // running averages of BatchNormalization, and what they start from
  llvm::StringMap<llvm::SmallVector<int, 1>> partsOf; // initializers that were computed from a parameter, by its name
  bool hasSignature = false;
  bool isLegacy = false; // of PyTorch's exporter before dynamo's
};

class NodeImport;

class Importer {
public:
  Importer(mlir::MLIRContext &context, const OnnxFile &file, const ImportOptions &options);
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> run();

  const OnnxFile &getFile() const { return file; }
  mlir::MLIRContext *getContext() { return builder.getContext(); }
  Binding *lookup(llvm::StringRef name);
  /// What a node has as an input: of a parameter that an exporter merged, the part that is its module's.
  Binding *lookupFor(const onnxfile::Node &node, int input, llvm::StringRef module);
  void bind(llvm::StringRef name, Binding binding) { bindings[name] = std::move(binding); }
  void forget(llvm::StringRef name) { bindings.erase(name); }

  /// Has the running model replace a parameter by `next` at its end; of several the last counts. Nothing in a model
  /// that is evaluated.
  void keep(int parameter, Binding next);
  ModelMode getMode() const { return options.mode; }

  /// Imports a graph within the graph, with these as its inputs; names that it does not define are those around it.
  /// What it gives goes to `outputs`. Each time counts towards a bound on what loops may write out.
  mlir::LogicalResult importBody(const onnxfile::Graph &body, llvm::ArrayRef<Binding> inputs,
                                 std::vector<Binding> &outputs);

  /// Steps rolled into one op: what the last one carries on, and what all of them give, stacked along a new dimension
  /// 0. What does not differ from step to step is computed once, before all of them. Nothing where steps cannot be
  /// rolled: `build` fails, they draw random numbers, change the model's tensors, or carry on other types than they are
  /// given. That is not reported, and leaves nothing behind. The types are in RolledSteps.h.
  std::optional<struct Step>
  rollSteps(struct Repeated repeated,
            llvm::function_ref<std::optional<struct Step>(llvm::ArrayRef<Binding>, llvm::ArrayRef<Binding>)> build);

  /// A binding's value in the running model.
  mlir::Value materialise(Binding &binding);
  /// Creates an op of the running model, named and located after the node being imported.
  template <typename OpTy, typename... Args> mlir::Value emit(Args &&...args) {
    static_assert(!OpTy::template hasTrait<mlir::InferTypeOpInterface::Trait>() ||
                      OpTy::template hasTrait<mlir::OpTrait::SameOperandsAndResultType>(),
                  "an op that may not fit its operands is emitted by emitInferred");
    auto op = OpTy::create(builder, currentLoc, std::forward<Args>(args)...);
    ids.assign(op, currentScope);
    return op->getResult(0);
  }
  /// The same for an op whose results' types follow from its operands. Where they do not fit, that is reported and null
  /// comes back.
  template <typename OpTy>
  mlir::Value emitInferred(mlir::ValueRange operands, typename OpTy::Properties properties = {}) {
    llvm::SmallVector<mlir::Type> types;
    if (mlir::failed(OpTy::inferReturnTypes(getContext(), currentLoc, operands, mlir::DictionaryAttr(),
                                            mlir::OpaqueProperties(&properties), {}, types)))
      return {};
    auto op = OpTy::create(builder, currentLoc, types, operands, properties);
    ids.assign(op, currentScope);
    return op->getResult(0);
  }
  mlir::OpBuilder &getBuilder() { return builder; }
  /// How many errors have been reported so far.
  int64_t countErrors() const { return errors; }

  // Each of these evaluates a constant and emits an op otherwise; nothing comes back where a constant gets too large.
  // Shapes and ranges are the caller's to check.
  std::optional<Binding> reshape(Binding &operand, llvm::ArrayRef<int64_t> shape);
  std::optional<Binding> transpose(Binding &operand, llvm::ArrayRef<int64_t> permutation);
  std::optional<Binding> broadcast(Binding &operand, llvm::ArrayRef<int64_t> shape);
  std::optional<Binding> slice(Binding &operand, int64_t dim, int64_t offset, int64_t size, int64_t step);
  std::optional<Binding> concat(llvm::MutableArrayRef<Binding> operands, int64_t dim);

  Binding ofConstant(HostTensor tensor) const;
  Binding ofValue(mlir::Value value) const;
  /// A tensor of one value, of the element type of `like` where that is a float or an integer.
  Binding splatLike(mlir::RankedTensorType like, double value) const;

private:
  friend class NodeImport;
  mlir::LogicalResult importInputs();
  mlir::LogicalResult importInitializers();
  mlir::LogicalResult importInitializer(int index);
  int distinguish(int initializer, ParameterNaming &naming);
  mlir::LogicalResult importNode(const onnxfile::Node &node);
  mlir::LogicalResult importOutputs();
  std::vector<std::pair<llvm::StringRef, llvm::StringRef>> findNextValues() const;
  mlir::LogicalResult importNextValues();
  mlir::LogicalResult writeKept();
  ParamOp declare(int parameter);
  std::optional<Binding> readGiven(const onnxfile::Value &input, llvm::StringRef path);
  std::optional<int64_t> bindDimension(const onnxfile::Value &input, int index);
  mlir::RankedTensorType importType(const onnxfile::Value &input);
  void countUses();
  mlir::Value read(int parameter);
  /// Has constants that were materialised in `block` materialised anew by whoever needs them next.
  void forgetValuesIn(mlir::Block &block);
  mlir::Attribute initialValues(int parameter);
  /// The initializer that a parameter's type and values are those of.
  int storedAs(int parameter) const {
    auto found = naming.find(parameter);
    return found != naming.end() && found->second.valuesOf >= 0 ? found->second.valuesOf : parameter;
  }
  /// The parameter's own type, without the dimensions along which it repeats.
  mlir::RankedTensorType parameterType(int parameter);
  mlir::LogicalResult importFor(const onnxfile::Node &node, llvm::StringRef module);
  std::vector<std::string> modulesOf(const onnxfile::Node &node) const;
  bool wasMerged(int index, const Binding &whole, const Shared &shared) const;
  void split(int index, const Binding &whole, std::map<Reader, Binding> parts, llvm::StringSet<> &taken);
  void findMergedParameters();
  /// The bias that a node had when the model was traced, and that the exporter's optimizer dropped since it was zero.
  Binding *restoreBias(const onnxfile::Node &node, NodeImport &import);
  void warnOfLostParameters();
  void warnOfGeneratedConstants();
  void chooseInitialRules();
  void warnOfMergedParameters();
  mlir::LogicalResult checkWeightsExist();

  const OnnxFile &file;
  const ImportOptions &options;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  FuncOp function;
  OpIds ids;
  llvm::StringMap<Binding> bindings;
  llvm::StringMap<int64_t> usesLeft;
  llvm::DenseMap<int, ParameterNaming> naming; // of the initializers that are parameters
  TracedProgram traced;
  ParameterNames names;
  llvm::DenseMap<int, ParamOp> params;          // by initializer
  llvm::StringMap<std::vector<int>> foldedFrom; // initializers that an exporter computed, by parameter
  llvm::StringSet<> recovered;                  // names that initializers were given in place of generated ones
  std::map<int, Binding> kept;                  // what replaces parameters, by initializer
  /// Of parameters that an exporter merged, by the name that the graph has for them: who reads each part, and the part.
  llvm::StringMap<std::map<Reader, Binding>> merged;
  /// Of what is computed of merged parameters by a node of no module: the result for each module that reads it.
  llvm::StringMap<std::map<std::string, Binding>> apart;
  llvm::StringMap<Binding> restored; // biases, by name
  int nextParameter = 0;             // the number of the next one that no initializer is
  llvm::DenseMap<mlir::Attribute, mlir::Value> largeConstants;
  mlir::Location currentLoc;
  std::string currentScope;
  int64_t errors = 0;
  int64_t bodyNodes = 0; // imported so far, each as often as it was
  mlir::ScopedDiagnosticHandler errorCounter;
};

/// One node being imported: its inputs, attributes and results.
class NodeImport {
public:
  NodeImport(Importer &importer, const onnxfile::Node &node);

  Importer &importer() { return owner; }
  llvm::StringRef opType() const { return node.op_type(); }
  llvm::StringRef getName() const { return node.name(); }
  /// The operator set by whose rules the node is read.
  int64_t opset() const { return isNewest ? kNewestOpset : owner.file.getOpset(); }
  mlir::InFlightDiagnostic error() const;
  /// "node "x" (Add)", for diagnostics.
  std::string describe() const;
  /// The types of its inputs, for diagnostics.
  std::string describeInputs() const;

  int inputCount() const { return node.input_size(); }
  int outputCount() const { return node.output_size(); }
  bool has(int index) const { return index < static_cast<int>(inputs.size()) && inputs[index]; }
  Binding &input(int index) { return *inputs[index]; }
  llvm::ArrayRef<int64_t> shapeOf(int index) { return inputs[index]->type.getShape(); }
  mlir::Value value(int index) { return owner.materialise(*inputs[index]); }
  /// The values of an input that must be known when compiling; reports it and returns null if they are not.
  const HostTensor *constant(int index);
  std::optional<llvm::SmallVector<int64_t>> integers(int index);

  // Attributes; one of another type than asked for is reported, and `failed` tells.
  bool hasAttribute(llvm::StringRef name) const { return find(name) != nullptr; }
  /// The call of PyTorch that it was, where the exporter notes that.
  std::optional<TracedCall> traced() const { return tracedCallOf(node); }
  int64_t getInt(llvm::StringRef name, int64_t otherwise);
  double getFloat(llvm::StringRef name, double otherwise);
  std::string getString(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<llvm::SmallVector<int64_t>> getInts(llvm::StringRef name);
  const onnxfile::Attribute *find(llvm::StringRef name) const;
  bool failed() const { return attributeError; }
  /// Reports the first attribute that the operator does not have in this operator set, or has of another type.
  bool checkAttributes();

  /// `axis` counted from the front, in [0, tensorRank); reports and returns nothing if it lies outside.
  std::optional<int64_t> normalizeAxis(int64_t axis, int64_t tensorRank);
  std::optional<llvm::SmallVector<int64_t>> normalizeAxes(llvm::ArrayRef<int64_t> axes, int64_t tensorRank);

  /// Binds the results; one that could not be computed since a constant gets too large is reported.
  mlir::LogicalResult finish(std::optional<Binding> result);
  mlir::LogicalResult finish(std::vector<std::optional<Binding>> results);

private:
  const onnxfile::Attribute *findOf(llvm::StringRef name, int type);
  friend class Importer;
  friend class Expansion;

  Importer &owner;
  const onnxfile::Node &node;
  llvm::SmallVector<Binding *> inputs;
  bool attributeError = false;
  int64_t errorsBefore = 0; // that had been reported when the node's turn came
  bool isNewest = false;    // written by an expansion
};

/// "[2, -1]", for diagnostics; of many the first.
std::string describeList(llvm::ArrayRef<int64_t> values);

/// What the format calls a type of attributes.
llvm::StringRef nameOfAttributeKind(int kind);

/// How one operator is imported, and what that relies on.
struct Operator {
  using Import = mlir::LogicalResult (*)(NodeImport &node);

  Operator() = default;
  Operator(Import import, OperandRules operands) : operands(std::move(operands)), import(import) {}
  /// Imports the node if its inputs are as they have to be. What goes wrong is always said.
  mlir::LogicalResult operator()(NodeImport &node) const;

  OperandRules operands{};

private:
  Import import = nullptr;
};

/// What the table calls the operator that a node uses.
std::string nameInTable(const onnxfile::Node &node);
/// The operator that a node uses, or null if hyc does not know it.
const Operator *findOperator(const onnxfile::Node &node);

using OperatorTable = llvm::StringMap<Operator>;
/// By name, with the domain in front where it is not ONNX's own.
const OperatorTable &allOperators();

// One function a file of operators; each adds to the table.
void addElementwiseOperators(OperatorTable &table);
void addShapeOperators(OperatorTable &table);
void addIndexingOperators(OperatorTable &table);
void addContractionOperators(OperatorTable &table);
void addReductionOperators(OperatorTable &table);
void addActivationOperators(OperatorTable &table);
void addWindowOperators(OperatorTable &table);
void addScatterOperators(OperatorTable &table);
void addNormalizationOperators(OperatorTable &table);
void addLossOperators(OperatorTable &table);
void addResizeOperators(OperatorTable &table);
void addQuantizationOperators(OperatorTable &table);
void addSignalOperators(OperatorTable &table);
void addRecurrentOperators(OperatorTable &table);
void addUpdateOperators(OperatorTable &table);
void addRandomOperators(OperatorTable &table);
void addSamplingOperators(OperatorTable &table);
void addCountedOperators(OperatorTable &table);
void addTextOperators(OperatorTable &table);
void addSequenceOperators(OperatorTable &table);
void addControlFlowOperators(OperatorTable &table);

/// The sizes of a Split's parts: its second input, its attribute, or equal ones. Reports those that do not add up.
std::optional<llvm::SmallVector<int64_t>> getSplitSizes(NodeImport &node, int64_t size, int64_t parts);
/// The parts of the first input along a dimension; what is computed when running is split by one op.
std::vector<std::optional<Binding>> splitInto(NodeImport &node, int64_t axis, llvm::ArrayRef<int64_t> sizes);

/// Gather and GatherND where the data or the indices are computed when running.
mlir::LogicalResult importRunningGather(NodeImport &node, int64_t axis);
mlir::LogicalResult importRunningGatherND(NodeImport &node);

/// The names that a node takes from around it: its inputs, and what graphs among its attributes use and do not define.
void forEachUse(const onnxfile::Node &node, llvm::function_ref<void(const std::string &)> visit);

/// Reports unknown operators, names that are defined twice or never, and cycles; all of them. Fills `order` with the
/// nodes' indices so that each comes after what it uses.
mlir::LogicalResult checkGraph(const OnnxFile &file, llvm::SmallVectorImpl<int> &order);

/// The module path of a node, from the exporter's metadata, its name, or the parameter it uses; empty if unknown.
std::string getScope(const onnxfile::Node &node);

/// For messages: the node's name, that of its first result where it has none, and the module that calls it unless the
/// name tells: "\"linear\" of module \"h.0.mlp\"".
std::string nameForMessages(const onnxfile::Node &node);
/// The same with its operator: "node \"linear\" (MatMul) of module \"h.0.mlp\"".
std::string describe(const onnxfile::Node &node);
} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_IMPORTER_H
