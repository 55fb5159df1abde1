// One rank's shard, in plain loops.
#ifndef HYC_KERNELS_SHARD_SLICE_REFERENCE_H_
#define HYC_KERNELS_SHARD_SLICE_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/shard_slice/op.h"

namespace hyc::kernels::reference {

// Of elements of T, whatever desc.elementBytes says.
template <typename T>
void shardSlice(const ShardSliceDesc &d, const T *whole, T *part) {
  for (int64_t o = 0; o < d.outer; ++o)
    for (int64_t row = 0; row < d.part; ++row)
      for (int64_t i = 0; i < d.inner; ++i) {
        const bool exists = d.start + row < d.whole;
        part[(o * d.part + row) * d.inner + i] = exists ? whole[(o * d.whole + d.start + row) * d.inner + i] : T(0);
      }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::shard_slice {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfAnyType("slice_shard",
                       [](auto zero, const ExecutedCall &c) {
                         using T = decltype(zero);
                         reference::shardSlice(c.desc<ShardSliceDesc>(), c.in<T>("whole"), c.out<T>("part"));
                       }),
    referenceOfAnyType("shard_offset",
                       [](auto zero, const ExecutedCall &c) {
                         using T = decltype(zero);
                         *c.out<T>("offset") = static_cast<T>(c.coordinate() * c.integer("size"));
                       }),
};

}  // namespace hyc::kernels::executed::shard_slice

#endif  // HYC_KERNELS_SHARD_SLICE_REFERENCE_H_
