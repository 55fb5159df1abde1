// What a model looks like, and that the text reads back as itself.
// RUN: hyc-opt %s | hyc-opt | FileCheck %s

// CHECK: hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.file<"mlp.onnx", offset = 128>
hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.file<"mlp.onnx", offset = 128>
hyc.param @fc2.weight : tensor<256x64xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
// CHECK: hyc.state @fc1.weight.m of @fc1.weight role "adam.m"
hyc.state @fc1.weight.m of @fc1.weight role "adam.m" : tensor<64x256xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @train
hyc.func @train(%x: tensor<8x16x64xf32> {hyc.input = "x"}, %labels: tensor<8x16xi64> {hyc.input = "labels"}) -> (tensor<f32>, tensor<i64>) {
  %w1 = hyc.read @fc1.weight : tensor<64x256xf32>
  // CHECK: hyc.einsum "bsk,kn->bsn" %{{.*}}, %{{.*}} {id = "fc1"}
  %h = hyc.einsum "bsk,kn->bsn" %x, %w1 {id = "fc1"} : (tensor<8x16x64xf32>, tensor<64x256xf32>) -> tensor<8x16x256xf32>
  // CHECK: hyc.gelu tanh
  %a = hyc.gelu tanh %h {id = "act"} : tensor<8x16x256xf32>
  %w2 = hyc.read @fc2.weight : tensor<256x64xf32>
  %y = hyc.einsum "bsk,kn->bsn" %a, %w2 {id = "fc2"} : (tensor<8x16x256xf32>, tensor<256x64xf32>) -> tensor<8x16x64xf32>
  // CHECK: %{{.*}}, %{{.*}}, %{{.*}} = hyc.cross_entropy
  %loss:3 = hyc.cross_entropy %y, %labels {id = "loss"} : (tensor<8x16x64xf32>, tensor<8x16xi64>) -> (tensor<f32>, tensor<i64>, tensor<8x16xf32>)
  hyc.return %loss#0, %loss#1 : tensor<f32>, tensor<i64>
}
