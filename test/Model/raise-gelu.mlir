// RUN: hyc-opt %s --hyc-raise-gelu --split-input-file | FileCheck %s

// As PyTorch's exporter writes it: a power, factors as they come.
// CHECK-LABEL: @tanh_by_power
// CHECK-NEXT: %[[G:.*]] = hyc.gelu tanh %{{.*}} {id = "mlp.act.gelu"} : tensor<4x8xf32>
// CHECK-NEXT: hyc.return %[[G]]
hyc.func @tanh_by_power(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = hyc.constant dense<5.0e-01> : tensor<4x8xf32>
  %three = hyc.constant dense<3.0> : tensor<4x8xf32>
  %cubic = hyc.constant dense<4.471500e-02> : tensor<4x8xf32>
  %root = hyc.constant dense<0.797884583> : tensor<4x8xf32>
  %c1 = hyc.constant dense<1.0> : tensor<4x8xf32>
  %0 = hyc.mul %x, %half : tensor<4x8xf32>
  %1 = hyc.pow %x, %three : tensor<4x8xf32>
  %2 = hyc.mul %1, %cubic : tensor<4x8xf32>
  %3 = hyc.add %x, %2 : tensor<4x8xf32>
  %4 = hyc.mul %3, %root : tensor<4x8xf32>
  %5 = hyc.tanh %4 : tensor<4x8xf32>
  %6 = hyc.add %5, %c1 : tensor<4x8xf32>
  %7 = hyc.mul %0, %6 {id = "mlp.act.mul.3"} : tensor<4x8xf32>
  hyc.return %7 : tensor<4x8xf32>
}

// -----

// x·x·x, the inner factor multiplied out, 1 + t, and the half at the end.
// CHECK-LABEL: @tanh_by_products
// CHECK-NEXT: hyc.gelu tanh %{{.*}} {id = "gelu"} : tensor<8xf32>
// CHECK-NEXT: hyc.return
hyc.func @tanh_by_products(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = hyc.constant dense<5.0e-01> : tensor<8xf32>
  %a = hyc.constant dense<0.797884583> : tensor<8xf32>
  %b = hyc.constant dense<0.0356774069> : tensor<8xf32>
  %c1 = hyc.constant dense<1.0> : tensor<8xf32>
  %0 = hyc.mul %x, %x : tensor<8xf32>
  %1 = hyc.mul %0, %b : tensor<8xf32>
  %2 = hyc.add %a, %1 : tensor<8xf32>
  %3 = hyc.mul %x, %2 : tensor<8xf32>
  %4 = hyc.tanh %3 : tensor<8xf32>
  %5 = hyc.add %c1, %4 : tensor<8xf32>
  %6 = hyc.mul %x, %5 : tensor<8xf32>
  %7 = hyc.mul %half, %6 : tensor<8xf32>
  hyc.return %7 : tensor<8xf32>
}

// -----

// CHECK-LABEL: @erf_by_division
// CHECK-NEXT: hyc.gelu %{{.*}} {id = "gelu"} : tensor<8xf32>
// CHECK-NEXT: hyc.return
hyc.func @erf_by_division(%x: tensor<8xf32>) -> tensor<8xf32> {
  %root = hyc.constant dense<1.41421354> : tensor<8xf32>
  %two = hyc.constant dense<2.0> : tensor<8xf32>
  %c1 = hyc.constant dense<1.0> : tensor<8xf32>
  %0 = hyc.div %x, %root : tensor<8xf32>
  %1 = hyc.erf %0 : tensor<8xf32>
  %2 = hyc.add %1, %c1 : tensor<8xf32>
  %3 = hyc.mul %x, %2 : tensor<8xf32>
  %4 = hyc.div %3, %two : tensor<8xf32>
  hyc.return %4 : tensor<8xf32>
}

// -----

// x multiplied out: 0.5 x + 0.5 x erf(x / √2), where x itself is a sum.
// CHECK-LABEL: @erf_multiplied_out
// CHECK: %[[X:.*]] = hyc.add
// CHECK-NEXT: hyc.gelu %[[X]] {id = "gelu"} : tensor<8xf32>
// CHECK-NEXT: hyc.return
hyc.func @erf_multiplied_out(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %x = hyc.add %a, %b : tensor<8xf32>
  %root = hyc.constant dense<0.707106769> : tensor<8xf32>
  %half = hyc.constant dense<0.5> : tensor<8xf32>
  %0 = hyc.mul %x, %root : tensor<8xf32>
  %1 = hyc.erf %0 : tensor<8xf32>
  %2 = hyc.mul %half, %x : tensor<8xf32>
  %3 = hyc.mul %1, %2 : tensor<8xf32>
  %4 = hyc.add %2, %3 : tensor<8xf32>
  hyc.return %4 : tensor<8xf32>
}

// -----

// CHECK-LABEL: @another_factor_is_not_gelu
// CHECK-NOT: hyc.gelu
// CHECK: hyc.return
hyc.func @another_factor_is_not_gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %root = hyc.constant dense<0.7> : tensor<8xf32>
  %half = hyc.constant dense<0.5> : tensor<8xf32>
  %c1 = hyc.constant dense<1.0> : tensor<8xf32>
  %0 = hyc.mul %x, %root : tensor<8xf32>
  %1 = hyc.erf %0 : tensor<8xf32>
  %2 = hyc.add %1, %c1 : tensor<8xf32>
  %3 = hyc.mul %x, %2 : tensor<8xf32>
  %4 = hyc.mul %3, %half : tensor<8xf32>
  hyc.return %4 : tensor<8xf32>
}

// -----

// CHECK-LABEL: @gelu_of_one_value_times_another_is_not_gelu
// CHECK-NOT: hyc.gelu
// CHECK: hyc.return
hyc.func @gelu_of_one_value_times_another_is_not_gelu(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %root = hyc.constant dense<0.707106769> : tensor<8xf32>
  %half = hyc.constant dense<0.5> : tensor<8xf32>
  %c1 = hyc.constant dense<1.0> : tensor<8xf32>
  %0 = hyc.mul %x, %root : tensor<8xf32>
  %1 = hyc.erf %0 : tensor<8xf32>
  %2 = hyc.add %1, %c1 : tensor<8xf32>
  %3 = hyc.mul %y, %2 : tensor<8xf32>
  %4 = hyc.mul %3, %half : tensor<8xf32>
  hyc.return %4 : tensor<8xf32>
}
