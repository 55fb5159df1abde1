// Masks are drawn again, in whatever order of dimensions they are used, unless a plan file decides; what comes from
// constants alone is never saved.
// RUN: hyc-opt %s --hyc-create-mesh --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule \
// RUN:   --hyc-assign-lifetimes | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: hyc-opt %s --hyc-create-mesh --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule \
// RUN:   --hyc-assign-lifetimes=mode=planned | FileCheck %s --check-prefixes=CHECK,PLANNED

hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
hyc.state @sum role "loss_sum" : tensor<2x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}, %k: tensor<2x3xi64> {hyc.input = "random_keys"}) {
  %w = hyc.read @w : tensor<8x8xf32>
  %h = hyc.einsum "bk,kn->bn" %x, %w {id = "h"} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  // NONE: hyc.dropout_mask {{.*}}#dist.lifetime<recompute>{{.*}}id = "a"
  // PLANNED: hyc.dropout_mask {{.*}} rate 1.000000e-01 {dist.shardings = {{.*}}id = "a"
  %a = hyc.dropout_mask %k column 0 rate 1.0e-1 {id = "a"} : (tensor<2x3xi64>) -> tensor<2x8xi1>
  // CHECK-NEXT: hyc.dropout {{.*}} rate 1.000000e-01 {dist.shardings = {{.*}}id = "da"
  %da = hyc.dropout %h mask %a rate 1.0e-1 {id = "da"} : (tensor<2x8xf32>, tensor<2x8xi1>) -> tensor<2x8xf32>
  // What somebody has decided stays.
  // CHECK-NEXT: hyc.dropout_mask {{.*}}#dist.lifetime<save over {tp}>{{.*}}id = "b"
  %b = hyc.dropout_mask %k column 1 rate 1.0e-1 {id = "b", dist.lifetime = #dist.lifetime<save over {tp}>} : (tensor<2x3xi64>) -> tensor<2x8xi1>
  %db = hyc.dropout %da mask %b rate 1.0e-1 {id = "db"} : (tensor<2x8xf32>, tensor<2x8xi1>) -> tensor<2x8xf32>
  // NONE: hyc.dropout_mask {{.*}}#dist.lifetime<recompute>{{.*}}id = "c"
  %c = hyc.dropout_mask %k column 2 rate 1.0e-1 {id = "c"} : (tensor<2x3xi64>) -> tensor<2x8xi1>
  // NONE-NEXT: hyc.transpose {{.*}}#dist.lifetime<recompute>{{.*}}id = "ct"
  %ct = hyc.transpose %c [1, 0] {id = "ct"} : (tensor<2x8xi1>) -> tensor<8x2xi1>
  %t = hyc.transpose %db [1, 0] {id = "t"} : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %dc = hyc.dropout %t mask %ct rate 1.0e-1 {id = "dc"} : (tensor<8x2xf32>, tensor<8x2xi1>) -> tensor<8x2xf32>
  %y = hyc.transpose %dc [1, 0] {id = "y"} : (tensor<8x2xf32>) -> tensor<2x8xf32>
  %i = hyc.iota dim 1 : tensor<2x8xi64>
  %j = hyc.iota dim 0 : tensor<2x8xi64>
  // CHECK: hyc.compare {{.*}}#dist.lifetime<recompute>{{.*}}id = "seen"
  %seen = hyc.compare le %i, %j {id = "seen"} : (tensor<2x8xi64>, tensor<2x8xi64>) -> tensor<2x8xi1>
  %s = hyc.select %seen, %y, %x {id = "s"} : (tensor<2x8xi1>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  hyc.accumulate %s into @sum : tensor<2x8xf32>
  %g = hyc.dropout %s mask %a rate 1.0e-1 {id = "g", hyc.backward} : (tensor<2x8xf32>, tensor<2x8xi1>) -> tensor<2x8xf32>
  hyc.return
}
