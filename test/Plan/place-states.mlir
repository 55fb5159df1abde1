// What the optimizer keeps goes to the disk, parameters to the host, also those that are frozen; gradients, counters and
// tables of integers stay, and so does a state that says where it is.
// RUN: hyc-opt %s --hyc-place-states="optimizer=nvme parameters=cpu" | FileCheck %s
// RUN: hyc-opt %s --hyc-place-states | FileCheck %s --check-prefix=NONE
// RUN: hyc-opt %s --hyc-place-states="optimizer=cpu parameters=nvme ratio=0.5 max-in-host=3" | FileCheck %s --check-prefix=HALF
// RUN: hyc-opt %s --hyc-place-states="parameters=nvme max-in-host=4" | FileCheck %s --check-prefix=ROOM
// RUN: not hyc-opt %s --hyc-place-states=optimizer=disk 2>&1 | FileCheck %s --check-prefix=BAD

// Of 8 trained elements the ratio has room for the first 4. Parameters on a disk: 3 elements of room are too few for any,
// 4 are enough for the first.
// HALF: hyc.param @w {{.*}}dist.placement = "nvme"
// HALF: hyc.param @late {{.*}}dist.placement = "nvme"
// HALF: hyc.state @w.m {{.*}}dist.placement = "host"
// HALF: hyc.state @late.m of @late role "adam.m" : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
// HALF: hyc.state @late.v of @late role "adam.v" : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
// ROOM: hyc.param @w {{.*}}dist.placement = "host"
// ROOM: hyc.param @late {{.*}}dist.placement = "nvme"

// BAD: error: offload of optimizer goes to "disk", expected none, cpu or nvme

// CHECK: hyc.param @w {{.*}}dist.placement = "host"
// NONE: hyc.param @w
// NONE-NOT: dist.placement
// NONE: hyc.state @w.v {{.*}}dist.placement = "host"
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @table : tensor<4xi64> from #hyc.fill<0.000000e+00 : f64> frozen{{$}}
hyc.param @table : tensor<4xi64> from #hyc.fill<0.0 : f64> frozen
// CHECK: hyc.param @frozen {{.*}} frozen {dist.placement = "host"}
hyc.param @frozen : tensor<4xf32> from #hyc.fill<0.0 : f64> frozen
hyc.param @late : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.state @w.grad
// CHECK-NOT: dist.placement
hyc.state @w.grad of @w role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.state @w.m {{.*}}dist.placement = "nvme"
hyc.state @w.m of @w role "adam.m" : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.state @w.v {{.*}}dist.placement = "host"
hyc.state @w.v of @w role "adam.v" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
hyc.state @late.m of @late role "adam.m" : tensor<4xf32> from #hyc.fill<0.0 : f64>
// It says that it stays.
// CHECK: hyc.state @late.v of @late role "adam.v" : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
hyc.state @late.v of @late role "adam.v" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "device"}
// CHECK: hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.000000e+00 : f64>{{$}}
hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0 : f64>
