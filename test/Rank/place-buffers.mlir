// RUN: hyc-opt %s --hyc-lower-to-rank --hyc-place-buffers | FileCheck %s

// The first of two stages under 1F1B with two micro-batches in flight: what is saved has one copy a slot, what crosses is
// never there twice.
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 2 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [send forward micro_batch 0 slot 0]>,
  #dist.do<forward micro_batch 1 slot 1>, #dist.do<exchange [send forward micro_batch 1 slot 1, receive backward micro_batch 0 slot 0]>,
  #dist.do<backward micro_batch 0 slot 0>, #dist.do<exchange [receive backward micro_batch 1 slot 1]>, #dist.do<backward micro_batch 1 slot 1>,
  #dist.do<reduce>, #dist.do<apply>]
dist.schedule stage 1 slots 1 [#dist.do<begin_step>, #dist.do<exchange [receive forward micro_batch 0 slot 0]>, #dist.do<forward micro_batch 0 slot 0>,
  #dist.do<backward micro_batch 0 slot 0>, #dist.do<exchange [send backward micro_batch 0 slot 0, receive forward micro_batch 1 slot 0]>,
  #dist.do<forward micro_batch 1 slot 0>, #dist.do<backward micro_batch 1 slot 0>, #dist.do<exchange [send backward micro_batch 1 slot 0]>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @w : tensor<16x16xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}
hyc.state @w.grad of @w role "gradient" : tensor<16x16xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}

// CHECK-LABEL: rank.program @stage0 stage 0 slots 2
// Two records of 1,024 bytes each, and the cotangent that arrives while both are full.
// CHECK-DAG: rank.arena @activations bytes 3072 lower_bound 3072 record_bytes 1024
// CHECK-DAG: rank.arena @communication shared bytes 1024 lower_bound 1024
// CHECK-DAG: rank.record @saved in @activations at 0 : !rank.buffer<16x16xf32>
// CHECK-DAG: rank.record @cut in @communication at 0 single : !rank.buffer<16x16xf32>
// CHECK-DAG: rank.record @cut.grad in @activations at 2048 single : !rank.buffer<16x16xf32>
// CHECK-DAG: rank.transfer @send.forward.cut send of @cut peer 1 tag [[FORWARD:[0-9]+]]
// CHECK-DAG: rank.transfer @receive.backward.cut.grad backward of @cut.grad peer 1 tag [[BACKWARD:[0-9]+]]
// CHECK: rank.func @forward()
// CHECK: rank.at @activations 0 per_slot {id = "saved"}
hyc.func @forward.0(%x: tensor<16x16xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<16x16xf32> {hyc.saved = "saved"}, tensor<16x16xf32> {dist.channel = "cut"}) {
  %w = hyc.read @w : tensor<16x16xf32>
  %saved = hyc.einsum "mk,kn->mn" %x, %w {id = "saved"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %cut = hyc.einsum "mk,kn->mn" %saved, %w {id = "cut"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  hyc.return %saved, %cut : tensor<16x16xf32>, tensor<16x16xf32>
}
hyc.func @backward.0(%x: tensor<16x16xf32> {hyc.input = "x", hyc.source = "token"}, %saved: tensor<16x16xf32> {hyc.saved = "saved"},
                     %dcut: tensor<16x16xf32> {dist.channel = "cut.grad"}) {
  %dw = hyc.einsum "km,kn->mn" %saved, %dcut {id = "dw"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  hyc.accumulate %dw into @w.grad : tensor<16x16xf32>
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.return
}

// CHECK-LABEL: rank.program @stage1 stage 1 slots 1
// CHECK-DAG: rank.transfer @receive.forward.cut of @cut peer 0 tag [[FORWARD]]
// CHECK-DAG: rank.transfer @send.backward.cut.grad send backward of @cut.grad peer 0 tag [[BACKWARD]]
hyc.func @forward.1(%cut: tensor<16x16xf32> {dist.channel = "cut"}) -> (tensor<16x16xf32> {hyc.saved = "cut"}) {
  hyc.return %cut : tensor<16x16xf32>
}
hyc.func @backward.1(%cut: tensor<16x16xf32> {hyc.saved = "cut"}) -> (tensor<16x16xf32> {dist.channel = "cut.grad"}) {
  %d = hyc.einsum "km,kn->mn" %cut, %cut {id = "d"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  hyc.return %d : tensor<16x16xf32>
}
hyc.func @reduce.1() {
  hyc.return
}
hyc.func @apply.1(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.return
}
