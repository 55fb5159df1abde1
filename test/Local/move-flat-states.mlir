// Updates on flat shards, whose states are kept elsewhere. Of what the device keeps whole only this rank's own slice is
// copied to the host and back; what is stored flat is moved as it is; a parameter that is kept whole on a disk is moved
// whole, and fetched for the gather that follows.
// RUN: hyc-opt %s --hyc-move-states | FileCheck %s
// RUN: hyc-opt %s --hyc-record-policies="policies=sub_group_size=1,offload_read_ahead=false,offload_write_behind=false" --hyc-move-states | FileCheck %s --check-prefix=STRICT

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>

hyc.param @a : tensor<64x64xf32> from #hyc.fill<0.0 : f64>
hyc.state @a.grad of @a role "gradient" : tensor<64x64xf32> from #hyc.fill<0.0 : f64>
hyc.state @a.b of @a role "sgd.momentum" : tensor<2048xf32> from #hyc.fill<0.0 : f64>
  {global_type = tensor<64x64xf32>, dist.placement = "nvme", dist.sharding = #dist.sharding<[{}, {}] flat {dp}>}
hyc.param @c : tensor<64x64xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
hyc.state @c.grad of @c role "gradient" : tensor<2048xf32> from #hyc.fill<0.0 : f64>
  {global_type = tensor<64x64xf32>, dist.sharding = #dist.sharding<[{}, {}] flat {dp}>}
hyc.state @c.b of @c role "sgd.momentum" : tensor<2048xf32> from #hyc.fill<0.0 : f64>
  {global_type = tensor<64x64xf32>, dist.sharding = #dist.sharding<[{}, {}] flat {dp}>}

// CHECK-LABEL: hyc.func @apply.0
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  // CHECK: dist.fetch_start @a.b to "host" {cause = "a.update"} : <tensor<2048xf32>>
  // CHECK: dist.fetch_start @c to "host" {cause = "c.update"} : <tensor<64x64xf32>>
  // CHECK: %[[A:.*]] = dist.fetch_start @a to "host" flat <{dp}> {cause = "a.update"} : <tensor<2048xf32>>
  // CHECK: dist.fetch_start @a.grad to "host" flat <{dp}> {{.*}} : <tensor<2048xf32>>
  // CHECK: dist.fetch_start @c.grad to "host" {cause = "c.update"} : <tensor<2048xf32>>
  // CHECK: hyc.sgd @a
  // CHECK: hyc.sgd @c
  // CHECK: dist.evict_start @a from "host" flat <{dp}> {{.*}} : <tensor<2048xf32>>
  // CHECK: dist.evict_start @c.b from "host"
  // CHECK: %[[AB:.*]] = dist.evict_start @a.b from "host"
  // CHECK: %[[C:.*]] = dist.evict_start @c from "host"
  // @c has to be back before it is fetched again.
  // CHECK: dist.wait_move %[[AB]]
  // CHECK: dist.wait_move %[[C]]
  // CHECK: hyc.read @a
  // CHECK: dist.all_gather_start
  // CHECK: hyc.write %{{.*}} into @a
  // CHECK: %[[F:.*]] = dist.fetch_start @c to "device" {cause = "c"}
  // CHECK: dist.wait_move %[[F]]
  // CHECK: hyc.read @c
  // CHECK: dist.all_gather_start
  // CHECK: hyc.write %{{.*}} into @c
  // CHECK: %[[E:.*]] = dist.evict_start @c from "device" {cause = "c"}
  // CHECK: dist.wait_move %[[E]]

  // Nothing overlaps.
  // STRICT: %[[R:.*]] = dist.fetch_start @a.b to "host"
  // STRICT-NOT: fetch_start @c
  // STRICT: dist.wait_move %[[R]]
  // STRICT-NEXT: hyc.sgd @a
  // STRICT: %[[W:.*]] = dist.evict_start @a.b from "host"
  // STRICT-NEXT: dist.wait_move %[[W]]
  // STRICT-NEXT: dist.fetch_start @c to "host"
  hyc.sgd @a, @a.grad velocity @a.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0, dist.flat = #dist.axes<{dp}>} : tensor<f32>, tensor<f32>
  hyc.sgd @c, @c.grad velocity @c.b lr %lr scale %lr {momentum = 0.9, weight_decay = 0.0, dist.flat = #dist.axes<{dp}>} : tensor<f32>, tensor<f32>
  %a = hyc.read @a {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>
  %0 = dist.all_gather_start %a flat <{dp}> over <{dp}> : tensor<2048xf32> -> !dist.pending<tensor<64x64xf32>>
  %c = hyc.read @c {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>
  %1 = dist.all_gather_start %c flat <{dp}> over <{dp}> : tensor<2048xf32> -> !dist.pending<tensor<64x64xf32>>
  %2 = dist.wait %0 : !dist.pending<tensor<64x64xf32>> -> tensor<64x64xf32>
  hyc.write %2 into @a : tensor<64x64xf32>
  %3 = dist.wait %1 : !dist.pending<tensor<64x64xf32>> -> tensor<64x64xf32>
  hyc.write %3 into @c : tensor<64x64xf32>
  hyc.return
}
