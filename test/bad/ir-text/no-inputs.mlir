hyc.param @w : tensor<4xf32> from #hyc.fill<0.0>
hyc.func @train() -> (tensor<4xf32> {hyc.output = "y"}) {
  %w = hyc.read @w {id = "r"} : tensor<4xf32>
  hyc.return %w : tensor<4xf32>
}
