// The mesh is declared first in the module: axes major to minor, stages beside them. Axes come in the order of their names;
// those of the plan's own choosing, sub-axes and another order are options. Where shardings named a whole axis, they name
// its sub-axes.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=4 pp=3' | FileCheck %s
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 pp=2 virtual-stages=3' | FileCheck %s --check-prefix=VIRTUAL
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=4 axes=ep:3' | FileCheck %s --check-prefix=FURTHER
// RUN: hyc-opt %s --hyc-create-mesh='dp=6 axes=ep:2,dp.hosts:3,dp.local:2 order=tp,ep' | FileCheck %s --check-prefix=PARTS
// RUN: not hyc-opt %s --hyc-create-mesh='tp=0' 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not hyc-opt %s --hyc-create-mesh='virtual-stages=2' 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not hyc-opt %s --hyc-create-mesh --hyc-create-mesh 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not hyc-opt %s --hyc-create-mesh='dp=4 axes=dp.hosts:3' 2>&1 | FileCheck %s --check-prefix=PRODUCT
// RUN: not hyc-opt %s --hyc-create-mesh='axes=ep.a:2' 2>&1 | FileCheck %s --check-prefix=PARENT
// RUN: not hyc-opt %s --hyc-create-mesh='axes=ep' 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not hyc-opt %s --hyc-create-mesh='order=ep' 2>&1 | FileCheck %s --check-prefix=ORDER

// CHECK: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 4] stages 3 batch <{dp}> tensor <{tp}>
// CHECK-NEXT: hyc.param @w
// VIRTUAL: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 2 virtual_stages 3 batch <{dp}> tensor <{tp}>
// FURTHER: dist.mesh @mesh axes ["dp", "ep", "tp"] sizes [2, 3, 4] stages 1 batch <{dp}> tensor <{tp}>
// PARTS: dist.mesh @mesh axes ["tp", "ep", "hosts", "local"] sizes [1, 2, 3, 2] parents ["", "", "dp", "dp"] stages 1 batch <{hosts, local}> tensor <{tp}>
// PARTS: hyc.param @w {{.*}}#dist.sharding<[{ep}, {hosts, local}]>
// EMPTY: error: mesh axis tp has size 0, expected at least 1
// ONE: error: has 2 virtual stages of 1 stages, expected 1
// TWICE: error: has a mesh already
// PRODUCT: error: mesh axis "dp" has size 4, but its parts 3
// PARENT: error: mesh axis "a" is a part of "ep", which is no axis
// SIZE: error: mesh axis "ep" has no size of at least 1, expected NAME:SIZE
// ORDER: error: the mesh has no axis "ep" to put in order
hyc.param @w : tensor<4x12xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{ep}, {dp}]>}
