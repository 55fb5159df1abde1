// RUN: hyc-opt %s --hyc-form-clusters | FileCheck %s

// CHECK-LABEL: hyc.func @producers_with_one_user_are_taken_in
// CHECK: rank.cluster %arg0, %arg1, %arg2 space [4, 8] dims [array<i64: 0, 1>, array<i64: 0, 1>, array<i64: 1>] attributes {id = "out"}
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[P:.*]] = rank.compute "mul" %[[X]], %[[Y]]
// CHECK-NEXT: %[[S:.*]] = rank.compute "add" %[[P]], %[[B]]
// CHECK-NEXT: rank.yield %[[S]]
// CHECK-NOT: hyc.mul
hyc.func @producers_with_one_user_are_taken_in(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = hyc.mul %x, %y : tensor<4x8xf32>
  %1 = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %2 = hyc.add %0, %1 {id = "out"} : tensor<4x8xf32>
  hyc.return %2 : tensor<4x8xf32>
}

// What two ops need is computed once and kept, where something stands between that takes memory; what is cheap is computed
// again.
// CHECK-LABEL: hyc.func @dear_values_are_kept_and_cheap_ones_copied
// CHECK: %[[E:.*]]:2 = rank.cluster %arg0
// CHECK: rank.compute "exp"
// CHECK: rank.compute "mul"
// CHECK: hyc.einsum
// CHECK: rank.cluster %[[E]]#0, %{{.*}} space [8] dims
// CHECK: rank.literal 2.000000e+00
// CHECK: rank.compute "add"
hyc.func @dear_values_are_kept_and_cheap_ones_copied(%x: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<8xf32> {
  %c = hyc.constant dense<2.0> : tensor<8xf32>
  %e = hyc.exp %x : tensor<8xf32>
  %0 = hyc.mul %e, %c : tensor<8xf32>
  %1 = hyc.einsum "a,ab->b" %0, %w : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
  %2 = hyc.add %e, %c : tensor<8xf32>
  %3 = hyc.mul %2, %1 : tensor<8xf32>
  hyc.return %3 : tensor<8xf32>
}

// The pieces of a recurrent step: all that reads the same within elementwise ops and views is one pass that gives each.
// What reads other tensors stays apart.
// CHECK-LABEL: hyc.func @neighbours_are_one_pass
// CHECK: rank.cluster %arg2 space [8]
// CHECK: rank.compute "tanh"
// CHECK: %[[OUT:.*]]:3 = rank.cluster %arg0, %arg1 space [8]
// CHECK-DAG: rank.compute "exp"
// CHECK-DAG: rank.compute "mul"
// CHECK-DAG: rank.compute "sub"
// CHECK: rank.yield %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32
// CHECK: hyc.return %[[OUT]]#0, %[[OUT]]#1, %[[OUT]]#2, %{{.*}}
hyc.func @neighbours_are_one_pass(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %e = hyc.exp %x : tensor<8xf32>
  %m = hyc.mul %e, %y : tensor<8xf32>
  %t = hyc.tanh %z : tensor<8xf32>
  %s = hyc.sub %y, %x : tensor<8xf32>
  hyc.return %e, %m, %s, %t : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: hyc.func @masks_never_reach_memory
// CHECK: rank.cluster %arg0
// CHECK: rank.index 1 : i64
// CHECK: rank.index 0 : i64
// CHECK: rank.compute "compare_le" {{.*}} : (i64, i64) -> i1
// CHECK: rank.compute "select"
// CHECK-NOT: hyc.
// CHECK: hyc.return
hyc.func @masks_never_reach_memory(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %i = hyc.iota dim 0 : tensor<4x4xi64>
  %j = hyc.iota dim 1 : tensor<4x4xi64>
  %m = hyc.compare le %j, %i : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %z = hyc.constant dense<0.0> : tensor<4x4xf32>
  %y = hyc.select %m, %x, %z : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  hyc.return %y : tensor<4x4xf32>
}

// What is kept of them for backward comes from the same pass.
// CHECK-LABEL: hyc.func @comparisons_that_are_kept_are_given_beside_what_is_chosen
// CHECK-NEXT: %[[C:.*]]:2 = rank.cluster %arg0
// CHECK-SAME: -> (tensor<4x4xi1>, tensor<4x4xf32>)
// CHECK-NOT: rank.cluster
// CHECK: hyc.return %[[C]]#1, %[[C]]#0
hyc.func @comparisons_that_are_kept_are_given_beside_what_is_chosen(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xi1>) {
  %z = hyc.constant dense<0.0> : tensor<4x4xf32>
  %m = hyc.compare le %x, %z : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xi1>
  %y = hyc.select %m, %z, %x : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  hyc.return %y, %m : tensor<4x4xf32>, tensor<4x4xi1>
}

// A reduction takes in what it combines. Others need it too, so the cluster gives both, where the first of them stands.
// CHECK-LABEL: hyc.func @what_a_reduction_combines_may_be_a_result_too
// CHECK-NEXT: %[[C:.*]]:2 = rank.cluster %arg0, %arg1 space [4, 8] reduced [0] dims [array<i64: 0, 1>, array<i64: 0, 1>] attributes {id = "act.grad"}
// CHECK-SAME: (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
// CHECK-NEXT: ^bb0(%[[DY:.*]]: f32, %[[X:.*]]: f32):
// CHECK-NEXT: %[[G:.*]] = rank.compute "gelu_tanh_grad" %[[DY]], %[[X]]
// CHECK-NEXT: %[[S:.*]] = rank.combine sum %[[G]] : f32
// CHECK-NEXT: rank.yield %[[G]], %[[S]]
// CHECK: hyc.einsum "sn,kn->sk" %[[C]]#0
// CHECK: hyc.return %{{.*}}, %[[C]]#1
hyc.func @what_a_reduction_combines_may_be_a_result_too(%dy: tensor<4x8xf32>, %x: tensor<4x8xf32>, %w: tensor<2x8xf32>) -> (tensor<4x2xf32>, tensor<8xf32>) {
  %g = hyc.gelu_grad tanh %dy, %x {id = "act.grad"} : tensor<4x8xf32>
  %dx = hyc.einsum "sn,kn->sk" %g, %w : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
  %db = hyc.reduce sum %g [0] {id = "bias.grad"} : (tensor<4x8xf32>) -> tensor<8xf32>
  hyc.return %dx, %db : tensor<4x2xf32>, tensor<8xf32>
}

// CHECK-LABEL: hyc.func @reductions_of_the_same_elements_are_one_cluster
// CHECK-NEXT: rank.cluster %arg0 space [4, 8] reduced [1] dims [array<i64: 0, 1>]
// CHECK: %[[S:.*]] = rank.combine sum
// CHECK: %[[M:.*]] = rank.combine min
// CHECK: rank.yield %[[S]], %[[M]]
// CHECK-NOT: rank.cluster
// CHECK: hyc.return
hyc.func @reductions_of_the_same_elements_are_one_cluster(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = hyc.reduce sum %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %m = hyc.reduce min %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  hyc.return %s, %m : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: hyc.func @reductions_along_other_dimensions_are_not
// CHECK-COUNT-2: rank.cluster
hyc.func @reductions_along_other_dimensions_are_not(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %s = hyc.reduce sum %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %m = hyc.reduce sum %x [0] : (tensor<4x8xf32>) -> tensor<8xf32>
  hyc.return %s, %m : tensor<4xf32>, tensor<8xf32>
}

// CHECK-LABEL: hyc.func @ops_over_the_result_take_the_reduction_in
// CHECK-NEXT: rank.cluster %arg0, %arg1 space [2, 4, 8] reduced [0, 2] dims [array<i64: 0, 1, 2>, array<i64: 1>]
// CHECK: %[[S:.*]] = rank.combine sum
// CHECK: %[[N:.*]] = rank.literal 6.250000e-02
// CHECK: %[[M:.*]] = rank.compute "mul" %[[S]], %[[N]]
// CHECK: rank.compute "add" %[[M]]
// CHECK-NOT: rank.cluster
// CHECK: hyc.return
hyc.func @ops_over_the_result_take_the_reduction_in(%x: tensor<2x4x8xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %s = hyc.reduce sum %x [0, 2] : (tensor<2x4x8xf32>) -> tensor<4xf32>
  %n = hyc.constant dense<0.0625> : tensor<4xf32>
  %m = hyc.mul %s, %n : tensor<4xf32>
  %y = hyc.add %m, %b : tensor<4xf32>
  hyc.return %y : tensor<4xf32>
}

// What it reads would otherwise be alive until the late operand is there.
// CHECK-LABEL: hyc.func @a_reduction_does_not_wait_for_a_late_operand
// CHECK-NEXT: %[[S:.*]] = rank.cluster %arg0 space [4, 8] reduced [1]
// CHECK: hyc.einsum
// CHECK: rank.cluster %[[S]], {{.*}} space [4] dims
hyc.func @a_reduction_does_not_wait_for_a_late_operand(%x: tensor<4x8xf32>, %v: tensor<8xf32>) -> tensor<4xf32> {
  %s = hyc.reduce sum %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %p = hyc.einsum "sk,k->s" %x, %v : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
  %y = hyc.mul %s, %p : tensor<4xf32>
  hyc.return %y : tensor<4xf32>
}

// Exponentials are kept for the division and summed while they are made.
// CHECK-LABEL: hyc.func @softmax_is_three_passes
// CHECK: %[[MAX:.*]] = rank.cluster %arg0 space [4, 8] reduced [1]
// CHECK: rank.combine max
// CHECK: %[[E:.*]]:2 = rank.cluster %arg0, %[[MAX]] space [4, 8] reduced [1] dims [array<i64: 0, 1>, array<i64: 0>]
// CHECK: rank.compute "sub"
// CHECK: %[[EXP:.*]] = rank.compute "exp"
// CHECK: %[[SUM:.*]] = rank.combine sum %[[EXP]]
// CHECK: rank.yield %[[EXP]], %[[SUM]]
// CHECK: rank.cluster %[[E]]#0, %[[E]]#1 space [4, 8] dims [array<i64: 0, 1>, array<i64: 0>]
// CHECK: rank.compute "div"
// CHECK-NOT: rank.cluster
// CHECK: hyc.return
hyc.func @softmax_is_three_passes(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %m = hyc.reduce max %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %mb = hyc.broadcast %m [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %c = hyc.sub %x, %mb : tensor<4x8xf32>
  %e = hyc.exp %c : tensor<4x8xf32>
  %s = hyc.reduce sum %e [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %sb = hyc.broadcast %s [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %y = hyc.div %e, %sb : tensor<4x8xf32>
  hyc.return %y : tensor<4x8xf32>
}

// The maximum is of the same space as the sum, but the sum reads it whole: it can't come out of the same pass, even where
// another reader keeps x.
// CHECK-LABEL: hyc.func @no_cluster_reads_what_it_makes
// CHECK: %[[X:.*]] = {{.*}}hyc.einsum
// CHECK: rank.cluster
// CHECK: rank.combine max
// CHECK: rank.cluster
// CHECK: rank.combine sum
hyc.func @no_cluster_reads_what_it_makes(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %p = hyc.einsum "sk,kt->st" %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %c = hyc.constant dense<3.0> : tensor<4x8xf32>
  %x = hyc.mul %p, %c : tensor<4x8xf32>
  %m = hyc.reduce max %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %mb = hyc.broadcast %m [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %d = hyc.sub %x, %mb : tensor<4x8xf32>
  %e = hyc.exp %d : tensor<4x8xf32>
  %s = hyc.reduce sum %e [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %sb = hyc.broadcast %s [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %y = hyc.div %e, %sb : tensor<4x8xf32>
  hyc.return %y, %x : tensor<4x8xf32>, tensor<4x8xf32>
}

// A maximum of a whole tensor knows no order: rows first, so that they can be shared out, then what they give.
// CHECK-LABEL: hyc.func @the_maximum_of_a_whole_tensor_is_that_of_its_rows
// CHECK: %[[ROWS:.*]] = rank.cluster %arg0 space [8, 512] reduced [1]
// CHECK-SAME: id = "amax.rows"
// CHECK-SAME: (tensor<8x512xbf16>) -> tensor<8xf32>
// CHECK: rank.combine max
// CHECK: rank.cluster %[[ROWS]] space [8] reduced [0]
// CHECK-SAME: id = "amax"
// CHECK: rank.combine max
hyc.func @the_maximum_of_a_whole_tensor_is_that_of_its_rows(%x: tensor<8x512xbf16>) -> tensor<f32> {
  %0 = hyc.abs %x : tensor<8x512xbf16>
  %1 = hyc.reduce max %0 [0, 1] {id = "amax"} : (tensor<8x512xbf16>) -> tensor<f32>
  hyc.return %1 : tensor<f32>
}

// What the kept level gives has to follow from its reductions, by which kernels tell the level: the gate, which others want
// as well, does not, and is made before.
// CHECK-LABEL: hyc.func @a_gate_that_is_wanted_beside_a_mean_is_made_before_it
// CHECK: %[[GATE:.*]] = rank.cluster %arg0 space [4, 8]
// CHECK-NOT: rank.combine
// CHECK: rank.compute "sigmoid"
// CHECK: rank.yield
// CHECK: %[[Y:.*]] = rank.cluster {{.*}}space [4, 2, 8] reduced [1]
// CHECK: rank.combine sum
// CHECK: rank.yield %{{[^,]*}} :
// CHECK: hyc.return %[[Y]], %[[GATE]]
hyc.func @a_gate_that_is_wanted_beside_a_mean_is_made_before_it(%u: tensor<4x8xf32>, %all: tensor<4x2x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %g = hyc.sigmoid %u {id = "gate"} : tensor<4x8xf32>
  %m = hyc.reduce sum %all [1] {id = "mean"} : (tensor<4x2x8xf32>) -> tensor<4x8xf32>
  %p = hyc.mul %g, %u {id = "gated"} : tensor<4x8xf32>
  %y = hyc.add %m, %p {id = "y"} : tensor<4x8xf32>
  hyc.return %y, %g : tensor<4x8xf32>, tensor<4x8xf32>
}
