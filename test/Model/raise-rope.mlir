// RUN: hyc-opt %s --hyc-raise-rope --split-input-file | FileCheck %s

// As transformers writes it, heads before positions; the tables are the cosines and sines of 0, 1 and 2 times 1 and 0.25.
// CHECK-LABEL: @of_heads_before_positions
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x3x4xf32>)
// CHECK-NEXT: %[[COS:.*]], %[[SIN:.*]] = hyc.rotary_table [1.000000e+00, 2.500000e-01] factor 1.000000e+00 {id = "rotary_table"} : () -> (tensor<3x2xf32>, tensor<3x2xf32>)
// CHECK-NEXT: %[[T:.*]] = hyc.transpose %[[X]] [0, 2, 1, 3]
// CHECK-NEXT: %[[R:.*]] = hyc.rope %[[T]], %[[COS]], %[[SIN]] {id = "attn.rope"}
// CHECK-NEXT: %[[Y:.*]] = hyc.transpose %[[R]] [0, 2, 1, 3]
// CHECK-NEXT: hyc.return %[[Y]]
hyc.func @of_heads_before_positions(%x: tensor<2x3x3x4xf32>) -> tensor<2x3x3x4xf32> {
  %c = hyc.constant dense<[[1.0, 1.0, 1.0, 1.0], [0.540302277, 0.968912422, 0.540302277, 0.968912422], [-0.416146845, 0.87758255, -0.416146845, 0.87758255]]> : tensor<3x4xf32>
  %s = hyc.constant dense<[[0.0, 0.0, 0.0, 0.0], [0.84147098, 0.247403964, 0.84147098, 0.247403964], [0.909297406, 0.47942555, 0.909297406, 0.47942555]]> : tensor<3x4xf32>
  %cosines = hyc.broadcast %c [2, 3] : (tensor<3x4xf32>) -> tensor<2x3x3x4xf32>
  %sines = hyc.broadcast %s [2, 3] : (tensor<3x4xf32>) -> tensor<2x3x3x4xf32>
  %first = hyc.slice %x offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : (tensor<2x3x3x4xf32>) -> tensor<2x3x3x2xf32>
  %second = hyc.slice %x offsets [0, 0, 0, 2] strides [1, 1, 1, 1] : (tensor<2x3x3x4xf32>) -> tensor<2x3x3x2xf32>
  %negated = hyc.neg %second : tensor<2x3x3x2xf32>
  %turned = hyc.concat %negated, %first dim 3 : (tensor<2x3x3x2xf32>, tensor<2x3x3x2xf32>) -> tensor<2x3x3x4xf32>
  %a = hyc.mul %x, %cosines : tensor<2x3x3x4xf32>
  %b = hyc.mul %turned, %sines : tensor<2x3x3x4xf32>
  %y = hyc.add %a, %b {id = "attn.add.3"} : tensor<2x3x3x4xf32>
  hyc.return %y : tensor<2x3x3x4xf32>
}

// -----

// Heads after positions, halves by a split, and elements that are not turned.
// CHECK-LABEL: @of_a_part_of_each_head
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x5x7xf32>)
// CHECK: %[[COS:.*]], %[[SIN:.*]] = hyc.rotary_table [1.000000e+00, 2.500000e-01]
// CHECK-NEXT: %[[R:.*]] = hyc.rope %[[X]], %[[COS]], %[[SIN]]
// CHECK-NEXT: hyc.return %[[R]]
hyc.func @of_a_part_of_each_head(%x: tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32> {
  %c = hyc.constant dense<[[1.0, 1.0, 1.0, 1.0], [0.540302277, 0.968912422, 0.540302277, 0.968912422], [-0.416146845, 0.87758255, -0.416146845, 0.87758255]]> : tensor<3x4xf32>
  %s = hyc.constant dense<[[0.0, 0.0, 0.0, 0.0], [0.84147098, 0.247403964, 0.84147098, 0.247403964], [0.909297406, 0.47942555, 0.909297406, 0.47942555]]> : tensor<3x4xf32>
  %cosines = hyc.broadcast %c [1, 3] : (tensor<3x4xf32>) -> tensor<2x3x5x4xf32>
  %sines = hyc.broadcast %s [1, 3] : (tensor<3x4xf32>) -> tensor<2x3x5x4xf32>
  %part = hyc.slice %x offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x4xf32>
  %rest = hyc.slice %x offsets [0, 0, 0, 4] strides [1, 1, 1, 1] : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x3xf32>
  %first, %second = hyc.split %part dim 3 : (tensor<2x3x5x4xf32>) -> (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>)
  %negated = hyc.neg %second : tensor<2x3x5x2xf32>
  %turned = hyc.concat %negated, %first dim 3 : (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x5x4xf32>
  %b = hyc.mul %sines, %turned : tensor<2x3x5x4xf32>
  %a = hyc.mul %cosines, %part : tensor<2x3x5x4xf32>
  %y = hyc.add %b, %a : tensor<2x3x5x4xf32>
  %whole = hyc.concat %y, %rest dim 3 : (tensor<2x3x5x4xf32>, tensor<2x3x5x3xf32>) -> tensor<2x3x5x7xf32>
  hyc.return %whole : tensor<2x3x5x7xf32>
}

// -----

// Tables of no frequency stay as they are.
// CHECK-LABEL: @by_other_tables
// CHECK-DAG: %[[COS:.*]] = hyc.constant dense<{{\[\[}}1.000000e+00], [5.000000e-01]]> : tensor<2x1xf32>
// CHECK-DAG: %[[SIN:.*]] = hyc.constant dense<{{\[\[}}0.000000e+00], [2.500000e-01]]> : tensor<2x1xf32>
// CHECK: hyc.rope %{{.*}}, %[[COS]], %[[SIN]]
hyc.func @by_other_tables(%x: tensor<1x2x1x2xf32>) -> tensor<1x2x1x2xf32> {
  %c = hyc.constant dense<[[1.0, 1.0], [0.5, 0.5]]> : tensor<2x2xf32>
  %s = hyc.constant dense<[[0.0, 0.0], [0.25, 0.25]]> : tensor<2x2xf32>
  %cosines = hyc.broadcast %c [1, 3] : (tensor<2x2xf32>) -> tensor<1x2x1x2xf32>
  %sines = hyc.broadcast %s [1, 3] : (tensor<2x2xf32>) -> tensor<1x2x1x2xf32>
  %first = hyc.slice %x offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : (tensor<1x2x1x2xf32>) -> tensor<1x2x1x1xf32>
  %second = hyc.slice %x offsets [0, 0, 0, 1] strides [1, 1, 1, 1] : (tensor<1x2x1x2xf32>) -> tensor<1x2x1x1xf32>
  %negated = hyc.neg %second : tensor<1x2x1x1xf32>
  %turned = hyc.concat %negated, %first dim 3 : (tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x1x2xf32>
  %a = hyc.mul %x, %cosines : tensor<1x2x1x2xf32>
  %b = hyc.mul %turned, %sines : tensor<1x2x1x2xf32>
  %y = hyc.add %a, %b : tensor<1x2x1x2xf32>
  hyc.return %y : tensor<1x2x1x2xf32>
}

// -----

// The second half of the sines is another: no rotation of pairs.
// CHECK-LABEL: @by_unequal_halves
// CHECK-NOT: hyc.rope
hyc.func @by_unequal_halves(%x: tensor<1x2x1x2xf32>) -> tensor<1x2x1x2xf32> {
  %c = hyc.constant dense<[[1.0, 1.0], [0.5, 0.5]]> : tensor<2x2xf32>
  %s = hyc.constant dense<[[0.0, 0.0], [0.25, 0.5]]> : tensor<2x2xf32>
  %cosines = hyc.broadcast %c [1, 3] : (tensor<2x2xf32>) -> tensor<1x2x1x2xf32>
  %sines = hyc.broadcast %s [1, 3] : (tensor<2x2xf32>) -> tensor<1x2x1x2xf32>
  %first = hyc.slice %x offsets [0, 0, 0, 0] strides [1, 1, 1, 1] : (tensor<1x2x1x2xf32>) -> tensor<1x2x1x1xf32>
  %second = hyc.slice %x offsets [0, 0, 0, 1] strides [1, 1, 1, 1] : (tensor<1x2x1x2xf32>) -> tensor<1x2x1x1xf32>
  %negated = hyc.neg %second : tensor<1x2x1x1xf32>
  %turned = hyc.concat %negated, %first dim 3 : (tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x1x2xf32>
  %a = hyc.mul %x, %cosines : tensor<1x2x1x2xf32>
  %b = hyc.mul %turned, %sines : tensor<1x2x1x2xf32>
  %y = hyc.add %a, %b : tensor<1x2x1x2xf32>
  hyc.return %y : tensor<1x2x1x2xf32>
}
