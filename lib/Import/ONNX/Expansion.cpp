// Nodes that stand for another: written as a file would have them, and imported.
#include "Expansion.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;
using llvm::StringRef;

/// Writes an attribute as a file would have it; the numbers are the format's attribute types.
static void addAttribute(onnxfile::Node &node, const NamedValue &given) {
  onnxfile::Attribute *attribute = node.add_attribute();
  attribute->set_name(given.name.str());
  if (auto *integer = std::get_if<int64_t>(&given.value)) {
    attribute->set_type(2);
    attribute->set_i(*integer);
  } else if (auto *real = std::get_if<double>(&given.value)) {
    attribute->set_type(1);
    attribute->set_f(static_cast<float>(*real));
  } else if (auto *text = std::get_if<std::string>(&given.value)) {
    attribute->set_type(3);
    attribute->set_s(*text);
  } else {
    attribute->set_type(7);
    for (int64_t value : std::get<llvm::SmallVector<int64_t>>(given.value))
      attribute->add_ints(value);
  }
}

std::vector<Binding> Expansion::all(StringRef op, ArrayRef<Binding> inputs, ArrayRef<NamedValue> attributes,
                                    int outputs) {
  std::vector<Binding> results(outputs);
  if (bad)
    return results;
  onnxfile::Node inner;
  inner.set_op_type(op.str());
  inner.set_name(node.getName().str());
  // Names that no file can have: they hold a NUL.
  for (int i = 0; i < outputs; ++i)
    inner.add_output(std::string("\0", 1) + std::to_string(i));
  for (const NamedValue &attribute : attributes)
    addAttribute(inner, attribute);
  std::vector<Binding> operands(inputs.begin(), inputs.end());
  const Operator *known = findOperator(inner);
  assert(known && "an expansion names operators that hyc has");
  NodeImport import(importer, inner);
  for (Binding &operand : operands) {
    inner.add_input(std::string("\0", 1));
    import.inputs.push_back(operand.type || operand.sequence ? &operand : nullptr);
    if (!import.inputs.back())
      inner.set_input(inner.input_size() - 1, "");
  }
  import.isNewest = true;
  bad = mlir::failed((*known)(import));
  for (int i = 0; i < outputs && !bad; ++i) {
    Binding *made = importer.lookup(inner.output(i));
    if (made)
      results[i] = *made;
  }
  for (int i = 0; i < outputs; ++i)
    importer.forget(inner.output(i));
  return results;
}

Binding Expansion::iota(int64_t size, int64_t dim, int64_t tensorRank) {
  if (bad)
    return {};
  std::optional<HostTensor> range =
      HostTensor::range(importer.getBuilder().getI64Type(), HostElement::ofInteger(0), HostElement::ofInteger(1), size);
  if (!range) {
    fail("counts further than constants may be long");
    return {};
  }
  llvm::SmallVector<int64_t> shape(tensorRank, 1);
  shape[dim] = size;
  return reshape(importer.ofConstant(*range), shape);
}

/// What a definition may list: a constant of so many elements takes some 256 MiB while it is made.
static constexpr int64_t kMostListed = int64_t(1) << 24;

Binding Expansion::listed(ArrayRef<int64_t> shape, Type type, llvm::function_ref<HostElement(int64_t)> valueOf) {
  if (bad)
    return {};
  std::optional<int64_t> count = countElements(shape);
  if (!count || *count > kMostListed) {
    fail("needs a constant of more than " + llvm::Twine(kMostListed) + " elements, which hyc does not make");
    return {};
  }
  int64_t place = 0;
  std::optional<HostTensor> made =
      HostTensor::generate(type, shape, llvm::SmallVector<bool>(shape.size(), true),
                           [&](ArrayRef<int64_t>) { return roundTo(type, valueOf(place++)); });
  if (!made)
    fail("needs a constant that is too large beside those that are still needed");
  return made ? importer.ofConstant(*made) : Binding();
}

Binding Expansion::integers(int64_t count, llvm::function_ref<int64_t(int64_t)> valueOf) {
  return listed({count}, importer.getBuilder().getI64Type(),
                [&](int64_t place) { return HostElement::ofInteger(valueOf(place)); });
}

Binding Expansion::reals(ArrayRef<int64_t> shape, llvm::function_ref<double(int64_t)> valueOf, Type type) {
  return listed(shape, type ? type : importer.getBuilder().getF32Type(),
                [&](int64_t place) { return HostElement::ofReal(valueOf(place)); });
}

Binding Expansion::reduce(StringRef op, const Binding &x, ArrayRef<int64_t> axes, bool keepdims) {
  return (*this)(op, {x, integers(axes)}, {{"keepdims", int64_t(keepdims)}, {"noop_with_empty_axes", int64_t(1)}});
}

Binding Expansion::reshape(const Binding &x, ArrayRef<int64_t> shape) {
  if (bad)
    return {};
  if (countElements(x.type.getShape()) != countElements(shape)) {
    node.error() << "cannot take " << x.type << " in the shape that it needs";
    bad = true;
    return {};
  }
  Binding operand = x;
  std::optional<Binding> result = importer.reshape(operand, shape);
  if (!result)
    fail("has a constant that is too large");
  return result.value_or(Binding());
}

Binding Expansion::transpose(const Binding &x, ArrayRef<int64_t> permutation) {
  if (bad)
    return {};
  Binding operand = x;
  return *importer.transpose(operand, permutation);
}

Binding Expansion::broadcast(const Binding &x, ArrayRef<int64_t> shape) {
  if (bad)
    return {};
  std::optional<HostTensor::Shape> common = broadcastShapes(x.type.getShape(), shape);
  if (!common || ArrayRef<int64_t>(*common) != shape) {
    node.error() << "cannot repeat " << x.type << " to the shape that it needs";
    bad = true;
    return {};
  }
  Binding operand = x;
  return *importer.broadcast(operand, shape);
}

Binding Expansion::fromFront(const Binding &indices, int64_t size) {
  Binding wide = cast(indices, importer.getBuilder().getI64Type());
  return where((*this)("Less", {wide, integer(0)}), add(wide, integer(size)), wide);
}

Binding Expansion::gather(Binding data, Binding indices, int64_t dim, int64_t batch) {
  return emit([&] {
    Builder &builder = importer.getBuilder();
    GatherOp::Properties properties;
    properties.dim = builder.getI64IntegerAttr(dim);
    properties.batch = builder.getI64IntegerAttr(batch);
    return importer.emitInferred<GatherOp>({importer.materialise(data), importer.materialise(indices)}, properties);
  });
}

Binding Expansion::cast(const Binding &x, Type type) {
  if (bad || x.type.getElementType() == type)
    return x;
  return (*this)("CastLike", {x, importer.splatLike(RankedTensorType::get({}, type), 0)});
}

LogicalResult Expansion::finish(std::vector<Binding> results) {
  if (bad)
    return failure();
  std::vector<std::optional<Binding>> bound;
  for (Binding &result : results)
    bound.push_back(std::move(result));
  return node.finish(std::move(bound));
}
