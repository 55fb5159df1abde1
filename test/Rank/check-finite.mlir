// RUN: hyc-opt %s --hyc-record-policies="policies=check_finite=true" --hyc-check-finite | FileCheck %s
// RUN: hyc-opt %s --hyc-record-policies="policies=check_finite=true" --hyc-check-finite --hyc-share-layers=minimum-ops=2 | FileCheck %s --check-prefix=SHARED
// RUN: hyc-opt %s --hyc-check-finite | FileCheck %s --check-prefix=UNASKED
// UNASKED-NOT: rank.check

// A kernel with an infinite constant may write infinities. An exchange that adds is checked where it is awaited, and of
// a flat one this rank's own slice alone; one that gathers makes nothing new. Integers are not looked at.
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
rank.kernel @mask space [16] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  %least = rank.literal 0xFF800000 : f32
  %y = rank.compute "min" %x, %least : (f32, f32) -> f32
  rank.yield %y : f32
}
rank.kernel @square space [16] strides [array<i64: 1>, array<i64: 1>] results [f32] {
^bb0(%x: f32):
  %y = rank.compute "mul" %x, %x : (f32, f32) -> f32
  rank.yield %y : f32
}
rank.program @stage0 stage 0 slots 1 {
  rank.arena @gradients shared bytes 32768
  rank.arena @activations bytes 1024
  rank.collective @w.sum 0 "reduce_scatter" over <{dp}> cause "w.grad" why "partial {dp}" flat <{dp}>
  // CHECK: rank.site @site.0 "forward" "h.0.act"
  // CHECK: rank.site @site.1 "forward" "h.0.mask"
  // CHECK: rank.site @site.2 "forward" "h.1.act"

  // CHECK-LABEL: rank.func @forward()
  // CHECK: rank.launch @square %[[Y:.*]] = %[[X:.*]] {id = "h.0.act"}
  // CHECK-NEXT: %[[ROW:.*]] = rank.row @site.0
  // CHECK-NEXT: rank.check %[[ROW]], %[[Y]] = %[[X]] {id = "h.0.act"}
  // CHECK: rank.launch @mask
  // CHECK-NEXT: rank.row @site.1
  // CHECK-NEXT: rank.check {{.*}}infinite
  // CHECK: rank.call "fill"
  // What poisons makes nothing that is to be finite.
  // CHECK: rank.call "poison"
  // CHECK-NOT: rank.check
  // CHECK: rank.repeat 4
  // CHECK: rank.launch @square
  // CHECK-NEXT: rank.row
  // CHECK-NEXT: rank.check
  // CHECK-LABEL: rank.func @backward

  // Each layer has sites of its own.
  // SHARED: rank.func @forward.h(%[[ACT:.*]]: !rank.row, %[[MASK:.*]]: !rank.row) attributes {argument_arenas = ["", ""], argument_names = ["site", "site_1"]
  // SHARED: rank.check %[[ACT]],
  // SHARED: rank.check %[[MASK]],
  // SHARED-LABEL: rank.func @forward()
  // SHARED: %[[ACT0:.*]] = rank.row @site.0
  // SHARED: %[[MASK0:.*]] = rank.row @site.1
  // SHARED: rank.invoke @forward.h(%[[ACT0]], %[[MASK0]])
  rank.func @forward() {
    %x = rank.at @activations 0 : <16xf32>
    %y = rank.at @activations 64 : <16xf32>
    rank.launch @square %y = %x {id = "h.0.act"} : !rank.buffer<16xf32>, !rank.buffer<16xf32>
    rank.launch @mask %x = %y {id = "h.0.mask"} : !rank.buffer<16xf32>, !rank.buffer<16xf32>
    rank.launch @square %y = %x {id = "h.1.act"} : !rank.buffer<16xf32>, !rank.buffer<16xf32>
    rank.launch @mask %x = %y {id = "h.1.mask"} : !rank.buffer<16xf32>, !rank.buffer<16xf32>
    %n = rank.at @activations 136 : <i64>
    rank.call "fill" %n = {value = 1 : i64} : !rank.buffer<i64>
    rank.call "poison" %y = : !rank.buffer<16xf32>
    rank.repeat 4 {
      %turn = rank.at @activations 256 step 64 : <16xf32>
      rank.launch @square %turn = %turn {id = "rnn.square"} : !rank.buffer<16xf32>, !rank.buffer<16xf32>
    }
  }
  // A table of a mask has infinities; one without them is to stay so.
  // CHECK: rank.call "constant"
  // CHECK-NEXT: rank.row
  // CHECK-NEXT: rank.check {{.*}}infinite
  // CHECK: rank.call "constant"
  // CHECK-NEXT: rank.row
  // CHECK-NOT: infinite
  rank.func @backward() {
    %table = rank.at @activations 0 : <2xf32>
    rank.call "constant" %table = {id = "bias", values = dense<[0.0, 0xFF800000]> : tensor<2xf32>} : !rank.buffer<2xf32>
    rank.call "constant" %table = {id = "scales", values = dense<[0.0, 1.0]> : tensor<2xf32>} : !rank.buffer<2xf32>
  }
  // CHECK-LABEL: rank.func @reduce
  // CHECK: rank.wait
  // CHECK-NEXT: %[[OWN:.*]] = rank.at @gradients 0 {{.*}}: <2048xf32, shard {dp} of 4096>
  // CHECK: rank.check {{.*}}, %[[OWN]] =
  rank.func @reduce() {
    %row = rank.row @w.sum
    %w = rank.at @gradients 0 {id = "w.grad"} : <4096xf32>
    %t = rank.start "reduce_scatter" "sum" %row, %w flat <{dp}> count 4096 {id = "w.grad"} : !rank.buffer<4096xf32>
    rank.wait %t
  }
  rank.func @apply() {
  }
}
