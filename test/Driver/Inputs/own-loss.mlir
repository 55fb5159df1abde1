// The mean loss is computed in the graph, labels shifted there too: position s predicts the token at s + 1.
hyc.param @table : tensor<257x16xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.param @head : tensor<16x257xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.func @train(%ids: tensor<4x8xi64> {hyc.input = "input_ids"}, %labels: tensor<4x8xi64> {hyc.input = "labels"})
    -> (tensor<f32> {hyc.output = "loss"}, tensor<4x8x257xf32> {hyc.output = "logits"}) {
  %table = hyc.read @table {id = "table.read"} : tensor<257x16xf32>
  %x = hyc.embedding %ids, %table {id = "embed"} : (tensor<4x8xi64>, tensor<257x16xf32>) -> tensor<4x8x16xf32>
  %head = hyc.read @head {id = "head.read"} : tensor<16x257xf32>
  %logits = hyc.einsum "bsk,kv->bsv" %x, %head {id = "head"} : (tensor<4x8x16xf32>, tensor<16x257xf32>) -> tensor<4x8x257xf32>
  %before = hyc.slice %logits offsets [0, 0, 0] strides [1, 1, 1] {id = "before"} : (tensor<4x8x257xf32>) -> tensor<4x7x257xf32>
  %after = hyc.slice %labels offsets [0, 1] strides [1, 1] {id = "after"} : (tensor<4x8xi64>) -> tensor<4x7xi64>
  %sum, %count, %lse = hyc.cross_entropy %before, %after {id = "nll"} : (tensor<4x7x257xf32>, tensor<4x7xi64>) -> (tensor<f32>, tensor<i64>, tensor<4x7xf32>)
  %n = hyc.convert %count {id = "n"} : (tensor<i64>) -> tensor<f32>
  %loss = hyc.div %sum, %n {id = "loss"} : tensor<f32>
  hyc.return %loss, %logits : tensor<f32>, tensor<4x8x257xf32>
}
