// Library kernels over sliding windows and by number, by their plain references.
#include "KernelDescs.h"
#include "LoadedCall.h"
#include "kernels/argsort/reference.h"
#include "kernels/convolution/reference.h"
#include "kernels/cumsum/reference.h"
#include "kernels/gather/reference.h"
#include "kernels/pooling/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
namespace reference = hyc::kernels::reference;

static ArrayRef<int64_t> list(const Loaded &c, StringRef name) {
  return rank::CallOp(c.op)->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef();
}
static WindowAttributes windowsOf(const Loaded &c) {
  return {list(c, "strides"), list(c, "dilations"), list(c, "low")};
}

static LogicalResult convolution(Loaded &c) {
  Tensor y = c.makeOut(0);
  auto desc =
      convolutionDesc(c.ins[0].getShape(), c.ins[1].getShape(), y.getShape(), windowsOf(c), c.integer("groups"));
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::convolution(desc, c.ins[0].data<T>(), c.ins[1].data<T>(), y.mutableData<T>());
  });
  return c.store(0, y);
}

static LogicalResult convolutionTranspose(Loaded &c) {
  Tensor x = c.makeOut(0);
  auto desc =
      convolutionDesc(x.getShape(), c.ins[1].getShape(), c.ins[0].getShape(), windowsOf(c), c.integer("groups"));
  dispatchFloat(x.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::convolutionTranspose(desc, c.ins[0].data<T>(), c.ins[1].data<T>(), x.mutableData<T>());
  });
  return c.store(0, x);
}

static LogicalResult convolutionWeight(Loaded &c) {
  Tensor w = c.makeOut(0);
  auto desc =
      convolutionDesc(c.ins[0].getShape(), w.getShape(), c.ins[1].getShape(), windowsOf(c), c.integer("groups"));
  dispatchFloat(w.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::convolutionWeight(desc, c.ins[0].data<T>(), c.ins[1].data<T>(), w.mutableData<T>(),
                                 kernels::WriteMode::kOverwrite);
  });
  return c.storeAs(0, w, c.mode());
}

static LogicalResult maxPool(Loaded &c) {
  Tensor y = c.makeOut(0), indices = c.makeOut(1);
  auto desc = poolingDesc(c.ins[0].getShape(), y.getShape(), list(c, "window"), windowsOf(c));
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::maxPool(desc, c.ins[0].data<T>(), y.mutableData<T>(), indices.mutableData<int64_t>());
  });
  return all({c.store(0, y), c.store(1, indices)});
}

static LogicalResult gather(Loaded &c) {
  Tensor rows = c.makeOut(0);
  auto desc = gatherDesc(c.ins[0].getShape(), c.ins[1].getShape(), c.integer("dim"), c.integer("batch"));
  dispatchStorage(rows.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::gather(desc, c.ins[0].data<T>(), c.ins[1].data<int64_t>(), rows.mutableData<T>());
  });
  return c.store(0, rows);
}

static LogicalResult scatter(Loaded &c) {
  Tensor data = c.makeOut(0);
  StringRef name = rank::CallOp(c.op)->getAttrOfType<StringAttr>("kind").getValue();
  auto kind = name == "sum"   ? kernels::ScatterKind::kSum
              : name == "max" ? kernels::ScatterKind::kMax
              : name == "min" ? kernels::ScatterKind::kMin
                              : kernels::ScatterKind::kProd;
  auto desc = gatherDesc(data.getShape(), c.ins[0].getShape(), c.integer("dim"), c.integer("batch"));
  dispatchStorage(data.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::scatter(desc, kind, c.ins[0].data<int64_t>(), c.ins[1].data<T>(), data.mutableData<T>());
  });
  return c.store(0, data);
}

static LogicalResult cumSum(Loaded &c) {
  Tensor y = c.makeOut(0);
  kernels::CumSumDesc desc = cumSumDesc(y.getShape(), c.integer("dim"));
  desc.reverse = rank::CallOp(c.op)->hasAttr("reverse"), desc.exclusive = rank::CallOp(c.op)->hasAttr("exclusive");
  dispatchStorage(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::cumSum(desc, c.ins[0].data<T>(), y.mutableData<T>());
  });
  return c.store(0, y);
}

static LogicalResult argSort(Loaded &c) {
  Tensor order = c.makeOut(0);
  int64_t size = order.getShape().back();
  kernels::ArgSortDesc desc{size ? order.getNumElements() / size : 0, size, rank::CallOp(c.op)->hasAttr("descending")};
  dispatchStorage(c.ins[0].getKind(), [&](auto zero) {
    reference::argSort(desc, c.ins[0].data<decltype(zero)>(), order.mutableData<int64_t>());
  });
  return c.store(0, order);
}

Executor hyc::interpreter::findIndexedKernel(StringRef kernel) {
  static const llvm::StringMap<Executor> executors = {{"convolution", convolution},
                                                      {"convolution_transpose", convolutionTranspose},
                                                      {"convolution_weight", convolutionWeight},
                                                      {"max_pool", maxPool},
                                                      {"gather", gather},
                                                      {"scatter", scatter},
                                                      {"cumsum", cumSum},
                                                      {"argsort", argSort}};
  return executors.lookup(kernel);
}
