// The mesh is declared first in the module: axes major to minor, stages beside them.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=4 pp=3' | FileCheck %s
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 pp=2 virtual-stages=3' | FileCheck %s --check-prefix=VIRTUAL
// RUN: not hyc-opt %s --hyc-create-mesh='tp=0' 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not hyc-opt %s --hyc-create-mesh='virtual-stages=2' 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not hyc-opt %s --hyc-create-mesh --hyc-create-mesh 2>&1 | FileCheck %s --check-prefix=TWICE

// CHECK: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 4] stages 3
// CHECK-NEXT: hyc.param @w
// VIRTUAL: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 2 virtual_stages 3
// EMPTY: error: mesh axis tp has size 0, expected at least 1
// ONE: error: has 2 virtual stages of 1 stages, expected 1
// TWICE: error: has a mesh already
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
