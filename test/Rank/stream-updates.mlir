// Updates of states on the host, of a program for GPUs, in windows of 16384 bytes: @a takes one and a part of the next,
// where @c has the rest, and its own rest in a third. What is on the device is taken a part at a time where it lies. @s is
// too small to be worth two copies.
// RUN: hyc-opt %s --hyc-record-policies="policies=offload_window=16384 target=cuda" --hyc-move-states --hyc-lower-to-rank --hyc-stream-updates | FileCheck %s
// RUN: hyc-opt %s --hyc-record-policies="policies=offload_window=16384 target=cuda" --hyc-move-states --hyc-lower-to-rank --hyc-stream-updates --hyc-place-buffers --hyc-verify-rank | FileCheck %s --check-prefix=PLACED
// RUN: hyc-opt %s --hyc-record-policies="policies=offload_window=0 target=cuda" --hyc-move-states --hyc-lower-to-rank --hyc-stream-updates | FileCheck %s --check-prefix=DIRECT
// RUN: hyc-opt %s --hyc-record-policies="policies=offload_window=16384" --hyc-move-states --hyc-lower-to-rank -o %t.mlir
// RUN: hyc-opt %t.mlir --hyc-stream-updates -o %t.same.mlir
// RUN: cmp %t.mlir %t.same.mlir

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]

hyc.param @a : tensor<2x2560xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @a.grad of @a role "gradient" : tensor<2x2560xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @a.b of @a role "sgd.momentum" : tensor<2x2560xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host", dist.stages = array<i64: 0>}
hyc.param @s : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @s.grad of @s role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @s.b of @s role "sgd.momentum" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host", dist.stages = array<i64: 0>}
hyc.param @c : tensor<4000xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host", dist.stages = array<i64: 0>}
hyc.state @c.grad of @c role "gradient" : tensor<4000xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @c.b of @c role "sgd.momentum" : tensor<4000xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host", dist.stages = array<i64: 0>}

// The first three windows, of 16384, 12288 and 16384 bytes; the fourth takes the place of the first.
// PLACED: rank.arena @activations bytes 45056 lower_bound 45056
hyc.func @forward.0() {
  hyc.return
}
hyc.func @backward.0() {
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
// CHECK-LABEL: rank.func @apply
// CHECK-DAG: %[[S:.*]] = rank.address @s.b
// CHECK-DAG: %[[AB:.*]] = rank.address @a.b
// The first window.
// CHECK: %[[A0:.*]] = rank.view %[[AB]] + 0 : <2x2560xf32> to <4096xf32>
// CHECK-NEXT: %[[W0:.*]] = rank.alloc @activations {id = "a.b"} : <4096xf32>
// CHECK-NEXT: %[[F0:.*]] = rank.move "fetch" %[[W0]] = %[[A0]] {id = "a.b"}
// The second: the rest of @a, and 1024 elements of @c and its momentum.
// CHECK-NEXT: %[[A1:.*]] = rank.view %[[AB]] + 4096 : <2x2560xf32> to <1024xf32>
// CHECK-NEXT: %[[W1:.*]] = rank.alloc @activations {id = "a.b"} : <1024xf32>
// CHECK-NEXT: %[[F1:.*]] = rank.move "fetch" %[[W1]] = %[[A1]]
// CHECK: %[[C1:.*]] = rank.alloc @activations {id = "c"} : <1024xf32>
// CHECK-NEXT: %[[FC1:.*]] = rank.move "fetch" %[[C1]] =
// CHECK: %[[CB1:.*]] = rank.alloc @activations {id = "c.b"} : <1024xf32>
// CHECK-NEXT: %[[FCB1:.*]] = rank.move "fetch" %[[CB1]] =
// CHECK-NEXT: rank.wait %[[F0]]
// CHECK-NOT: rank.wait
// CHECK: rank.view %{{.*}} + 0 : <2x2560xf32> to <4096xf32>
// CHECK: %[[G0:.*]] = rank.view %{{.*}} + 0 : <2x2560xf32> to <4096xf32>
// CHECK-NEXT: rank.call "sgd_momentum" %{{.*}}, %[[W0]] = %[[G0]], %{{.*}}, %{{.*}} {id = "a"
// CHECK: %[[E0:.*]] = rank.move "evict" %{{.*}} = %[[W0]] {id = "a.b"}
// The third is filled before the second is waited for.
// CHECK: %[[C2:.*]] = rank.alloc @activations {id = "c"} : <2048xf32>
// CHECK: %[[FCB2:.*]] = rank.move "fetch" %{{.*}} = %{{.*}} {id = "c.b"}
// CHECK-NEXT: rank.wait %[[F1]]
// CHECK-NEXT: rank.wait %[[FC1]]
// CHECK-NEXT: rank.wait %[[FCB1]]
// CHECK: rank.call "sgd_momentum" %{{.*}}, %[[W1]] =
// CHECK: rank.call "sgd_momentum" %{{.*}}, %[[S]] =
// CHECK: rank.call "sgd_momentum" %[[C1]], %[[CB1]] =
// CHECK: %[[E1:.*]] = rank.move "evict" %{{.*}} = %[[W1]] {id = "a.b"}
// CHECK: rank.move "evict" %{{.*}} = %[[C1]] {id = "c"}
// CHECK: rank.move "evict" %{{.*}} = %[[CB1]] {id = "c.b"}
// The fourth, once the first is empty.
// CHECK-NEXT: rank.wait %[[E0]]
// CHECK: %[[C3:.*]] = rank.alloc @activations {id = "c"} : <928xf32>
// CHECK: rank.call "sgd_momentum" %[[C2]], %{{.*}} =
// CHECK: rank.wait %[[E1]]
// CHECK: rank.call "sgd_momentum" %[[C3]], %{{.*}} =
// CHECK: rank.move "evict" %{{.*}} = %[[C3]] {id = "c"}
// CHECK-NEXT: rank.view
// CHECK-NEXT: rank.move "evict" %{{.*}} = %{{.*}} {id = "c.b"}
// CHECK-COUNT-4: rank.wait
// CHECK-NOT: rank.move

// DIRECT-LABEL: rank.func @apply
// DIRECT-NOT: rank.move
// DIRECT: %[[M:.*]] = rank.address @c.b
// DIRECT: rank.call "sgd_momentum" %{{.*}}, %[[M]] =
// DIRECT-NOT: rank.move
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.sgd @a, @a.grad velocity @a.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.sgd @s, @s.grad velocity @s.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.sgd @c, @c.grad velocity @c.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.return
}
