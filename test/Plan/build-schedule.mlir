// GPipe and 1F1B for two stages and three micro-batches. 1F1B holds at most p - s micro-batches alive on stage s, and pairs
// opposing transfers in one exchange.
// RUN: hyc-opt %s --hyc-build-schedule='schedule=gpipe micro-batches=3' | FileCheck %s --check-prefix=GPIPE
// RUN: hyc-opt %s --hyc-build-schedule='schedule=1f1b micro-batches=3' | FileCheck %s --check-prefix=F1B
// RUN: hyc-opt %s --hyc-build-schedule='schedule=forward micro-batches=2' | FileCheck %s --check-prefix=FORWARD
// RUN: not hyc-opt %s --hyc-build-schedule='schedule=zigzag micro-batches=3' 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: schedule is "zigzag", expected gpipe, 1f1b or forward

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>

// GPIPE: dist.schedule stage 0 slots 3 [#dist.do<begin_step>,
// GPIPE-SAME: #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [send forward micro_batch 0 slot 0]>,
// GPIPE-SAME: #dist.do<forward micro_batch 2 slot 2>, #dist.do<exchange [send forward micro_batch 2 slot 2]>,
// GPIPE-SAME: #dist.do<exchange [receive backward micro_batch 0 slot 0]>, #dist.do<backward micro_batch 0 slot 0>,
// GPIPE-SAME: #dist.do<reduce>, #dist.do<apply>]

// F1B: dist.schedule stage 0 slots 2 [#dist.do<begin_step>,
// F1B-SAME: #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [send forward micro_batch 0 slot 0]>,
// F1B-SAME: #dist.do<forward micro_batch 1 slot 1>, #dist.do<exchange [send forward micro_batch 1 slot 1, receive backward micro_batch 0 slot 0]>,
// F1B-SAME: #dist.do<backward micro_batch 0 slot 0>,
// F1B-SAME: #dist.do<forward micro_batch 2 slot 0>
// F1B: dist.schedule stage 1 slots 1 [#dist.do<begin_step>,
// F1B-SAME: #dist.do<exchange [receive forward micro_batch 0 slot 0]>, #dist.do<forward micro_batch 0 slot 0>,
// F1B-SAME: #dist.do<backward micro_batch 0 slot 0>, #dist.do<exchange [send backward micro_batch 0 slot 0, receive forward micro_batch 1 slot 0]>

// FORWARD: dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>,
// FORWARD-SAME: #dist.do<exchange [send forward micro_batch 0 slot 0]>, #dist.do<forward micro_batch 1 slot 0>,
// FORWARD-SAME: #dist.do<exchange [send forward micro_batch 1 slot 0]>, #dist.do<reduce>]
// FORWARD: dist.schedule stage 1 slots 1 [#dist.do<begin_step>, #dist.do<exchange [receive forward micro_batch 0 slot 0]>,
// FORWARD-SAME: #dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [receive forward micro_batch 1 slot 0]>,
// FORWARD-SAME: #dist.do<forward micro_batch 1 slot 0>, #dist.do<reduce>]
