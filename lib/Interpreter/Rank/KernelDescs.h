// Descriptions of sliding windows (one to three spatial dimensions, filled up with ones) and of indexed dimensions, for
// the kernels' references.
#ifndef HYC_LIB_INTERPRETER_RANK_KERNELDESCS_H
#define HYC_LIB_INTERPRETER_RANK_KERNELDESCS_H

#include "kernels/convolution/reference.h"
#include "kernels/cumsum/reference.h"
#include "kernels/gather/reference.h"
#include "kernels/pooling/reference.h"
#include "llvm/ADT/ArrayRef.h"

namespace hyc::interpreter {

struct WindowAttributes {
  llvm::ArrayRef<int64_t> strides, dilations, low;
};

/// Puts `values` at the end of three.
inline void setLast(int64_t (&three)[3], llvm::ArrayRef<int64_t> values) {
  std::copy(values.begin(), values.end(), three + 3 - values.size());
}

template <typename Desc>
void setWindows(Desc &desc, llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> y, const WindowAttributes &window) {
  setLast(desc.size, x.drop_front(2));
  setLast(desc.positions, y.drop_front(2));
  setLast(desc.stride, window.strides);
  setLast(desc.dilation, window.dilations);
  setLast(desc.low, window.low);
}

inline kernels::ConvolutionDesc convolutionDesc(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> w,
                                                llvm::ArrayRef<int64_t> y, const WindowAttributes &window,
                                                int64_t groups) {
  kernels::ConvolutionDesc desc;
  desc.batch = x[0], desc.channels = x[1], desc.outputs = w[0], desc.groups = groups;
  setLast(desc.kernel, w.drop_front(2));
  setWindows(desc, x, y, window);
  return desc;
}

inline kernels::PoolingDesc poolingDesc(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> y,
                                        llvm::ArrayRef<int64_t> size, const WindowAttributes &window) {
  kernels::PoolingDesc desc;
  desc.planes = x[0] * x[1];
  setLast(desc.window, size);
  setWindows(desc, x, y, window);
  return desc;
}

inline int64_t product(llvm::ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

inline kernels::CumSumDesc cumSumDesc(llvm::ArrayRef<int64_t> shape, int64_t dim) {
  kernels::CumSumDesc desc;
  desc.outer = product(shape.take_front(dim)), desc.size = shape[dim], desc.inner = product(shape.drop_front(dim + 1));
  return desc;
}

/// Of data with the picked dimension `dim` after `batch` dimensions, and indices of shape `indices`.
inline kernels::GatherDesc gatherDesc(llvm::ArrayRef<int64_t> data, llvm::ArrayRef<int64_t> indices, int64_t dim,
                                      int64_t batch) {
  return {product(data.take_front(batch)), product(data.slice(batch, dim - batch)), data[dim],
          product(indices.drop_front(batch)), product(data.drop_front(dim + 1))};
}

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_RANK_KERNELDESCS_H
