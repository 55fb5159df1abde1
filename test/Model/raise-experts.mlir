// RUN: hyc-opt %s --hyc-raise-experts --split-input-file | FileCheck %s

// Matrices that are gathered, stored either way, with a size of 1 beside the rows.
// CHECK-LABEL: @gathered
// CHECK-SAME: (%[[X:.*]]: tensor<6x8xf32>, %[[W:.*]]: tensor<3x16x8xf32>, %[[V:.*]]: tensor<3x16x8xf32>, %[[E:.*]]: tensor<6xi64>)
// CHECK: %[[UP:.*]] = hyc.expert_matmul transposed %{{.*}}, %[[W]], %[[E]] {id = "up"} : (tensor<6x8xf32>, tensor<3x16x8xf32>, tensor<6xi64>) -> tensor<6x16xf32>
// CHECK: hyc.expert_matmul %{{.*}}, %[[V]], %[[E]] {id = "down"} : (tensor<6x16xf32>, tensor<3x16x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
// CHECK-NOT: hyc.gather
hyc.func @gathered(%x: tensor<6x8xf32>, %w: tensor<3x16x8xf32>, %v: tensor<3x16x8xf32>, %e: tensor<6xi64>) -> tensor<6x8xf32> {
  %m = hyc.gather %w, %e dim 0 batch 0 : (tensor<3x16x8xf32>, tensor<6xi64>) -> tensor<6x16x8xf32>
  %column = hyc.reshape %x : (tensor<6x8xf32>) -> tensor<6x8x1xf32>
  %up = hyc.einsum "amk,akn->amn" %m, %column {id = "up"} : (tensor<6x16x8xf32>, tensor<6x8x1xf32>) -> tensor<6x16x1xf32>
  %rows = hyc.reshape %up : (tensor<6x16x1xf32>) -> tensor<6x16xf32>
  %n = hyc.gather %v, %e dim 0 batch 0 : (tensor<3x16x8xf32>, tensor<6xi64>) -> tensor<6x16x8xf32>
  %y = hyc.einsum "nk,nkm->nm" %rows, %n {id = "down"} : (tensor<6x16xf32>, tensor<6x16x8xf32>) -> tensor<6x8xf32>
  hyc.return %y : tensor<6x8xf32>
}

// -----

// Four tokens of two experts each, sorted and put back: products, functions and weights are of rows in their first order.
// CHECK-LABEL: @sorted
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<3x8x8xf32>, %[[E:.*]]: tensor<8xi64>, %[[G:.*]]: tensor<8xf32>)
// CHECK: %[[TWICE:.*]] = hyc.broadcast %[[X]] [0, 2] {{.*}} : (tensor<4x8xf32>) -> tensor<4x2x8xf32>
// CHECK: %[[ROWS:.*]] = hyc.reshape %[[TWICE]] {{.*}} : (tensor<4x2x8xf32>) -> tensor<8x8xf32>
// CHECK: %[[Y:.*]] = hyc.expert_matmul transposed %[[ROWS]], %[[W]], %[[E]]
// CHECK: %[[A:.*]] = hyc.tanh %[[Y]]
// CHECK: %[[S:.*]] = hyc.broadcast %[[G]] [0]
// CHECK: %[[R:.*]] = hyc.mul %[[A]], %[[S]]
// CHECK-NOT: hyc.argsort
// CHECK: hyc.return %[[R]]
hyc.func @sorted(%x: tensor<4x8xf32>, %w: tensor<3x8x8xf32>, %e: tensor<8xi64>, %g: tensor<8xf32>) -> tensor<8x8xf32> {
  %order = hyc.argsort %e : (tensor<8xi64>) -> tensor<8xi64>
  // Rounded down, as exporters write it for numbers of any sign.
  %two = hyc.constant dense<2> : tensor<8xi64>
  %none = hyc.constant dense<0> : tensor<8xi64>
  %rest = hyc.rem %order, %two : tensor<8xi64>
  %isRest = hyc.compare lt %rest, %none : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
  %isTwo = hyc.compare lt %two, %none : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
  %differ = hyc.compare ne %isRest, %isTwo : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
  %over = hyc.add %rest, %two : tensor<8xi64>
  %modulus = hyc.select %differ, %over, %rest : (tensor<8xi1>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %whole = hyc.sub %order, %modulus : tensor<8xi64>
  %token = hyc.div %whole, %two : tensor<8xi64>
  %sorted = hyc.embedding %token, %x {id = "rows"} : (tensor<8xi64>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %own = hyc.gather %e, %order dim 0 batch 0 : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %t = hyc.transpose %w [0, 2, 1] : (tensor<3x8x8xf32>) -> tensor<3x8x8xf32>
  %y = hyc.expert_matmul %sorted, %t, %own {id = "product"} : (tensor<8x8xf32>, tensor<3x8x8xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %a = hyc.tanh %y : tensor<8x8xf32>
  // Numbers from behind count as ones from before, as importers write it.
  %eight = hyc.constant dense<8> : tensor<8xi64>
  %zero = hyc.constant dense<0> : tensor<8xi64>
  %behind = hyc.add %order, %eight : tensor<8xi64>
  %isBehind = hyc.compare lt %order, %zero : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
  %normal = hyc.select %isBehind, %behind, %order : (tensor<8xi1>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %weights = hyc.gather %g, %normal dim 0 batch 0 : (tensor<8xf32>, tensor<8xi64>) -> tensor<8xf32>
  %spread = hyc.broadcast %weights [0] : (tensor<8xf32>) -> tensor<8x8xf32>
  %s = hyc.mul %a, %spread : tensor<8x8xf32>
  %every = hyc.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi64>
  %back = hyc.scatter sum %normal, %every dim 0 batch 0 : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %r = hyc.embedding %back, %s : (tensor<8xi64>, tensor<8x8xf32>) -> tensor<8x8xf32>
  hyc.return %r : tensor<8x8xf32>
}

// -----

// A sum over all rows before each one depends on their order: what follows stays sorted.
// CHECK-LABEL: @of_an_order_that_matters
// CHECK: hyc.argsort
// CHECK: %[[SUMS:.*]] = hyc.cumsum
// CHECK: %[[R:.*]] = hyc.embedding %{{.*}}, %[[SUMS]]
// CHECK: hyc.return %[[R]]
hyc.func @of_an_order_that_matters(%x: tensor<8x4xf32>, %e: tensor<8xi64>) -> tensor<8x4xf32> {
  %order = hyc.argsort %e : (tensor<8xi64>) -> tensor<8xi64>
  %sorted = hyc.embedding %order, %x : (tensor<8xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %sums = hyc.cumsum %sorted dim 0 : tensor<8x4xf32>
  %back = hyc.argsort %order : (tensor<8xi64>) -> tensor<8xi64>
  %r = hyc.embedding %back, %sums : (tensor<8xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
  hyc.return %r : tensor<8x4xf32>
}

// -----

// Put back by another order than their own.
// CHECK-LABEL: @put_elsewhere
// CHECK: %[[ORDER:.*]] = hyc.argsort
// CHECK: %[[T:.*]] = hyc.tanh
// CHECK: %[[R:.*]] = hyc.embedding %[[ORDER]], %[[T]]
// CHECK: hyc.return %[[R]]
hyc.func @put_elsewhere(%x: tensor<8x4xf32>, %e: tensor<8xi64>) -> tensor<8x4xf32> {
  %order = hyc.argsort %e : (tensor<8xi64>) -> tensor<8xi64>
  %sorted = hyc.embedding %order, %x : (tensor<8xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %t = hyc.tanh %sorted : tensor<8x4xf32>
  %r = hyc.embedding %order, %t : (tensor<8xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
  hyc.return %r : tensor<8x4xf32>
}
