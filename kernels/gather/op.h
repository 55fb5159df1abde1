// Elements of one dimension by number, and their transpose: what is put by number is combined in order.
#ifndef HYC_KERNELS_GATHER_OP_H_
#define HYC_KERNELS_GATHER_OP_H_

#include <cstdint>

namespace hyc::kernels {

// data: [batch, lead, size, inner]; indices: [batch, picked]; rows: [batch, lead, picked, inner].
struct GatherDesc {
  int64_t batch = 1, lead = 1, size = 0, picked = 0, inner = 1;
};

enum class ScatterKind { kSum, kMax, kMin, kProd };

// rows[b, l, i, :] = data[b, l, indices[b, i], :], or zeros where the index is outside [0, size). Elements of 1, 2, 4
// or 8 bytes.
void gather(const GatherDesc &desc, int64_t elementBytes, const void *data, const int64_t *indices, void *rows);

// data[b, l, v, :] = rows[b, l, i, :] over the i with indices[b, i] = v, combined one by one in ascending order, from 0
// (1, the lowest, the greatest value). An index outside [0, size) adds nothing. T: float, double, int64_t or int32_t.
template <typename T>
void scatter(const GatherDesc &desc, ScatterKind kind, const int64_t *indices, const T *rows, T *data);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GATHER_OP_H_
