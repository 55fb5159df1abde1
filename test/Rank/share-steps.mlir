// RUN: hyc-opt %s --hyc-share-layers=minimum-ops=2 | FileCheck %s

// Two layers of three steps. The layers together save more than the steps of one do, but a function of a layer would hold
// its steps written out; so the steps share one.
rank.program @stage0 stage 0 slots 1 {
  rank.arena @parameters bytes 1024
  rank.arena @activations bytes 1024
  // CHECK: rank.func @forward.h(
  // CHECK: rank.gemm
  // CHECK-NOT: rank.gemm
  // CHECK: rank.func @forward.h.1(
  // CHECK: rank.gemm
  // CHECK-NOT: rank.gemm
  // CHECK-LABEL: rank.func @forward() {
  // CHECK: rank.call "fill"
  // CHECK-COUNT-3: rank.invoke @forward.h{{(.1)?}}(
  // CHECK: rank.call "fill"
  // CHECK-COUNT-3: rank.invoke @forward.h{{(.1)?}}(
  // CHECK-NOT: rank.gemm
  rank.func @forward() {
    %x = rank.at @activations 0 : <4x4xf32>
    %y = rank.at @activations 64 : <4x4xf32>
    rank.call "fill" %x = {id = "h.0.fill", value = 1.0 : f32} : !rank.buffer<4x4xf32>
    %w0 = rank.at @parameters 0 : <4x4xf32>
    rank.gemm %y = %x, %w0 {id = "h.0.fc.0", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.0.copy.0"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    %w1 = rank.at @parameters 64 : <4x4xf32>
    rank.gemm %y = %x, %w1 {id = "h.0.fc.1", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.0.copy.1"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    %w2 = rank.at @parameters 128 : <4x4xf32>
    rank.gemm %y = %x, %w2 {id = "h.0.fc.2", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.0.copy.2"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "fill" %x = {id = "h.1.fill", value = 1.0 : f32} : !rank.buffer<4x4xf32>
    %w3 = rank.at @parameters 192 : <4x4xf32>
    rank.gemm %y = %x, %w3 {id = "h.1.fc.0", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.1.copy.0"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    %w4 = rank.at @parameters 256 : <4x4xf32>
    rank.gemm %y = %x, %w4 {id = "h.1.fc.1", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.1.copy.1"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    %w5 = rank.at @parameters 320 : <4x4xf32>
    rank.gemm %y = %x, %w5 {id = "h.1.fc.2", m = 4 : i64, n = 4 : i64, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.call "strided_copy" %x = %y {id = "h.1.copy.2"} : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
  }
}
