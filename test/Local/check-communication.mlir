// Two neighbours that both send first wait for each other for ever; as one exchange each, they do not.
// RUN: hyc-opt %s -split-input-file -verify-diagnostics --hyc-check-communication

// expected-error@+1 {{the schedules deadlock: stage 0 waits to send forward of micro-batch 1; stage 1 waits to send backward of micro-batch 0}}
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 2 [#dist.do<exchange [send forward micro_batch 0 slot 0]>, #dist.do<exchange [send forward micro_batch 1 slot 1]>, #dist.do<exchange [receive backward micro_batch 0 slot 0]>]
  dist.schedule stage 1 slots 2 [#dist.do<exchange [receive forward micro_batch 0 slot 0]>, #dist.do<exchange [send backward micro_batch 0 slot 0]>, #dist.do<exchange [receive forward micro_batch 1 slot 1]>]
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 2 [#dist.do<exchange [send forward micro_batch 0 slot 0]>, #dist.do<exchange [send forward micro_batch 1 slot 1, receive backward micro_batch 0 slot 0]>]
  dist.schedule stage 1 slots 2 [#dist.do<exchange [receive forward micro_batch 0 slot 0]>, #dist.do<exchange [send backward micro_batch 0 slot 0, receive forward micro_batch 1 slot 1]>]
}

// -----

// Collectives of one group in another order.
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<reduce>]
  dist.schedule stage 1 slots 1 [#dist.do<reduce>]
  hyc.func @reduce.0() {
    %0 = hyc.constant dense<0.0> : tensor<f32>
    // expected-error@+1 {{stage 0 starts all_reduce of "loss" over #dist.group<{} stages [0, 1]>, but stage 1 starts all_reduce of "count" over #dist.group<{} stages [0, 1]> in the same place}}
    %1 = dist.all_reduce_start sum %0 over <{} stages [0, 1]> {cause = "loss"} : tensor<f32> -> <tensor<f32>>
    hyc.return
  }
  hyc.func @reduce.1() {
    %0 = hyc.constant dense<0.0> : tensor<f32>
    // expected-note@+1 {{the other collective}}
    %1 = dist.all_reduce_start sum %0 over <{} stages [0, 1]> {cause = "count"} : tensor<f32> -> <tensor<f32>>
    hyc.return
  }
}

// -----

// Between two stages of two chunks, forward and backward go the same way: they meet in the order in which both list them.
// expected-error@+1 {{the schedules deadlock: stage 0 waits to send forward of micro-batch 1, send backward of micro-batch 0 of virtual stage 1; stage 1 waits to receive backward of micro-batch 0, receive forward of micro-batch 1}}
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 3 [#dist.do<exchange [send forward micro_batch 1 slot 1, send backward virtual_stage 1 micro_batch 0 slot 2]>]
  dist.schedule stage 1 slots 3 [#dist.do<exchange [receive backward micro_batch 0 slot 0, receive forward micro_batch 1 slot 1]>]
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 3 [#dist.do<exchange [send forward micro_batch 1 slot 1, send backward virtual_stage 1 micro_batch 0 slot 2]>]
  dist.schedule stage 1 slots 3 [#dist.do<exchange [receive forward micro_batch 1 slot 1, receive backward micro_batch 0 slot 0]>]
}

// -----

// Of the same micro-batch and stages, but of another chunk.
// expected-error@+1 {{the schedules deadlock: stage 0 waits to send forward of micro-batch 0; stage 1 waits to receive forward of micro-batch 0 of virtual stage 1}}
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<exchange [send forward micro_batch 0 slot 0]>]
  dist.schedule stage 1 slots 1 [#dist.do<exchange [receive forward virtual_stage 1 micro_batch 0 slot 0]>]
}

// -----

// The model ends with the last stage's last chunk.
// expected-error@+1 {{stage 1 has send forward of micro-batch 0 of virtual stage 1, but there is no chunk 4 of 4}}
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 []
  dist.schedule stage 1 slots 1 [#dist.do<exchange [send forward virtual_stage 1 micro_batch 0 slot 0]>]
}
