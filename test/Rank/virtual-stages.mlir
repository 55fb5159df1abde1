// Two stages of two chunks: stage 0 has the chunks 0 and 2, with a forward and a backward function each. Both add to one
// gradient: chunk 2's backward runs first in a step and overwrites it, chunk 0's adds.
// RUN: hyc-opt %s --hyc-build-schedule='micro-batches=2' --hyc-lower-to-rank | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}
hyc.param @v : tensor<8x8xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 1>}
hyc.state @w.grad of @w role "gradient" : tensor<8x8xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}

// CHECK: rank.program @stage0 stage 0 virtual_stages 2 slots 4
// What leaves chunk 1 on stage 1 comes back to chunk 2. A tag belongs to a cut: @b's is the same on both sides.
// CHECK: rank.transfer @send.forward.a send of @{{.*}} peer 1 tag [[A:[0-9]+]]
// CHECK: rank.transfer @receive.forward.b of @{{.*}} virtual_stage 1 peer 1 tag [[B:[0-9]+]]
// CHECK: rank.transfer @send.forward.c send of @{{.*}} virtual_stage 1 peer 1 tag
// CHECK: rank.transfer @receive.backward.dc backward of @{{.*}} virtual_stage 1 peer 1 tag
// CHECK: rank.transfer @send.backward.db send backward of @{{.*}} virtual_stage 1 peer 1 tag
// CHECK: rank.transfer @receive.backward.da backward of @{{.*}} peer 1 tag
// CHECK: rank.func @forward()
// CHECK: id = "a"
// CHECK: rank.func @forward.1()
// CHECK: id = "c"
// CHECK: rank.func @backward()
// CHECK: rank.gemm {{.*}}id = "dw0"{{.*}}mode = #rank<mode add>
// CHECK: rank.func @backward.1()
// CHECK: rank.gemm {{.*}}id = "dw2"{{.*}}mode = #rank<mode first>
// CHECK: rank.func @reduce()
// CHECK: rank.func @apply()
// CHECK: rank.program @stage1 stage 1 virtual_stages 2 slots 3
// CHECK: rank.transfer @receive.forward.a of @{{.*}} peer 0 tag [[A]]
// CHECK: rank.transfer @send.forward.b send of @{{.*}} peer 0 tag [[B]]

hyc.func @forward.0(%x: tensor<2x8xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<2x8xf32> {dist.channel = "a"}) {
  %w = hyc.read @w : tensor<8x8xf32>
  %a = hyc.einsum "bk,kn->bn" %x, %w {id = "a"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  hyc.return %a : tensor<2x8xf32>
}
hyc.func @forward.1(%a: tensor<2x8xf32> {dist.channel = "a"}) -> (tensor<2x8xf32> {dist.channel = "b"}) {
  %v = hyc.read @v : tensor<8x8xf32>
  %b = hyc.einsum "bk,kn->bn" %a, %v {id = "b"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  hyc.return %b : tensor<2x8xf32>
}
hyc.func @forward.2(%b: tensor<2x8xf32> {dist.channel = "b"}) -> (tensor<2x8xf32> {dist.channel = "c"}, tensor<2x8xf32> {hyc.saved = "b"}) {
  %w = hyc.read @w : tensor<8x8xf32>
  %c = hyc.einsum "bk,kn->bn" %b, %w {id = "c"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  hyc.return %c, %b : tensor<2x8xf32>, tensor<2x8xf32>
}
hyc.func @forward.3(%c: tensor<2x8xf32> {dist.channel = "c"}) -> (tensor<2x8xf32> {hyc.saved = "c"}) {
  hyc.return %c : tensor<2x8xf32>
}
hyc.func @backward.3(%c: tensor<2x8xf32> {hyc.saved = "c"}) -> (tensor<2x8xf32> {dist.channel = "dc"}) {
  %v = hyc.read @v : tensor<8x8xf32>
  %dc = hyc.einsum "bn,kn->bk" %c, %v {id = "dc"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  hyc.return %dc : tensor<2x8xf32>
}
hyc.func @backward.2(%dc: tensor<2x8xf32> {dist.channel = "dc"}, %b: tensor<2x8xf32> {hyc.saved = "b"}) -> (tensor<2x8xf32> {dist.channel = "db"}) {
  %dw = hyc.einsum "bk,bn->kn" %b, %dc {id = "dw2"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  hyc.accumulate %dw into @w.grad : tensor<8x8xf32>
  %w = hyc.read @w : tensor<8x8xf32>
  %db = hyc.einsum "bn,kn->bk" %dc, %w {id = "db"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  hyc.return %db : tensor<2x8xf32>
}
hyc.func @backward.1(%db: tensor<2x8xf32> {dist.channel = "db"}) -> (tensor<2x8xf32> {dist.channel = "da"}) {
  %v = hyc.read @v : tensor<8x8xf32>
  %da = hyc.einsum "bn,kn->bk" %db, %v {id = "da"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  hyc.return %da : tensor<2x8xf32>
}
hyc.func @backward.0(%da: tensor<2x8xf32> {dist.channel = "da"}, %x: tensor<2x8xf32> {hyc.input = "x", hyc.source = "token"}) {
  %dw = hyc.einsum "bk,bn->kn" %x, %da {id = "dw0"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  hyc.accumulate %dw into @w.grad : tensor<8x8xf32>
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @reduce.1() {
  hyc.return
}
hyc.func @apply.0() {
  hyc.return
}
hyc.func @apply.1() {
  hyc.return
}
