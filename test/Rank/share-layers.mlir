// RUN: hyc-opt %s --hyc-share-layers=minimum-ops=2 | FileCheck %s

// Three layers that differ in the place of the weight; what they all use stays inside.
rank.program @stage0 stage 0 slots 1 {
  rank.arena @parameters bytes 1024
  rank.arena @activations bytes 1024
  // CHECK: rank.func @forward.h(%[[W:.*]]: !rank.buffer<4x4xf32>) attributes {argument_arenas = ["parameters"], argument_names = ["fc.weight"], first_layer = "h.0"} {
  // CHECK-DAG: %[[X:.*]] = rank.at @activations 0
  // CHECK-DAG: %[[Y:.*]] = rank.at @activations 64
  // CHECK: rank.gemm %[[Y]] = %[[X]], %[[W]] {id = "fc"
  // CHECK: rank.call "strided_copy" %[[X]] = %[[Y]] {id = "copy"}
  // CHECK-LABEL: rank.func @forward() {
  // CHECK: rank.call "fill"
  // CHECK: %[[W0:.*]] = rank.at @parameters 0
  // CHECK: rank.invoke @forward.h(%[[W0]]) {id = "h.0"}
  // CHECK: %[[W1:.*]] = rank.at @parameters 64
  // CHECK: rank.invoke @forward.h(%[[W1]]) {id = "h.1"}
  // CHECK: %[[W2:.*]] = rank.at @parameters 192
  // CHECK: rank.invoke @forward.h(%[[W2]]) {id = "h.2"}
  // CHECK: rank.gemm {{.*}}trans_b
  rank.func @forward() {
    %x = rank.at @activations 0 : <4x4xf32>
    rank.call "fill" %x = {value = 1.0 : f32} : !rank.buffer<4x4xf32>
    %y = rank.at @activations 64 : <4x4xf32>
    %w0 = rank.at @parameters 0 {id = "h.0.fc.weight"} : <4x4xf32>
    rank.gemm %y = %x, %w0 {id = "h.0.fc", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.0.copy"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    %w1 = rank.at @parameters 64 {id = "h.1.fc.weight"} : <4x4xf32>
    rank.gemm %y = %x, %w1 {id = "h.1.fc", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.1.copy"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    %w2 = rank.at @parameters 192 {id = "h.2.fc.weight"} : <4x4xf32>
    rank.gemm %y = %x, %w2 {id = "h.2.fc", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.2.copy"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.gemm %y = %x, %w0 {m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64, trans_b} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
  }
}
