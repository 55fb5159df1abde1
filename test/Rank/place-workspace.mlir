// RUN: hyc-opt %s --hyc-record-policies="policies=threads=2,poison=true" --hyc-lower-to-rank --hyc-place-buffers | FileCheck %s
// RUN: hyc-opt %s --hyc-lower-to-rank --hyc-place-buffers | FileCheck %s --check-prefix=OWN

// Scratch memory of the neediest call, for two threads: packed columns of a product are 128 · 128 floats here, packed rows
// of each thread 168 · 256 + 32. And the ends of lives: what forward alone reads, and what backward reads last.
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @w : tensor<128x128xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}
hyc.state @w.grad of @w role "gradient" : tensor<128x128xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}

// CHECK: rank.program @stage0
// CHECK-DAG: rank.arena @workspace bytes 409856 lower_bound 409856
// CHECK: rank.func @forward()
// CHECK: %[[HIDDEN:.*]] = rank.at @activations {{.*}}id = "hidden"
// CHECK: rank.gemm {{.*}}id = "out"
// CHECK-NEXT: rank.call "poison" %[[HIDDEN]]
// CHECK-NOT: "poison"
// CHECK: rank.func @backward()
// CHECK: %[[SAVED:.*]] = rank.at @activations [[AT:[0-9]+]] {id = "saved"}
// CHECK: %[[END:.*]] = rank.at @activations [[AT]] {id = "saved"}
// CHECK: rank.gemm {{.*}}id = "dw"
// CHECK-NEXT: rank.call "poison" %[[END]]
// CHECK-NOT: "poison"

// OWN-NOT: @workspace
// OWN-NOT: "poison"
hyc.func @forward.0(%x: tensor<128x128xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<128x128xf32> {hyc.saved = "saved"}) {
  %w = hyc.read @w : tensor<128x128xf32>
  %hidden = hyc.einsum "mk,kn->mn" %x, %w {id = "hidden"} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  %saved = hyc.einsum "km,kn->mn" %hidden, %w {id = "out"} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  hyc.return %saved : tensor<128x128xf32>
}
hyc.func @backward.0(%x: tensor<128x128xf32> {hyc.input = "x", hyc.source = "token"}, %saved: tensor<128x128xf32> {hyc.saved = "saved"}) {
  %dw = hyc.einsum "km,kn->mn" %saved, %x {id = "dw"} : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
  hyc.accumulate %dw into @w.grad : tensor<128x128xf32>
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.return
}
