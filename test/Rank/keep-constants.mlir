// RUN: hyc-opt %s --split-input-file --hyc-keep-constants | FileCheck %s

// One for forward and backward, whatever their calls are named. What is written twice is no constant.
// CHECK-LABEL: rank.program @table
// CHECK: rank.arena @constants
// CHECK: rank.constant @picked in @constants : !rank.buffer<2x16xi64>
// CHECK-NOT: rank.constant
// CHECK: rank.func @forward
// CHECK-NOT: "constant"
// CHECK: %[[T:.*]] = rank.address @picked
// CHECK: rank.call "gather" %{{.*}} = %{{.*}}, %[[T]]
// CHECK: rank.func @backward
// CHECK: %[[T:.*]] = rank.address @picked
// CHECK: rank.call "constant" %[[SUM:.*]] = {values
// CHECK: rank.call "accumulate" %[[SUM]]
// CHECK: rank.call "scatter" %{{.*}} = %[[T]], %[[SUM]]
// CHECK: rank.func @prepare
// CHECK-NEXT: %[[T:.*]] = rank.address @picked
// CHECK-NEXT: rank.call "constant" %[[T]] = {id = "picked", values
// CHECK-NEXT: {{^ +}$}}
rank.program @table stage 0 slots 1 {
  rank.arena @activations
  rank.input @x source "sample" bound 9223372036854775807 in @activations : !rank.buffer<2x32xf32>
  rank.func @forward() {
    %x = rank.address @x : <2x32xf32>
    %t = rank.alloc @activations : <2x16xi64>
    rank.call "constant" %t = {id = "picked", values = dense<3> : tensor<2x16xi64>} : !rank.buffer<2x16xi64>
    %y = rank.alloc @activations : <2x16xf32>
    rank.call "gather" %y = %x, %t {dim = 1 : i64, batch = 1 : i64} : !rank.buffer<2x16xf32>, !rank.buffer<2x32xf32>, !rank.buffer<2x16xi64>
  }
  rank.func @backward() {
    %t = rank.alloc @activations : <2x16xi64>
    rank.call "constant" %t = {id = "picked.of.backward", values = dense<3> : tensor<2x16xi64>} : !rank.buffer<2x16xi64>
    %s = rank.alloc @activations : <2x16xf32>
    rank.call "constant" %s = {values = dense<1.0> : tensor<2x16xf32>} : !rank.buffer<2x16xf32>
    rank.call "accumulate" %s = %s {mode = #rank<mode add>} : !rank.buffer<2x16xf32>, !rank.buffer<2x16xf32>
    %dx = rank.alloc @activations : <2x32xf32>
    rank.call "scatter" %dx = %t, %s {dim = 1 : i64, batch = 1 : i64, kind = "sum"} : !rank.buffer<2x32xf32>, !rank.buffer<2x16xi64>, !rank.buffer<2x16xf32>
  }
}

// -----

// What is computed of constants is one; what only that reads is a temporary of @prepare. A line of memory is not kept.
rank.kernel @twice space [64] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  %y = rank.compute "add" %x, %x : (f32, f32) -> f32
  rank.yield %y : f32
}
rank.kernel @first space [16] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}
// CHECK-LABEL: rank.program @computed
// CHECK: rank.constant @doubled in @constants : !rank.buffer<64xf32>
// CHECK-NOT: rank.constant
// CHECK: rank.func @forward
// CHECK-NEXT: rank.address @x
// CHECK-NEXT: %[[D:.*]] = rank.address @doubled
// CHECK-NEXT: %[[L:.*]] = rank.alloc @activations
// CHECK-NEXT: rank.call "fill" %[[L]] =
// CHECK-NEXT: rank.launch @twice %{{.*}} = %[[D]]
// CHECK-NEXT: rank.view
// CHECK-NEXT: rank.launch @first %{{.*}} = %[[L]]
// CHECK: rank.func @prepare
// CHECK-NEXT: %[[A:.*]] = rank.alloc @activations
// CHECK-NEXT: rank.call "fill" %[[A]] = {id = "ones"
// CHECK-NEXT: %[[D:.*]] = rank.address @doubled
// CHECK-NEXT: rank.launch @twice %[[D]] = %[[A]]
// CHECK-NEXT: {{^ +}$}}
rank.program @computed stage 0 slots 1 {
  rank.arena @activations
  rank.input @x source "sample" bound 9223372036854775807 in @activations : !rank.buffer<64xf32>
  rank.func @forward() {
    %x = rank.address @x : <64xf32>
    %a = rank.alloc @activations : <64xf32>
    rank.call "fill" %a = {id = "ones", value = 1.0 : f32} : !rank.buffer<64xf32>
    %d = rank.alloc @activations : <64xf32>
    rank.launch @twice %d = %a {id = "doubled"} : !rank.buffer<64xf32>, !rank.buffer<64xf32>
    %l = rank.alloc @activations : <16xf32>
    rank.call "fill" %l = {id = "line", value = 2.0 : f32} : !rank.buffer<16xf32>
    rank.launch @twice %x = %d : !rank.buffer<64xf32>, !rank.buffer<64xf32>
    %f = rank.view %x + 0 : !rank.buffer<64xf32> to !rank.buffer<16xf32>
    rank.launch @first %f = %l : !rank.buffer<16xf32>, !rank.buffer<16xf32>
  }
}

// -----

// A constant that forward saves is no record any more; one that goes to another stage is, and what a part is written of.
// CHECK-LABEL: rank.program @saved
// CHECK-NOT: rank.record @mask
// CHECK: rank.record @sent
// CHECK: rank.constant @mask in @constants : !rank.buffer<64xf32>
// CHECK-NOT: rank.constant
// CHECK: rank.func @forward
// CHECK: rank.call "fill" %{{.*}} = {id = "sent"
// CHECK: rank.call "fill" %{{.*}} = {id = "part"
// CHECK-NOT: rank.call
// CHECK: rank.func @backward
// CHECK: %[[M:.*]] = rank.address @mask
// CHECK: rank.launch @second %{{.*}} = %[[M]]
rank.kernel @second space [64] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}
rank.program @saved stage 0 slots 2 {
  rank.arena @activations
  rank.arena @communication shared
  rank.record @mask in @activations : !rank.buffer<64xf32>
  rank.record @sent in @communication : !rank.buffer<64xf32>
  rank.transfer @send.forward.sent send of @sent peer 1 tag 0
  rank.input @x source "sample" bound 9223372036854775807 in @activations : !rank.buffer<64xf32>
  rank.func @forward() {
    %m = rank.address @mask : <64xf32>
    rank.call "fill" %m = {id = "mask", value = 1.0 : f32} : !rank.buffer<64xf32>
    %s = rank.address @sent : <64xf32>
    rank.call "fill" %s = {id = "sent", value = 3.0 : f32} : !rank.buffer<64xf32>
    %p = rank.alloc @activations : <64xf32>
    %v = rank.view %p + 32 : !rank.buffer<64xf32> to !rank.buffer<32xf32>
    rank.call "fill" %v = {id = "part", value = 3.0 : f32} : !rank.buffer<32xf32>
  }
  rank.func @backward() {
    %m = rank.address @mask : <64xf32>
    %x = rank.address @x : <64xf32>
    rank.launch @second %x = %m : !rank.buffer<64xf32>, !rank.buffer<64xf32>
  }
}

// -----

// Nor where the plan says so.
// CHECK-LABEL: rank.program @unkept
// CHECK-NOT: @constants
// CHECK: rank.call "fill"
// CHECK-NOT: @prepare
module attributes {dist.policy = {keep_constants = false}} {
rank.kernel @second space [64] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  rank.yield %x : f32
}
rank.program @unkept stage 0 slots 1 {
  rank.arena @activations
  rank.input @x source "sample" bound 9223372036854775807 in @activations : !rank.buffer<64xf32>
  rank.func @forward() {
    %x = rank.address @x : <64xf32>
    %m = rank.alloc @activations : <64xf32>
    rank.call "fill" %m = {id = "mask", value = 1.0 : f32} : !rank.buffer<64xf32>
    rank.launch @second %x = %m : !rank.buffer<64xf32>, !rank.buffer<64xf32>
  }
}
}
