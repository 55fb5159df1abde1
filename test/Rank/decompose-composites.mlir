// RUN: hyc-opt %s --hyc-decompose-composites | FileCheck %s
// RUN: hyc-opt %s --hyc-decompose-composites=ops=gelu | FileCheck %s --check-prefix=GELU
// RUN: hyc-opt %s --hyc-decompose-composites=ops=scan | FileCheck %s --check-prefix=SCAN

// Composites with a kernel stay whole; softmax has none.
hyc.func @forward.0(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = hyc.softmax %x {id = "p"} : tensor<2x4xf32>
  %z = hyc.gelu %y {id = "g"} : tensor<2x4xf32>
  hyc.return %z : tensor<2x4xf32>
}
// CHECK: %[[MAX:.*]] = hyc.reduce max %[[X:.*]] [1] {id = "p.max"}
// CHECK: %[[MAXIMA:.*]] = hyc.broadcast %[[MAX]] [0] {id = "p.maxima"}
// CHECK: %[[SHIFTED:.*]] = hyc.sub %[[X]], %[[MAXIMA]] {id = "p.shifted"}
// CHECK: %[[EXP:.*]] = hyc.exp %[[SHIFTED]] {id = "p.exp"}
// CHECK: %[[SUM:.*]] = hyc.reduce sum %[[EXP]] [1] {id = "p.sum"}
// CHECK: %[[SUMS:.*]] = hyc.broadcast %[[SUM]] [0] {id = "p.sums"}
// CHECK: hyc.div %[[EXP]], %[[SUMS]] {id = "p.result"}
// CHECK: hyc.gelu

// GELU: hyc.softmax
// GELU-NOT: hyc.gelu
// GELU: hyc.erf

// Products of what there is no matrix product for are sums of products; those of f32 stay.
// CHECK-LABEL: @forward.1
// GELU-LABEL: @forward.1
hyc.func @forward.1(%a: tensor<2x3xf64>, %b: tensor<4x3xf64>, %c: tensor<2x3xf32>) -> (tensor<2x4xf64>, tensor<2x2xf32>) {
  // CHECK: %[[L:.*]] = hyc.broadcast %{{.*}} [0, 2] {{.*}} -> tensor<2x4x3xf64>
  // CHECK: %[[R:.*]] = hyc.broadcast %{{.*}} [1, 2] {{.*}} -> tensor<2x4x3xf64>
  // CHECK: %[[P:.*]] = hyc.mul %[[L]], %[[R]]
  // CHECK: hyc.reduce sum %[[P]] [2] {{.*}} -> tensor<2x4xf64>
  %y = hyc.einsum "mk,nk->mn" %a, %b {id = "wide"} : (tensor<2x3xf64>, tensor<4x3xf64>) -> tensor<2x4xf64>
  // CHECK: hyc.einsum "mk,nk->mn"
  %z = hyc.einsum "mk,nk->mn" %c, %c {id = "plain"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  hyc.return %y, %z : tensor<2x4xf64>, tensor<2x2xf32>
}

// Scans become loops (lower-scans.mlir). Written out on request, each step takes its elements, and the results of all are
// joined.
// SCAN-LABEL: @forward.2
hyc.func @forward.2(%h: tensor<2xf32>, %x: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>) {
  // SCAN: %[[LATER:.*]] = hyc.slice %arg1 offsets [1, 0] {{.*}} -> tensor<1x2xf32>
  // SCAN: %[[E1:.*]] = hyc.reshape %[[LATER]]
  // SCAN: %[[S1:.*]] = hyc.mul %arg0, %[[E1]] {id = "next.step1"}
  // SCAN: %[[P1:.*]] = hyc.reshape %[[S1]] {{.*}} -> tensor<1x2xf32>
  // SCAN: %[[E0:.*]] = hyc.reshape
  // SCAN: %[[S0:.*]] = hyc.mul %[[S1]], %[[E0]] {id = "next.step0"}
  // SCAN: %[[P0:.*]] = hyc.reshape %[[S0]] {{.*}} -> tensor<1x2xf32>
  // SCAN: %[[ALL:.*]] = hyc.concat %[[P0]], %[[P1]] dim 0
  // SCAN: hyc.return %[[S0]], %[[ALL]]
  %last, %all = hyc.scan 2 reverse init(%h) over(%x) attributes {id = "scan"} : (tensor<2xf32>, tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2x2xf32>) {
  ^bb0(%own: tensor<2xf32>, %e: tensor<2xf32>):
    %0 = hyc.mul %own, %e {id = "next"} : tensor<2xf32>
    hyc.yield %0, %0 : tensor<2xf32>, tensor<2xf32>
  }
  hyc.return %last, %all : tensor<2xf32>, tensor<2x2xf32>
}

// Of a scan in a scan the inner one is written out unasked: the outer one becomes the loop.
// CHECK-LABEL: @forward.3
// CHECK: hyc.scan 4
// CHECK-NOT: hyc.scan
// CHECK: hyc.return
hyc.func @forward.3(%h: tensor<2xf32>) -> tensor<2xf32> {
  %last = hyc.scan 4 init(%h) attributes {id = "outer"} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%own: tensor<2xf32>):
    %inner = hyc.scan 2 init(%own) attributes {id = "inner"} : (tensor<2xf32>) -> tensor<2xf32> {
    ^bb0(%each: tensor<2xf32>):
      %0 = hyc.tanh %each {id = "next"} : tensor<2xf32>
      hyc.yield %0 : tensor<2xf32>
    }
    hyc.yield %inner : tensor<2xf32>
  }
  hyc.return %last : tensor<2xf32>
}
