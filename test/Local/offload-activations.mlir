// What is offloaded leaves the device where it is made and comes back in front of its first use in backward.
// RUN: hyc-opt %s --split-input-file --hyc-offload-activations | FileCheck %s
// RUN: hyc-opt %s --split-input-file --hyc-offload-activations --hyc-cut-stages | FileCheck %s --check-prefix=CUT

// One copy serves both users; the reshape between follows it. The other value stays.
// CHECK-LABEL: hyc.func @microbatch
// CUT-LABEL: hyc.func @forward.0
// CUT-SAME: -> (tensor<2x8xf32> {hyc.saved = "a.offloaded"}, tensor<2x8xf32> {hyc.saved = "b"})
// CUT: %[[A:.*]] = hyc.gelu
// CUT-NEXT: %[[P:.*]] = dist.copy_start %[[A]] to "host"
// CUT-NEXT: %[[H:.*]] = dist.wait %[[P]]
// CUT: hyc.return %[[H]], %
// CUT: hyc.func @backward.0(%[[H:.*]]: tensor<2x8xf32> {hyc.saved = "a.offloaded"}
// CUT: dist.copy_start %[[H]] to "device"
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
hyc.state @sum role "loss_sum" : tensor<2x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  // CHECK: %[[A:.*]] = hyc.gelu %{{.*}} {dist.stage = 0 : i64, id = "a"}
  // CHECK-NEXT: %[[P:.*]] = dist.copy_start %[[A]] to "host" {dist.stage = 0 : i64}
  // CHECK-NEXT: %[[H:.*]] = dist.wait %[[P]] {dist.stage = 0 : i64, id = "a.offloaded"}
  %a = hyc.gelu %x {id = "a", dist.stage = 0 : i64, dist.lifetime = #dist.lifetime<offload>} : tensor<2x8xf32>
  // CHECK: %[[B:.*]] = hyc.neg %[[A]]
  %b = hyc.neg %a {id = "b", dist.stage = 0 : i64} : tensor<2x8xf32>
  %r = hyc.reshape %a : (tensor<2x8xf32>) -> tensor<16xf32>
  // CHECK: hyc.accumulate %[[B]]
  hyc.accumulate %b into @sum {dist.stage = 0 : i64} : tensor<2x8xf32>
  %dy = hyc.constant {id = "dy", hyc.backward, dist.stage = 0 : i64} dense<1.0> : tensor<2x8xf32>
  // CHECK: %[[Q:.*]] = dist.copy_start %[[H]] to "device" {dist.stage = 0 : i64, hyc.backward}
  // CHECK-NEXT: %[[BACK:.*]] = dist.wait %[[Q]] {dist.stage = 0 : i64, hyc.backward, id = "a.back"}
  // CHECK-NEXT: hyc.mul %{{.*}}, %[[BACK]]
  %d = hyc.mul %dy, %a {id = "d", hyc.backward, dist.stage = 0 : i64} : tensor<2x8xf32>
  // CHECK: %[[FLAT:.*]] = hyc.reshape %[[BACK]]
  // CHECK: hyc.neg %[[FLAT]]
  %e = hyc.neg %r {id = "e", hyc.backward, dist.stage = 0 : i64} : tensor<16xf32>
  %f = hyc.reshape %e {hyc.backward} : (tensor<16xf32>) -> tensor<2x8xf32>
  %g = hyc.mul %d, %f {id = "g", hyc.backward, dist.stage = 0 : i64} : tensor<2x8xf32>
  // CHECK-NOT: copy_start
  %h = hyc.mul %g, %b {id = "h", hyc.backward, dist.stage = 0 : i64} : tensor<2x8xf32>
  hyc.accumulate %h into @sum {hyc.backward, dist.stage = 0 : i64} : tensor<2x8xf32>
  hyc.return
}

// -----

// What both stages' backwards need is offloaded by both.
// CHECK-LABEL: hyc.func @microbatch
// CHECK-DAG: dist.wait %{{.*}} {dist.stage = 0 : i64, id = "a.offloaded"}
// CHECK-DAG: dist.wait %{{.*}} {dist.stage = 1 : i64, id = "a.offloaded"}
// CUT: hyc.func @forward.0({{.*}}) -> (tensor<2x8xf32> {{{.*}}}, tensor<2x8xf32> {{{.*}}})
// CUT: hyc.func @forward.1(%{{.*}}: tensor<2x8xf32> {dist.channel = "a"}) -> (tensor<2x8xf32> {hyc.saved = "a.offloaded{{.*}}"})
// CUT: dist.copy_start %{{.*}} to "host"
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
hyc.state @sum role "loss_sum" : tensor<2x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  %a = hyc.gelu %x {id = "a", dist.stage = 0 : i64, dist.lifetime = #dist.lifetime<offload>} : tensor<2x8xf32>
  hyc.accumulate %a into @sum {dist.stage = 1 : i64} : tensor<2x8xf32>
  %dy = hyc.constant {id = "dy", hyc.backward, dist.stage = 1 : i64} dense<1.0> : tensor<2x8xf32>
  %d = hyc.mul %dy, %a {id = "d", hyc.backward, dist.stage = 1 : i64} : tensor<2x8xf32>
  %e = hyc.mul %d, %a {id = "e", hyc.backward, dist.stage = 0 : i64} : tensor<2x8xf32>
  hyc.accumulate %e into @sum {hyc.backward, dist.stage = 0 : i64} : tensor<2x8xf32>
  hyc.return
}
