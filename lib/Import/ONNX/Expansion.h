// Operators that others can say: imported as the nodes of their definition, so that constants fold, types are checked
// and shapes are inferred as for a model that spells them out.
#ifndef HYC_IMPORT_ONNX_EXPANSION_H
#define HYC_IMPORT_ONNX_EXPANSION_H

#include "Importer.h"
#include <variant>

namespace hyc::onnx {

/// An attribute of a node that an expansion writes.
struct NamedValue {
  llvm::StringRef name;
  std::variant<int64_t, double, std::string, llvm::SmallVector<int64_t>> value;
};

/// The nodes that stand for one. After a failure, which has been reported, every further node gives nothing, and so
/// does `finish`; a definition therefore need not look.
class Expansion {
public:
  explicit Expansion(NodeImport &node) : node(node), importer(node.importer()) {}

  /// The first result of an operator, of the newest operator set.
  Binding operator()(llvm::StringRef op, llvm::ArrayRef<Binding> inputs, llvm::ArrayRef<NamedValue> attributes = {}) {
    return all(op, inputs, attributes, 1).front();
  }
  std::vector<Binding> all(llvm::StringRef op, llvm::ArrayRef<Binding> inputs, llvm::ArrayRef<NamedValue> attributes,
                           int outputs);

  Binding input(int index) { return node.input(index); }
  /// A number of the element type of `like`.
  Binding number(const Binding &like, double value) {
    return ok() ? importer.splatLike(mlir::RankedTensorType::get({}, like.type.getElementType()), value) : Binding();
  }
  Binding integers(llvm::ArrayRef<int64_t> values) {
    return importer.ofConstant(HostTensor::fromIntegers(importer.getBuilder().getI64Type(), values));
  }
  /// As many integers, by their place. Sizes come from the model: too many are refused before there is one.
  Binding integers(int64_t count, llvm::function_ref<int64_t(int64_t)> valueOf);
  Binding integer(int64_t value) {
    return importer.ofConstant(
        HostTensor::splat(importer.getBuilder().getI64Type(), {}, HostElement::ofInteger(value)));
  }
  /// 0 to size - 1 along dimension `dim` of `tensorRank`, the others of size 1; i64.
  Binding iota(int64_t size, int64_t dim, int64_t tensorRank);
  /// Real numbers as f32, or the type given, by their place in the order of the elements; too many are refused before
  /// there is one.
  Binding reals(llvm::ArrayRef<int64_t> shape, llvm::function_ref<double(int64_t)> valueOf, mlir::Type type = {});

  Binding add(const Binding &a, const Binding &b) { return (*this)("Add", {a, b}); }
  Binding sub(const Binding &a, const Binding &b) { return (*this)("Sub", {a, b}); }
  Binding mul(const Binding &a, const Binding &b) { return (*this)("Mul", {a, b}); }
  Binding div(const Binding &a, const Binding &b) { return (*this)("Div", {a, b}); }
  Binding where(const Binding &c, const Binding &a, const Binding &b) { return (*this)("Where", {c, a, b}); }
  Binding reduce(llvm::StringRef op, const Binding &x, llvm::ArrayRef<int64_t> axes, bool keepdims);
  Binding reshape(const Binding &x, llvm::ArrayRef<int64_t> shape);
  Binding transpose(const Binding &x, llvm::ArrayRef<int64_t> permutation);
  Binding broadcast(const Binding &x, llvm::ArrayRef<int64_t> shape);
  /// Indices as i64, those below 0 counted from the end of a dimension.
  Binding fromFront(const Binding &indices, int64_t size);
  /// The rows of `data` along `dim` that `indices` name (hyc.gather); one that is outside is found when it is used.
  Binding gather(Binding data, Binding indices, int64_t dim, int64_t batch);
  /// In another element type.
  Binding cast(const Binding &x, mlir::Type type);
  /// What an op of the running model gives, if nothing has failed.
  template <typename Emit> Binding emit(Emit emit) {
    mlir::Value value = ok() ? emit() : mlir::Value();
    bad = bad || !value; // which has been reported
    return value ? importer.ofValue(value) : Binding();
  }
  Importer &getImporter() { return importer; }
  mlir::Value value(Binding &binding) { return importer.materialise(binding); }

  bool ok() const { return !bad; }
  /// Reports what is wrong with the node itself.
  void fail(const llvm::Twine &what) {
    if (!bad)
      node.error() << what;
    bad = true;
  }

  mlir::LogicalResult finish(const Binding &result) { return finish(std::vector<Binding>{result}); }
  mlir::LogicalResult finish(std::vector<Binding> results);

private:
  Binding listed(llvm::ArrayRef<int64_t> shape, mlir::Type type, llvm::function_ref<HostElement(int64_t)> valueOf);

  NodeImport &node;
  Importer &importer;
  bool bad = false;
};

} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_EXPANSION_H
