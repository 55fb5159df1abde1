// Products of 8-bit floats: operands are laid out as the library wants them, or widened to bf16.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/gemm/cuda_fp8.h"

namespace hyc::kernels::cuda {
namespace {

// One operand as it lies: `batch` matrices of rows × columns.
template <typename T>
struct Stored {
  const T *data;
  int64_t rows, columns, rowStride, stride;

  int64_t elements(int64_t batch) const { return batch * rows * columns; }
};

// Dense, in the same order.
template <typename T>
__global__ void widenKernel(Stored<T> from, int64_t count, Bf16 *to) {
  forEach(count, [&](int64_t i) {
    const int64_t column = i % from.columns, row = i / from.columns % from.rows, batch = i / from.columns / from.rows;
    to[i] = Bf16(static_cast<float>(from.data[batch * from.stride + row * from.rowStride + column]));
  });
}

constexpr int kTile = 32, kTileRows = 8;

// Dense [columns, rows], a tile of 32 × 32 a block.
template <typename T>
__global__ void transposeKernel(Stored<T> from, T *to) {
  __shared__ uint8_t tile[kTile][kTile + 4];
  const int64_t column = int64_t{blockIdx.x} * kTile, row = int64_t{blockIdx.y} * kTile;
  const T *source = from.data + blockIdx.z * from.stride;
  T *target = to + blockIdx.z * from.rows * from.columns;
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kTileRows)
    if (row + i < from.rows && column + threadIdx.x < from.columns)
      tile[i][threadIdx.x] = source[(row + i) * from.rowStride + column + threadIdx.x].bits;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kTileRows)
    if (column + i < from.columns && row + threadIdx.x < from.rows)
      target[(column + i) * from.rows + row + threadIdx.x].bits = tile[threadIdx.x][i];
}

template <typename T>
void widen(Stream stream, const Stored<T> &from, int64_t batch, Bf16 *to) {
  const int64_t count = from.elements(batch);
  kernel(widenKernel<T>).launch(stream, gridOver(count), from, count, to);
}

template <typename T>
void transpose(Stream stream, const Stored<T> &from, int64_t batch, T *to) {
  const Grid grid{dim3(static_cast<unsigned>((from.columns + kTile - 1) / kTile),
                       static_cast<unsigned>((from.rows + kTile - 1) / kTile), static_cast<unsigned>(batch)),
                  dim3(kTile, kTileRows)};
  kernel(transposeKernel<T>).launch(stream, grid, from, to);
}

template <typename T>
constexpr Float8Kind kKind = Float8Kind::kE4m3;
template <>
constexpr Float8Kind kKind<E5m2> = Float8Kind::kE5m2;

constexpr int64_t kMostTiles = 65535;  // of a grid's second and third dimension

template <typename A, typename B, typename C>
class Product {
 public:
  Product(Stream stream, const GemmDesc &d, const A *a, const B *b, const Bf16 *bias, C *c, void *workspace)
      : stream(stream),
        d(d),
        a{a, d.transA ? d.k : d.m, d.transA ? d.m : d.k, d.rowStrideA(), d.strideA},
        b{b, d.transB ? d.n : d.k, d.transB ? d.k : d.n, d.rowStrideB(), d.strideB},
        bias(bias),
        c(c),
        workspace(static_cast<char *>(workspace)),
        scratch(d) {}

  void run() {
    if (!multiplied()) multiplyWidened();
  }

 private:
  // By the library, along k.
  bool multiplied() {
    if (d.hasBias || d.batch > kMostTiles || a.rows > kMostTiles * kTile || b.rows > kMostTiles * kTile) return false;
    Float8Product product{d, kKind<A>, kKind<B>, sizeof(C) == sizeof(float)};
    const A *aAlong = a.data;
    const B *bAlong = b.data;
    if (d.transA) {
      aAlong = reinterpret_cast<const A *>(workspace + scratch.a);
      product.desc.transA = false, product.desc.lda = d.k, product.desc.strideA = d.strideA == 0 ? 0 : d.m * d.k;
    }
    if (!d.transB) {
      bAlong = reinterpret_cast<const B *>(workspace + scratch.b);
      product.desc.transB = true, product.desc.ldb = d.k, product.desc.strideB = d.strideB == 0 ? 0 : d.n * d.k;
    }
    if (!float8IsNative(product, aAlong, bAlong, c)) return false;
    if (d.transA) transpose(stream, a, d.strideA == 0 ? 1 : d.batch, const_cast<A *>(aAlong));
    if (!d.transB) transpose(stream, b, d.strideB == 0 ? 1 : d.batch, const_cast<B *>(bAlong));
    return multiplyFloat8(stream, product, aAlong, bAlong, c, workspace);
  }

  void multiplyWidened() {
    Bf16 *aWide = reinterpret_cast<Bf16 *>(workspace + scratch.a),
         *bWide = reinterpret_cast<Bf16 *>(workspace + scratch.b);
    widen(stream, a, d.strideA == 0 ? 1 : d.batch, aWide);
    widen(stream, b, d.strideB == 0 ? 1 : d.batch, bWide);
    GemmDesc wide = d;
    wide.lda = wide.ldb = 0;
    wide.strideA = d.strideA == 0 ? 0 : d.m * d.k;
    wide.strideB = d.strideB == 0 ? 0 : d.k * d.n;
    gemm(stream, wide, aWide, bWide, bias, c, workspace);
  }

  Stream stream;
  GemmDesc d;
  Stored<A> a;
  Stored<B> b;
  const Bf16 *bias;
  C *c;
  char *workspace;
  Float8Scratch scratch;
};

template <typename A, typename B, typename C>
void multiply(Stream stream, const GemmDesc &d, const A *a, const B *b, const Bf16 *bias, C *c, void *workspace) {
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0) return;
  if (d.k <= 0) return gemm(stream, d, static_cast<const Bf16 *>(nullptr), nullptr, bias, c, workspace);
  Product<A, B, C>(stream, d, a, b, bias, c, workspace).run();
}

}  // namespace

#define HYC_FLOAT8_GEMM(A, B, C)                                                                                    \
  void gemm(Stream stream, const GemmDesc &desc, const A *a, const B *b, const Bf16 *bias, C *c, void *workspace) { \
    multiply(stream, desc, a, b, bias, c, workspace);                                                               \
  }
HYC_FLOAT8_GEMM(E4m3, E4m3, Bf16)
HYC_FLOAT8_GEMM(E4m3, E4m3, float)
HYC_FLOAT8_GEMM(E4m3, E5m2, Bf16)
HYC_FLOAT8_GEMM(E4m3, E5m2, float)
HYC_FLOAT8_GEMM(E5m2, E4m3, Bf16)
HYC_FLOAT8_GEMM(E5m2, E4m3, float)
#undef HYC_FLOAT8_GEMM

}  // namespace hyc::kernels::cuda
