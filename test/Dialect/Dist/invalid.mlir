// RUN: hyc-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{[mesh.sizes] axis "tp" has size 0, expected at least 1}}
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 0] stages 1 batch <{dp}> tensor <{tp}>

// -----

// expected-error@+1 {{[mesh.sizes] axis "dp" is named twice}}
dist.mesh @mesh axes ["dp", "dp"] sizes [2, 2] stages 1 batch <{dp}>

// -----

// expected-error@+1 {{[mesh.sizes] has 0 virtual stages, expected at least 1}}
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 0 batch <{dp}> tensor <{tp}>

// -----

// expected-error@+1 {{[mesh.virtual_stages] has 2 virtual stages of 1 stage, expected 1}}
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 virtual_stages 2 batch <{dp}> tensor <{tp}>

// -----

// expected-error@+1 {{[sharding.axis_once] axis "tp" is named twice}}
hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{tp}, {tp}]>}

// -----

hyc.func @two_shardings_for_one_result(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected 1 shardings, one a result}}
  %0 = hyc.neg %x {dist.shardings = [#dist.sharding<[{}]>, #dist.sharding<[{}]>]} : tensor<4xf32>
  hyc.return
}

// -----

hyc.func @sharding_of_the_wrong_rank(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 2 dimensions, expected those of 'tensor<4xf32>'}}
  %0 = hyc.neg %x {dist.shardings = [#dist.sharding<[{}, {}]>]} : tensor<4xf32>
  hyc.return
}

// -----

// expected-error@+1 {{fills slot 0, which still holds micro-batch 0}}
dist.schedule stage 0 slots 1 [#dist.do<forward micro_batch 0 slot 0>, #dist.do<forward micro_batch 1 slot 0>, #dist.do<backward micro_batch 1 slot 0>]

// -----

// expected-error@+1 {{empties slot 0, which does not hold it}}
dist.schedule stage 0 slots 1 [#dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 1 slot 0>]

// -----

// Of one micro-batch, but of another chunk.
// expected-error@+1 {{empties slot 0, which does not hold it}}
dist.schedule stage 0 slots 1 [#dist.do<forward virtual_stage 1 micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>]

// -----

// expected-error@+1 {{fills slot 0, which still holds micro-batch 0 of virtual stage 1}}
dist.schedule stage 0 slots 1 [#dist.do<forward virtual_stage 1 micro_batch 0 slot 0>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>]

// -----

// expected-error@+1 {{uses slot 1, expected one below 1}}
dist.schedule stage 0 slots 1 [#dist.do<forward micro_batch 0 slot 1>]

// -----

hyc.func @all_gather_along_a_dimension_that_is_not_there(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{along dim 2}}
  %0 = dist.all_gather_start %x dim 2 over <{tp}> : tensor<4x8xf32> -> !dist.pending<tensor<4x16xf32>>
  hyc.return
}

// -----

// expected-error@+1 {{[lifetime.over] what is computed again is kept nowhere, but axes were given}}
module attributes {some.lifetime = #dist.lifetime<recompute over {tp}>} {}

// -----

// expected-error@+1 {{lifetime is "keep", expected save, recompute or offload}}
module attributes {some.lifetime = #dist.lifetime<keep>} {}

// -----

// expected-error@+1 {{dist.lifetime is "save", expected a #dist.lifetime}}
module attributes {dist.lifetime = "save"} {}

// -----

hyc.func @all_gather_both_by_dimension_and_flat(%x: tensor<1024xf32>) {
  // expected-error@+1 {{[exchange.form] has both dim and flat, expected one of them}}
  %0 = dist.all_gather_start %x dim 0 flat <{dp}> over <{dp}> : tensor<1024xf32> -> !dist.pending<tensor<2048xf32>>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp"] sizes [2] stages 1 batch <{dp}>
hyc.func @flat_shard_of_part_of_a_block(%x: tensor<64x64xf32>) {
  // expected-error@+1 {{[exchange.flat] has whole 'tensor<64x64xf32>' and shard 'tensor<1024xf32>' flat over}}
  %0 = dist.reduce_scatter_start %x flat <{dp}> over <{dp}> : tensor<64x64xf32> -> !dist.pending<tensor<1024xf32>>
  hyc.return
}

// -----

// expected-error@+1 {{dist.reduction is "never", expected "step" or "micro_batch"}}
hyc.state @g role "gradient" : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.reduction = "never"}

// -----

// expected-error@+1 {{[mesh.names] has 9 axes, expected at most 8}}
dist.mesh @mesh axes ["a", "b", "c", "d", "e", "f", "g", "h", "i"] sizes [1, 1, 1, 1, 1, 1, 1, 1, 1] stages 1

// -----

// expected-error@+1 {{[mesh.names] axis "two words" is no name, expected a lower-case letter, then letters, digits and _, 23 at most}}
dist.mesh @mesh axes ["two words"] sizes [1] stages 1

// -----

// expected-error@+1 {{[mesh.parents] has 1 parents and 2 axes}}
dist.mesh @mesh axes ["hosts", "local"] sizes [2, 2] parents ["dp"] stages 1

// -----

// expected-error@+1 {{[mesh.parents] sub-axes of "dp" do not stand side by side}}
dist.mesh @mesh axes ["hosts", "tp", "local"] sizes [2, 2, 2] parents ["dp", "", "dp"] stages 1

// -----

// expected-error@+1 {{[mesh.parents] "tp" is the name of an axis and of a parent}}
dist.mesh @mesh axes ["hosts", "tp"] sizes [2, 2] parents ["tp", ""] stages 1

// -----

// expected-error@+1 {{[mesh.roles] batch names "dp", which is no axis}}
dist.mesh @mesh axes ["hosts", "local"] sizes [2, 2] parents ["dp", "dp"] stages 1 batch <{dp}>

// -----

// expected-error@+1 {{[mesh.roles] tensor names "tp" twice}}
dist.mesh @mesh axes ["tp"] sizes [2] stages 1 tensor <{tp, tp}>

// -----

hyc.func @all_to_all_along_one_dimension(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{[exchange.all_to_all] splits dim 1 and joins dim 1, expected two dimensions of 'tensor<4x8xf32>'}}
  %0 = dist.all_to_all_start %x split 1 concat 1 over <{tp}> : tensor<4x8xf32> -> !dist.pending<tensor<4x8xf32>>
  hyc.return
}

// -----

dist.mesh @mesh axes ["tp"] sizes [2] stages 1
hyc.func @all_to_all_into_shards_of_more_members(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{[exchange.all_to_all] turns 'tensor<4x8xf32>' into 'tensor<1x32xf32>', which are no shards of each other along dims 0 and 1}}
  %0 = dist.all_to_all_start %x split 0 concat 1 over <{tp}> : tensor<4x8xf32> -> !dist.pending<tensor<1x32xf32>>
  hyc.return
}

// -----

hyc.func @all_to_all_that_changes_another_dimension(%x: tensor<4x8x3xf32>) {
  // expected-error@+1 {{[exchange.all_to_all] turns}}
  %0 = dist.all_to_all_start %x split 0 concat 1 over <{tp}> : tensor<4x8x3xf32> -> !dist.pending<tensor<2x16x4xf32>>
  hyc.return
}

// -----

hyc.func @shift_into_another_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{[exchange.shift] turns 'tensor<4xf32>' into 'tensor<8xf32>'}}
  %0 = dist.shift_start %x by 1 over <{tp}> : tensor<4xf32> -> !dist.pending<tensor<8xf32>>
  hyc.return
}

// -----

hyc.func @shift_to_itself(%x: tensor<4xf32>) {
  // expected-error@+1 {{[exchange.shift] has distance 0, expected at least 1}}
  %0 = dist.shift_start %x by 0 over <{tp}> : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  hyc.return
}

// -----

dist.mesh @mesh axes ["tp"] sizes [3] stages 1
hyc.func @shift_all_around(%x: tensor<4xf32>) {
  // expected-error@+1 {{[exchange.shift] has distance 3, expected at least 1 and less than the 3 members of the group}}
  %0 = dist.shift_start %x by 3 over <{tp}> : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  hyc.return
}
