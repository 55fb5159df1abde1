// A buffer is on the stage that writes it; one that another stage reads would be another there.
// RUN: hyc-opt %s --hyc-create-mesh='pp=2' --hyc-assign-stages='method=uniform cuts=d' | FileCheck %s
// RUN: not hyc-opt %s --hyc-create-mesh='pp=2' --hyc-assign-stages='method=uniform cuts=c' 2>&1 | FileCheck %s --check-prefix=APART

// APART: error: 'hyc.write' op [stages.buffer] writes @mean, which stages 0, 1 use, expected one stage; cut the model elsewhere, or lower --pp

// CHECK: hyc.param @mean {{.*}}dist.stages = array<i64: 0>
hyc.param @mean : tensor<8xf32> from #hyc.fill<0.0 : f64> frozen
hyc.func @microbatch(%x: tensor<8xf32> {hyc.input = "x"}) {
  %old = hyc.read @mean : tensor<8xf32>
  %a = hyc.exp %x {id = "a"} : tensor<8xf32>
  %b = hyc.add %a, %old {id = "b"} : tensor<8xf32>
  %c = hyc.neg %b {id = "c"} : tensor<8xf32>
  // CHECK: hyc.write {{.*}} {dist.stage = 0 : i64, id = "mean.write"}
  hyc.write %c into @mean {id = "mean.write"} : tensor<8xf32>
  %d = hyc.abs %c {id = "d"} : tensor<8xf32>
  hyc.return
}
