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
// APPLY: const cuda::SquaredTensor<float> tensors[] = {
// APPLY: {f32(gradients + {{.*}}), {{.*}}},
// APPLY: cuda::sumOfSquares(stream, tensors, {{[0-9]+}}, i64(
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
// KERNELS-NEXT: cuda::forEach<int32_t>(256, [=](int32_t pack) {
// KERNELS-NEXT: const int32_t i0 = pack * 4;
// KERNELS-NEXT: const auto p0 = cuda::loadPack<4>(&in0[i0]);
// KERNELS: const float x0 = p0.at[j];
// KERNELS: r0.at[j] = v2;
// KERNELS: cuda::storePack(&out0[i0], r0);
// KERNELS: cuda::forEach<int32_t>(1024, [=](int32_t i) {
// KERNELS: out0[i0] = v2;
// KERNELS: void add_1024(cuda::Stream stream, const float* in0, const float* in1, float* out0) {
// KERNELS-NEXT: cuda::kernel(add_1024_on_device).launch(stream, cuda::gridOver(256), in0, in1, out0);
// Where it is walked in another order, the index is taken apart.
// KERNELS: static __global__ void transpose_on_device(
// KERNELS-NEXT: cuda::forEach<int32_t>(15, [=](int32_t i) {
// KERNELS-NEXT: const int32_t i0 = i / 5;
// KERNELS-NEXT: const int32_t i1 = i % 5;
// Packs lie along the last dimension, where every operand moves by one or stands still; the index is taken apart once a
// pack.
// KERNELS: static __global__ void bias_on_device(
// KERNELS-NEXT: if (cuda::isPackable(0, in0, in1, out0)) {
// KERNELS-NEXT: cuda::forEach<int32_t>(96, [=](int32_t pack) {
// KERNELS-NEXT: const int32_t i0 = pack / 3;
// KERNELS-NEXT: const int32_t i1 = pack % 3 * 8;
// KERNELS-NEXT: const auto p0 = cuda::loadPack<8>(&in0[i0 * 24 + i1]);
// KERNELS-NEXT: const auto p1 = cuda::loadPack<8>(&in1[i1]);
// KERNELS-NEXT: const auto p2 = in2[i0];
// KERNELS: const float x2 = p2;
// KERNELS: cuda::storePack(&out0[i0 * 24 + i1], r0);
// Functions of 16-bit results are kernels/math/narrow.h's, those of f32 the CPU's.
// KERNELS: static __global__ void functions_on_device(
// KERNELS: const float v2 = math::narrow::geluTanh(x0);
// KERNELS: const float v3 = geluTanh(x1);
// More than 2^31 elements are counted in 64 bits.
// KERNELS: static __global__ void large_on_device(
// KERNELS-NEXT: if (cuda::isPackable(0, in0, out0)) {
// KERNELS-NEXT: cuda::forEach<int64_t>(134217728,
// A sum of one block has one kernel.
// KERNELS: static __global__ void sum_on_device(const float* in0, float* out0, WriteMode mode) {
// KERNELS: at.in0x = in0[i0 * 100 + i1];
// KERNELS: cuda::reduceRows<int32_t, Sum<float>>(space, nullptr, load, element, store, finish);
// KERNELS: cuda::kernel(sum_on_device).launch(stream, cuda::reduceRowsGrid({.outer = 8, .steps = 1, .inner = 100}, nullptr), in0, out0, mode);
// One of several has a second kernel for what its blocks leave, and columns in packs.
// KERNELS: static __global__ void columns_on_device(const hyc::kernels::Bf16* in0, hyc::kernels::Bf16* out0, float* out1, WriteMode mode, void* workspace) {
// KERNELS-NEXT: constexpr cuda::ReduceSpace space{.outer = 1, .steps = 16384, .inner = 768};
// KERNELS: at.in0x = cuda::loadPack<n>(&in0[i0 * 768 + i1]);
// KERNELS: const float x0 = at.in0x.at[j];
// KERNELS: at.out0x.at[j] =
// KERNELS: cuda::storePack(&out0[i0 * 768 + i1], at.out0x);
// KERNELS: write(out1[i1], sum, mode);
// KERNELS: cuda::reduceColumns<int32_t, 2, Sum<float>>(space, workspace, cuda::isPackable(0, in0, out0), load, element, store, finish);
// KERNELS: static __global__ void columns_combined(
// KERNELS: cuda::combineColumns<int32_t, Sum<float>>(space, workspace, finish);
// KERNELS: cuda::kernel(columns_on_device).launch(stream, cuda::reduceColumnsGrid({.outer = 1, .steps = 16384, .inner = 768}, 2, workspace), in0, out0, out1, mode, workspace);
// KERNELS-NEXT: if (workspace) cuda::kernel(columns_combined).launch(stream, cuda::combineColumnsGrid(

// What blocks leave lies in the arena for scratch memory.
// RUN: hyc-opt %t.cases/launch.mlir --hyc-record-policies="policies=threads=1" --hyc-place-buffers --hyc-emit-cpp="folder=%t.launch name=m gpus=90" -o %t.launch.mlir
// RUN: FileCheck %s --check-prefix=ARENA --input-file=%t.launch.mlir
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t.launch/stage0_forward.cpp
// LAUNCH: kernels::columns(stream, bf16({{.*}}), f32({{.*}}), WriteMode::kOverwrite, workspace);

// Checks are the CPU's; what they look at is the device's.
// RUN: hyc-opt %S/check-finite.mlir --hyc-attach-optimizer="optimizer=sgd momentum=0.9" --hyc-plan-phase --hyc-local-phase --hyc-form-clusters --hyc-lower-to-rank --hyc-place-buffers --hyc-record-policies="policies=check_finite=true" --hyc-check-finite --hyc-emit-cpp="folder=%t.check name=m gpus=90" -o /dev/null
// RUN: FileCheck %s --check-prefix=CHECKED --input-file=%t.check/stage0_forward.cpp
// CHECKED: hycrt::checkFinite(ctx, call, kSites[kRowSite0],
// RUN: FileCheck %s --check-prefix=CHECKS --input-file=%t.check/stage0.cpp
// CHECKS: .checksFinite = true,

//--- kernels.mlir
dist.mesh @mesh axes ["dp"] sizes [1] stages 1 batch <{dp}>
rank.kernel @add_1024 space [1024] strides [array<i64: 1>, array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32, %y: f32):
  %0 = rank.compute "add" %x, %y : (f32, f32) -> f32
  rank.yield %0 : f32
}
rank.kernel @transpose space [3, 5] strides [array<i64: 1, 3>, array<i64: 5, 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}
rank.kernel @bias space [32, 24] strides [array<i64: 24, 1>, array<i64: 0, 1>, array<i64: 1, 0>, array<i64: 24, 1>] results [bf16] {
^bb0(%x: bf16, %b: bf16, %s: bf16):
  %0 = rank.compute "add" %x, %b : (bf16, bf16) -> bf16
  %1 = rank.compute "mul" %0, %s : (bf16, bf16) -> bf16
  rank.yield %1 : bf16
}
rank.kernel @functions space [7] strides [array<i64: 1>, array<i64: 1>, array<i64: 1>, array<i64: 1>] results [bf16, f32] {
^bb0(%x: bf16, %y: f32):
  %0 = rank.compute "gelu_tanh" %x : (bf16) -> bf16
  %1 = rank.compute "gelu_tanh" %y : (f32) -> f32
  rank.yield %0, %1 : bf16, f32
}
rank.kernel @large space [2147483648] strides [array<i64: 1>, array<i64: 1>] results [i8] {
^bb0(%x: i8):
  rank.yield %x : i8
}
rank.kernel @sum space [8, 100] reduced [1] strides [array<i64: 100, 1>, array<i64: 1, 0>] results [f32] {
^bb0(%x: f32):
  %0 = rank.combine sum %x : f32
  rank.yield %0 : f32
}
rank.kernel @columns space [16384, 768] reduced [0] strides [array<i64: 768, 1>, array<i64: 768, 1>, array<i64: 0, 1>] results [bf16, f32] {
^bb0(%x: bf16):
  %0 = rank.compute "neg" %x : (bf16) -> bf16
  %1 = rank.compute "convert" %0 : (bf16) -> f32
  %2 = rank.combine sum %1 : f32
  rank.yield %0, %2 : bf16, f32
}

//--- launch.mlir
module attributes {rank.target = "cuda"} {
dist.mesh @mesh axes ["dp"] sizes [1] stages 1 batch <{dp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
rank.kernel @columns space [300, 8] reduced [0] strides [array<i64: 8, 1>, array<i64: 0, 1>] results [f32] {
^bb0(%x: bf16):
  %0 = rank.compute "convert" %x : (bf16) -> f32
  %1 = rank.combine sum %0 : f32
  rank.yield %1 : f32
}
rank.program @stage0 stage 0 slots 1 {
  // ARENA: rank.arena @workspace bytes 96
  rank.arena @host bytes 256
  rank.arena @activations
  rank.state @loss_sum "loss_sum" of "loss_sum" in @host at 0 : !rank.buffer<f32> logical [] global [] splits [] init #hyc.fill<0.0 : f64>
  rank.state @token_count "token_count" of "token_count" in @host at 64 : !rank.buffer<i64> logical [] global [] splits [] init #hyc.fill<0.0 : f64>
  rank.state @step "step" of "step" in @host at 128 : !rank.buffer<i64> logical [] global [] splits [] init #hyc.fill<0.0 : f64>
  rank.state @grad_norm "grad_norm" of "grad_norm" in @host at 192 : !rank.buffer<f32> logical [] global [] splits [] init #hyc.fill<0.0 : f64>
  rank.func @forward() {
    %x = rank.alloc @activations : <300x8xbf16>
    %y = rank.alloc @activations : <8xf32>
    rank.launch @columns %y = %x : !rank.buffer<8xf32>, !rank.buffer<300x8xbf16>
  }
  rank.func @backward() {
  }
  rank.func @reduce() {
  }
  rank.func @apply() {
  }
}
}
