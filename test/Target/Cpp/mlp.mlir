// RUN: hyc-opt %S/../../Rank/mlp.mlir --hyc-rank-phase --hyc-emit-cpp="folder=%t name=mlp" -o %t.mlir
// RUN: FileCheck %s --check-prefix=FORWARD --input-file=%t/stage0_forward.cpp
// RUN: FileCheck %s --check-prefix=BACKWARD --input-file=%t/stage0_backward.cpp
// RUN: FileCheck %s --check-prefix=APPLY --input-file=%t/stage0_apply.cpp
// RUN: FileCheck %s --check-prefix=TABLES --input-file=%t/stage0.cpp
// RUN: FileCheck %s --check-prefix=KERNELS --input-file=%t/kernels.cpp
// RUN: FileCheck %s --check-prefix=BUILD --input-file=%t/CMakeLists.txt

// The source op stands beside each call, with its shapes.
// FORWARD: static void forward(
// FORWARD: // embed: table (256, 16)
// FORWARD: // fc1: (16, 16) x (16, 32) -> (16, 32)
// FORWARD-NEXT: gemm({.m = 16, .n = 32, .k = 16, .hasBias = true}, f32(activations + {{[0-9]+}}), f32(parameters + 16384),
// FORWARD: // act
// FORWARD-NEXT: kernels::gelu_tanh_512(
// FORWARD: crossEntropyForward({.tokens = 16, .localVocab = 256},
// FORWARD: call.first ? *f32(
// FORWARD: void runForward(hycrt::Context& ctx, const hycrt::Call& call) { forward(ctx, call); }

// Gradients are overwritten by the first micro-batch of a step and added to by the others.
// BACKWARD: const WriteMode mode = call.first ? WriteMode::kOverwrite : WriteMode::kAccumulate;
// BACKWARD: const double beta = call.first ? 0 : 1;
// BACKWARD: // fc2.grad.rhs: (32, 16) x (16, 256) -> (32, 256)
// BACKWARD-NEXT: gemm({.m = 32, .n = 256, .k = 16, .transA = true, .beta = beta},
// BACKWARD: // act.grad
// BACKWARD-NEXT: kernels::gelu_tanh_grad_sum_16x32(f32(activations{{.*}}), f32(activations{{.*}}),
// BACKWARD-NEXT: f32(gradients + {{[0-9]+}}), mode);

// APPLY: gradientScale(*f64(feeds + [[SUM:[0-9]+]]), *i64(communication + 0), 1,
// APPLY: // fc1.weight: (16, 32)
// APPLY-NEXT: adamw({.lr = *f32(feeds + {{[0-9]+}}), .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-08, .weightDecay = 0.01,
// APPLY: = learningRate;

// TABLES: {"fc1.weight", "parameter", hycrt::DType::kF32, {kParameters, 16384},
// TABLES-NEXT: {16, 32}, {16, 32}, {16, 32}, {}, hycrt::Initializer::normal(0, 0.1, hycrt::stableKey("fc1.weight"))},
// TABLES: {"labels", hycrt::DType::kI64, hycrt::InputSource::kNextTokens, {kFeeds, {{[0-9]+}}}, 256, {8}, nullptr, 0, -100},
// TABLES: .batch = {.samples = 2, .microBatches = 2, .sequence = 8},
// TABLES: int main(int argc, char** argv) { return hycrt::runProgram(argc, argv, kProgram); }

// KERNELS: void gelu_tanh_512(const float* in0, float* out0) {
// KERNELS-NEXT: #pragma omp simd
// KERNELS-NEXT: for (int64_t i0 = 0; i0 < 512; ++i0) {
// KERNELS-NEXT: const float x0 = in0[i0];
// KERNELS-NEXT: const float v1 = geluTanh(x0);
// KERNELS-NEXT: out0[i0] = v1;

// BUILD: find_package(hyc REQUIRED)
// BUILD: add_executable(stage0
