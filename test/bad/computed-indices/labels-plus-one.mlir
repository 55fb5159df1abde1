// Labels are the ids and one: of a vocabulary of 9, id 8 makes one that is none.
hyc.param @table : tensor<9x16xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.param @head : tensor<16x9xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.func @train(%ids: tensor<2x5xi64> {hyc.input = "ids"}) -> (tensor<f32> {hyc.output = "loss"}) {
  %table = hyc.read @table {id = "table.read"} : tensor<9x16xf32>
  %x = hyc.embedding %ids, %table {id = "embed"} : (tensor<2x5xi64>, tensor<9x16xf32>) -> tensor<2x5x16xf32>
  %head = hyc.read @head {id = "head.read"} : tensor<16x9xf32>
  %logits = hyc.einsum "bsk,kv->bsv" %x, %head {id = "head"} : (tensor<2x5x16xf32>, tensor<16x9xf32>) -> tensor<2x5x9xf32>
  %one = hyc.constant {id = "one"} dense<1> : tensor<2x5xi64>
  %next = hyc.add %ids, %one {id = "next"} : tensor<2x5xi64>
  %sum, %count, %lse = hyc.cross_entropy %logits, %next {id = "nll"} : (tensor<2x5x9xf32>, tensor<2x5xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x5xf32>)
  %n = hyc.convert %count {id = "n"} : (tensor<i64>) -> tensor<f32>
  %loss = hyc.div %sum, %n {id = "loss"} : tensor<f32>
  hyc.return %loss : tensor<f32>
}
