// Interleaved 1F1B for two stages of two chunks and two micro-batches. Stage 0 runs 2(2 - 0 - 1) + (2 - 1)2 = 4 chunks
// ahead, here all; stage 1 two. What leaves chunk 1 on stage 1 goes on to chunk 2 on stage 0, and what is sent both ways
// meanwhile is one exchange.
// RUN: hyc-opt %s -split-input-file --hyc-build-schedule='micro-batches=2' | FileCheck %s
// RUN: not hyc-opt %s -split-input-file --hyc-build-schedule='micro-batches=3' 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not hyc-opt %s -split-input-file --hyc-build-schedule='schedule=gpipe micro-batches=2' 2>&1 | FileCheck %s --check-prefix=GPIPE

// ODD: error: has virtual stages, whose schedule passes micro-batches on in groups of 2, one a stage, but 3 micro-batches = 1 × 2 + 1
// GPIPE: error: has 2 virtual stages, but schedule gpipe has none; expected 1f1b

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>

// CHECK: dist.schedule stage 0 slots 4 [#dist.do<begin_step>,
// CHECK-SAME: #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [send forward micro_batch 0 slot 0]>,
// CHECK-SAME: #dist.do<forward micro_batch 1 slot 1>,
// CHECK-SAME: #dist.do<exchange [send forward micro_batch 1 slot 1, receive forward virtual_stage 1 micro_batch 0 slot 2]>,
// CHECK-SAME: #dist.do<forward virtual_stage 1 micro_batch 0 slot 2>,
// CHECK-SAME: #dist.do<forward virtual_stage 1 micro_batch 1 slot 3>,
// CHECK-SAME: #dist.do<exchange [send forward virtual_stage 1 micro_batch 1 slot 3, receive backward virtual_stage 1 micro_batch 0 slot 2]>,
// CHECK-SAME: #dist.do<backward virtual_stage 1 micro_batch 0 slot 2>,
// CHECK-SAME: #dist.do<exchange [send backward virtual_stage 1 micro_batch 0 slot 2, receive backward virtual_stage 1 micro_batch 1 slot 3]>,
// CHECK-SAME: #dist.do<backward micro_batch 1 slot 1>, #dist.do<reduce>, #dist.do<apply>]

// CHECK: dist.schedule stage 1 slots 3 [#dist.do<begin_step>,
// CHECK-SAME: #dist.do<exchange [receive forward micro_batch 0 slot 0]>, #dist.do<forward micro_batch 0 slot 0>,
// CHECK-SAME: #dist.do<exchange [send forward micro_batch 0 slot 0, receive forward micro_batch 1 slot 1]>,
// CHECK-SAME: #dist.do<forward virtual_stage 1 micro_batch 0 slot 2>, #dist.do<backward virtual_stage 1 micro_batch 0 slot 2>,
// CHECK-SAME: #dist.do<exchange [send backward virtual_stage 1 micro_batch 0 slot 2, receive forward virtual_stage 1 micro_batch 1 slot 2]>,
// CHECK-SAME: #dist.do<exchange [send backward micro_batch 1 slot {{[0-2]}}]>, #dist.do<reduce>, #dist.do<apply>]
