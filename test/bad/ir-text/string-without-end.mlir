hyc.param @w : tensor<2x4xf32> from #hyc.fill<0.0>
hyc.func @train(%x: tensor<2x4xf32> {hyc.input = "x}) -> (tensor<2x4xf32> {hyc.output = "y"}) {
  hyc.return %x : tensor<2x4xf32>
}
