// Products of rows with their experts' matrices on GPUs, against plain loops in f64; the start in device memory.
#include "device_test.h"
#include "kernels/expert_matmul/cuda.h"
#include "kernels/expert_matmul/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct ExpertProducts : CudaTest {};

// Experts of many rows, of none, and of more tiles than one; rows of nobody.
const ExpertMatmulDesc kShapes[] = {{300, 4, 37, 70, false, 0}, {300, 4, 37, 70, true, 5}, {2, 3, 8, 1, false, 1}};

std::vector<int64_t> someExperts(const ExpertMatmulDesc &d) {
  std::mt19937 generator(7);
  std::vector<int64_t> ids(static_cast<size_t>(d.rows));
  for (int64_t &id : ids) {
    const unsigned draw = generator() % 10;
    id = d.start + (draw < 6 ? 0 : draw < 7 ? 2 : draw < 8 ? 3 : draw < 9 ? -1 : d.experts);
  }
  ids.front() = INT64_MIN;
  return ids;
}

template <typename T> void expectProducts(ExpertMatmulDesc d, bool startsInMemory, double tolerance) {
  const std::vector<int64_t> ids = someExperts(d);
  const auto x = randomValues<T>(d.rows * d.inputs, 1), w = randomValues<T>(d.experts * d.inputs * d.outputs, 2),
             dy = randomValues<T>(d.rows * d.outputs, 3);
  Doubles y(dy.size()), dw(w.size());
  reference::expertMatmul(d, ids.data(), widened(x).data(), widened(w).data(), y.data());
  DeviceArray<int64_t> dIds(ids), start(std::vector<int64_t>{d.start});
  DeviceArray<T> dX(x), dW(w), dDy(dy), got(static_cast<int64_t>(dy.size()));
  DeviceArray<char> workspace(static_cast<int64_t>(expertWorkspaceBytes(d)));
  const int64_t *where = startsInMemory ? start.get() : nullptr;
  const ExpertMatmulDesc told = d;
  if (startsInMemory)
    d.start = -1; // not looked at
  expertMatmul<T>(nullptr, d, where, dIds, dX, dW, got, workspace.get());
  EXPECT_LT(relativeError(got.readDoubles(), y), tolerance);
  for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    const auto before = randomValues<float>(static_cast<int64_t>(w.size()), 4);
    dw = widened(before);
    reference::expertMatmulGrad(told, ids.data(), widened(x).data(), widened(dy).data(), dw.data(), mode);
    DeviceArray<float> gotW(before);
    expertMatmulGrad<T>(nullptr, d, where, dIds, dX, dDy, gotW, mode, workspace.get());
    EXPECT_LT(relativeError(gotW.readDoubles(), dw), 1e-6);
  }
}

TEST_F(ExpertProducts, AreThoseOfTheReference) {
  for (const ExpertMatmulDesc &d : kShapes) {
    expectProducts<float>(d, false, 1e-6);
    expectProducts<float>(d, true, 1e-6);
    expectProducts<Bf16>(d, false, 1e-2);
    expectProducts<F16>(d, true, 2e-3);
  }
}

} // namespace
} // namespace hyc::kernels::cuda
