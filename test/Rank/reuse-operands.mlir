// RUN: hyc-opt %s --hyc-reuse-operands | FileCheck %s

rank.kernel @square space [16] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  %y = rank.compute "mul" %x, %x : (f32, f32) -> f32
  rank.yield %y : f32
}
rank.kernel @reverse space [4, 4] strides [array<i64: 1, 4>, array<i64: 4, 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}
rank.program @stage0 stage 0 slots 1 {
  rank.arena @activations
  // CHECK-LABEL: rank.func @operand_that_dies_is_overwritten
  // CHECK: rank.launch @square %[[A:.*]] = %[[A]]
  rank.func @operand_that_dies_is_overwritten() {
    %a = rank.alloc @activations : <4x4xf32>
    rank.call "fill" %a = {value = 1.0 : f32} : !rank.buffer<4x4xf32>
    %b = rank.alloc @activations : <4x4xf32>
    rank.launch @square %b = %a : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
  }
  // CHECK-LABEL: rank.func @operand_read_later_is_kept
  // CHECK: rank.launch @square %[[B:.*]] = %[[A:.*]] :
  // CHECK: rank.launch @square %[[B]] = %[[A]] :
  rank.func @operand_read_later_is_kept() {
    %a = rank.alloc @activations : <4x4xf32>
    rank.call "fill" %a = {value = 1.0 : f32} : !rank.buffer<4x4xf32>
    %b = rank.alloc @activations : <4x4xf32>
    rank.launch @square %b = %a : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
    rank.launch @square %b = %a : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
  }
  // CHECK-LABEL: rank.func @other_elements_would_be_lost
  // CHECK: %[[B:.*]] = rank.alloc
  // CHECK: %[[C:.*]] = rank.alloc
  // CHECK: rank.launch @reverse %[[C]] = %[[B]]
  rank.func @other_elements_would_be_lost() {
    %a = rank.alloc @activations : <4x4xf32>
    rank.call "fill" %a = {value = 1.0 : f32} : !rank.buffer<4x4xf32>
    %b = rank.alloc @activations : <4x4xf32>
    rank.launch @reverse %b = %a : !rank.buffer<4x4xf32>, !rank.buffer<4x4xf32>
  }
}
