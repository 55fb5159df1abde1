// Predicts the next of 11 tokens from the present one.
hyc.param @table : tensor<11x16xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.param @head : tensor<16x11xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.func @train(%ids: tensor<4x8xi64> {hyc.input = "input_ids"}) -> (tensor<4x8x11xf32> {hyc.output = "logits"}) {
  %table = hyc.read @table {id = "table.read