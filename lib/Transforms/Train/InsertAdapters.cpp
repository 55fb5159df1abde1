// InsertAdapters: products of low rank beside linear layers. The weight's own dimensions tell those of A and B,
// whatever heads or fused parts they have been split into, so that both lie in memory as peft stores them: A [rank,
// inputs], B [outputs, rank].
#include "LinearLayers.h"
#include "TrainingState.h"
#include "dialects/Hyc/DerivedOps.h"
#include "hyc/Analysis/Adapters.h"
#include "hyc/Plan/AdapterSettings.h"
#include "hyc/Support/NamePattern.h"
#include "hyc/Support/NearestName.h"
#include "hyc/Transforms/Train/Passes.h"

#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_INSERTADAPTERS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {

/// One of `targets`.
class Target {
public:
  static llvm::Expected<Target> compile(StringRef text) {
    Target result(text);
    if (!isName(text)) {
      llvm::Expected<NamePattern> pattern = NamePattern::compile(text); // whose errors count the text's characters
      if (pattern)
        pattern = NamePattern::compile(("^(" + text + ")$").str());
      if (!pattern)
        return pattern.takeError();
      result.pattern = std::move(*pattern);
    }
    return result;
  }

  StringRef getText() const { return text; }
  bool isEveryLayer() const { return text == kAllLinear; }
  bool matches(StringRef path) const {
    if (pattern)
      return pattern->match(path);
    return path == text || (path.ends_with(text) && path.drop_back(text.size()).ends_with("."));
  }

private:
  explicit Target(StringRef text) : text(text) {}
  static bool isName(StringRef text) {
    return llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '-' || c == '.'; });
  }

  StringRef text;
  std::optional<NamePattern> pattern;
};

/// Adds the parameters and ops of one layer's adapter.
class AdapterBuilder {
public:
  /// `values`: where those lie that do not start by rule, or null.
  AdapterBuilder(LinearLayer &layer, const AdapterSettings &settings, DictionaryAttr values)
      : layer(layer), settings(settings), values(values), builder(layer.weight.getContext()) {}

  LogicalResult build() {
    builder.setInsertionPointAfter(layer.weight);
    ParamOp a = addInner(), b = addOuter();
    for (EinsumOp product : layer.products)
      addBeside(product, a, b);
    return success(succeeded(takeValues(a)) && succeeded(takeValues(b)));
  }

private:
  /// Letters that a product's spec has not.
  static char freeLetter(StringRef spec) {
    for (char letter = 'a'; letter <= 'z'; ++letter)
      if (!spec.contains(letter))
        return letter;
    for (char letter = 'A'; letter <= 'Z'; ++letter)
      if (!spec.contains(letter))
        return letter;
    llvm_unreachable("a product has fewer than 26 dimensions");
  }

  ParamOp addParam(StringRef suffix, ArrayRef<int64_t> shape, Attribute init, int64_t rankDim,
                   ArrayRef<int64_t> logical) {
    Type element = layer.weight.getTensorType().getElementType();
    auto param = ParamOp::create(builder, layer.weight.getLoc(), layer.path + suffix.str(),
                                 RankedTensorType::get(shape, element), init,
                                 logical == shape ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(logical),
                                 /*frozen=*/false, /*global_type=*/TypeAttr());
    param->setAttr(kAdapterRank, builder.getI64IntegerAttr(rankDim));
    return param;
  }

  /// A: [rank, inputs].
  ParamOp addInner() {
    SmallVector<int64_t> shape{settings.rank};
    llvm::append_range(shape, layer.inputShape());
    int64_t inputs = llvm::product_of(layer.inputShape());
    double bound = 1 / std::sqrt(static_cast<double>(inputs));
    auto init = UniformAttr::get(builder.getContext(), builder.getF64FloatAttr(-bound), builder.getF64FloatAttr(bound));
    ParamOp param = addParam(kInnerName, shape, init, 0, {settings.rank, inputs});
    if (layer.inputsFirst)
      param->setAttr(kInputsFirst, builder.getUnitAttr());
    builder.setInsertionPointAfter(param);
    return param;
  }

  /// B: [outputs, rank].
  ParamOp addOuter() {
    SmallVector<int64_t> shape(layer.outputShape());
    shape.push_back(settings.rank);
    auto init = FillAttr::get(builder.getContext(), builder.getF64FloatAttr(0));
    return addParam(kOuterName, shape, init, static_cast<int64_t>(shape.size()) - 1,
                    {llvm::product_of(layer.outputShape()), settings.rank});
  }

  void addBeside(EinsumOp product, ParamOp a, ParamOp b);

  /// Has the parameter start from the file that has it.
  LogicalResult takeValues(ParamOp param) {
    auto entry = values ? values.getAs<ArrayAttr>(param.getSymName()) : ArrayAttr();
    if (!entry)
      return success();
    auto file = cast<FileAttr>(entry[0]);
    ArrayRef<int64_t> shape = cast<DenseI64ArrayAttr>(entry[1]).asArrayRef();
    SmallVector<int64_t> expected = param.getLogicalShape();
    if (shape != ArrayRef(expected))
      return param.emitError("\"") << param.getSymName() << "\" in '" << file.getPath() << "' is [" << shape
                                   << "], expected [" << expected << "]: it is an adapter of another model or rank";
    param.setInitAttr(file);
    return success();
  }

  LinearLayer &layer;
  const AdapterSettings &settings;
  DictionaryAttr values;
  OpBuilder builder;
};

struct InsertAdapters : hyc::impl::InsertAdaptersBase<InsertAdapters> {
  using InsertAdaptersBase::InsertAdaptersBase;

  void runOnOperation() override {
    FuncOp entry = findFunction(getOperation(), kEntry, "expected the model of phase 1, as import gives it");
    AdapterSettings settings{rank, alpha, variant, {targets.begin(), targets.end()}};
    if (!entry)
      return signalPassFailure();
    if (llvm::Error error = settings.check()) {
      getOperation().emitError("--lora ") << llvm::toString(std::move(error));
      return signalPassFailure();
    }
    LinearLayers found = findLinearLayers(getOperation(), entry);
    auto values = getOperation()->getAttrOfType<DictionaryAttr>(kAdapterValues);
    llvm::StringSet<> chosen;
    for (const std::string &target : settings.targets)
      if (failed(choose(target, found, chosen)))
        return signalPassFailure();
    for (LinearLayer &layer : found.layers)
      if (chosen.contains(layer.path)) {
        if (failed(checkRoom(layer)) || failed(AdapterBuilder(layer, settings, values).build()))
          return signalPassFailure();
        ++adapters;
      }
    getOperation()->removeAttr(kAdapterValues);
  }

private:
  /// Adds the paths that a target names, of linear layers all.
  LogicalResult choose(StringRef text, const LinearLayers &found, llvm::StringSet<> &chosen) {
    llvm::Expected<Target> target = Target::compile(text);
    if (!target)
      return getOperation().emitError("--lora target \"")
             << text.take_front(100) << "\" is no regular expression: " << llvm::toString(target.takeError());
    size_t matches = 0;
    for (const LinearLayer &layer : found.layers)
      if (target->isEveryLayer() ? !layer.makesOutput : target->matches(layer.path)) {
        chosen.insert(layer.path);
        ++matches;
      }
    for (const NoLinearLayer &other : found.others)
      if (!target->isEveryLayer() && target->matches(other.path))
        return getOperation().emitError("--lora target \"")
               << text.take_front(100) << "\" names \"" << other.path << "\", which is no linear layer: it "
               << other.reason << listLayers(found);
    if (matches > 0)
      return success();
    return refuseNothing(text, found);
  }

  /// The last parts of the paths of linear layers, each once.
  static SmallVector<StringRef> lastParts(const LinearLayers &found) {
    SmallVector<StringRef> names;
    for (const LinearLayer &layer : found.layers)
      if (StringRef name = StringRef(layer.path).rsplit('.').second;
          !llvm::is_contained(names, name.empty() ? StringRef(layer.path) : name))
        names.push_back(name.empty() ? StringRef(layer.path) : name);
    return names;
  }

  static std::string listLayers(const LinearLayers &found) {
    constexpr size_t kMostListed = 12;
    SmallVector<StringRef> names = lastParts(found);
    std::string text = names.empty() ? "" : "; its linear layers are ";
    for (auto [index, name] : llvm::enumerate(ArrayRef(names).take_front(kMostListed)))
      text += (index ? ", " : "") + name.str();
    return text + (names.size() > kMostListed ? ", …" : "");
  }

  LogicalResult refuseNothing(StringRef text, const LinearLayers &found) {
    SmallVector<StringRef> names = lastParts(found);
    InFlightDiagnostic error = getOperation().emitError("--lora target \"")
                               << text.take_front(100) << "\" matches no linear layer";
    if (names.empty())
      return error << " of the model, which has none";
    return error << "; the nearest is \""
                 << nearestName(text.rsplit('.').second.empty() ? text : text.rsplit('.').second, names) << "\""
                 << listLayers(found);
  }

  /// Names that adapters need, and that the model has for something else.
  LogicalResult checkRoom(const LinearLayer &layer) {
    for (StringRef suffix : {kInnerName, kOuterName})
      if (getOperation().lookupSymbol(layer.path + suffix.str()))
        return ParamOp(layer.weight).emitError("gets an adapter, but the model has @")
               << layer.path << suffix << " already; compile the model without adapters of its own";
    return success();
  }
};
} // namespace

void AdapterBuilder::addBeside(EinsumOp product, ParamOp a, ParamOp b) {
  EinsumOp::Letters letters = product.getLetters();
  bool isLhs = product.getLhs().getDefiningOp<ReadOp>() && // the weight, by its name
               product.getLhs().getDefiningOp<ReadOp>().getSource() == layer.weight.getSymName();
  StringRef weight = isLhs ? letters.lhs : letters.rhs, input = isLhs ? letters.rhs : letters.lhs;
  size_t count = layer.inputDims;
  std::string rank(1, freeLetter(product.getSpec()));
  std::string contracted = (layer.inputsFirst ? weight.take_front(count) : weight.take_back(count)).str();
  std::string kept = (layer.inputsFirst ? weight.drop_front(count) : weight.drop_back(count)).str();
  std::string low; // what of the activations is not contracted, and the rank
  for (char letter : input)
    if (!StringRef(contracted).contains(letter))
      low += letter;
  low += rank;

  builder.setInsertionPointAfter(product);
  Location loc = product.getLoc();
  // Ids begin with the module's path; of a second product with one weight, with that product's.
  StringRef id = getId(product);
  std::string stem = product == layer.products.front() || id.empty() ? layer.path : id.str();
  auto named = [&](Operation *op, StringRef suffix) {
    setId(op, stem + suffix.str());
    return op->getResult(0);
  };
  auto spec = [&](const Twine &text) { return builder.getStringAttr(text); };
  Value x = isLhs ? product.getRhs() : product.getLhs();
  Value readA = ReadOp::create(builder, loc, a.getTensorType(), a.getSymName());
  Value inner = named(EinsumOp::create(builder, loc, spec(input + "," + rank + contracted + "->" + low), x, readA),
                      ".lora_A.einsum");
  auto type = tensorTypeOf(inner);
  Attribute factor = FloatAttr::get(type.getElementType(), settings.scale());
  Value scale = named(ConstantOp::create(builder, loc, type, cast<ElementsAttr>(DenseElementsAttr::get(type, factor))),
                      ".lora.scale");
  Value scaled = named(MulOp::create(builder, loc, inner, scale), ".lora.mul");
  Value readB = ReadOp::create(builder, loc, b.getTensorType(), b.getSymName());
  Value change =
      named(EinsumOp::create(builder, loc, spec(Twine(low) + "," + kept + rank + "->" + letters.result), scaled, readB),
            ".lora_B.einsum");
  auto sum = AddOp::create(builder, loc, product.getResult(), change);
  named(sum, ".lora.add");
  product.getResult().replaceAllUsesExcept(sum.getResult(), sum);
}
