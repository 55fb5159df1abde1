// What a model looks like, and that the text reads back as itself.
// RUN: hyc-opt %s | hyc-opt | FileCheck %s

// CHECK: hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.file<"mlp.onnx", offset = 128>
hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.file<"mlp.onnx", offset = 128>
hyc.param @fc2.weight : tensor<256x64xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
// CHECK: hyc.param @experts.up : tensor<2x3x4xf32> from #hyc.parts<<"experts.0"[3, 4] at <"a.safetensors", offset = 8>>, <"experts.1"[12] at <"b.safetensors", offset = 0>>>
hyc.param @experts.up : tensor<2x3x4xf32> from #hyc.parts<<"experts.0"[3, 4] at <"a.safetensors", offset = 8>>, <"experts.1"[12] at <"b.safetensors", offset = 0>>>
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

hyc.state @fc1.weight.grad of @fc1.weight role "gradient" : tensor<64x256xf32> from #hyc.fill<0.0 : f64>
hyc.state @fc1.weight.v of @fc1.weight role "adam.v" : tensor<64x256xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @apply
hyc.func @apply(%lr: tensor<f32> {hyc.scalar = "lr"}, %beta1: tensor<f64> {hyc.scalar = "momentum"}, %t: tensor<i64>, %s: tensor<f32>) {
  // CHECK: hyc.adamw @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v lr %{{.*}} step %{{.*}} scale %{{.*}} {beta1
  hyc.adamw @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v lr %lr step %t scale %s
    {beta1 = 0.9, beta2 = 0.99, epsilon = 1.0e-8, weight_decay = 0.1} : tensor<f32>, tensor<i64>, tensor<f32>
  // CHECK: hyc.adam @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v lr %{{.*}} step %{{.*}} scale %{{.*}} momentum %{{.*}} : tensor<f64> {{.*}}uncorrected
  hyc.adam @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v lr %lr step %t scale %s momentum %beta1 : tensor<f64>
    {beta1 = 0.9, beta2 = 0.99, epsilon = 1.0e-8, uncorrected, weight_decay = 0.1} : tensor<f32>, tensor<i64>, tensor<f32>
  // CHECK: hyc.lion @fc1.weight, @fc1.weight.grad, @fc1.weight.m lr %{{.*}} scale %{{.*}} momentum %{{.*}} : tensor<f64>
  hyc.lion @fc1.weight, @fc1.weight.grad, @fc1.weight.m lr %lr scale %s momentum %beta1 : tensor<f64>
    {beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1} : tensor<f32>, tensor<f32>
  // CHECK: hyc.lamb_direction @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v step %{{.*}} scale %{{.*}} {beta1
  hyc.lamb_direction @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v step %t scale %s
    {beta1 = 0.9, beta2 = 0.99, epsilon = 1.0e-8, weight_decay = 0.1} : tensor<i64>, tensor<f32>
  %p = hyc.sum_of_squares [@fc1.weight] : tensor<f64>
  %u = hyc.sum_of_squares [@fc1.weight.grad] : tensor<f64>
  // CHECK: hyc.trust_ratio %{{.*}}, %{{.*}} {least = 1.000000e-02 : f64, most = 1.000000e+01 : f64}
  %r = hyc.trust_ratio %p, %u {least = 0.01, most = 10.0} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  // CHECK: hyc.lamb @fc1.weight, @fc1.weight.grad lr %{{.*}} ratio %{{.*}} : tensor<f32>, tensor<f64>
  hyc.lamb @fc1.weight, @fc1.weight.grad lr %lr ratio %r : tensor<f32>, tensor<f64>
  %happens = hyc.constant dense<true> : tensor<i1>
  // CHECK: hyc.adamw {{.*}} scale %{{[a-z0-9]*}} if %{{[a-z0-9]*}} {beta1
  hyc.adamw @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v lr %lr step %t scale %s if %happens
    {beta1 = 0.9, beta2 = 0.99, epsilon = 1.0e-8, weight_decay = 0.1} : tensor<f32>, tensor<i64>, tensor<f32>
  // CHECK: hyc.lion {{.*}} momentum %{{[a-z0-9]*}} : tensor<f64> if %{{[a-z0-9]*}} {beta1
  hyc.lion @fc1.weight, @fc1.weight.grad, @fc1.weight.m lr %lr scale %s momentum %beta1 : tensor<f64> if %happens
    {beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1} : tensor<f32>, tensor<f32>
  // CHECK: hyc.lamb_direction {{.*}} momentum %{{[a-z0-9]*}} : tensor<f64> if %{{[a-z0-9]*}} {beta1
  hyc.lamb_direction @fc1.weight, @fc1.weight.grad, @fc1.weight.m, @fc1.weight.v step %t scale %s momentum %beta1 : tensor<f64> if %happens
    {beta1 = 0.9, beta2 = 0.99, epsilon = 1.0e-8, weight_decay = 0.1} : tensor<i64>, tensor<f32>
  // CHECK: hyc.lamb {{.*}} ratio %{{[a-z0-9]*}} if %{{[a-z0-9]*}} : tensor<f32>, tensor<f64>
  hyc.lamb @fc1.weight, @fc1.weight.grad lr %lr ratio %r if %happens : tensor<f32>, tensor<f64>
  hyc.return
}

// CHECK-LABEL: @without_gradient
hyc.func @without_gradient(%ids: tensor<2x3xi64>, %table: tensor<5x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: hyc.embedding %{{[a-z0-9]*}}, %{{[a-z0-9]*}} padding 1 {id = "embed"} : (tensor<2x3xi64>, tensor<5x4xf32>)
  %e = hyc.embedding %ids, %table padding 1 {id = "embed"} : (tensor<2x3xi64>, tensor<5x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: hyc.stop_gradient %{{[a-z0-9]*}} {id = "detach"} : tensor<2x3x4xf32>
  %s = hyc.stop_gradient %e {id = "detach"} : tensor<2x3x4xf32>
  hyc.return %s : tensor<2x3x4xf32>
}

// CHECK-LABEL: hyc.func @steps
hyc.func @steps(%h: tensor<2xf32>, %x: tensor<5x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
  // CHECK: %[[S:.*]]:2 = hyc.scan 5 reverse init(%arg0) over(%arg1) with(%arg2) attributes {id = "steps"} : (tensor<2xf32>, tensor<5x2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
  // CHECK-NEXT: ^bb0(%[[OWN:[^:]*]]: tensor<2xf32>, %[[E:[^:]*]]: tensor<2xf32>, %[[W:[^:]*]]: tensor<2xf32>):
  // CHECK-NEXT: %[[NEXT:.*]] = hyc.mul %[[E]], %[[W]]
  // CHECK-NEXT: hyc.yield %[[NEXT]], %[[OWN]] : tensor<2xf32>, tensor<2xf32>
  %last, %all = hyc.scan 5 reverse init(%h) over(%x) with(%w) attributes {id = "steps"} : (tensor<2xf32>, tensor<5x2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
  ^bb0(%own: tensor<2xf32>, %e: tensor<2xf32>, %by: tensor<2xf32>):
    %0 = hyc.mul %e, %by : tensor<2xf32>
    hyc.yield %0, %own : tensor<2xf32>, tensor<2xf32>
  }
  // CHECK: hyc.scan 3 over(%{{.*}}) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %part = hyc.slice %all offsets [0, 0] strides [1, 1] : (tensor<5x2xf32>) -> tensor<3x2xf32>
  %each = hyc.scan 3 over(%part) : (tensor<3x2xf32>) -> tensor<3x2xf32> {
  ^bb0(%e: tensor<2xf32>):
    %0 = hyc.neg %e : tensor<2xf32>
    hyc.yield %0 : tensor<2xf32>
  }
  hyc.return %last, %all : tensor<2xf32>, tensor<5x2xf32>
}
