// Attention that is written out is split by heads, which both operands of a product and its result keep, not by the size
// of a head, over which scores are summed.
// RUN: hyc-opt %s --hyc-create-mesh='tp=2' --hyc-seed-shardings | FileCheck %s

hyc.param @q : tensor<8x4x2xf32> from #hyc.fill<0.0 : f64>
hyc.param @o : tensor<4x2x8xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @q {{.*}}#dist.sharding<[{}, {tp}, {}]>
// CHECK: hyc.param @o {{.*}}#dist.sharding<[{tp}, {}, {}]>
hyc.func @microbatch(%x: tensor<2x4x8xf32> {hyc.input = "x"}) {
  %w = hyc.read @q : tensor<8x4x2xf32>
  %q = hyc.einsum "bsk,khd->bshd" %x, %w : (tensor<2x4x8xf32>, tensor<8x4x2xf32>) -> tensor<2x4x4x2xf32>
  %s = hyc.einsum "bshd,bthd->bhst" %q, %q : (tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>) -> tensor<2x4x4x4xf32>
  %p = hyc.softmax %s : tensor<2x4x4x4xf32>
  %c = hyc.einsum "bhst,bthd->bshd" %p, %q : (tensor<2x4x4x4xf32>, tensor<2x4x4x2xf32>) -> tensor<2x4x4x2xf32>
  %v = hyc.read @o : tensor<4x2x8xf32>
  %y = hyc.einsum "bshd,hdk->bsk" %c, %v : (tensor<2x4x4x2xf32>, tensor<4x2x8xf32>) -> tensor<2x4x8xf32>
  hyc.return
}
