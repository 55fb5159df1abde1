// On GPUs, rows that wide loads cannot take begin at multiples of 128 bytes: here 257 logits of f32, of a product that is
// read by the loss and, as its gradient in the same place, by products. What lies between rows counts as memory.
// RUN: sed -e 's/256/257/g' -e '1i module attributes {rank.target = "cuda"} {' -e '$a }' %S/mlp.mlir > %t.mlir
// RUN: hyc-opt %t.mlir --hyc-rank-phase | FileCheck %s
// RUN: sed 's/256/257/g' %S/mlp.mlir | hyc-opt --hyc-rank-phase | FileCheck %s --check-prefix=CPU

// CHECK: rank.record @fc2 in @activations {{.*}} : !rank.buffer<2x8x257xf32, strides [2304, 288, 1]>
// CHECK: rank.func @forward()
// CHECK: rank.gemm {{.*}} k = 32 {{.*}} ldc = 288 : i64, m = 16 : i64, n = 257
// CHECK: rank.func @backward()
// CHECK: rank.call "cross_entropy_grad" [[LOGITS:%.+]] = {{%.+}}, [[LOGITS]], {{.*}} : !rank.buffer<2x8x257xf32, strides [2304, 288, 1]>
// CHECK: rank.gemm {{.*}} ldb = 288 {{.*}} trans_a
// CHECK: rank.gemm {{.*}} lda = 288 {{.*}} trans_b
// CPU: rank.record @fc2 in @activations {{.*}} : !rank.buffer<2x8x257xf32>
// CPU-NOT: strides [
