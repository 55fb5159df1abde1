// RUN: hyc-opt %s --hyc-form-clusters --hyc-lower-to-rank | FileCheck %s

// What is read of a buffer is its address, but where it is wanted after the buffer is written: then a copy is taken.

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @mean : tensor<8xf32> from #hyc.fill<0.5 : f64> frozen {dist.sharding = #dist.sharding<[{}]>}
hyc.param @saved : tensor<8xf32> from #hyc.fill<0.5 : f64> frozen {dist.sharding = #dist.sharding<[{}]>}

// CHECK: rank.program @stage0
// CHECK-SAME: writes_buffers
// CHECK: rank.record @old
hyc.func @forward.0(%x: tensor<8xf32> {hyc.input = "x", hyc.source = "sample"}) -> (tensor<8xf32> {hyc.saved = "old"}) {
  // CHECK-LABEL: rank.func @forward()
  // CHECK: %[[MEAN:.*]] = rank.address @mean
  // CHECK-NOT: strided_copy
  // CHECK: rank.launch {{.*}} = %[[MEAN]],
  // CHECK: rank.call "strided_copy" {{.*}} {id = "mean.write"}
  %0 = hyc.read @mean : tensor<8xf32>
  %1 = hyc.add %0, %x {id = "next"} : tensor<8xf32>
  hyc.write %1 into @mean {id = "mean.write"} : tensor<8xf32>
  // CHECK: %[[SAVED:.*]] = rank.address @saved
  // CHECK: %[[OLD:.*]] = rank.address @old
  // CHECK: rank.call "strided_copy" %[[OLD]] = %[[SAVED]] {id = "old"}
  // CHECK: rank.launch {{.*}} = %[[OLD]],
  // CHECK: rank.call "strided_copy" {{.*}} {id = "saved.write"}
  %2 = hyc.read @saved {id = "old"} : tensor<8xf32>
  %3 = hyc.add %2, %x {id = "saved.next"} : tensor<8xf32>
  hyc.write %3 into @saved {id = "saved.write"} : tensor<8xf32>
  hyc.return %2 : tensor<8xf32>
}
hyc.func @backward.0(%old: tensor<8xf32> {hyc.saved = "old"}) {
  hyc.return
}
hyc.func @reduce.0() {
  hyc.return
}
hyc.func @apply.0() {
  hyc.return
}
