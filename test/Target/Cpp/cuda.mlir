// Programs for GPUs: kernels on a stream, numbers that a step computes by their address.
// RUN: hyc-opt %S/../../Rank/mlp.mlir --hyc-rank-phase --hyc-emit-cpp="folder=%t name=mlp gpus=80,90" -o /dev/null
// RUN: FileCheck %s --check-prefix=MAIN --input-file=%t/stage0.cpp
// MAIN: constexpr int kArchitectures[] = {80, 90};
// MAIN: .architectures = kArchitectures,
// MAIN: return hycrt::runProgram(argc, argv, kProgram, hycrt::makeCudaDevice);
// RUN: FileCheck %s --check-prefix=FORWARD --input-file=%t/stage0_forward.cpp
// FORWARD: std::byte* const activations = ctx.accelerator()->arena(kActivations);
// FORWARD: const cuda::Stream stream = ctx.accelerator()->stream();
// FORWARD: cuda::gemm(stream, {.m =
// FORWARD: kernels::{{.*}}(stream, f32(
// The learning rate comes from the host; no kernel of the update waits for it.
// RUN: FileCheck %s --check-prefix=APPLY --input-file=%t/stage0_apply.cpp
// APPLY: cuda::sumOfSquares(stream, f32(
// APPLY: cuda::roundExactSum(stream, i64(
// APPLY: cuda::gradientScale(stream, f64(
// APPLY: ctx.accelerator()->upload({
// RUN: FileCheck %s --check-prefix=BUILD --input-file=%t/CMakeLists.txt
// BUILD: set(CMAKE_CUDA_ARCHITECTURES "80-real;90-real")
// BUILD: add_library(kernels OBJECT kernels.cu)

// RUN: split-file %s %t.cases
// RUN: hyc-opt %t.cases/kernels.mlir --hyc-emit-cpp="folder=%t.kernels name=m gpus=90" -o /dev/null
// RUN: FileCheck %s --check-prefix=KERNELS --input-file=%t.kernels/kernels.cu
// One run of memory moves in packs, where addresses allow it.
// KERNELS: __device__ inline float geluTanh(float x)
// KERNELS: static __global__ void add_1024_on_device(const float* in0, const float* in1, float* out0) {
// KERNELS-NEXT: if (cuda::isPackable(0, in0, in1, out0)) {
// KERNELS-NEXT: cuda::forEach(256, [=](int64_t pack) {
// KERNELS-NEXT: const auto p0 = cuda::loadPack<4>(in0 + pack * 4);
// KERNELS: const float x0 = p0.at[j];
// KERNELS: r0.at[j] = v2;
// KERNELS: cuda::storePack(out0 + pack * 4, r0);
// KERNELS: cuda::forEach(1024, [=](int64_t i) {
// KERNELS: out0[i0] = v2;
// KERNELS: void add_1024(cuda::Stream stream, const float* in0, const float* in1, float* out0) {
// KERNELS-NEXT: cuda::kernel(add_1024_on_device).launch(stream, cuda::gridOver(256), in0, in1, out0);
// Where it is walked in another order, the index is taken apart.
// KERNELS: static __global__ void transpose_on_device(
// KERNELS-NEXT: cuda::forEach(15, [=](int64_t i) {
// KERNELS: const int64_t i0 = i / 5;
// KERNELS-NEXT: const int64_t i1 = i % 5;
// KERNELS: static __global__ void sum_on_device(const float* in0, float* out0, WriteMode mode) {
// KERNELS: reduceRows<Sum<float>>({.outer = 8, .steps = 1, .inner = 100}, element, finish);
// KERNELS: cuda::kernel(sum_on_device).launch(stream, cuda::reduceRowsGrid({.outer = 8, .steps = 1, .inner = 100}), in0, out0, mode);

// Checks are the CPU's; what they look at is the device's.
// RUN: hyc-opt %S/check-finite.mlir --hyc-attach-optimizer="optimizer=sgd momentum=0.9" --hyc-plan-phase --hyc-local-phase --hyc-form-clusters --hyc-lower-to-rank --hyc-place-buffers --hyc-check-finite --hyc-emit-cpp="folder=%t.check name=m gpus=90" -o /dev/null
// RUN: FileCheck %s --check-prefix=CHECKED --input-file=%t.check/stage0_forward.cpp
// CHECKED: hycrt::checkFinite(ctx, call, kSites[kRowSite0],
// RUN: FileCheck %s --check-prefix=CHECKS --input-file=%t.check/stage0.cpp
// CHECKS: .checksFinite = true,

//--- kernels.mlir
dist.mesh @mesh axes ["dp"] sizes [1] stages 1
rank.kernel @add_1024 space [1024] strides [array<i64: 1>, array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32, %y: f32):
  %0 = rank.compute "add" %x, %y : (f32, f32) -> f32
  rank.yield %0 : f32
}
rank.kernel @transpose space [3, 5] strides [array<i64: 1, 3>, array<i64: 5, 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}
rank.kernel @sum space [8, 100] reduced [1] strides [array<i64: 100, 1>, array<i64: 1, 0>] results [f32] {
^bb0(%x: f32):
  %0 = rank.combine sum %x : f32
  rank.yield %0 : f32
}
