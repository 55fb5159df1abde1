// What a stage computes has come to it, and nothing is left at the step's end.
// RUN: hyc-opt %s -split-input-file -verify-diagnostics --hyc-check-schedules

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [send forward micro_batch 0 slot 0, receive backward micro_batch 0 slot 0]>, #dist.do<backward micro_batch 0 slot 0>, #dist.do<reduce>, #dist.do<apply>]
  dist.schedule stage 1 slots 1 [#dist.do<begin_step>, #dist.do<exchange [receive forward micro_batch 0 slot 0]>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>, #dist.do<exchange [send backward micro_batch 0 slot 0]>, #dist.do<reduce>, #dist.do<apply>]
  hyc.func @forward.0(%x: tensor<2xf32> {hyc.input = "x"}) -> (tensor<2xf32> {dist.channel = "x"}) { hyc.return %x : tensor<2xf32> }
  hyc.func @backward.0(%x: tensor<2xf32> {dist.channel = "x.grad"}) { hyc.return }
  hyc.func @forward.1(%x: tensor<2xf32> {dist.channel = "x"}) -> (tensor<2xf32> {hyc.saved = "x"}) { hyc.return %x : tensor<2xf32> }
  hyc.func @backward.1(%x: tensor<2xf32> {hyc.saved = "x"}) -> (tensor<2xf32> {dist.channel = "x.grad"}) { hyc.return %x : tensor<2xf32> }
}

// -----

// The last stage computes before it has received anything.
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 []
  // expected-error@+1 {{stage 1, instruction 1 (#dist.do<forward micro_batch 0 slot 0>): slot 0 has received nothing for it}}
  dist.schedule stage 1 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [receive forward micro_batch 0 slot 0]>]
  hyc.func @forward.1(%x: tensor<2xf32> {dist.channel = "x"}) { hyc.return }
}

// -----

// What is sent lies in another slot.
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  // expected-error@+1 {{stage 0, instruction 2 (#dist.do<exchange [send forward micro_batch 0 slot 1]>): slot 1 has nothing of micro-batch 0 to send}}
  dist.schedule stage 0 slots 2 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [send forward micro_batch 0 slot 1]>]
  dist.schedule stage 1 slots 1 []
  hyc.func @forward.0(%x: tensor<2xf32> {hyc.input = "x"}) -> (tensor<2xf32> {dist.channel = "x"}) { hyc.return %x : tensor<2xf32> }
}

// -----

// Two micro-batches go forward, one comes back.
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  // expected-error@+1 {{stage 0 ends its step with slot 1 full: no backward uses what was saved for micro-batch 1}}
  dist.schedule stage 0 slots 2 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<forward micro_batch 1 slot 1>, #dist.do<backward micro_batch 0 slot 0>, #dist.do<reduce>, #dist.do<apply>]
  hyc.func @forward.0(%x: tensor<2xf32> {hyc.input = "x"}) { hyc.return }
  hyc.func @backward.0() { hyc.return }
}

// -----

// The only backward is missing; that the stage trains, apply says.
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  // expected-error@+1 {{stage 0 ends its step with slot 0 full: no backward uses what was saved for micro-batch 0}}
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<reduce>, #dist.do<apply>]
  hyc.func @forward.0(%x: tensor<2xf32> {hyc.input = "x"}) { hyc.return }
}

// -----

// The gradients of the second micro-batch come after they were summed up.
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  // expected-error@+1 {{stage 0, instruction 5 (#dist.do<backward micro_batch 1 slot 1>): comes after reduce, which sums up what all micro-batches have made}}
  dist.schedule stage 0 slots 2 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<forward micro_batch 1 slot 1>, #dist.do<backward micro_batch 0 slot 0>, #dist.do<reduce>, #dist.do<backward micro_batch 1 slot 1>, #dist.do<apply>]
  hyc.func @forward.0(%x: tensor<2xf32> {hyc.input = "x"}) { hyc.return }
  hyc.func @backward.0() { hyc.return }
}

// -----

// One stage leaves a micro-batch out.
// expected-error@+1 {{chunk 1 computes 1 micro-batches, but chunk 0 computes 2, or others}}
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 2 [#dist.do<forward micro_batch 0 slot 0>, #dist.do<forward micro_batch 1 slot 1>]
  dist.schedule stage 1 slots 2 [#dist.do<forward micro_batch 0 slot 0>]
  hyc.func @forward.0(%x: tensor<2xf32> {hyc.input = "x"}) { hyc.return }
  hyc.func @forward.1(%x: tensor<2xf32> {hyc.input = "x"}) { hyc.return }
}
