// RUN: hyc-opt %s --hyc-attach-loss="logits=logits" --hyc-differentiate --hyc-attach-optimizer --hyc-verify-train | hyc-opt --hyc-verify-train | FileCheck %s

// The whole of phase 2 keeps its invariant, and its text reads back. One transformer block's worth of ops.
hyc.param @wte : tensor<11x8xf32> from #hyc.normal<mean = 0.0, stddev = 0.02>
hyc.param @ln.scale : tensor<8xf32> from #hyc.fill<1.0>
hyc.param @ln.bias : tensor<8xf32> from #hyc.fill<0.0>
hyc.param @attn.weight : tensor<8x3x2x4xf32> from #hyc.normal<mean = 0.0, stddev = 0.02> {shape = array<i64: 8, 24>}
hyc.func @train(%ids: tensor<2x5xi64> {hyc.input = "input_ids"}) -> (tensor<2x5x11xf32> {hyc.output = "logits"}) {
  %wte = hyc.read @wte {id = "wte.read"} : tensor<11x8xf32>
  %scale = hyc.read @ln.scale {id = "ln.scale.read"} : tensor<8xf32>
  %bias = hyc.read @ln.bias {id = "ln.bias.read"} : tensor<8xf32>
  %w = hyc.read @attn.weight {id = "attn.weight.read"} : tensor<8x3x2x4xf32>
  %x = hyc.embedding %ids, %wte {id = "wte"} : (tensor<2x5xi64>, tensor<11x8xf32>) -> tensor<2x5x8xf32>
  %n, %mean, %rstd = hyc.layer_norm %x, %scale, %bias epsilon 1.0e-5 {id = "ln"} : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>, tensor<2x5xf32>)
  %qkv = hyc.einsum "bsk,kchd->bschd" %n, %w {id = "attn.qkv"} : (tensor<2x5x8xf32>, tensor<8x3x2x4xf32>) -> tensor<2x5x3x2x4xf32>
  %q0, %k0, %v0 = hyc.split %qkv dim 2 {id = "attn.split"} : (tensor<2x5x3x2x4xf32>) -> (tensor<2x5x1x2x4xf32>, tensor<2x5x1x2x4xf32>, tensor<2x5x1x2x4xf32>)
  %q = hyc.reshape %q0 {id = "attn.q"} : (tensor<2x5x1x2x4xf32>) -> tensor<2x5x2x4xf32>
  %k = hyc.reshape %k0 {id = "attn.k"} : (tensor<2x5x1x2x4xf32>) -> tensor<2x5x2x4xf32>
  %v = hyc.reshape %v0 {id = "attn.v"} : (tensor<2x5x1x2x4xf32>) -> tensor<2x5x2x4xf32>
  %a, %lse = hyc.attention causal %q, %k, %v scale 0.5 {id = "attn"} : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>) -> (tensor<2x5x2x4xf32>, tensor<2x2x5xf32>)
  %m = hyc.reshape %a {id = "attn.merge"} : (tensor<2x5x2x4xf32>) -> tensor<2x5x8xf32>
  %r = hyc.add %x, %m {id = "residual"} : tensor<2x5x8xf32>
  %g = hyc.gelu tanh %r {id = "act"} : tensor<2x5x8xf32>
  %head = hyc.read @wte {id = "lm_head.read"} : tensor<11x8xf32>
  %logits = hyc.einsum "bsk,vk->bsv" %g, %head {id = "lm_head"} : (tensor<2x5x8xf32>, tensor<11x8xf32>) -> tensor<2x5x11xf32>
  hyc.return %logits : tensor<2x5x11xf32>
}
// CHECK: hyc.func @microbatch
// CHECK: hyc.cross_entropy_grad
// CHECK: hyc.einsum "bsk,bsv->vk" {{.*}} id = "lm_head.grad.rhs"
// CHECK-NEXT: hyc.accumulate {{.*}} into @wte.grad {hyc.backward, id = "wte.grad.accumulate"}
// CHECK: hyc.gelu_grad tanh
// CHECK: hyc.attention_grad causal
// CHECK: hyc.concat {{.*}} id = "attn.split.grad"
// CHECK: hyc.layer_norm_grad
// CHECK: hyc.add {{.*}} id = "wte.grad.sum"
// CHECK: hyc.embedding_grad {{.*}} id = "wte.grad"
// CHECK-NEXT: hyc.accumulate {{.*}} into @wte.grad {hyc.backward, id = "wte.grad.accumulate.2"}
// CHECK: hyc.func @apply
