// Of what one call reduces for several tensors, each is checked by itself and under its own name: what lies between them
// for alignment is nobody's value, and may be anything.
// RUN: hyc-opt %s --hyc-record-policies="policies=check_finite=true" --hyc-check-finite | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
rank.program @stage0 stage 0 slots 1 {
  rank.arena @gradients shared bytes 256
  rank.arena @flat shared bytes 32768
  rank.state @a.grad "gradient" of "a" in @gradients at 0 : !rank.buffer<4x5xf32> logical [4, 5] global [4, 5]
      splits [#dist.axes<{}>, #dist.axes<{}>] init #hyc.fill<0.0 : f64>
  rank.state @b.grad "gradient" of "b" in @gradients at 128 : !rank.buffer<32xf32> logical [32] global [32]
      splits [#dist.axes<{}>] init #hyc.fill<0.0 : f64>
  rank.collective @sums 0 "all_reduce" over <{dp}> cause "a.grad to b.grad" why "partial {dp}"
  rank.collective @parts 1 "reduce_scatter" over <{dp}> cause "c.grad to d.grad" why "partial {dp}" flat <{dp}>
  // CHECK: rank.site @site.0 "reduce" "a.grad"
  // CHECK: rank.site @site.1 "reduce" "b.grad"
  // CHECK: rank.site @site.2 "reduce" "c.grad"
  // CHECK: rank.site @site.3 "reduce" "d.grad"
  rank.func @forward() {
  }
  rank.func @backward() {
  }
  // CHECK-LABEL: rank.func @reduce
  rank.func @reduce() {
    // CHECK: rank.start "all_reduce"
    // CHECK-NEXT: rank.wait
    // CHECK-NEXT: %[[A:.*]] = rank.at @gradients 0 {{.*}}: <4x5xf32>
    // CHECK-NEXT: rank.row @site.0
    // CHECK-NEXT: rank.check {{.*}}, %[[A]] = %[[A]]
    // CHECK-NEXT: %[[B:.*]] = rank.at @gradients 128 {{.*}}: <32xf32>
    // CHECK-NEXT: rank.row @site.1
    // CHECK-NEXT: rank.check {{.*}}, %[[B]] = %[[B]]
    %row = rank.row @sums
    %both = rank.at @gradients 0 : <64xf32>
    %t = rank.start "all_reduce" "sum" %row, %both count 64 {id = "a.grad to b.grad"} : !rank.buffer<64xf32>
    rank.wait %t
    // CHECK: rank.start "reduce_scatter"
    // CHECK-NEXT: rank.wait
    // CHECK-NEXT: %[[C:.*]] = rank.at @flat 0 {{.*}}: <1024xf32, shard {dp} of 2048>
    // CHECK-NEXT: rank.row @site.2
    // CHECK-NEXT: rank.check {{.*}}, %[[C]] =
    // CHECK-NEXT: %[[D:.*]] = rank.at @flat 8192 {{.*}}: <2048xf32, shard {dp} of 4096>
    // CHECK-NEXT: rank.row @site.3
    // CHECK-NEXT: rank.check {{.*}}, %[[D]] =
    %parts = rank.row @parts
    %c = rank.at @flat 0 {id = "c.grad"} : <2048xf32>
    %d = rank.at @flat 8192 {id = "d.grad"} : <4096xf32>
    %u = rank.start "reduce_scatter" "sum" %parts, %c, %d flat <{dp}> count 6144 {id = "c.grad to d.grad"} : !rank.buffer<2048xf32>, !rank.buffer<4096xf32>
    rank.wait %u
  }
  rank.func @apply() {
  }
}
