// A file of functions includes the headers of the kernels that it calls, and of no others. What is an expression, as the
// sum of two numbers in forward, wants none.
// RUN: hyc-opt %S/../../Rank/mlp.mlir --hyc-rank-phase --hyc-emit-cpp="folder=%t name=mlp" -o /dev/null
// RUN: FileCheck %s --check-prefix=FORWARD --input-file=%t/stage0_forward.cpp
// FORWARD: #include "kernels.h"
// FORWARD-NEXT: #include "kernels/cross_entropy/op.h"
// FORWARD-NEXT: #include "kernels/embedding/op.h"
// FORWARD-NEXT: #include "kernels/gemm/op.h"
// FORWARD-EMPTY:
// FORWARD-NEXT: using namespace hyc::kernels;
// FORWARD: *f32(communication + {{[0-9]+}}) = call.first ?
// RUN: FileCheck %s --check-prefix=APPLY --input-file=%t/stage0_apply.cpp
// APPLY: #include "kernels.h"
// APPLY-NEXT: #include "kernels/adamw/op.h"
// APPLY-NEXT: #include "kernels/exact_sum/op.h"
// APPLY-NEXT: #include "kernels/gradient_scale/op.h"
// APPLY-NEXT: #include "kernels/sum_of_squares/op.h"
// APPLY-EMPTY:
// APPLY-NEXT: using namespace hyc::kernels;

// RUN: hyc-opt %S/../../Rank/mlp.mlir --hyc-rank-phase --hyc-emit-cpp="folder=%t.cuda name=mlp gpus=90" -o /dev/null
// RUN: FileCheck %s --check-prefix=CUDA --input-file=%t.cuda/stage0_forward.cpp
// CUDA: #include "kernels.h"
// CUDA-NEXT: #include "kernels/copy/cuda.h"
// CUDA-NEXT: #include "kernels/cross_entropy/cuda.h"
// CUDA-NEXT: #include "kernels/embedding/cuda.h"
// CUDA-NEXT: #include "kernels/gemm/cuda.h"
// CUDA-EMPTY:
// CUDA-NEXT: using namespace hyc::kernels;
