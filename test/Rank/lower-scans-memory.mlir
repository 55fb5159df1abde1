// What a scan gives shares memory, so that others may not work in it; a pair holds what is carried of any type, and nothing
// where there is nothing; an invariant tensor that a step wants dense is copied once.
// RUN: hyc-opt %s --hyc-hoist-invariants --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s --check-prefix=LOWER
// RUN: hyc-opt %s --hyc-hoist-invariants --hyc-form-clusters --hyc-lower-to-rank --hyc-place-buffers | FileCheck %s --check-prefix=PLACE

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 3 batch <{dp}> tensor <{tp}>
hyc.state @y role "output" : tensor<8x2x4xf32> from #hyc.fill<0.0 : f64>
hyc.state @z role "output" : tensor<2x4xf32> from #hyc.fill<0.0 : f64>

// The last element of the stack is a sum's operand: it is added up in a copy.
// LOWER-LABEL: rank.program @stage0
// LOWER: %[[STACK:.*]] = rank.alloc @activations {{.*}} : <8x2x4xf32>
// LOWER: rank.repeat 7
// LOWER: %[[LAST:.*]] = rank.view %[[STACK]] + 56
// LOWER: %[[SUM:.*]] = rank.alloc @communication : <2x4xf32>
// LOWER: rank.call "strided_copy" %[[SUM]] = %[[LAST]]
// LOWER: rank.start "all_reduce" "sum" %{{.*}}, %[[SUM]] count 8
hyc.func @forward.0(%x: tensor<8x2x4xf32> {hyc.input = "x"}) attributes {dist.stage = 0 : i64} {
  %zero = hyc.constant {id = "zero"} dense<0.0> : tensor<2x4xf32>
  %last, %all = hyc.scan 8 init(%zero) over(%x) attributes {id = "scan"} : (tensor<2x4xf32>, tensor<8x2x4xf32>) -> (tensor<2x4xf32>, tensor<8x2x4xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %e: tensor<2x4xf32>):
    %next = hyc.add %h, %e {id = "next"} : tensor<2x4xf32>
    hyc.yield %next, %next : tensor<2x4xf32>, tensor<2x4xf32>
  }
  %p = dist.all_reduce_start sum %last over #dist.group<{dp}> {cause = "r", why="partial {dp}"} : tensor<2x4xf32> -> !dist.pending<tensor<2x4xf32>>
  %q = dist.wait %p : !dist.pending<tensor<2x4xf32>> -> tensor<2x4xf32>
  hyc.write %all into @y : tensor<8x2x4xf32>
  hyc.write %q into @z : tensor<2x4xf32>
  hyc.return
}
hyc.func @backward.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @reduce.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @apply.0() attributes {dist.stage = 0 : i64} { hyc.return }
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]

// PLACE-LABEL: rank.program @stage1
// PLACE: rank.repeat 7
// PLACE-DAG: rank.at @activations {{[0-9]+}} step 4 period 2 {{.*}} : <f32>
// PLACE-DAG: rank.at @activations {{[0-9]+}} step 8 period 2 {{.*}} : <2x4xi1>
// PLACE-DAG: rank.at @activations {{[0-9]+}} step 8 period 2 {{.*}} : <i64>
hyc.func @forward.1(%x: tensor<8x2x4xf32> {hyc.input = "x"}) attributes {dist.stage = 1 : i64} {
  %none = hyc.constant {id = "none"} dense<0.0> : tensor<0x4xf32>
  %n = hyc.constant {id = "n"} dense<3.0> : tensor<f32>
  %b = hyc.constant {id = "b"} dense<true> : tensor<2x4xi1>
  %i = hyc.constant {id = "i"} dense<5> : tensor<i64>
  %last, %m, %bb, %ii, %all = hyc.scan 8 init(%none, %n, %b, %i) over(%x) attributes {id = "scan"} : (tensor<0x4xf32>, tensor<f32>, tensor<2x4xi1>, tensor<i64>, tensor<8x2x4xf32>) -> (tensor<0x4xf32>, tensor<f32>, tensor<2x4xi1>,tensor<i64>, tensor<8x2x4xf32>) {
  ^bb0(%h: tensor<0x4xf32>, %k: tensor<f32>, %bo: tensor<2x4xi1>, %in: tensor<i64>, %e: tensor<2x4xf32>):
    %next = hyc.tanh %h {id = "next"} : tensor<0x4xf32>
    %k2 = hyc.tanh %k {id = "k2"} : tensor<f32>
    %kb = hyc.broadcast %k2 [] {id = "kb"} : (tensor<f32>) -> tensor<2x4xf32>
    %o = hyc.mul %kb, %e {id = "o"} : tensor<2x4xf32>
    %sel = hyc.select %bo, %o, %e {id = "sel"} : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %nb = hyc.compare lt %e, %kb {id = "nb"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
    %ni = hyc.neg %in {id = "ni"} : tensor<i64>
    hyc.yield %next, %k2, %nb, %ni, %sel : tensor<0x4xf32>, tensor<f32>, tensor<2x4xi1>, tensor<i64>, tensor<2x4xf32>
  }
  hyc.write %all into @y : tensor<8x2x4xf32>
  hyc.return
}
hyc.func @backward.1() attributes {dist.stage = 1 : i64} { hyc.return }
hyc.func @reduce.1() attributes {dist.stage = 1 : i64} { hyc.return }
hyc.func @apply.1() attributes {dist.stage = 1 : i64} { hyc.return }
dist.schedule stage 1 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]

// Rows of the table are read by number, for which they have to be dense.
// LOWER-LABEL: rank.program @stage2
// LOWER: rank.call "strided_copy" %[[DENSE:.*]] = %{{.*}} {id = "table"}
// LOWER: rank.call "gather" %{{.*}} = %[[DENSE]]
// LOWER: rank.repeat 7
// LOWER-NOT: strided_copy
// LOWER: rank.call "gather" %{{.*}} = %[[DENSE]]
// LOWER: rank.func @backward
hyc.func @forward.2(%x: tensor<8x2x4xf32> {hyc.input = "x"}, %ids: tensor<8x2xi64> {hyc.input = "ids"}) attributes {dist.stage = 2 : i64} {
  %table = hyc.slice %x offsets [0, 0, 0] strides [2, 1, 1] {id = "table"} : (tensor<8x2x4xf32>) -> tensor<4x2x4xf32>
  %all = hyc.scan 8 over(%ids) with(%table) attributes {id = "scan"} : (tensor<8x2xi64>, tensor<4x2x4xf32>) -> tensor<8x2x2x4xf32> {
  ^bb0(%i: tensor<2xi64>, %rows: tensor<4x2x4xf32>):
    %0 = hyc.gather %rows, %i dim 0 batch 0 {id = "rows"} : (tensor<4x2x4xf32>, tensor<2xi64>) -> tensor<2x2x4xf32>
    hyc.yield %0 : tensor<2x2x4xf32>
  }
  %some = hyc.reduce sum %all [1] {id = "some"} : (tensor<8x2x2x4xf32>) -> tensor<8x2x4xf32>
  hyc.write %some into @y : tensor<8x2x4xf32>
  hyc.return
}
hyc.func @backward.2() attributes {dist.stage = 2 : i64} { hyc.return }
hyc.func @reduce.2() attributes {dist.stage = 2 : i64} { hyc.return }
hyc.func @apply.2() attributes {dist.stage = 2 : i64} { hyc.return }
dist.schedule stage 2 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]
