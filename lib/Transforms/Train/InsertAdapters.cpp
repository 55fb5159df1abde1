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
  /// Letters of a product: the weight's dimensions that it contracts and that it keeps, the result's, and one for the
  /// rank that none of them is; and what ids of what is added begin with.
  struct Sides {
    std::string weight, contracted, kept, result, rank, stem;
  };

public:
  /// `values`: where those lie that do not start by rule, or null.
  AdapterBuilder(LinearLayer &layer, const AdapterSettings &settings, DictionaryAttr values)
      : layer(layer), settings(settings), values(values), builder(layer.weight.getContext()) {}

  LogicalResult build() {
    builder.setInsertionPointAfter(layer.weight);
    ParamOp a = addInner(), b = addOuter();
    builder.setInsertionPointAfter(b);
    ParamOp lengths = settings.hasMagnitudes() ? addMagnitudes() : ParamOp();
    for (EinsumOp product : layer.products)
      addBeside(product, a, b, lengths);
    return success(succeeded(takeValues(a)) && succeeded(takeValues(b)) &&
                   (!lengths || succeeded(takeValues(lengths))));
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

  /// [outputs]: how long each output's weights are to be; at first, as they are, or as what their codes mean.
  ParamOp addMagnitudes() {
    const SmallVector<int64_t> shape(layer.outputShape());
    const int64_t outputs = llvm::product_of(shape), inputs = llvm::product_of(layer.inputShape());
    ParamOp weight = layer.weight;
    auto codes = weight->getAttrOfType<CodeKindAttr>(kQuantized);
    const WeightPart part = !codes                               ? WeightPart::row_norms
                            : codes.getValue() == CodeKind::int8 ? WeightPart::int8_row_norms
                                                                 : WeightPart::nf4_row_norms;
    auto init = OfWeightAttr::get(builder.getContext(), part, weight.getSymName(), weight.getInit(), outputs, inputs,
                                  layer.inputsFirst);
    auto param = ParamOp::create(builder, weight.getLoc(), layer.path + kMagnitudeName.str(),
                                 RankedTensorType::get(shape, weight.getTensorType().getElementType()), init,
                                 shape.size() == 1 ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr({outputs}),
                                 /*frozen=*/false, /*global_type=*/TypeAttr());
    param->setAttr(kAdapterMagnitudes, builder.getUnitAttr());
    return param;
  }

  void addBeside(EinsumOp product, ParamOp a, ParamOp b, ParamOp lengths);
  Value lengthsOf(const Sides &sides, Value weight, Value a, Value b);
  Value toLengths(EinsumOp product, const Sides &sides, Value sum, ParamOp lengths, Value own);

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
    FuncOp entry = findFunction(getOperation(), kTrain, "expected the model of phase 1, as import gives it");
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
    for (StringRef suffix : {kInnerName, kOuterName, kMagnitudeName})
      if (getOperation().lookupSymbol(layer.path + suffix.str()))
        return ParamOp(layer.weight).emitError("gets an adapter, but the model has @")
               << layer.path << suffix << " already; compile the model without adapters of its own";
    return success();
  }
};
} // namespace

static Value named(Operation *op, const Twine &id) {
  setId(op, id);
  return op->getResult(0);
}

/// Multiplied by a number.
static Value scaled(OpBuilder &builder, Value x, double factor, const Twine &id, StringRef constantId) {
  auto type = tensorTypeOf(x);
  auto values = DenseElementsAttr::get(type, FloatAttr::get(type.getElementType(), factor));
  Value scale = named(ConstantOp::create(builder, x.getLoc(), type, cast<ElementsAttr>(values)), constantId);
  return named(MulOp::create(builder, x.getLoc(), x, scale), id);
}

void AdapterBuilder::addBeside(EinsumOp product, ParamOp a, ParamOp b, ParamOp lengths) {
  EinsumOp::Letters letters = product.getLetters();
  bool isLhs = product.getLhs().getDefiningOp<ReadOp>() && // the weight, by its name
               product.getLhs().getDefiningOp<ReadOp>().getSource() == layer.weight.getSymName();
  StringRef weight = isLhs ? letters.lhs : letters.rhs, input = isLhs ? letters.rhs : letters.lhs;
  size_t count = layer.inputDims;
  Sides sides;
  sides.weight = weight.str();
  sides.result = letters.result.str();
  sides.rank = std::string(1, freeLetter(product.getSpec()));
  sides.contracted = (layer.inputsFirst ? weight.take_front(count) : weight.take_back(count)).str();
  sides.kept = (layer.inputsFirst ? weight.drop_front(count) : weight.drop_back(count)).str();
  std::string low; // what of the activations is not contracted, and the rank
  for (char letter : input)
    if (!StringRef(sides.contracted).contains(letter))
      low += letter;
  low += sides.rank;

  builder.setInsertionPointAfter(product);
  Location loc = product.getLoc();
  // Ids begin with the module's path; of a second product with one weight, with that product's.
  StringRef id = getId(product);
  sides.stem = product == layer.products.front() || id.empty() ? layer.path : id.str();
  auto spec = [&](const Twine &text) { return builder.getStringAttr(text); };
  Value x = isLhs ? product.getRhs() : product.getLhs(), w = isLhs ? product.getLhs() : product.getRhs();
  Value readA = ReadOp::create(builder, loc, a.getTensorType(), a.getSymName());
  Value inner =
      named(EinsumOp::create(builder, loc, spec(input + "," + sides.rank + sides.contracted + "->" + low), x, readA),
            sides.stem + ".lora_A.einsum");
  Value changed = scaled(builder, inner, settings.scale(), sides.stem + ".lora.mul", sides.stem + ".lora.scale");
  Value readB = ReadOp::create(builder, loc, b.getTensorType(), b.getSymName());
  Value change =
      named(EinsumOp::create(builder, loc, spec(Twine(low) + "," + sides.kept + sides.rank + "->" + letters.result),
                             changed, readB),
            sides.stem + ".lora_B.einsum");
  auto sum = AddOp::create(builder, loc, product.getResult(), change);
  Value result = named(sum, sides.stem + ".lora.add");
  if (lengths)
    result = toLengths(product, sides, result, lengths, lengthsOf(sides, w, readA, readB));
  product.getResult().replaceAllUsesExcept(result, sum);
}

/// Of W + scale · B · A the length of each output's weights, [outputs]: of its square W's, twice the product of both
/// and that of the change, which need nothing of the weight's size. A constant to backward, as in peft (Liu et al.
/// 2024, 4.3).
Value AdapterBuilder::lengthsOf(const Sides &sides, Value weight, Value a, Value b) {
  Location loc = weight.getLoc();
  const double scale = settings.scale();
  const std::string other(1, freeLetter(sides.weight + sides.rank)), own = sides.stem + ".lora.lengths";
  auto einsum = [&](const std::string &spec, Value lhs, Value rhs, const char *name) {
    return named(EinsumOp::create(builder, loc, builder.getStringAttr(spec), lhs, rhs), own + name);
  };
  auto sumOver = [&](Value x, ArrayRef<int64_t> dims, const char *name) {
    return named(ReduceOp::create(builder, loc, ReductionKind::sum, x, dims), own + name);
  };
  const auto count = static_cast<int64_t>(sides.weight.size()), inputs = static_cast<int64_t>(layer.inputDims);
  auto inputDims =
      llvm::to_vector(layer.inputsFirst ? llvm::seq<int64_t>(0, inputs) : llvm::seq<int64_t>(count - inputs, count));
  const auto rankDim = static_cast<int64_t>(sides.kept.size());
  Value squares =
      sumOver(named(MulOp::create(builder, loc, weight, weight), own + ".squares"), inputDims, ".of_weight");
  const std::string rows = sides.kept + sides.rank;
  Value crossed = einsum(sides.weight + "," + sides.rank + sides.contracted + "->" + rows, weight, a, ".weight_A");
  Value both = sumOver(named(MulOp::create(builder, loc, crossed, b), own + ".weight_A_B"), {rankDim}, ".of_both");
  Value gram =
      einsum(sides.rank + sides.contracted + "," + other + sides.contracted + "->" + sides.rank + other, a, a, ".A_A");
  Value spread = einsum(rows + "," + sides.rank + other + "->" + sides.kept + other, b, gram, ".B_A_A");
  Value change = sumOver(named(MulOp::create(builder, loc, spread, b), own + ".B_A_A_B"), {rankDim}, ".of_change");
  both = scaled(builder, both, 2 * scale, own + ".both", own + ".scale");
  change = scaled(builder, change, scale * scale, own + ".change", own + ".scale_squared");
  Value all = named(AddOp::create(builder, loc, squares, both), own + ".weight_and_both");
  all = named(AddOp::create(builder, loc, all, change), own + ".sum");
  // A weight that its adapter takes away but for what is rounded.
  auto type = tensorTypeOf(all);
  auto zero = DenseElementsAttr::get(type, FloatAttr::get(type.getElementType(), 0));
  Value least = named(ConstantOp::create(builder, loc, type, cast<ElementsAttr>(zero)), own + ".zero");
  Value root =
      named(SqrtOp::create(builder, loc, named(MaxOp::create(builder, loc, all, least), own + ".max")), own + ".sqrt");
  return named(StopGradientOp::create(builder, loc, root), own);
}

/// `sum`, whose outputs are as long as `own` says, as long as the parameter says.
Value AdapterBuilder::toLengths(EinsumOp product, const Sides &sides, Value sum, ParamOp lengths, Value own) {
  Location loc = product.getLoc();
  Value wanted = ReadOp::create(builder, loc, lengths.getTensorType(), lengths.getSymName());
  Value factor = named(DivOp::create(builder, loc, wanted, own), sides.stem + ".lora.lengthening");
  // In the result's order of dimensions.
  SmallVector<std::pair<int64_t, int64_t>> order;
  for (auto [index, letter] : llvm::enumerate(sides.kept))
    order.push_back({static_cast<int64_t>(sides.result.find(letter)), static_cast<int64_t>(index)});
  llvm::sort(order);
  SmallVector<int64_t> dims, permutation;
  for (auto [dim, index] : order) {
    dims.push_back(dim);
    permutation.push_back(index);
  }
  if (!llvm::is_sorted(permutation))
    factor = named(TransposeOp::create(builder, loc, factor, permutation), sides.stem + ".lora.transpose");
  factor = named(BroadcastOp::create(builder, loc, sum.getType(), factor, dims), sides.stem + ".lora.broadcast");
  return named(MulOp::create(builder, loc, sum, factor), sides.stem + ".lora.lengthened");
}
