// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-key-random-ops

hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "x"}, %p: tensor<3x8xf32> {hyc.input = "p"}) -> tensor<3x8xf32> {
  // expected-error@+1 {{"drop" drops elements of 'tensor<3x8xf32>', of which no dimension counts the 2 samples}}
  %y = hyc.dropout %p rate 1.0e-1 {id = "drop"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  hyc.return %y : tensor<3x8xf32>
}

// -----

// expected-error@+1 {{has ops that draw random numbers for each sample, but no input whose dimension 0 counts samples}}
hyc.func @train() -> tensor<4x8xf32> {
  %p = hyc.constant dense<1.0> : tensor<4x8xf32>
  %y = hyc.dropout %p rate 1.0e-1 {id = "drop"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  hyc.return %y : tensor<4x8xf32>
}
