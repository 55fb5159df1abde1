// GraphBuilder: what the graphs of all architectures are built with. Ops are added at the end of @train; `path` is the
// module that an op belongs to, which gives it its id, and that a parameter belongs to, which gives it its name.
#ifndef HYC_LIB_IMPORT_HUGGINGFACE_GRAPHBUILDER_H
#define HYC_LIB_IMPORT_HUGGINGFACE_GRAPHBUILDER_H

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Support/OpIds.h"
#include "mlir/IR/Builders.h"

namespace hyc {

class GraphBuilder {
protected:
  using Value = mlir::Value;

  explicit GraphBuilder(mlir::ModuleOp module)
      : module(module), params(module.getBodyRegion()), ops(module.getContext()), f32(params.getF32Type()) {}

  mlir::RankedTensorType type(llvm::ArrayRef<int64_t> shape) { return mlir::RankedTensorType::get(shape, f32); }
  mlir::Attribute normal(double stddev);
  mlir::Attribute fill(double value);

  /// What @train takes or gives, by name.
  using Named = std::pair<llvm::StringRef, mlir::RankedTensorType>;
  /// @train(INPUTS…) -> OUTPUTS…; the inputs.
  llvm::SmallVector<Value> beginTrain(llvm::ArrayRef<Named> inputs, llvm::ArrayRef<Named> outputs);
  /// -> logits, of that shape.
  llvm::SmallVector<Value> beginTrain(llvm::ArrayRef<Named> inputs, llvm::ArrayRef<int64_t> logits) {
    return beginTrain(inputs, Named{"logits", type(logits)});
  }
  void endTrain(llvm::ArrayRef<Value> outputs);

  /// Declares the parameter `name` and reads it. `logical`: its shape for the model, where `shape` factors it.
  Value param(const llvm::Twine &name, llvm::ArrayRef<int64_t> shape, mlir::Attribute init,
              llvm::ArrayRef<int64_t> logical = {}, bool frozen = false);
  Value read(llvm::StringRef name);

  /// An op, with an id.
  template <typename OpType, typename... Args> OpType make(llvm::StringRef path, Args &&...args) {
    auto op = OpType::create(ops, mlir::NameLoc::get(params.getStringAttr(path)), std::forward<Args>(args)...);
    ids.assign(op, path);
    return op;
  }
  Value splat(mlir::Type type, double value);
  /// As a model multiplies: by a number of f32. Nothing for 1.
  Value scaled(llvm::StringRef path, Value x, double factor);
  Value divided(llvm::StringRef path, Value x, double divisor);
  /// cap · tanh(x / cap); x for 0.
  Value capped(llvm::StringRef path, Value x, double cap);
  Value reshaped(llvm::StringRef path, Value x, llvm::ArrayRef<int64_t> shape);
  /// Elements [begin, begin + size) of one dimension.
  Value sliced(llvm::StringRef path, Value x, int64_t dim, int64_t begin, int64_t size);
  /// x along `dims` of a tensor of that shape, the same everywhere else.
  Value spread(llvm::StringRef path, Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
  Value einsum(llvm::StringRef path, llvm::StringRef spec, Value lhs, Value rhs);
  llvm::ArrayRef<int64_t> shapeOf(Value x) { return mlir::cast<mlir::RankedTensorType>(x.getType()).getShape(); }
  /// The bias runs along the last dimensions.
  Value addBias(llvm::StringRef path, Value x, Value bias);

  mlir::ModuleOp module;
  mlir::OpBuilder params, ops;
  mlir::Type f32;
  OpIds ids;
};

} // namespace hyc

#endif // HYC_LIB_IMPORT_HUGGINGFACE_GRAPHBUILDER_H
