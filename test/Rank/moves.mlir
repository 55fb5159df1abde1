// An update whose momentum is on a disk, in two groups: the file holds whole blocks, copies are temporaries of the host
// arena at whole blocks, and those of group 1 are there while group 0 still runs. Nothing of the momentum is left on the
// device.
// RUN: hyc-opt %s --hyc-record-policies="policies=sub_group_size=1" --hyc-move-states --hyc-lower-to-rank --hyc-place-buffers --hyc-verify-rank | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]

hyc.param @a : tensor<16xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @a.grad of @a role "gradient" : tensor<16xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @a.b of @a role "sgd.momentum" : tensor<16xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme", dist.stages = array<i64: 0>}
hyc.param @c : tensor<1500xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @c.grad of @c role "gradient" : tensor<1500xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
hyc.state @c.b of @c role "sgd.momentum" : tensor<1500xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme", dist.stages = array<i64: 0>}

// CHECK-LABEL: rank.program @stage0
// CHECK-NOT: rank.arena @optimizer
// One block and two.
// CHECK-DAG: rank.arena @nvme bytes 12288 lower_bound 12288 {rank.file}
// CHECK-DAG: rank.state @a.b "sgd.momentum" of "a" in @nvme at 0
// CHECK-DAG: rank.state @c.b "sgd.momentum" of "c" in @nvme at 4096
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
// CHECK: %[[AB:.*]] = rank.at @nvme 0
// CHECK: %[[AC:.*]] = rank.at @host 8192 {id = "a.b"}
// CHECK: %[[T0:.*]] = rank.move "fetch" %[[AC]] = %[[AB]]
// CHECK: %[[CB:.*]] = rank.at @nvme 4096
// CHECK: %[[CC:.*]] = rank.at @host 0 {id = "c.b"}
// CHECK: %[[T1:.*]] = rank.move "fetch" %[[CC]] = %[[CB]]
// CHECK: rank.wait %[[T0]]
// CHECK: rank.call "sgd_momentum" %{{.*}}, %[[AC]] =
// CHECK: %[[T2:.*]] = rank.move "evict" %{{.*}} = %[[AC]]
// CHECK: rank.wait %[[T1]]
// CHECK: rank.call "sgd_momentum" %{{.*}}, %[[CC]] =
// CHECK: rank.wait %[[T2]]
// CHECK: rank.move "evict" %{{.*}} = %[[CC]]
// CHECK-NEXT: rank.wait
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.sgd @a, @a.grad velocity @a.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.sgd @c, @c.grad velocity @c.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0} : tensor<f32>, tensor<f32>
  hyc.return
}
