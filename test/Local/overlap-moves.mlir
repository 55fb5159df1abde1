// RUN: hyc-opt %s --split-input-file --hyc-record-policies="policies=offload_prefetch=1" --hyc-overlap-moves | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: hyc-opt %s --split-input-file --hyc-record-policies="policies=offload_prefetch=2" --hyc-overlap-moves | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: hyc-opt %s --split-input-file --hyc-overlap-moves | FileCheck %s --check-prefixes=CHECK,NONE

// What a use needs is fetched while the use before computes, both of its parameters at once; at 2 while the one before that
// does. The same parameter is not fetched again before its first copy was read.
// CHECK-LABEL: hyc.func @forward.0
// CHECK: %[[A:.*]] = dist.fetch_start @a
// NONE-NEXT: dist.wait_move %[[A]]
// ONE-NEXT: %[[B:.*]] = dist.fetch_start @b
// ONE-NEXT: %[[C:.*]] = dist.fetch_start @c
// ONE-NEXT: dist.wait_move %[[A]]
// ONE-NEXT: hyc.read @a
// ONE-NEXT: hyc.exp {{.*}}id = "first"
// ONE-NEXT: %[[AA:.*]] = dist.fetch_start @a
// ONE-NEXT: dist.wait_move %[[B]]
// ONE-NEXT: hyc.read @b
// ONE-NEXT: dist.wait_move %[[C]]
// ONE-NEXT: hyc.read @c
// ONE-NEXT: hyc.add {{.*}}id = "second"
// ONE-NEXT: dist.wait_move %[[AA]]
// TWO-NEXT: dist.fetch_start @b
// TWO-NEXT: dist.fetch_start @c
// TWO-NEXT: dist.wait_move %[[A]]
// TWO-NEXT: hyc.read @a
// TWO-NEXT: dist.fetch_start @a
// TWO-NEXT: hyc.exp {{.*}}id = "first"
// CHECK: hyc.return
hyc.param @a : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.param @b : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.param @c : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "nvme"}
hyc.func @forward.0() -> (tensor<4xf32>) {
  %pa = dist.fetch_start @a to "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %pa : !dist.pending<tensor<4xf32>>
  %a = hyc.read @a : tensor<4xf32>
  %x = hyc.exp %a {id = "first"} : tensor<4xf32>
  %pb = dist.fetch_start @b to "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %pb : !dist.pending<tensor<4xf32>>
  %b = hyc.read @b : tensor<4xf32>
  %pc = dist.fetch_start @c to "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %pc : !dist.pending<tensor<4xf32>>
  %c = hyc.read @c : tensor<4xf32>
  %y = hyc.add %b, %c {id = "second"} : tensor<4xf32>
  %qa = dist.fetch_start @a to "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %qa : !dist.pending<tensor<4xf32>>
  %d = hyc.read @a : tensor<4xf32>
  %z = hyc.add %y, %d {id = "third"} : tensor<4xf32>
  hyc.return %z : tensor<4xf32>
}

// -----

// Activations: a copy to the host goes on until the next but n begins, or the function ends.
// CHECK-LABEL: hyc.func @forward.0
// CHECK: hyc.exp {{.*}}id = "a"
// CHECK-NEXT: %[[A:.*]] = dist.copy_start
// NONE-NEXT: dist.wait %[[A]]
// CHECK: hyc.exp {{.*}}id = "b"
// ONE-NEXT: dist.wait %[[A]]
// CHECK-NEXT: %[[B:.*]] = dist.copy_start
// NONE-NEXT: dist.wait %[[B]]
// CHECK: hyc.exp {{.*}}id = "c"
// ONE-NEXT: dist.wait %[[B]]
// TWO-NEXT: dist.wait %[[A]]
// CHECK-NEXT: %[[C:.*]] = dist.copy_start
// CHECK: hyc.exp {{.*}}id = "d"
// ONE-NEXT: dist.wait %[[C]]
// TWO-NEXT: dist.wait %[[B]]
// TWO-NEXT: dist.wait %[[C]]
// CHECK-NEXT: hyc.return
hyc.func @forward.0(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = hyc.exp %x {id = "a"} : tensor<4xf32>
  %pa = dist.copy_start %a to "host" : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %sa = dist.wait %pa : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  %b = hyc.exp %a {id = "b"} : tensor<4xf32>
  %pb = dist.copy_start %b to "host" : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %sb = dist.wait %pb : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  %c = hyc.exp %b {id = "c"} : tensor<4xf32>
  %pc = dist.copy_start %c to "host" : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %sc = dist.wait %pc : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  %d = hyc.exp %c {id = "d"} : tensor<4xf32>
  hyc.return %sa, %sb, %sc : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// They come back while the op before computes.
// CHECK-LABEL: hyc.func @backward.0
// CHECK: %[[B:.*]] = dist.copy_start
// ONE-NEXT: %[[A:.*]] = dist.copy_start
// TWO-NEXT: %[[A:.*]] = dist.copy_start
// CHECK: dist.wait %[[B]]
// CHECK-NEXT: hyc.exp {{.*}}id = "db"
// ONE-NEXT: dist.wait %[[A]]
// NONE-NEXT: dist.copy_start
hyc.func @backward.0(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>) {
  %pb = dist.copy_start %b to "device" : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %sb = dist.wait %pb : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  %db = hyc.exp %sb {id = "db"} : tensor<4xf32>
  %pa = dist.copy_start %a to "device" : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %sa = dist.wait %pa : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  %da = hyc.add %sa, %db {id = "da"} : tensor<4xf32>
  hyc.return %da : tensor<4xf32>
}

// -----

// Gradients: the next one is on its way while this one is added to and written back. A second addition to the same one
// comes after its first.
// CHECK-LABEL: hyc.func @backward.0
// CHECK: %[[A:.*]] = dist.fetch_start @a.grad
// ONE-NEXT: %[[B:.*]] = dist.fetch_start @b.grad
// ONE-NEXT: dist.wait_move %[[A]]
// ONE-NEXT: hyc.accumulate
// ONE-NEXT: %[[AE:.*]] = dist.evict_start @a.grad
// ONE-NEXT: hyc.exp
// ONE-NEXT: dist.wait_move %[[AE]]
// ONE-NEXT: %[[AA:.*]] = dist.fetch_start @a.grad
// ONE-NEXT: dist.wait_move %[[B]]
// ONE-NEXT: hyc.accumulate
// ONE-NEXT: %[[BE:.*]] = dist.evict_start @b.grad
// ONE-NEXT: hyc.exp
// ONE-NEXT: dist.wait_move %[[AA]]
// ONE-NEXT: hyc.accumulate
// ONE-NEXT: dist.wait_move %[[BE]]
// ONE-NEXT: dist.evict_start @a.grad
// ONE-NEXT: dist.wait_move
// ONE-NEXT: hyc.return
hyc.state @a.grad role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.state @b.grad role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.func @backward.0(%x: tensor<4xf32>) {
  %0 = dist.fetch_start @a.grad to "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %0 : !dist.pending<tensor<4xf32>>
  hyc.accumulate %x into @a.grad : tensor<4xf32>
  %1 = dist.evict_start @a.grad from "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %1 : !dist.pending<tensor<4xf32>>
  %y = hyc.exp %x {id = "y"} : tensor<4xf32>
  %2 = dist.fetch_start @b.grad to "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %2 : !dist.pending<tensor<4xf32>>
  hyc.accumulate %y into @b.grad : tensor<4xf32>
  %3 = dist.evict_start @b.grad from "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %3 : !dist.pending<tensor<4xf32>>
  %z = hyc.exp %y {id = "z"} : tensor<4xf32>
  %4 = dist.fetch_start @a.grad to "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %4 : !dist.pending<tensor<4xf32>>
  hyc.accumulate %z into @a.grad : tensor<4xf32>
  %5 = dist.evict_start @a.grad from "device" : !dist.pending<tensor<4xf32>>
  dist.wait_move %5 : !dist.pending<tensor<4xf32>>
  hyc.return
}
