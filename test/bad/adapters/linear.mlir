// Two linear layers; the second makes the output.
hyc.param @wte.weight : tensor<11x16xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.param @h.fc.weight : tensor<16x8xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.param @h.norm.weight : tensor<8xf32> from #hyc.fill<1.0 : f64>
hyc.param @head.weight : tensor<8x11xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.func @train(%ids: tensor<4x8xi64> {hyc.input = "input_ids"}) -> (tensor<4x8x11xf32> {hyc.output = "logits"}) {
  %table = hyc.read @wte.weight {id = "table.read"} : tensor<11x16xf32>
  %x = hyc.embedding %ids, %table {id = "embed"} : (tensor<4x8xi64>, tensor<11x16xf32>) -> tensor<4x8x16xf32>
  %fc = hyc.read @h.fc.weight {id = "fc.read"} : tensor<16x8xf32>
  %h = hyc.einsum "bsk,kv->bsv" %x, %fc {id = "fc"} : (tensor<4x8x16xf32>, tensor<16x8xf32>) -> tensor<4x8x8xf32>
  %norm = hyc.read @h.norm.weight {id = "norm.read"} : tensor<8xf32>
  %scale = hyc.broadcast %norm [2] {id = "scale"} : (tensor<8xf32>) -> tensor<4x8x8xf32>
  %scaled = hyc.mul %h, %scale {id = "scaled"} : tensor<4x8x8xf32>
  %head = hyc.read @head.weight {id = "head.read"} : tensor<8x11xf32>
  %logits = hyc.einsum "bsk,kv->bsv" %scaled, %head {id = "head"} : (tensor<4x8x8xf32>, tensor<8x11xf32>) -> tensor<4x8x11xf32>
  hyc.return %logits : tensor<4x8x11xf32>
}
