// Sixteen steps that an exporter wrote out become one scan. What a step takes from itself and from the one before is in the body,
// an element a step comes from the sequence, what is the same in every step is there before, and the concatenation of what
// all steps gave is the stack.
// RUN: hyc-opt %s --hyc-roll-steps -split-input-file | FileCheck %s


// CHECK-LABEL: hyc.func @train
// CHECK: %[[W:.*]] = hyc.read @w
// CHECK: %[[TURNED:.*]] = hyc.transpose %[[W]] [1, 0]
// CHECK: %[[ZERO:.*]] = hyc.constant dense<0.000000e+00> : tensor<2x4xf32>
// CHECK: %[[MOVED:.*]] = hyc.transpose %arg0 [1, 0, 2] {{.*}} : (tensor<2x16x4xf32>) -> tensor<16x2x4xf32>
// CHECK: %[[SEQUENCE:.*]] = hyc.reshape %[[MOVED]] {{.*}} -> tensor<16x2x1x4xf32>
// CHECK: %[[ALL:.*]]:2 = hyc.scan 16 init(%[[ZERO]]) over(%[[SEQUENCE]]) with(%[[TURNED]])
// CHECK-NEXT: ^bb0(%[[H:[^:]*]]: tensor<2x4xf32>, %[[E:[^:]*]]: tensor<2x1x4xf32>, %[[IN:[^:]*]]: tensor<4x4xf32>):
// CHECK-NEXT: %[[X:.*]] = hyc.reshape %[[E]]
// CHECK-NEXT: %[[PRODUCT:.*]] = hyc.einsum "bk,kn->bn" %[[H]], %[[IN]]
// CHECK-NEXT: %[[SUM:.*]] = hyc.add %[[PRODUCT]], %[[X]]
// CHECK-NEXT: %[[NEXT:.*]] = hyc.tanh %[[SUM]]
// CHECK-NEXT: %[[APART:.*]] = hyc.reshape %[[NEXT]] {{.*}} -> tensor<2x1x4xf32>
// CHECK-NEXT: hyc.yield %[[NEXT]], %[[APART]]
// CHECK: %[[BESIDE:.*]] = hyc.transpose %[[ALL]]#1 [1, 0, 2, 3]
// CHECK: %[[JOINED:.*]] = hyc.reshape %[[BESIDE]] {{.*}} -> tensor<2x16x4xf32>
// CHECK: hyc.return %[[JOINED]], %[[ALL]]#0
hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.5>
hyc.func @train(%x: tensor<2x16x4xf32> {hyc.input = "x"}) -> (tensor<2x16x4xf32> {hyc.output = "all"}, tensor<2x4xf32> {hyc.output = "last"}) {
  %h = hyc.constant dense<0.0> : tensor<2x4xf32>
  %x0 = hyc.slice %x offsets [0, 0, 0] strides [1, 1, 1] {id = "x.0"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e0 = hyc.reshape %x0 {id = "e.0"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w0 = hyc.read @w : tensor<4x4xf32>
  %t0 = hyc.transpose %w0 [1, 0] {id = "t.0"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p0 = hyc.einsum "bk,kn->bn" %h, %t0 {id = "p.0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s0 = hyc.add %p0, %e0 {id = "s.0"} : tensor<2x4xf32>
  %h0 = hyc.tanh %s0 {id = "h.0"} : tensor<2x4xf32>
  %o0 = hyc.reshape %h0 {id = "o.0"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x1 = hyc.slice %x offsets [0, 1, 0] strides [1, 1, 1] {id = "x.1"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e1 = hyc.reshape %x1 {id = "e.1"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w1 = hyc.read @w : tensor<4x4xf32>
  %t1 = hyc.transpose %w1 [1, 0] {id = "t.1"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p1 = hyc.einsum "bk,kn->bn" %h0, %t1 {id = "p.1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s1 = hyc.add %p1, %e1 {id = "s.1"} : tensor<2x4xf32>
  %h1 = hyc.tanh %s1 {id = "h.1"} : tensor<2x4xf32>
  %o1 = hyc.reshape %h1 {id = "o.1"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x2 = hyc.slice %x offsets [0, 2, 0] strides [1, 1, 1] {id = "x.2"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e2 = hyc.reshape %x2 {id = "e.2"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w2 = hyc.read @w : tensor<4x4xf32>
  %t2 = hyc.transpose %w2 [1, 0] {id = "t.2"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p2 = hyc.einsum "bk,kn->bn" %h1, %t2 {id = "p.2"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s2 = hyc.add %p2, %e2 {id = "s.2"} : tensor<2x4xf32>
  %h2 = hyc.tanh %s2 {id = "h.2"} : tensor<2x4xf32>
  %o2 = hyc.reshape %h2 {id = "o.2"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x3 = hyc.slice %x offsets [0, 3, 0] strides [1, 1, 1] {id = "x.3"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e3 = hyc.reshape %x3 {id = "e.3"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w3 = hyc.read @w : tensor<4x4xf32>
  %t3 = hyc.transpose %w3 [1, 0] {id = "t.3"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p3 = hyc.einsum "bk,kn->bn" %h2, %t3 {id = "p.3"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s3 = hyc.add %p3, %e3 {id = "s.3"} : tensor<2x4xf32>
  %h3 = hyc.tanh %s3 {id = "h.3"} : tensor<2x4xf32>
  %o3 = hyc.reshape %h3 {id = "o.3"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x4 = hyc.slice %x offsets [0, 4, 0] strides [1, 1, 1] {id = "x.4"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e4 = hyc.reshape %x4 {id = "e.4"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w4 = hyc.read @w : tensor<4x4xf32>
  %t4 = hyc.transpose %w4 [1, 0] {id = "t.4"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p4 = hyc.einsum "bk,kn->bn" %h3, %t4 {id = "p.4"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s4 = hyc.add %p4, %e4 {id = "s.4"} : tensor<2x4xf32>
  %h4 = hyc.tanh %s4 {id = "h.4"} : tensor<2x4xf32>
  %o4 = hyc.reshape %h4 {id = "o.4"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x5 = hyc.slice %x offsets [0, 5, 0] strides [1, 1, 1] {id = "x.5"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e5 = hyc.reshape %x5 {id = "e.5"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w5 = hyc.read @w : tensor<4x4xf32>
  %t5 = hyc.transpose %w5 [1, 0] {id = "t.5"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p5 = hyc.einsum "bk,kn->bn" %h4, %t5 {id = "p.5"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s5 = hyc.add %p5, %e5 {id = "s.5"} : tensor<2x4xf32>
  %h5 = hyc.tanh %s5 {id = "h.5"} : tensor<2x4xf32>
  %o5 = hyc.reshape %h5 {id = "o.5"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x6 = hyc.slice %x offsets [0, 6, 0] strides [1, 1, 1] {id = "x.6"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e6 = hyc.reshape %x6 {id = "e.6"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w6 = hyc.read @w : tensor<4x4xf32>
  %t6 = hyc.transpose %w6 [1, 0] {id = "t.6"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p6 = hyc.einsum "bk,kn->bn" %h5, %t6 {id = "p.6"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s6 = hyc.add %p6, %e6 {id = "s.6"} : tensor<2x4xf32>
  %h6 = hyc.tanh %s6 {id = "h.6"} : tensor<2x4xf32>
  %o6 = hyc.reshape %h6 {id = "o.6"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x7 = hyc.slice %x offsets [0, 7, 0] strides [1, 1, 1] {id = "x.7"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e7 = hyc.reshape %x7 {id = "e.7"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w7 = hyc.read @w : tensor<4x4xf32>
  %t7 = hyc.transpose %w7 [1, 0] {id = "t.7"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p7 = hyc.einsum "bk,kn->bn" %h6, %t7 {id = "p.7"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s7 = hyc.add %p7, %e7 {id = "s.7"} : tensor<2x4xf32>
  %h7 = hyc.tanh %s7 {id = "h.7"} : tensor<2x4xf32>
  %o7 = hyc.reshape %h7 {id = "o.7"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x8 = hyc.slice %x offsets [0, 8, 0] strides [1, 1, 1] {id = "x.8"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e8 = hyc.reshape %x8 {id = "e.8"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w8 = hyc.read @w : tensor<4x4xf32>
  %t8 = hyc.transpose %w8 [1, 0] {id = "t.8"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p8 = hyc.einsum "bk,kn->bn" %h7, %t8 {id = "p.8"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s8 = hyc.add %p8, %e8 {id = "s.8"} : tensor<2x4xf32>
  %h8 = hyc.tanh %s8 {id = "h.8"} : tensor<2x4xf32>
  %o8 = hyc.reshape %h8 {id = "o.8"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x9 = hyc.slice %x offsets [0, 9, 0] strides [1, 1, 1] {id = "x.9"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e9 = hyc.reshape %x9 {id = "e.9"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w9 = hyc.read @w : tensor<4x4xf32>
  %t9 = hyc.transpose %w9 [1, 0] {id = "t.9"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p9 = hyc.einsum "bk,kn->bn" %h8, %t9 {id = "p.9"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s9 = hyc.add %p9, %e9 {id = "s.9"} : tensor<2x4xf32>
  %h9 = hyc.tanh %s9 {id = "h.9"} : tensor<2x4xf32>
  %o9 = hyc.reshape %h9 {id = "o.9"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x10 = hyc.slice %x offsets [0, 10, 0] strides [1, 1, 1] {id = "x.10"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e10 = hyc.reshape %x10 {id = "e.10"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w10 = hyc.read @w : tensor<4x4xf32>
  %t10 = hyc.transpose %w10 [1, 0] {id = "t.10"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p10 = hyc.einsum "bk,kn->bn" %h9, %t10 {id = "p.10"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s10 = hyc.add %p10, %e10 {id = "s.10"} : tensor<2x4xf32>
  %h10 = hyc.tanh %s10 {id = "h.10"} : tensor<2x4xf32>
  %o10 = hyc.reshape %h10 {id = "o.10"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x11 = hyc.slice %x offsets [0, 11, 0] strides [1, 1, 1] {id = "x.11"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e11 = hyc.reshape %x11 {id = "e.11"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w11 = hyc.read @w : tensor<4x4xf32>
  %t11 = hyc.transpose %w11 [1, 0] {id = "t.11"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p11 = hyc.einsum "bk,kn->bn" %h10, %t11 {id = "p.11"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s11 = hyc.add %p11, %e11 {id = "s.11"} : tensor<2x4xf32>
  %h11 = hyc.tanh %s11 {id = "h.11"} : tensor<2x4xf32>
  %o11 = hyc.reshape %h11 {id = "o.11"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x12 = hyc.slice %x offsets [0, 12, 0] strides [1, 1, 1] {id = "x.12"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e12 = hyc.reshape %x12 {id = "e.12"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w12 = hyc.read @w : tensor<4x4xf32>
  %t12 = hyc.transpose %w12 [1, 0] {id = "t.12"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p12 = hyc.einsum "bk,kn->bn" %h11, %t12 {id = "p.12"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s12 = hyc.add %p12, %e12 {id = "s.12"} : tensor<2x4xf32>
  %h12 = hyc.tanh %s12 {id = "h.12"} : tensor<2x4xf32>
  %o12 = hyc.reshape %h12 {id = "o.12"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x13 = hyc.slice %x offsets [0, 13, 0] strides [1, 1, 1] {id = "x.13"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e13 = hyc.reshape %x13 {id = "e.13"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w13 = hyc.read @w : tensor<4x4xf32>
  %t13 = hyc.transpose %w13 [1, 0] {id = "t.13"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p13 = hyc.einsum "bk,kn->bn" %h12, %t13 {id = "p.13"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s13 = hyc.add %p13, %e13 {id = "s.13"} : tensor<2x4xf32>
  %h13 = hyc.tanh %s13 {id = "h.13"} : tensor<2x4xf32>
  %o13 = hyc.reshape %h13 {id = "o.13"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x14 = hyc.slice %x offsets [0, 14, 0] strides [1, 1, 1] {id = "x.14"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e14 = hyc.reshape %x14 {id = "e.14"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w14 = hyc.read @w : tensor<4x4xf32>
  %t14 = hyc.transpose %w14 [1, 0] {id = "t.14"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p14 = hyc.einsum "bk,kn->bn" %h13, %t14 {id = "p.14"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s14 = hyc.add %p14, %e14 {id = "s.14"} : tensor<2x4xf32>
  %h14 = hyc.tanh %s14 {id = "h.14"} : tensor<2x4xf32>
  %o14 = hyc.reshape %h14 {id = "o.14"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %x15 = hyc.slice %x offsets [0, 15, 0] strides [1, 1, 1] {id = "x.15"} : (tensor<2x16x4xf32>) -> tensor<2x1x4xf32>
  %e15 = hyc.reshape %x15 {id = "e.15"} : (tensor<2x1x4xf32>) -> tensor<2x4xf32>
  %w15 = hyc.read @w : tensor<4x4xf32>
  %t15 = hyc.transpose %w15 [1, 0] {id = "t.15"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %p15 = hyc.einsum "bk,kn->bn" %h14, %t15 {id = "p.15"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %s15 = hyc.add %p15, %e15 {id = "s.15"} : tensor<2x4xf32>
  %h15 = hyc.tanh %s15 {id = "h.15"} : tensor<2x4xf32>
  %o15 = hyc.reshape %h15 {id = "o.15"} : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
  %all = hyc.concat %o0, %o1, %o2, %o3, %o4, %o5, %o6, %o7, %o8, %o9, %o10, %o11, %o12, %o13, %o14, %o15 dim 1 {id = "all"} : (tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>) -> tensor<2x16x4xf32>
  hyc.return %all, %h15 : tensor<2x16x4xf32>, tensor<2x4xf32>
}

// -----

// Elements from the last to the first: the scan goes that way, and what was collected backwards is turned round.

// CHECK-LABEL: hyc.func @train
// CHECK: %[[LAST:.*]]:2 = hyc.scan 16 reverse init(%arg1) over(%{{.*}})
// CHECK: hyc.gather %[[LAST]]#1
hyc.func @train(%x: tensor<16x4xf32> {hyc.input = "x"}, %h: tensor<4xf32> {hyc.input = "h"}) -> (tensor<64xf32> {hyc.output = "all"}) {
  %x0 = hyc.slice %x offsets [15, 0] strides [1, 1] {id = "x.0"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e0 = hyc.reshape %x0 {id = "e.0"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h0 = hyc.mul %h, %e0 {id = "h.0"} : tensor<4xf32>
  %x1 = hyc.slice %x offsets [14, 0] strides [1, 1] {id = "x.1"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e1 = hyc.reshape %x1 {id = "e.1"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h1 = hyc.mul %h0, %e1 {id = "h.1"} : tensor<4xf32>
  %x2 = hyc.slice %x offsets [13, 0] strides [1, 1] {id = "x.2"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e2 = hyc.reshape %x2 {id = "e.2"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h2 = hyc.mul %h1, %e2 {id = "h.2"} : tensor<4xf32>
  %x3 = hyc.slice %x offsets [12, 0] strides [1, 1] {id = "x.3"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e3 = hyc.reshape %x3 {id = "e.3"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h3 = hyc.mul %h2, %e3 {id = "h.3"} : tensor<4xf32>
  %x4 = hyc.slice %x offsets [11, 0] strides [1, 1] {id = "x.4"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e4 = hyc.reshape %x4 {id = "e.4"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h4 = hyc.mul %h3, %e4 {id = "h.4"} : tensor<4xf32>
  %x5 = hyc.slice %x offsets [10, 0] strides [1, 1] {id = "x.5"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e5 = hyc.reshape %x5 {id = "e.5"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h5 = hyc.mul %h4, %e5 {id = "h.5"} : tensor<4xf32>
  %x6 = hyc.slice %x offsets [9, 0] strides [1, 1] {id = "x.6"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e6 = hyc.reshape %x6 {id = "e.6"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h6 = hyc.mul %h5, %e6 {id = "h.6"} : tensor<4xf32>
  %x7 = hyc.slice %x offsets [8, 0] strides [1, 1] {id = "x.7"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e7 = hyc.reshape %x7 {id = "e.7"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h7 = hyc.mul %h6, %e7 {id = "h.7"} : tensor<4xf32>
  %x8 = hyc.slice %x offsets [7, 0] strides [1, 1] {id = "x.8"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e8 = hyc.reshape %x8 {id = "e.8"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h8 = hyc.mul %h7, %e8 {id = "h.8"} : tensor<4xf32>
  %x9 = hyc.slice %x offsets [6, 0] strides [1, 1] {id = "x.9"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e9 = hyc.reshape %x9 {id = "e.9"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h9 = hyc.mul %h8, %e9 {id = "h.9"} : tensor<4xf32>
  %x10 = hyc.slice %x offsets [5, 0] strides [1, 1] {id = "x.10"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e10 = hyc.reshape %x10 {id = "e.10"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h10 = hyc.mul %h9, %e10 {id = "h.10"} : tensor<4xf32>
  %x11 = hyc.slice %x offsets [4, 0] strides [1, 1] {id = "x.11"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e11 = hyc.reshape %x11 {id = "e.11"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h11 = hyc.mul %h10, %e11 {id = "h.11"} : tensor<4xf32>
  %x12 = hyc.slice %x offsets [3, 0] strides [1, 1] {id = "x.12"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e12 = hyc.reshape %x12 {id = "e.12"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h12 = hyc.mul %h11, %e12 {id = "h.12"} : tensor<4xf32>
  %x13 = hyc.slice %x offsets [2, 0] strides [1, 1] {id = "x.13"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e13 = hyc.reshape %x13 {id = "e.13"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h13 = hyc.mul %h12, %e13 {id = "h.13"} : tensor<4xf32>
  %x14 = hyc.slice %x offsets [1, 0] strides [1, 1] {id = "x.14"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e14 = hyc.reshape %x14 {id = "e.14"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h14 = hyc.mul %h13, %e14 {id = "h.14"} : tensor<4xf32>
  %x15 = hyc.slice %x offsets [0, 0] strides [1, 1] {id = "x.15"} : (tensor<16x4xf32>) -> tensor<1x4xf32>
  %e15 = hyc.reshape %x15 {id = "e.15"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h15 = hyc.mul %h14, %e15 {id = "h.15"} : tensor<4xf32>
  %all = hyc.concat %h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7, %h8, %h9, %h10, %h11, %h12, %h13, %h14, %h15 dim 0 {id = "all"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<64xf32>
  hyc.return %all : tensor<64xf32>
}

// -----

// Layers that share a weight go along no sequence, and stay apart: stages may be cut between them.

// CHECK-LABEL: hyc.func @train
// CHECK-NOT: hyc.scan
// CHECK: hyc.return
hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.5>
hyc.func @train(%h: tensor<2x4xf32> {hyc.input = "h"}) -> (tensor<2x4xf32> {hyc.output = "y"}) {
  %w = hyc.read @w : tensor<4x4xf32>
  %p0 = hyc.einsum "bk,kn->bn" %h, %w {id = "p.0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h0 = hyc.tanh %p0 {id = "h.0"} : tensor<2x4xf32>
  %p1 = hyc.einsum "bk,kn->bn" %h0, %w {id = "p.1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h1 = hyc.tanh %p1 {id = "h.1"} : tensor<2x4xf32>
  %p2 = hyc.einsum "bk,kn->bn" %h1, %w {id = "p.2"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h2 = hyc.tanh %p2 {id = "h.2"} : tensor<2x4xf32>
  %p3 = hyc.einsum "bk,kn->bn" %h2, %w {id = "p.3"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h3 = hyc.tanh %p3 {id = "h.3"} : tensor<2x4xf32>
  %p4 = hyc.einsum "bk,kn->bn" %h3, %w {id = "p.4"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h4 = hyc.tanh %p4 {id = "h.4"} : tensor<2x4xf32>
  %p5 = hyc.einsum "bk,kn->bn" %h4, %w {id = "p.5"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h5 = hyc.tanh %p5 {id = "h.5"} : tensor<2x4xf32>
  %p6 = hyc.einsum "bk,kn->bn" %h5, %w {id = "p.6"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h6 = hyc.tanh %p6 {id = "h.6"} : tensor<2x4xf32>
  %p7 = hyc.einsum "bk,kn->bn" %h6, %w {id = "p.7"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h7 = hyc.tanh %p7 {id = "h.7"} : tensor<2x4xf32>
  %p8 = hyc.einsum "bk,kn->bn" %h7, %w {id = "p.8"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h8 = hyc.tanh %p8 {id = "h.8"} : tensor<2x4xf32>
  %p9 = hyc.einsum "bk,kn->bn" %h8, %w {id = "p.9"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h9 = hyc.tanh %p9 {id = "h.9"} : tensor<2x4xf32>
  %p10 = hyc.einsum "bk,kn->bn" %h9, %w {id = "p.10"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h10 = hyc.tanh %p10 {id = "h.10"} : tensor<2x4xf32>
  %p11 = hyc.einsum "bk,kn->bn" %h10, %w {id = "p.11"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h11 = hyc.tanh %p11 {id = "h.11"} : tensor<2x4xf32>
  %p12 = hyc.einsum "bk,kn->bn" %h11, %w {id = "p.12"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h12 = hyc.tanh %p12 {id = "h.12"} : tensor<2x4xf32>
  %p13 = hyc.einsum "bk,kn->bn" %h12, %w {id = "p.13"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h13 = hyc.tanh %p13 {id = "h.13"} : tensor<2x4xf32>
  %p14 = hyc.einsum "bk,kn->bn" %h13, %w {id = "p.14"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h14 = hyc.tanh %p14 {id = "h.14"} : tensor<2x4xf32>
  %p15 = hyc.einsum "bk,kn->bn" %h14, %w {id = "p.15"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %h15 = hyc.tanh %p15 {id = "h.15"} : tensor<2x4xf32>
  hyc.return %h15 : tensor<2x4xf32>
}

// -----

// Fifteen steps are few.

// CHECK-LABEL: hyc.func @train
// CHECK-NOT: hyc.scan
// CHECK: hyc.return
hyc.func @train(%x: tensor<15x4xf32> {hyc.input = "x"}, %h: tensor<4xf32> {hyc.input = "h"}) -> (tensor<4xf32> {hyc.output = "y"}) {
  %x0 = hyc.slice %x offsets [0, 0] strides [1, 1] {id = "x.0"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e0 = hyc.reshape %x0 {id = "e.0"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h0 = hyc.mul %h, %e0 {id = "h.0"} : tensor<4xf32>
  %x1 = hyc.slice %x offsets [1, 0] strides [1, 1] {id = "x.1"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e1 = hyc.reshape %x1 {id = "e.1"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h1 = hyc.mul %h0, %e1 {id = "h.1"} : tensor<4xf32>
  %x2 = hyc.slice %x offsets [2, 0] strides [1, 1] {id = "x.2"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e2 = hyc.reshape %x2 {id = "e.2"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h2 = hyc.mul %h1, %e2 {id = "h.2"} : tensor<4xf32>
  %x3 = hyc.slice %x offsets [3, 0] strides [1, 1] {id = "x.3"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e3 = hyc.reshape %x3 {id = "e.3"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h3 = hyc.mul %h2, %e3 {id = "h.3"} : tensor<4xf32>
  %x4 = hyc.slice %x offsets [4, 0] strides [1, 1] {id = "x.4"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e4 = hyc.reshape %x4 {id = "e.4"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h4 = hyc.mul %h3, %e4 {id = "h.4"} : tensor<4xf32>
  %x5 = hyc.slice %x offsets [5, 0] strides [1, 1] {id = "x.5"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e5 = hyc.reshape %x5 {id = "e.5"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h5 = hyc.mul %h4, %e5 {id = "h.5"} : tensor<4xf32>
  %x6 = hyc.slice %x offsets [6, 0] strides [1, 1] {id = "x.6"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e6 = hyc.reshape %x6 {id = "e.6"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h6 = hyc.mul %h5, %e6 {id = "h.6"} : tensor<4xf32>
  %x7 = hyc.slice %x offsets [7, 0] strides [1, 1] {id = "x.7"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e7 = hyc.reshape %x7 {id = "e.7"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h7 = hyc.mul %h6, %e7 {id = "h.7"} : tensor<4xf32>
  %x8 = hyc.slice %x offsets [8, 0] strides [1, 1] {id = "x.8"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e8 = hyc.reshape %x8 {id = "e.8"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h8 = hyc.mul %h7, %e8 {id = "h.8"} : tensor<4xf32>
  %x9 = hyc.slice %x offsets [9, 0] strides [1, 1] {id = "x.9"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e9 = hyc.reshape %x9 {id = "e.9"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h9 = hyc.mul %h8, %e9 {id = "h.9"} : tensor<4xf32>
  %x10 = hyc.slice %x offsets [10, 0] strides [1, 1] {id = "x.10"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e10 = hyc.reshape %x10 {id = "e.10"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h10 = hyc.mul %h9, %e10 {id = "h.10"} : tensor<4xf32>
  %x11 = hyc.slice %x offsets [11, 0] strides [1, 1] {id = "x.11"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e11 = hyc.reshape %x11 {id = "e.11"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h11 = hyc.mul %h10, %e11 {id = "h.11"} : tensor<4xf32>
  %x12 = hyc.slice %x offsets [12, 0] strides [1, 1] {id = "x.12"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e12 = hyc.reshape %x12 {id = "e.12"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h12 = hyc.mul %h11, %e12 {id = "h.12"} : tensor<4xf32>
  %x13 = hyc.slice %x offsets [13, 0] strides [1, 1] {id = "x.13"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e13 = hyc.reshape %x13 {id = "e.13"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h13 = hyc.mul %h12, %e13 {id = "h.13"} : tensor<4xf32>
  %x14 = hyc.slice %x offsets [14, 0] strides [1, 1] {id = "x.14"} : (tensor<15x4xf32>) -> tensor<1x4xf32>
  %e14 = hyc.reshape %x14 {id = "e.14"} : (tensor<1x4xf32>) -> tensor<4xf32>
  %h14 = hyc.mul %h13, %e14 {id = "h.14"} : tensor<4xf32>
  hyc.return %h14 : tensor<4xf32>
}
