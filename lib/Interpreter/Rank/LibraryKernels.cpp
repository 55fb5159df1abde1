// The library kernels that rank.call names: by their plain references, which the kernels' descriptions say how to call.
// What is no kernel but a statement of generated code is executed here.
#include "Rank/RankCalls.h"
#include "Values/Initializers.h"
#include "hyc/Analysis/KernelCall.h"
#include "kernels/references.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
using kernels::Role;

namespace {

//===----------------------------------------------------------------------===//
// References
//===----------------------------------------------------------------------===//

/// A call with the values of its operands.
class Execution : public kernels::ExecutedCall {
public:
  Execution(RankCall &call, rank::CallOp op) : call(call), op(op), described(op) {}

  LogicalResult run(const kernels::ReferenceRow &reference) {
    if (failed(loadIns()) || failed(checkIndices()))
      return failure();
    if (described.describes(kPredicate) && described.find(kPredicate) && integerValue(kernels::kPredicate) == 0)
      return success();
    if (failed(makeOuts()))
      return failure();
    switch (storage()) {
    case Storage::Float:
      reference.inFloat(0, *this);
      break;
    case Storage::Double:
      reference.inDouble(0, *this);
      break;
    case Storage::Integer:
      if (!reference.inIntegers)
        return op.emitError("the interpreter executes \"") << op.getKernel() << "\" on floating-point numbers only";
      reference.inIntegers(0, *this);
      break;
    }
    return storeOuts();
  }

  // Of kernels::Call.
  bool has(std::string_view operand) const override { return described.has(operand); }
  int64_t integer(std::string_view name, int64_t otherwise) const override {
    return described.integer(name, otherwise);
  }
  double real(std::string_view name) const override { return described.real(name); }
  bool flag(std::string_view name) const override { return described.flag(name); }
  kernels::Numbers list(std::string_view name) const override { return described.list(name); }
  std::string_view text(std::string_view name) const override { return described.text(name); }
  bool onGpu() const override { return false; }

  /// Dense, and of a shard the elements that exist.
  kernels::Extents operand(std::string_view name) const override {
    kernels::Extents extents = described.operand(name);
    const Tensor &tensor = find(name);
    strides.push_back(rowMajorStrides(tensor.getShape()));
    extents.shape = {tensor.getShape().data(), tensor.getShape().size()};
    extents.strides = {strides.back().data(), strides.back().size()};
    return extents;
  }

  // Of kernels::ExecutedCall.
  const void *data(std::string_view name) const override {
    const Tensor &tensor = find(name);
    return dispatchStorage(tensor.getKind(),
                           [&](auto zero) { return static_cast<const void *>(tensor.data<decltype(zero)>()); });
  }
  void *result(std::string_view name) const override {
    Tensor &tensor = find(name);
    return dispatchStorage(tensor.getKind(),
                           [&](auto zero) { return static_cast<void *>(tensor.mutableData<decltype(zero)>()); });
  }
  double value(std::string_view name) const override { return find(name).getDouble(); }
  int64_t integerValue(std::string_view name) const override { return find(name).getInteger(); }
  std::vector<float> reals(std::string_view name) const override {
    auto values = rank::CallOp(op)->getAttrOfType<DenseElementsAttr>(StringRef(name)).getValues<float>();
    return {values.begin(), values.end()};
  }
  /// Along the axes of the attribute `axes`.
  int64_t coordinate() const override {
    int64_t linear = 0;
    if (auto axes = rank::CallOp(op)->getAttrOfType<dist::AxisListAttr>("axes"))
      for (StringAttr axis : axes.getAxes()) {
        AxisPosition position = call.axes.lookup(axis.getValue());
        linear = linear * position.size + position.coordinate;
      }
    return linear;
  }
  void fill(void *desc) const override { fillDesc(described.getKernel(), *this, desc); }

private:
  static constexpr StringRef kPredicate{kernels::kPredicate.data(), kernels::kPredicate.size()};

  Tensor &find(std::string_view name) const { return tensors.find(StringRef(name))->second; }

  LogicalResult loadIns() {
    for (const kernels::OperandRow &row : described.getKernel().ins)
      if (row.name && described.has(row.name) && failed(load(row.name)))
        return failure();
    return success();
  }

  LogicalResult load(StringRef name) {
    FailureOr<Tensor> value = call.load(op, described.find(name));
    if (succeeded(value))
      tensors[name] = *value;
    return success(succeeded(value));
  }

  /// As programs do (hycrt/indices.h).
  LogicalResult checkIndices() {
    std::optional<uint64_t> bound = op.getIndexBound();
    if (!bound)
      return success();
    auto uncounted = op->getAttrOfType<IntegerAttr>("ignore_index");
    const Tensor &indices = find(std::string_view(op.getIndexOperand()->data(), op.getIndexOperand()->size()));
    for (int64_t i = 0, e = indices.getNumElements(); i < e; ++i) {
      int64_t index = indices.getInteger(i);
      if (static_cast<uint64_t>(index) >= *bound && !(uncounted && index == uncounted.getInt()))
        return op.emitError("takes element ") << index << " of " << *bound << " (at place " << i << " of " << e
                                              << " indices), expected 0 to " << *bound - 1;
    }
    return success();
  }

  /// Zeros, but for what is updated.
  LogicalResult makeOuts() {
    for (const kernels::OperandRow &row : described.getKernel().outs) {
      if (!row.name || row.role == Role::kScratch)
        continue;
      if (row.role == Role::kUpdated) {
        if (failed(load(row.name)))
          return failure();
        continue;
      }
      Value buffer = described.find(row.name);
      tensors[row.name] = Tensor(call.kindOf(buffer), cast<rank::BufferType>(buffer.getType()).getShape());
    }
    return success();
  }

  LogicalResult storeOuts() {
    for (const kernels::OperandRow &row : described.getKernel().outs) {
      if (!row.name || row.role == Role::kScratch)
        continue;
      rank::WriteMode mode = row.role == Role::kByMode ? op.getMode() : rank::WriteMode::overwrite;
      if (failed(call.store(op, call.regionOf(described.find(row.name)), tensors[row.name], mode)))
        return failure();
    }
    return success();
  }

  /// In which the call's numbers are kept: its floating-point ones, results before inputs, where it has any.
  enum class Storage { Float, Double, Integer };
  Storage storage() const {
    auto of = [&](const kernels::OperandRow &row) {
      auto found = row.name ? tensors.find(row.name) : tensors.end();
      if (found == tensors.end() || !isFloat(found->second.getKind()))
        return Storage::Integer;
      return found->second.getKind() == ElementKind::F64 ? Storage::Double : Storage::Float;
    };
    for (const kernels::OperandRow &row : described.getKernel().outs)
      if (of(row) != Storage::Integer)
        return of(row);
    for (const kernels::OperandRow &row : described.getKernel().ins)
      if (of(row) != Storage::Integer)
        return of(row);
    return Storage::Integer;
  }

  RankCall &call;
  rank::CallOp op;
  KernelCall described;
  mutable llvm::StringMap<Tensor> tensors; ///< by the description's names
  mutable std::deque<SmallVector<int64_t>> strides;
};

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

LogicalResult stridedCopy(RankCall &call, rank::CallOp op) {
  FailureOr<Tensor> value = call.load(op, op.getIns()[0]);
  if (failed(value))
    return failure();
  return call.store(op, op.getOuts()[0], value->reshaped(cast<rank::BufferType>(op.getOuts()[0].getType()).getShape()));
}

/// As many elements as both have: a state that is stored flat is padded, a slice of a whole is not.
LogicalResult storeCommon(RankCall &call, rank::CallOp op, rank::WriteMode mode) {
  Value in = op.getIns()[0], out = op.getOuts()[0];
  FailureOr<Tensor> loaded = call.load(op, in);
  if (failed(loaded))
    return failure();
  Tensor value = loaded->converted(call.kindOf(out));
  auto typeOf = [](Value buffer) { return cast<rank::BufferType>(buffer.getType()); };
  if (!typeOf(out).isShard() && !typeOf(in).isShard())
    return call.store(op, call.regionOf(out), value.reshaped(typeOf(out).getShape()), mode);
  Extent target = call.regionOf(out);
  target.shape[0] = std::min(target.shape[0], value.getNumElements());
  return call.store(op, target, value.reshaped({value.getNumElements()}).window(0, 0, target.shape[0]), mode);
}

LogicalResult accumulate(RankCall &call, rank::CallOp op) { return storeCommon(call, op, op.getMode()); }
LogicalResult round(RankCall &call, rank::CallOp op) { return storeCommon(call, op, rank::WriteMode::overwrite); }

LogicalResult accumulateMax(RankCall &call, rank::CallOp op) {
  Value out = op.getOuts()[0];
  FailureOr<Tensor> from = call.load(op, op.getIns()[0]);
  if (failed(from))
    return failure();
  if (op.getMode() == rank::WriteMode::overwrite || (op.getMode() == rank::WriteMode::first && call.isFirst))
    return call.store(op, out, *from);
  FailureOr<Tensor> old = call.load(op, out);
  if (failed(old))
    return failure();
  double now = old->getDouble(), value = from->getDouble();
  old->set(0, now >= value || std::isnan(now) ? now : value);
  return call.store(op, out, *old);
}

LogicalResult fill(RankCall &call, rank::CallOp op) {
  Value out = op.getOuts()[0];
  Attribute value = op->getAttr("value");
  double number = 0;
  if (auto real = dyn_cast_or_null<FloatAttr>(value))
    number = real.getValueAsDouble();
  else if (auto integer = dyn_cast_or_null<IntegerAttr>(value))
    number = integer.getType().isInteger(1) ? static_cast<double>(integer.getValue().getZExtValue())
                                            : static_cast<double>(integer.getValue().getSExtValue());
  return call.store(op, out, Tensor::splat(call.kindOf(out), cast<rank::BufferType>(out.getType()).getShape(), number));
}

LogicalResult constant(RankCall &call, rank::CallOp op) {
  Value out = op.getOuts()[0];
  FailureOr<Tensor> values = denseValue(op, op->getAttr("values"), call.arithmetic);
  if (failed(values))
    return failure();
  return call.store(op, out, values->reshaped(cast<rank::BufferType>(out.getType()).getShape()));
}

/// The whole buffer; a poisoned byte is one that nothing has written.
LogicalResult poison(RankCall &call, rank::CallOp op) {
  Address address = call.addresses.lookup(op.getOuts()[0]);
  int64_t bytes = cast<rank::BufferType>(op.getOuts()[0].getType()).getBytes();
  call.memory.poison(*address.arena, address.offset, address.offset + bytes);
  return success();
}

} // namespace

LogicalResult hyc::interpreter::executeLibraryKernel(RankCall &call, rank::CallOp op) {
  StringRef name = op.getKernel();
  if (const kernels::ReferenceRow *reference = kernels::findReference(std::string_view(name.data(), name.size())))
    return Execution(call, op).run(*reference);
  static constexpr std::pair<StringLiteral, LogicalResult (*)(RankCall &, rank::CallOp)> kStatements[] = {
      {"strided_copy", stridedCopy},
      {"accumulate", accumulate},
      {"accumulate_max", accumulateMax},
      {"round", round},
      {"fill", fill},
      {"constant", constant},
      {"poison", poison},
  };
  for (const auto &[kernel, execute] : kStatements)
    if (kernel == name)
      return execute(call, op);
  return op.emitError("the interpreter knows no kernel \"") << name << "\"";
}
