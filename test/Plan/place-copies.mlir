// Beside a copy in 16 bits the f32 master is the optimizer's; what is placed as the parameters is the copy.
// RUN: hyc-opt %s --hyc-place-states="optimizer=nvme parameters=cpu" | FileCheck %s
// RUN: hyc-opt %s --hyc-place-states="optimizer=nvme" | FileCheck %s --check-prefix=STATES

// CHECK: hyc.param @w {{.*}}dist.placement = "nvme"
// STATES: hyc.param @w {{.*}}dist.placement = "nvme"
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @scale {{.*}}dist.placement = "host"
// STATES: hyc.param @scale : tensor<4xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
hyc.param @scale : tensor<4xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.state @w.compute {{.*}}dist.placement = "host"
// STATES: hyc.state @w.compute of @w role "compute" : tensor<4xbf16> from #hyc.fill<0.000000e+00 : f64>{{$}}
hyc.state @w.compute of @w role "compute" : tensor<4xbf16> from #hyc.fill<0.0 : f64>
// CHECK: hyc.state @w.m {{.*}}dist.placement = "nvme"
hyc.state @w.m of @w role "adam.m" : tensor<4xf32> from #hyc.fill<0.0 : f64>
