// The vendor library's matrix product, where there is no inner product of our own. Tiles depend on the shape alone and
// each is computed by one thread, because the library chooses how it splits k by the number of threads.
#include <dnnl.h>

#include <algorithm>

#include "kernels/gemm/cpu.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {

constexpr int64_t kTileRows = 512, kTileColumns = 1024;

static void multiplyTile(const GemmDesc &d, int64_t batch, int64_t row, int64_t column, const float *a, const float *b,
                         const float *bias, float *c) {
  const int64_t lda = d.rowStrideA(), ldb = d.rowStrideB(), ldc = d.rowStrideC();
  const int64_t rows = std::min(kTileRows, d.m - row), columns = std::min(kTileColumns, d.n - column);
  const float *aTile = a + batch * d.strideA + (d.transA ? row : row * lda);
  const float *bTile = b + batch * d.strideB + (d.transB ? column * ldb : column);
  float *cTile = c + batch * d.strideC + row * ldc + column;
  dnnl_sgemm(d.transA ? 'T' : 'N', d.transB ? 'T' : 'N', rows, columns, d.k, static_cast<float>(d.alpha), aTile, lda,
             bTile, ldb, static_cast<float>(d.beta), cTile, ldc);
  for (int64_t i = 0; i < rows && d.hasBias; ++i)
    for (int64_t j = 0; j < columns; ++j) cTile[i * ldc + j] += bias[column + j];
}

void gemmByLibrary(const GemmDesc &d, const float *a, const float *b, const float *bias, float *c) {
  const int64_t rowTiles = (d.m + kTileRows - 1) / kTileRows, columnTiles = (d.n + kTileColumns - 1) / kTileColumns;
  forEachJob(true, d.batch * rowTiles * columnTiles, [&](int64_t job) {
    multiplyTile(d, job / (rowTiles * columnTiles), job / columnTiles % rowTiles * kTileRows,
                 job % columnTiles * kTileColumns, a, b, bias, c);
  });
}

}  // namespace hyc::kernels
