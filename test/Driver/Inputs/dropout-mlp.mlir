// Two linear layers with dropout between them.
hyc.param @w1 : tensor<4x8xf32> from #hyc.fill<0.5 : f64>
hyc.param @w2 : tensor<8x4xf32> from #hyc.fill<0.25 : f64>
hyc.func @train(%x: tensor<2x4xf32> {hyc.input = "x"}) -> (tensor<2x4xf32> {hyc.output = "y"}) {
  %w1 = hyc.read @w1 {id = "w1.read"} : tensor<4x8xf32>
  %h = hyc.einsum "ik,kj->ij" %x, %w1 {id = "fc1"} : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %d = hyc.dropout %h rate 1.0e-1 {id = "drop"} : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %w2 = hyc.read @w2 {id = "w2.read"} : tensor<8x4xf32>
  %y = hyc.einsum "ij,jk->ik" %d, %w2 {id = "fc2"} : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  hyc.return %y : tensor<2x4xf32>
}
