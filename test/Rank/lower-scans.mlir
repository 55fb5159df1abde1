// A scan is its first step and a loop of all others: what is carried and stacked lies in the stack, where the next step reads
// it; what is only carried lies in two places in turn; temporaries of a step are placed once.
// RUN: hyc-opt %s --hyc-hoist-invariants --hyc-fuse-bias --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s --check-prefix=LOWER
// RUN: hyc-opt %s --hyc-hoist-invariants --hyc-fuse-bias --hyc-form-clusters --hyc-lower-to-rank --hyc-reuse-operands --hyc-place-buffers | FileCheck %s --check-prefix=PLACE

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 3 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<4x4xf32> from #hyc.fill<1.0 : f64>
hyc.state @y role "output" : tensor<8x2x4xf32> from #hyc.fill<0.0 : f64>
hyc.state @z role "output" : tensor<2x4xf32> from #hyc.fill<0.0 : f64>

// LOWER-LABEL: rank.func @forward()
// Eight elements of what is stacked, two of what is only carried.
// LOWER-DAG: %[[STACK:.*]] = rank.alloc @activations {{.*}} : <8x2x4xf32>
// LOWER-DAG: %[[PAIR:.*]] = rank.alloc @activations {{.*}} : <2x2x4xf32>
// The first step is the last element: it goes in reverse.
// LOWER-DAG: rank.view %[[STACK]] + 56 : <8x2x4xf32> to <2x4xf32>
// LOWER: rank.repeat 7 attributes {id = "scan"} {
// LOWER-DAG: rank.turn %[[STACK]] + 56 step -8 : <8x2x4xf32> to <2x4xf32>
// LOWER-DAG: rank.turn %[[PAIR]] + 0 step 8 period 2 : <2x2x4xf32> to <2x4xf32>
// LOWER-DAG: rank.turn %{{.*}} + 48 step -8 : <8x2x4xf32> to <2x4xf32>
// LOWER-DAG: rank.turn %[[STACK]] + 48 step -8 : <8x2x4xf32> to <2x4xf32>
// LOWER-DAG: rank.turn %[[PAIR]] + 8 step -8 period 2 : <2x2x4xf32> to <2x4xf32>
// LOWER: rank.gemm
// LOWER-NEXT: rank.launch
// LOWER-NEXT: {{^      [}]$}}
// After eight steps the second of the pair is the last.
// LOWER: rank.view %[[PAIR]] + 8 : <2x2x4xf32> to <2x4xf32>

// PLACE-LABEL: rank.func @forward()
// PLACE: rank.repeat 7
// PLACE-DAG: rank.at @activations {{[0-9]+}} step -32 {{.*}}: <2x4xf32>
// PLACE-DAG: rank.at @activations {{[0-9]+}} step 32 period 2 {{.*}}: <2x4xf32>
// PLACE-NOT: rank.turn
// PLACE: {{^      [}]$}}
hyc.func @forward.0(%x: tensor<8x2x4xf32> {hyc.input = "x"}) attributes {dist.stage = 0 : i64} {
  %w = hyc.read @w : tensor<4x4xf32>
  %zero = hyc.constant {id = "zero"} dense<0.0> : tensor<2x4xf32>
  %last, %sum, %all = hyc.scan 8 reverse init(%zero, %zero) over(%x) with(%w) attributes {id = "scan"} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<8x2x4xf32>, tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<8x2x4xf32>) {
  ^bb0(%h: tensor<2x4xf32>, %s: tensor<2x4xf32>, %e: tensor<2x4xf32>, %weight: tensor<4x4xf32>):
    %t = hyc.tanh %weight {id = "t"} : tensor<4x4xf32>
    %one = hyc.constant {id = "one"} dense<1.0> : tensor<4xf32>
    %ones = hyc.broadcast %one [1] {id = "ones"} : (tensor<4xf32>) -> tensor<2x4xf32>
    %p = hyc.einsum "mk,kn->mn" %h, %t {id = "p"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %q = hyc.add %p, %e {id = "q"} : tensor<2x4xf32>
    %r = hyc.add %q, %ones {id = "r"} : tensor<2x4xf32>
    %next = hyc.tanh %r {id = "next"} : tensor<2x4xf32>
    %total = hyc.add %s, %next {id = "total"} : tensor<2x4xf32>
    hyc.yield %next, %total, %next : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  }
  hyc.write %all into @y : tensor<8x2x4xf32>
  hyc.write %sum into @z : tensor<2x4xf32>
  hyc.return
}
hyc.func @backward.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @reduce.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @apply.0() attributes {dist.stage = 0 : i64} { hyc.return }
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]

// Two steps are a first one and a loop of one turn. The last state is saved, and not the pair that it lies in.
// LOWER-LABEL: rank.program @stage1
// LOWER: rank.record @last in @activations {{.*}}: !rank.buffer<4x4xf32>
// LOWER: rank.repeat 1
// LOWER: {{^      [}]$}}
// LOWER: rank.call "strided_copy"
hyc.func @forward.1(%x: tensor<4x4xf32> {hyc.input = "x"}) -> (tensor<4x4xf32> {hyc.saved = "last"}) attributes {dist.stage = 1 : i64} {
  %w = hyc.read @w : tensor<4x4xf32>
  %last = hyc.scan 2 init(%x) with(%w) attributes {id = "scan"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%h: tensor<4x4xf32>, %weight: tensor<4x4xf32>):
    %t = hyc.tanh %weight {id = "t"} : tensor<4x4xf32>
    %one = hyc.constant {id = "one"} dense<1.0> : tensor<4xf32>
    %ones = hyc.broadcast %one [1] {id = "ones"} : (tensor<4xf32>) -> tensor<4x4xf32>
    %u = hyc.add %t, %ones {id = "u"} : tensor<4x4xf32>
    %0 = hyc.mul %h, %t {id = "first"} : tensor<4x4xf32>
    %1 = hyc.mul %0, %u {id = "second"} : tensor<4x4xf32>
    %2 = hyc.add %1, %ones {id = "third"} : tensor<4x4xf32>
    hyc.yield %2 : tensor<4x4xf32>
  }
  hyc.return %last : tensor<4x4xf32>
}
hyc.func @backward.1(%last: tensor<4x4xf32> {hyc.saved = "last"}) attributes {dist.stage = 1 : i64} { hyc.return }
hyc.func @reduce.1() attributes {dist.stage = 1 : i64} { hyc.return }
hyc.func @apply.1() attributes {dist.stage = 1 : i64} { hyc.return }
dist.schedule stage 1 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>]

// A single step is no loop. An index that is carried on is compared where it is used.
// LOWER-LABEL: rank.program @stage2
// LOWER: rank.func @forward()
// LOWER: rank.call "gather" {{.*}}index_bound = 4
// LOWER-NOT: rank.repeat
// LOWER: rank.func @backward
hyc.func @forward.2(%at: tensor<2xi64> {hyc.input = "at"}) attributes {dist.stage = 2 : i64} {
  %w = hyc.read @w : tensor<4x4xf32>
  %last, %all = hyc.scan 1 init(%at) with(%w) attributes {id = "scan"} : (tensor<2xi64>, tensor<4x4xf32>) -> (tensor<2xi64>, tensor<1x2x4xf32>) {
  ^bb0(%i: tensor<2xi64>, %weight: tensor<4x4xf32>):
    %0 = hyc.gather %weight, %i dim 0 batch 0 {id = "rows"} : (tensor<4x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
    hyc.yield %i, %0 : tensor<2xi64>, tensor<2x4xf32>
  }
  %rows = hyc.reshape %all {id = "r"} : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
  hyc.write %rows into @z : tensor<2x4xf32>
  hyc.return
}
hyc.func @backward.2() attributes {dist.stage = 2 : i64} { hyc.return }
hyc.func @reduce.2() attributes {dist.stage = 2 : i64} { hyc.return }
hyc.func @apply.2() attributes {dist.stage = 2 : i64} { hyc.return }
dist.schedule stage 2 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]
