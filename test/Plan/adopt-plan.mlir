// The module that evaluates is planned as the one that trains: parameters and their copies lie where training has them, its
// input is split as there, an op is in the chunk of training's op of its id ("y", "loss"), one that only an evaluation has
// with what it reads ("twice"), and one on parameters or inputs alone with its user ("w1.sum", "x.sum"). Of training's
// schedule the forwards are left.
// RUN: hyc-opt %s --hyc-adopt-plan | FileCheck %s
// RUN: hyc-opt %s --pass-pipeline='builtin.module(hyc-adopt-plan,builtin.module(hyc-verify-plan))'

// CHECK: module @evaluate attributes {dist.policy = {{.*}}, hyc.entry = "evaluate"} {
// CHECK: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 2
// CHECK: hyc.param @w0 : tensor<4x8xf32> {{.*}} {dist.sharding = #dist.sharding<[{}, {tp}] flat {dp}>, dist.stages = array<i64: 0>}
// CHECK: hyc.param @w1 : {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}]>, dist.stages = array<i64: 1>}
// CHECK: hyc.state @loss_sum {{.*}} {dist.sharding = {{.*}}, dist.stages = array<i64: 0, 1>}
// CHECK: hyc.state @correct_count {{.*}} {dist.sharding = {{.*}}, dist.stages = array<i64: 0, 1>}
// CHECK: hyc.func @microbatch(%{{.*}}: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{dp}, {}]>, hyc.input = "x"})
// CHECK: hyc.read @w0 {dist.shardings = [#dist.sharding<[{}, {tp}]>], dist.stage = 0 : i64
// CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{dp}, {tp}]>], {{.*}}dist.stage = 0 : i64, id = "h"
// CHECK: hyc.reduce sum {{.*}}dist.stage = 1 : i64, id = "x.sum"
// CHECK: hyc.reduce sum {{.*}}dist.stage = 1 : i64, id = "w1.sum"
// CHECK: hyc.einsum {{.*}}dist.stage = 1 : i64, id = "y"
// CHECK: hyc.add {{.*}}dist.stage = 1 : i64, id = "twice"
// CHECK: hyc.accumulate {{.*}}dist.stage = 1 : i64, id = "loss_sum.accumulate"
// CHECK: dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>,
// CHECK-SAME: #dist.do<exchange [send forward micro_batch 0 slot 0]>, #dist.do<forward micro_batch 1 slot 0>,
// CHECK-SAME: #dist.do<exchange [send forward micro_batch 1 slot 0]>, #dist.do<reduce>]
// CHECK: dist.schedule stage 1 slots 1
module attributes {dist.policy = {check_finite = false}} {
  dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 2 batch <{dp}> tensor <{tp}>
  hyc.param @w0 : tensor<4x8xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}, {tp}] flat {dp}>, dist.stages = array<i64: 0>}
  hyc.param @w1 : tensor<8x4xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{tp}, {}]>, dist.stages = array<i64: 1>}
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[]>, dist.stages = array<i64: 0, 1>}
  hyc.func @microbatch(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{dp}, {}]>, hyc.input = "x"}) {
    %w0 = hyc.read @w0 {dist.stage = 0 : i64, id = "w0.read"} : tensor<4x8xf32>
    %h = hyc.einsum "ik,kj->ij" %x, %w0 {dist.stage = 0 : i64, id = "h"} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %w1 = hyc.read @w1 {dist.stage = 1 : i64, id = "w1.read"} : tensor<8x4xf32>
    %y = hyc.einsum "ij,jk->ik" %h, %w1 {dist.stage = 1 : i64, id = "y"} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %loss = hyc.reduce sum %y [0, 1] {dist.stage = 1 : i64, id = "loss"} : (tensor<4x4xf32>) -> tensor<f32>
    hyc.accumulate %loss into @loss_sum {dist.stage = 1 : i64, id = "loss_sum.accumulate"} : tensor<f32>
    hyc.return
  }
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>, #dist.do<forward micro_batch 1 slot 0>, #dist.do<backward micro_batch 1 slot 0>, #dist.do<reduce>, #dist.do<apply>]
  dist.schedule stage 1 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>, #dist.do<forward micro_batch 1 slot 0>, #dist.do<backward micro_batch 1 slot 0>, #dist.do<reduce>, #dist.do<apply>]
  module @evaluate attributes {hyc.entry = "evaluate"} {
    hyc.param @w0 : tensor<4x8xf32> from #hyc.fill<0.5 : f64> frozen
    hyc.param @w1 : tensor<8x4xf32> from #hyc.fill<0.5 : f64> frozen
    hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0 : f64>
    hyc.state @correct_count role "correct_count" : tensor<i64> from #hyc.fill<0.0 : f64>
    hyc.func @microbatch(%x: tensor<4x4xf32> {hyc.input = "x"}) {
      %w0 = hyc.read @w0 {id = "w0.read"} : tensor<4x8xf32>
      %h = hyc.einsum "ik,kj->ij" %x, %w0 {id = "h"} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %w1 = hyc.read @w1 {id = "w1.read"} : tensor<8x4xf32>
      %m = hyc.reduce sum %x [0, 1] {id = "x.sum"} : (tensor<4x4xf32>) -> tensor<f32>
      %s = hyc.reduce sum %w1 [0, 1] {id = "w1.sum"} : (tensor<8x4xf32>) -> tensor<f32>
      %y = hyc.einsum "ij,jk->ik" %h, %w1 {id = "y"} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %loss = hyc.reduce sum %y [0, 1] {id = "loss"} : (tensor<4x4xf32>) -> tensor<f32>
      %twice = hyc.add %loss, %s {id = "twice"} : tensor<f32>
      %sum = hyc.add %twice, %m {id = "sum"} : tensor<f32>
      hyc.accumulate %sum into @loss_sum {id = "loss_sum.accumulate"} : tensor<f32>
      hyc.return
    }
    hyc.func @apply() {
      hyc.return
    }
  }
}
