// RUN: hyc-opt %s --hyc-emit-cpp="folder=%t name=reductions" -o %t.mlir
// RUN: FileCheck %s --input-file=%t/kernels.cpp
// RUN: FileCheck %s --check-prefix=HEADER --input-file=%t/kernels.h

dist.mesh @mesh axes ["dp"] sizes [1] stages 1 batch <{dp}>

// What is elementwise is written at once, what is combined goes into the accumulator. The mode is that of the sum alone.
// HEADER: void gelu_grad_and_sum(const float* in0, const float* in1, float* out0, float* out1, WriteMode mode);
// CHECK: void gelu_grad_and_sum(const float* in0, const float* in1, float* out0, float* out1, WriteMode mode) {
// CHECK-NEXT: const auto element = [=](int64_t, int64_t i0, int64_t i1, float& sum) {
// CHECK-NEXT: const float x0 = in0[i0 * 256 + i1];
// CHECK-NEXT: const float x1 = in1[i0 * 256 + i1];
// CHECK-NEXT: const float v2 = geluTanhGrad(x0, x1);
// CHECK-NEXT: out0[i0 * 256 + i1] = v2;
// CHECK-NEXT: sum = sum + v2;
// CHECK-NEXT: };
// CHECK-NEXT: const auto finish = [=](int64_t, int64_t i1, float sum) {
// CHECK-NEXT: write(out1[i1], sum, mode);
// CHECK-NEXT: };
// CHECK-NEXT: reduceColumns<Sum<float>>({.outer = 1, .steps = 128, .inner = 256}, element, finish);
// CHECK-NEXT: }
rank.kernel @gelu_grad_and_sum space [128, 256] reduced [0]
    strides [array<i64: 256, 1>, array<i64: 256, 1>, array<i64: 256, 1>, array<i64: 0, 1>] results [f32, f32] {
^bb0(%dy: f32, %x: f32):
  %0 = rank.compute "gelu_tanh_grad" %dy, %x : (f32, f32) -> f32
  %1 = rank.combine sum %0 : f32
  rank.yield %0, %1 : f32, f32
}

// Several dimensions on one side are one loop, whose index is taken apart; what is left to do with a sum is done once.
// CHECK: void mean_and_max(
// CHECK-NEXT: const auto element = [=](int64_t outer, int64_t i2, int64_t i3, double& sum0, double& max1) {
// CHECK-NEXT: {{.*}}const int64_t i0 = outer / 3, i1 = outer % 3;
// CHECK-NEXT: const double x0 = in0[i0 * 600 + i1 * 40 + i2 * 120 + i3];
// CHECK-NEXT: sum0 = sum0 + x0;
// CHECK-NEXT: max1 = maximum(max1, x0);
// CHECK-NEXT: };
// CHECK-NEXT: const auto finish = [=](int64_t outer, double sum0, double max1) {
// CHECK-NEXT: {{.*}}const int64_t i0 = outer / 3, i1 = outer % 3;
// CHECK-NEXT: const double x1 = in1[i1];
// CHECK-NEXT: const double v3 = sum0 * x1;
// CHECK-NEXT: write(out0[i0 * 3 + i1], v3, mode);
// CHECK-NEXT: write(out1[i0 * 3 + i1], max1, mode);
// CHECK-NEXT: };
// CHECK-NEXT: reduceRows<Sum<double>, Max<double>>({.outer = 6, .steps = 5, .inner = 40}, element, finish);
rank.kernel @mean_and_max space [2, 3, 5, 40] reduced [2, 3]
    strides [array<i64: 600, 40, 120, 1>, array<i64: 0, 1, 0, 0>, array<i64: 3, 1, 0, 0>, array<i64: 3, 1, 0, 0>] results [f64, f64] {
^bb0(%x: f64, %scale: f64):
  %0 = rank.combine sum %x : f64
  %1 = rank.combine max %x : f64
  %2 = rank.compute "mul" %0, %scale : (f64, f64) -> f64
  rank.yield %2, %1 : f64, f64
}

// Rows shorter than the lanes are many are combined side by side.
// CHECK: void short_rows(
// CHECK-NEXT: const auto element = [=](int64_t, int64_t i1, int64_t i0, int64_t& min) {
// CHECK: reduceColumns<Min<int64_t>>({.outer = 1, .steps = 7, .inner = 1000}, element, finish);
rank.kernel @short_rows space [1000, 7] reduced [1] strides [array<i64: 7, 1>, array<i64: 1, 0>] results [i64] {
^bb0(%x: i64):
  %0 = rank.combine min %x : i64
  rank.yield %0 : i64
}

// Nor are lines of small images rows, but all of an image is. Who lies like the space is read by the place in the row.
// CHECK: void planes(
// CHECK-NEXT: const auto element = [=](int64_t i1, int64_t i0, int64_t inner, float& sum) {
// CHECK-NEXT: {{.*}}const int64_t i2 = uint32_t(inner) / 8, i3 = uint32_t(inner) % 8;
// CHECK-NEXT: const float x0 = in0[i0 * 192 + i1 * 64 + inner];
// CHECK-NEXT: const float x1 = in1[i0 * 300 + i1 * 100 + i2 * 10 + i3];
// CHECK: const auto finish = [=](int64_t i1, float sum) {
// CHECK: reduceRows<Sum<float>>({.outer = 3, .steps = 2, .inner = 64}, element, finish);
rank.kernel @planes space [2, 3, 8, 8] reduced [0, 2, 3]
    strides [array<i64: 192, 64, 8, 1>, array<i64: 300, 100, 10, 1>, array<i64: 0, 1, 0, 0>] results [f32] {
^bb0(%x: f32, %y: f32):
  %0 = rank.compute "mul" %x, %y : (f32, f32) -> f32
  %1 = rank.combine sum %0 : f32
  rank.yield %1 : f32
}

// Dimensions of size 1 do not make columns of rows.
// CHECK: void row_beside_one(
// CHECK: reduceRows<Sum<float>>({.outer = 1, .steps = 1, .inner = 40}, element, finish);
rank.kernel @row_beside_one space [40, 1] reduced [0] strides [array<i64: 1, 1>, array<i64: 0, 1>] results [f32] {
^bb0(%x: f32):
  %0 = rank.combine sum %x : f32
  rank.yield %0 : f32
}

// Bytes could be anything, the pointers that a lambda has taken in, too: it has copies of its own.
// CHECK: void comparison(const float* in0, uint8_t* out0) {
// CHECK-NEXT: hyc::kernels::runTeam(true, [shared_in0 = in0, shared_out0 = out0] {
// CHECK-NEXT: const auto in0 = shared_in0;
// CHECK-NEXT: const auto out0 = shared_out0;
// CHECK-NEXT: #pragma omp for simd
rank.kernel @comparison space [65536] strides [array<i64: 1>, array<i64: 1>] results [i1] {
^bb0(%x: f32):
  %0 = rank.compute "compare_le" %x, %x : (f32, f32) -> i1
  rank.yield %0 : i1
}
