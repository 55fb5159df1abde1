// Windows and ops by number are one library kernel each; a convolution's workspace holds samples' patches, and its
// weights' gradient is added to the state where it lies.
// RUN: hyc-opt %s --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<4x3x2x2xf32> from #hyc.fill<1.0 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<4x3x2x2xf32> from #hyc.fill<0.0 : f64>
hyc.state @y role "output" : tensor<2x4x4x4xf32> from #hyc.fill<0.0 : f64>
// CHECK-LABEL: rank.func @forward()
hyc.func @forward.0(%x: tensor<2x3x5x5xf32> {hyc.input = "x"}) attributes {dist.stage = 0 : i64} {
  %w = hyc.read @w : tensor<4x3x2x2xf32>
  // CHECK: rank.alloc {{.*}}<512xf32>
  // CHECK: rank.call "convolution" {{.*}} {dilations = array<i64: 1, 1>, groups = 1 : i64, {{.*}}low = array<i64: 0, 0>, strides = array<i64: 1, 1>}
  %y = hyc.convolution %x, %w strides [1, 1] dilations [1, 1] pads [0, 0] [0, 0] {id = "c"} : (tensor<2x3x5x5xf32>, tensor<4x3x2x2xf32>) -> tensor<2x4x4x4xf32>
  // CHECK: rank.call "convolution_weight" {{.*}}mode = #rank<mode first>
  %g = hyc.convolution_weight %x, %y strides [1, 1] dilations [1, 1] pads [0, 0] [0, 0] {id = "g"} : (tensor<2x3x5x5xf32>, tensor<2x4x4x4xf32>) -> tensor<4x3x2x2xf32>
  hyc.accumulate %g into @w.grad : tensor<4x3x2x2xf32>
  // CHECK: rank.call "max_pool" {{.*}} {dilations = array<i64: 1, 1>, {{.*}}window = array<i64: 2, 2>}
  %p, %i = hyc.max_pool %y window [2, 2] strides [2, 2] dilations [1, 1] pads [0, 0] [0, 0] {id = "p"} : (tensor<2x4x4x4xf32>) -> (tensor<2x4x2x2xf32>, tensor<2x4x2x2xi64>)
  %rows = hyc.reshape %p {id = "r"} : (tensor<2x4x2x2xf32>) -> tensor<2x4x4xf32>
  %at = hyc.reshape %i {id = "a"} : (tensor<2x4x2x2xi64>) -> tensor<2x4x4xi64>
  // CHECK: rank.call "scatter" {{.*}} {batch = 2 : i64, dim = 2 : i64, {{.*}}kind = "sum"}
  %s = hyc.scatter sum %at, %rows dim 2 batch 2 {id = "s"} : (tensor<2x4x4xi64>, tensor<2x4x4xf32>) -> tensor<2x4x16xf32>
  // CHECK: rank.call "argsort" {{.*}} {descending
  %o = hyc.argsort descending %s {id = "o"} : (tensor<2x4x16xf32>) -> tensor<2x4x16xi64>
  // The beginning of an order is as long as it says.
  // CHECK: rank.call "argsort" %{{.*}} = %{{.*}} {id = "few"} : !rank.buffer<2x4x3xi64>
  %f = hyc.argsort %s first 3 {id = "few"} : (tensor<2x4x16xf32>) -> tensor<2x4x3xi64>
  // CHECK: rank.call "gather" {{.*}} {batch = 2 : i64, dim = 2 : i64
  %t = hyc.gather %s, %o dim 2 batch 2 {id = "t"} : (tensor<2x4x16xf32>, tensor<2x4x16xi64>) -> tensor<2x4x16xf32>
  // CHECK: rank.call "cumsum" {{.*}} {dim = 2 : i64, {{.*}}reverse
  %u = hyc.cumsum %t dim 2 reverse {id = "u"} : tensor<2x4x16xf32>
  %image = hyc.reshape %u {id = "v"} : (tensor<2x4x16xf32>) -> tensor<2x4x4x4xf32>
  // The tables of all dimensions, one after the other, are constants.
  // CHECK: rank.call "constant" %[[FIRSTS:[0-9]+]] = {{.*}}values = dense<[0, 2, 1, 2, 0, 0, 3, 1]> : tensor<8xi64>
  // CHECK: rank.call "constant" %[[WEIGHTS:[0-9]+]] = {{.*}}values = dense<[1.000000e+00, 0.000000e+00, 5.000000e-01, 5.000000e-01, 2.500000e-01, 7.500000e-01, 0.000000e+00, 1.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<12xf32>
  // CHECK: rank.call "resample" %{{.*}} = %{{.*}}, %[[FIRSTS]], %[[WEIGHTS]] {dim = 2 : i64, {{.*}}taps = array<i64: 2, 1>}
  %v = hyc.resample %image dim 2 firsts [array<i64: 0, 2, 1, 2>, array<i64: 0, 0, 3, 1>] weights [array<f64: 1.0, 0.0, 0.5, 0.5, 0.25, 0.75, 0.0, 1.0>, array<f64: 1.0, 2.0, 3.0, 4.0>] {id = "z"} : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  hyc.write %v into @y : tensor<2x4x4x4xf32>
  hyc.return
}
hyc.func @backward.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @reduce.0() attributes {dist.stage = 0 : i64} { hyc.return }
hyc.func @apply.0() attributes {dist.stage = 0 : i64} { hyc.return }
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>]
