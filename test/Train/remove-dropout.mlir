// The model as it is evaluated: dropout gives back what it was given, attention drops no probability.
// RUN: hyc-opt %s --hyc-remove-dropout | FileCheck %s

// CHECK-LABEL: hyc.func @train
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = hyc.attention %[[Q:.*]], %[[Q]], %[[Q]] scale 5.000000e-01 :
// CHECK-NEXT: hyc.return %[[Y]]
hyc.func @train(%q: tensor<2x4x1x4xf32> {hyc.input = "q"}) -> (tensor<2x4x1x4xf32> {hyc.output = "y"}) {
  %x = hyc.dropout %q rate 1.0e-1 : (tensor<2x4x1x4xf32>) -> tensor<2x4x1x4xf32>
  %y, %lse = hyc.attention %x, %x, %x scale 0.5 dropout 0.1
      : (tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>) -> (tensor<2x4x1x4xf32>, tensor<2x1x4xf32>)
  hyc.return %y : tensor<2x4x1x4xf32>
}
