// A copy between two strided tensors, with as few dimensions as say the same.
#ifndef HYC_LIB_TARGET_CPP_STRIDEDCOPY_H
#define HYC_LIB_TARGET_CPP_STRIDEDCOPY_H

#include "CallText.h"

namespace hyc::cpp {

struct StridedCopy {
  /// That the kernels take.
  static constexpr size_t kMostDims = 6;

  llvm::SmallVector<int64_t> shape, from, to;

  StridedCopy(rank::BufferType source, rank::BufferType target) {
    llvm::SmallVector<int64_t> sourceStrides = source.getStridesOrDense(), targetStrides = target.getStridesOrDense();
    for (auto [size, a, b] : llvm::zip_equal(target.getShape(), sourceStrides, targetStrides)) {
      if (size == 1)
        continue;
      if (!shape.empty() && from.back() == a * size && to.back() == b * size) {
        shape.back() *= size;
        from.back() = a;
        to.back() = b;
        continue;
      }
      shape.push_back(size);
      from.push_back(a);
      to.push_back(b);
    }
  }

  bool isScalar() const { return shape.empty(); }
  bool isDense() const { return shape.size() == 1 && from[0] == 1 && to[0] == 1; }
  bool isRows() const {
    return shape.size() == 2 && from[1] == 1 && to[1] == 1 && from[0] >= shape[1] && to[0] >= shape[1];
  }

  /// The kernels' struct.
  std::string desc(int64_t elementBytes) const {
    return "{.tensorRank = " + str(shape.size()) + ", .shape = " + braced(shape) + ", .srcStrides = " + braced(from) +
           ", .dstStrides = " + braced(to) + ", .elementBytes = " + str(elementBytes) + "}";
  }
};

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_STRIDEDCOPY_H
