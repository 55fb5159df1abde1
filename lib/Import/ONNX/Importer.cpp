// One pass over the nodes in dependency order. What depends on shapes alone is evaluated on the way, so that masks and
// position ids arrive as constants; the rest becomes ops.
#include "Importer.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Support/Truncation.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;
using llvm::StringRef;

Importer::Importer(MLIRContext &context, const OnnxFile &file, const ImportOptions &options)
    : file(file), options(options), builder(&context), traced(file.getGraph()), names(file, traced),
      nextParameter(file.getGraph().initializer_size()), currentLoc(file.getLoc()),
      errorCounter(&context, [this](Diagnostic &diagnostic) {
        errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
        return failure(); // for the next handler to show
      }) {}

FailureOr<OwningOpRef<ModuleOp>> Importer::run() {
  llvm::SmallVector<int, 0> order;
  if (failed(checkGraph(file, order)) || failed(importInputs()) || failed(importInitializers()))
    return failure();
  if (!options.keepsMerged)
    findMergedParameters();
  countUses();
  for (int index : order) {
    const onnxfile::Node &node = file.getGraph().node(index);
    if (failed(importNode(node)))
      return failure();
    forEachUse(node, [&](const std::string &name) {
      if (--usesLeft[name] == 0)
        bindings.erase(name);
    });
  }
  if (failed(importOutputs()))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  chooseInitialRules();
  if (!options.keepsMerged)
    warnOfMergedParameters();
  warnOfLostParameters();
  if (failed(checkWeightsExist()) || failed(verify(*module)))
    return failure();
  return std::move(module);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

std::optional<int64_t> Importer::bindDimension(const onnxfile::Value &input, int index) {
  const onnxfile::Dimension &dim = input.type().tensor().shape().dim(index);
  auto fail = [&] {
    return emitError(file.getLoc()) << "dimension " << index << " of input \"" << input.name() << "\" ";
  };
  if (dim.has_size()) {
    if (dim.size() > 0)
      return dim.size();
    fail() << "has size " << dim.size() << ", expected at least 1";
    return std::nullopt;
  }
  auto bound = options.dims.find(dim.symbol());
  if (!dim.symbol().empty() && bound != options.dims.end())
    return bound->second;
  if (index == 0 && options.batch)
    return *options.batch;
  if (dim.symbol().empty())
    fail() << "has neither a size nor a name; export the model again with a name for it";
  else
    fail() << "is symbolic; give it a size with --dim " << dim.symbol() << "=N";
  return std::nullopt;
}

RankedTensorType Importer::importType(const onnxfile::Value &input) {
  if (!input.type().has_tensor() || !input.type().tensor().has_shape()) {
    emitError(file.getLoc()) << "input \"" << input.name()
                             << "\" is not a tensor of known rank, expected a type with a shape";
    return {};
  }
  Type elementType = OnnxFile::getElementType(getContext(), input.type().tensor().element_type());
  if (!elementType) {
    emitError(file.getLoc()) << "input \"" << input.name() << "\" is of "
                             << OnnxFile::describeDataType(input.type().tensor().element_type());
    return {};
  }
  llvm::SmallVector<int64_t> shape;
  for (int i = 0; i < input.type().tensor().shape().dim_size(); ++i) {
    std::optional<int64_t> size = bindDimension(input, i);
    if (!size)
      return {};
    shape.push_back(*size);
  }
  if (!countElements(shape)) {
    emitError(file.getLoc()) << "input \"" << input.name() << "\" has more elements than 63 bits can count";
    return {};
  }
  return RankedTensorType::get(shape, elementType);
}

/// What a file gives for an input: a tensor, a list of them, or an optional value, as the model says.
std::optional<Binding> Importer::readGiven(const onnxfile::Value &input, StringRef path) {
  if (input.type().has_tensor() || !(input.type().has_sequence() || input.type().has_maybe())) {
    std::optional<HostTensor> values = file.readTensorFile(path);
    return values ? std::optional(ofConstant(*values)) : std::nullopt;
  }
  std::optional<GivenValue> given = file.readValueFile(path, input.type().has_maybe());
  if (!given)
    return std::nullopt;
  Binding binding;
  if (!given->isList)
    return given->tensors.empty() ? binding : ofConstant(given->tensors.front());
  binding.sequence.emplace();
  for (const HostTensor &tensor : given->tensors)
    binding.sequence->push_back(ofConstant(tensor));
  return binding;
}

/// Of a size for a dimension that is not there: those that are.
static std::string withoutDimension(const llvm::StringSet<> &symbols) {
  std::string text = "the model has no symbolic dimension of that name";
  llvm::SmallVector<StringRef> names;
  for (StringRef symbol : symbols.keys())
    if (!symbol.empty())
      names.push_back(symbol);
  llvm::sort(names);
  constexpr size_t kMost = 10;
  if (names.empty())
    return text + ", and no other: all its sizes are fixed";
  return text + "; it has " + llvm::join(llvm::ArrayRef(names).take_front(kMost), ", ") +
         (names.size() > kMost ? " and " + std::to_string(names.size() - kMost) + " more" : "");
}

LogicalResult Importer::importInputs() {
  llvm::StringSet<> initializers, symbols;
  for (const onnxfile::Tensor &tensor : file.getGraph().initializer())
    initializers.insert(tensor.name());
  llvm::SmallVector<Type> types;
  llvm::SmallVector<const onnxfile::Value *> inputs;
  for (const onnxfile::Value &input : file.getGraph().input()) {
    if (initializers.contains(input.name()))
      continue;
    if (auto given = options.inputValues.find(input.name()); given != options.inputValues.end()) {
      std::optional<Binding> values = readGiven(input, given->second);
      if (!values)
        return failure();
      bind(input.name(), std::move(*values));
      continue;
    }
    for (const onnxfile::Dimension &dim : input.type().tensor().shape().dim())
      symbols.insert(dim.symbol());
    RankedTensorType type = importType(input);
    if (!type)
      return failure();
    types.push_back(type);
    inputs.push_back(&input);
  }
  for (const auto &dim : options.dims)
    if (!symbols.contains(dim.getKey()) || dim.getValue() < 1)
      return emitError(file.getLoc()) << "--dim " << dim.getKey() << "=" << dim.getValue() << ": "
                                      << (dim.getValue() < 1 ? "expected a size of at least 1"
                                                             : withoutDimension(symbols));
  module = ModuleOp::create(file.getLoc());
  (*module)->setAttr(kModelFolder, builder.getStringAttr(file.getFolder()));
  builder.setInsertionPointToEnd(module->getBody());
  function = FuncOp::create(builder, file.getLoc(), kTrain, builder.getFunctionType(types, {}));
  builder.setInsertionPointToStart(&function.getBody().front());
  for (auto [index, input] : llvm::enumerate(inputs)) {
    function.setArgAttr(index, kInput, builder.getStringAttr(input->name()));
    bind(input->name(), ofValue(function.getBody().getArgument(index)));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Initializers
//===----------------------------------------------------------------------===//

/// Of one parameter an exporter may have computed several tensors: the same one again is the same parameter, others are
/// parts of it and get numbers behind its name. The initializer that stands for it.
int Importer::distinguish(int index, ParameterNaming &naming) {
  std::vector<int> &others = foldedFrom[naming.name];
  // Vectors of a part may be equal by chance, as zeros are.
  const bool isVector = file.getGraph().initializer(index).dims_size() < 2;
  for (int other : others)
    if (!isVector && file.initializersAreEqual(index, other))
      return other;
  if (!others.empty())
    naming.name += "." + std::to_string(others.size());
  others.push_back(index);
  return index;
}

LogicalResult Importer::importInitializer(int index) {
  const onnxfile::Tensor &tensor = file.getGraph().initializer(index);
  ParameterNaming naming = names(index);
  llvm::SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  Binding binding;
  binding.type = RankedTensorType::get(shape, OnnxFile::getElementType(getContext(), tensor.data_type()));
  if (naming.isParameter) {
    // Programs read parameters from where their bytes lie; values listed in a field of wider numbers lie nowhere.
    if (options.weights != WeightSource::Initialise && !file.locateInitializer(index) &&
        binding.type.getNumElements() > 0)
      return emitError(file.getLoc(tensor.name()))
             << "parameter \"" << tensor.name() << "\" of type " << binding.type
             << " has its values one by one in a field for wider numbers, expected them as raw data";
    if (isNameOfAPhase(naming.name))
      return emitError(file.getLoc(tensor.name())) << "parameter \"" << naming.name
                                                   << "\" has a name that hyc needs for itself, expected any other; "
                                                      "rename it in the model";
    const bool isWhole = naming.transposeOf < 0 && !naming.part;
    binding.parameter = naming.folded && isWhole ? distinguish(index, naming) : index;
    if (!naming.folded && isWhole && naming.name != tensor.name() && !recovered.insert(naming.name).second)
      naming.name = tensor.name(); // another one of its module has that name
    this->naming.try_emplace(binding.parameter, naming);
  } else {
    binding.constant = file.readInitializer(index);
    if (!binding.constant)
      return failure();
  }
  bind(tensor.name(), std::move(binding));
  return success();
}

LogicalResult Importer::importInitializers() {
  llvm::StringSet<> used;
  for (const onnxfile::Node &node : file.getGraph().node())
    forEachUse(node, [&](const std::string &name) { used.insert(name); });
  for (const onnxfile::Value &output : file.getGraph().output())
    used.insert(output.name());
  for (auto [name, next] : findNextValues()) {
    used.insert(name);
    used.insert(next);
  }
  for (int i = 0; i < file.getGraph().initializer_size(); ++i)
    if (used.contains(file.getGraph().initializer(i).name()) && failed(importInitializer(i)))
      return failure();
  return success();
}

Attribute Importer::initialValues(int index) {
  if (naming[index].type)
    return FillAttr::get(getContext(), builder.getF64FloatAttr(*naming[index].start));
  std::optional<StoredValues> stored = file.locateInitializer(storedAs(index));
  bool byRule = options.weights == WeightSource::Initialise ||
                (options.weights == WeightSource::InitialiseMissing && stored && stored->absent);
  // No rule knows what a buffer starts from but the file.
  if (byRule && !naming[index].trainable && !naming[index].start && stored && !stored->absent)
    byRule = false;
  if (byRule)
    return UnitAttr::get(getContext()); // replaced by chooseInitialRules, once the uses are known
  if (stored)
    return FileAttr::get(getContext(), stored->file, stored->offset);
  return FillAttr::get(getContext(), builder.getF64FloatAttr(0)); // of no elements
}

RankedTensorType Importer::parameterType(int index) {
  const ParameterNaming &name = naming[index];
  if (name.type)
    return name.type;
  const onnxfile::Tensor &tensor = file.getGraph().initializer(storedAs(index));
  llvm::SmallVector<int64_t> shape(tensor.dims().begin() + name.repeatedDims, tensor.dims().end());
  return RankedTensorType::get(shape, OnnxFile::getElementType(getContext(), tensor.data_type()));
}

/// The parameter of an initializer that is no transposed copy of another.
ParamOp Importer::declare(int index) {
  ParamOp &param = params[index];
  if (param)
    return param;
  const ParameterNaming &name = naming[index];
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(function);
  return param = ParamOp::create(builder, file.getLoc(name.name), name.name, parameterType(index), initialValues(index),
                                 DenseI64ArrayAttr(), !name.trainable, TypeAttr());
}

/// A new read of the parameter in front of its user; declares the parameter at its first use.
Value Importer::read(int index) {
  if (const int original = naming[index].transposeOf; original >= 0) {
    naming.try_emplace(original, names(original));
    TransposeOp::Properties properties;
    properties.permutation = builder.getDenseI64ArrayAttr({1, 0});
    return emitInferred<TransposeOp>(read(original), properties);
  }
  if (const std::optional<PartOf> part = naming[index].part) {
    if (!naming.count(part->whole))
      naming[part->whole] = names(part->whole);
    Binding whole = ofValue(read(part->whole));
    const int64_t size = file.getGraph().initializer(index).dims(static_cast<int>(part->dim));
    Binding cut = *slice(whole, part->dim, part->offset, size, 1);
    return materialise(cut);
  }
  const ParameterNaming &name = naming[index];
  RankedTensorType type = declare(index).getTensorType();
  Value value = ReadOp::create(builder, currentLoc, type, name.name);
  if (name.repeatedDims == 0)
    return value;
  const auto &dims = file.getGraph().initializer(storedAs(index)).dims();
  auto whole = RankedTensorType::get(llvm::SmallVector<int64_t>(dims.begin(), dims.end()), type.getElementType());
  if (whole.getNumElements() == type.getNumElements())
    return emit<ReshapeOp>(whole, value);
  auto last = llvm::to_vector(llvm::seq<int64_t>(name.repeatedDims, whole.getRank()));
  return emit<BroadcastOp>(whole, value, last);
}

LogicalResult Importer::checkWeightsExist() {
  if (options.weights != WeightSource::Read)
    return success();
  std::string first, missingFile;
  int count = 0;
  for (auto &[index, param] : params)
    if (std::optional<StoredValues> stored =
            naming[index].type ? std::nullopt : file.locateInitializer(storedAs(index));
        stored && stored->absent)
      if (count++ == 0 || param.getSymName() < first)
        first = param.getSymName().str(), missingFile = stored->file;
  if (count == 0)
    return success();
  return emitError(file.getLoc(first)) << "the values of tensor \"" << first << "\""
                                       << (count > 1 ? " and " + std::to_string(count - 1) + " more" : "")
                                       << " should be in '" << missingFile
                                       << "', which does not exist; add it, or pass --weights initialise-missing";
}

/// Whether the value, possibly reshaped or repeated, multiplies something as a norm's scale does.
static bool isUsedAsScale(Value value) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto norm = dyn_cast<LayerNormOp>(user))
      return norm.getScale() == value;
    if (isa<MulOp>(user) || (isa<ReshapeOp, BroadcastOp, TransposeOp>(user) && isUsedAsScale(user->getResult(0))))
      return true;
  }
  return false;
}

/// Matrices get normal values; vectors 1 where they scale and 0 where they are added.
void Importer::chooseInitialRules() {
  llvm::StringSet<> scales;
  function.walk([&](ReadOp op) {
    if (isUsedAsScale(op.getResult()))
      scales.insert(op.getSource());
  });
  for (auto &[index, param] : params) {
    if (!isa<UnitAttr>(param.getInit()))
      continue;
    if (std::optional<double> start = naming[index].start) {
      param.setInitAttr(FillAttr::get(getContext(), builder.getF64FloatAttr(*start)));
      continue;
    }
    int64_t larger = llvm::count_if(param.getLogicalShape(), [](int64_t size) { return size > 1; });
    if (larger > 1)
      param.setInitAttr(
          NormalAttr::get(getContext(), builder.getF64FloatAttr(0.0), builder.getF64FloatAttr(options.initialStddev)));
    else
      param.setInitAttr(
          FillAttr::get(getContext(), builder.getF64FloatAttr(scales.contains(param.getSymName()) ? 1.0 : 0.0)));
  }
}

/// Exporters merge tensors of equal values, such as norm scales that all start at 1. Trained, they would stay equal.
void Importer::warnOfMergedParameters() {
  llvm::StringMap<int> norms;
  function.walk([&](LayerNormOp op) {
    llvm::StringSet<> names;
    for (Value value : {op.getScale(), op.getBias()})
      if (auto read = value.getDefiningOp<ReadOp>(); read && names.insert(read.getSource()).second)
        ++norms[read.getSource()];
  });
  for (auto &[index, param] : params)
    if (int count = norms.lookup(param.getSymName()); count > 1)
      emitWarning(param.getLoc()) << "parameter \"" << param.getSymName() << "\" is shared by " << count
                                  << " norms; if the exporter merged tensors that only started out equal, export the "
                                     "model again with optimize=False";
}

//===----------------------------------------------------------------------===//
// Nodes and outputs
//===----------------------------------------------------------------------===//

LogicalResult Importer::importFor(const onnxfile::Node &node, StringRef module) {
  const Operator &op = *findOperator(node);
  std::string label = node.name().empty() && node.output_size() ? node.output(0) : node.name();
  currentLoc = file.getLoc(label);
  currentScope = getScope(node);
  NodeImport import(*this, node);
  for (int i = 0; i < node.input_size(); ++i) {
    Binding *binding = lookupFor(node, i, module);
    if (binding && currentScope.empty())
      currentScope =
          binding->parameter >= 0 ? StringRef(naming[binding->parameter].name).rsplit('.').first.str() : binding->scope;
    import.inputs.push_back(binding);
  }
  if (Binding *bias = restoreBias(node, import)) {
    import.inputs.resize(2);
    import.inputs.push_back(bias);
  }
  return op(import);
}

void Importer::keep(int parameter, Binding next) {
  if (options.mode != ModelMode::Evaluate)
    kept[parameter] = std::move(next);
}

/// What a front end says of tensors that the model replaces.
LogicalResult Importer::importNextValues() {
  for (auto [name, next] : findNextValues()) {
    Binding *before = lookup(name), *after = lookup(next);
    if (!after || !after->type)
      return emitError(file.getLoc(name))
             << "the next value of tensor \"" << name << "\" should be \"" << next << "\", which no node makes";
    if (before && before->parameter >= 0)
      keep(before->parameter, *after);
  }
  return success();
}

/// All of them at the end, after every read of what they replace.
LogicalResult Importer::writeKept() {
  for (auto &[index, next] : kept) {
    ParamOp param = declare(index);
    currentLoc = param.getLoc();
    if (next.type != param.getTensorType())
      return emitError(currentLoc) << "tensor \"" << param.getSymName() << "\" has type " << param.getTensorType()
                                   << ", but the model replaces it by " << next.type;
    auto write = WriteOp::create(builder, currentLoc, materialise(next), FlatSymbolRefAttr::get(param));
    setId(write, param.getSymName() + ".write");
  }
  return success();
}

LogicalResult Importer::importOutputs() {
  llvm::SmallVector<Value> results;
  std::vector<std::string> resultNames;
  currentLoc = file.getLoc();
  currentScope = "";
  for (const onnxfile::Value &output : file.getGraph().output()) {
    Binding *binding = lookup(output.name());
    if (!binding->isTensor()) { // a list is as many outputs; what is not there is none
      for (auto [index, each] : llvm::enumerate(binding->sequence.value_or(std::vector<Binding>()))) {
        results.push_back(materialise(each));
        resultNames.push_back(output.name() + "." + std::to_string(index));
      }
      continue;
    }
    results.push_back(materialise(*binding));
    resultNames.push_back(output.name());
    const onnxfile::Shape &shape = output.type().tensor().shape();
    ArrayRef<int64_t> actual = binding->type.getShape();
    if (!output.type().tensor().has_shape())
      continue;
    bool agrees = shape.dim_size() == static_cast<int>(actual.size());
    for (int i = 0; agrees && i < shape.dim_size(); ++i)
      agrees = !shape.dim(i).has_size() || shape.dim(i).size() == actual[i];
    if (!agrees)
      return emitError(file.getLoc()) << "output \"" << output.name() << "\" has type " << binding->type
                                      << ", but the model declares another shape for it";
  }
  if (results.empty())
    return emitError(file.getLoc()) << "the model's outputs are lists without a tensor, expected at least one tensor";
  if (failed(importNextValues()) || failed(writeKept()))
    return failure();
  ReturnOp::create(builder, file.getLoc(), results);
  llvm::SmallVector<Type> resultTypes(ValueRange(results).getTypes());
  function.setFunctionTypeAttr(TypeAttr::get(builder.getFunctionType(function.getArgumentTypes(), resultTypes)));
  for (auto [index, name] : llvm::enumerate(resultNames))
    function.setResultAttr(index, kOutput, builder.getStringAttr(name));
  return success();
}

/// What nobody will ask for again is forgotten, since masks of long sequences are large.
void Importer::countUses() {
  for (const onnxfile::Node &node : file.getGraph().node())
    forEachUse(node, [&](const std::string &name) { ++usesLeft[name]; });
  for (const onnxfile::Value &output : file.getGraph().output())
    ++usesLeft[output.name()];
  for (auto [name, next] : findNextValues()) {
    ++usesLeft[name];
    ++usesLeft[next];
  }
}

/// The tensors that the model replaces when it runs, and the values that replace them.
std::vector<std::pair<StringRef, StringRef>> Importer::findNextValues() const {
  std::vector<std::pair<StringRef, StringRef>> found;
  for (const onnxfile::Value &value : file.getGraph().value_info())
    for (const onnxfile::Entry &entry : value.metadata())
      if (entry.key() == kNextValue)
        found.push_back({value.name(), entry.value()});
  return found;
}

Binding *Importer::lookup(StringRef name) {
  auto found = bindings.find(name);
  return name.empty() || found == bindings.end() ? nullptr : &found->second;
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

Binding Importer::ofConstant(HostTensor tensor) const {
  Binding binding;
  binding.type = RankedTensorType::get(tensor.getShape(), tensor.getElementType());
  binding.constant = std::move(tensor);
  binding.scope = currentScope;
  return binding;
}

Binding Importer::ofValue(Value value) const {
  Binding binding;
  binding.type = cast<RankedTensorType>(value.getType());
  binding.value = value;
  binding.scope = currentScope;
  return binding;
}

Binding Importer::splatLike(RankedTensorType like, double value) const {
  HostElement element =
      isa<FloatType>(like.getElementType()) ? HostElement::ofReal(value) : HostElement::ofInteger(truncated(value));
  return ofConstant(HostTensor::splat(like.getElementType(), like.getShape(), element));
}

/// Removes the dimensions of size 1 that `shape` repeats, then repeats: hyc.broadcast only adds dimensions.
static Value broadcastValue(Importer &importer, Value value, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  llvm::SmallVector<int64_t> kept, dims;
  int64_t added = static_cast<int64_t>(shape.size()) - type.getRank();
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) == shape[dim + added]) {
      kept.push_back(type.getDimSize(dim));
      dims.push_back(dim + added);
    }
  if (static_cast<int64_t>(kept.size()) != type.getRank())
    value = importer.emit<ReshapeOp>(RankedTensorType::get(kept, type.getElementType()), value);
  return importer.emit<BroadcastOp>(RankedTensorType::get(shape, type.getElementType()), value, dims);
}

Value Importer::materialise(Binding &binding) {
  if (binding.parameter >= 0)
    return read(binding.parameter);
  if (binding.value)
    return binding.value;
  DenseElementsAttr compact = binding.constant->toCompactAttr();
  // Large constants, such as the mask of all layers, are written once; small ones stay beside their use.
  Value inPlace;
  Value &value = compact.isSplat() || compact.getNumElements() < 64 ? inPlace : largeConstants[compact];
  if (!value)
    value = ConstantOp::create(builder, currentLoc, compact.getType(), compact);
  return binding.value = broadcastValue(*this, value, binding.type.getShape());
}

static std::optional<Binding> ofOptional(const Importer &importer, std::optional<HostTensor> tensor) {
  return tensor ? std::optional<Binding>(importer.ofConstant(std::move(*tensor))) : std::nullopt;
}

std::optional<Binding> Importer::reshape(Binding &operand, ArrayRef<int64_t> shape) {
  if (operand.type.getShape() == shape)
    return operand;
  if (operand.constant)
    return ofOptional(*this, operand.constant->reshape(shape));
  return ofValue(emit<ReshapeOp>(RankedTensorType::get(shape, operand.type.getElementType()), materialise(operand)));
}

std::optional<Binding> Importer::transpose(Binding &operand, ArrayRef<int64_t> permutation) {
  if (operand.constant)
    return ofConstant(operand.constant->transpose(permutation));
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return operand;
  TransposeOp::Properties properties;
  properties.permutation = builder.getDenseI64ArrayAttr(permutation);
  Value turned = emitInferred<TransposeOp>(materialise(operand), properties);
  return turned ? std::optional<Binding>(ofValue(turned)) : std::nullopt;
}

std::optional<Binding> Importer::broadcast(Binding &operand, ArrayRef<int64_t> shape) {
  if (operand.type.getShape() == shape)
    return operand;
  if (operand.constant)
    return ofConstant(operand.constant->broadcastTo(shape));
  return ofValue(broadcastValue(*this, materialise(operand), shape));
}

std::optional<Binding> Importer::slice(Binding &operand, int64_t dim, int64_t offset, int64_t size, int64_t step) {
  if (operand.constant)
    return ofConstant(operand.constant->slice(dim, offset, size, step));
  llvm::SmallVector<int64_t> shape(operand.type.getShape()), offsets(shape.size(), 0), strides(shape.size(), 1);
  if (offset == 0 && size == shape[dim] && step == 1)
    return operand;
  shape[dim] = size, offsets[dim] = offset, strides[dim] = step;
  return ofValue(emit<SliceOp>(RankedTensorType::get(shape, operand.type.getElementType()), materialise(operand),
                               builder.getDenseI64ArrayAttr(offsets), builder.getDenseI64ArrayAttr(strides)));
}

static std::optional<HostTensor> concatConstants(ArrayRef<Binding> operands, int64_t dim, ArrayRef<int64_t> shape) {
  llvm::SmallVector<bool> varies(shape.size(), false);
  varies[dim] = true;
  llvm::SmallVector<std::pair<int64_t, const HostTensor *>> ends;
  for (const Binding &operand : operands) {
    for (size_t i = 0; i < shape.size(); ++i)
      varies[i] = varies[i] || operand.constant->variesAlong(i);
    ends.push_back({(ends.empty() ? 0 : ends.back().first) + operand.type.getDimSize(dim), &*operand.constant});
  }
  HostTensor::Shape index;
  return HostTensor::generate(operands.front().type.getElementType(), shape, varies, [&](ArrayRef<int64_t> at) {
    index.assign(at.begin(), at.end());
    int64_t begin = 0;
    for (auto &[end, tensor] : ends) {
      if (at[dim] < end) {
        index[dim] = at[dim] - begin;
        return tensor->at(index);
      }
      begin = end;
    }
    llvm_unreachable("the index lies in one of the operands");
  });
}

std::optional<Binding> Importer::concat(llvm::MutableArrayRef<Binding> operands, int64_t dim) {
  llvm::SmallVector<int64_t> shape(operands.front().type.getShape());
  shape[dim] = 0;
  for (Binding &operand : operands)
    shape[dim] += operand.type.getDimSize(dim);
  if (llvm::all_of(operands, [](const Binding &operand) { return operand.constant.has_value(); }))
    return ofOptional(*this, concatConstants(operands, dim, shape));
  llvm::SmallVector<Value> values;
  for (Binding &operand : operands)
    values.push_back(materialise(operand));
  return ofValue(emit<ConcatOp>(RankedTensorType::get(shape, operands.front().type.getElementType()), values,
                                builder.getI64IntegerAttr(dim)));
}

FailureOr<OwningOpRef<ModuleOp>> hyc::onnx::importAssembled(MLIRContext &context, StringRef path, AssembledModel model,
                                                            const ImportOptions &options) {
  context.loadDialect<HycDialect>();
  std::unique_ptr<OnnxFile> file = OnnxFile::assemble(&context, path, std::move(model));
  if (!file)
    return failure();
  return Importer(context, *file, options).run();
}

FailureOr<OwningOpRef<ModuleOp>> hyc::importOnnx(MLIRContext &context, StringRef path, const ImportOptions &options) {
  context.loadDialect<HycDialect>();
  std::unique_ptr<OnnxFile> file = OnnxFile::load(&context, path);
  if (!file)
    return failure();
  return Importer(context, *file, options).run();
}
