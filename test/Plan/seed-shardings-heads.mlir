// Heads that tp does not divide are refused, with the values that would do.
// RUN: hyc-opt %s --hyc-create-mesh='tp=2' --hyc-seed-shardings -verify-diagnostics

hyc.param @qkv : tensor<8x3x2xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x4x8xf32> {hyc.input = "x"}) {
  %w = hyc.read @qkv : tensor<8x3x2xf32>
  %q = hyc.einsum "bsk,khd->bshd" %x, %w : (tensor<2x4x8xf32>, tensor<8x3x2xf32>) -> tensor<2x4x3x2xf32>
  // expected-error@+1 {{attention "h.0.attn" has 3 heads, expected a multiple of 2, the size of axis "tp"; tp can be one of [1, 3]}}
  %o:2 = hyc.attention causal %q, %q, %q scale 1.0 {id = "h.0.attn"} : (tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>) -> (tensor<2x4x3x2xf32>, tensor<2x3x4xf32>)
  hyc.return
}
