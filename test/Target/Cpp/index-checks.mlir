// Indices that the model computes are compared with their bound in front of the call that uses them: on CPUs by the host,
// on GPUs by the device, where the stream comes to them. Those of the data have no check.
// RUN: rm -rf %t && hyc-compile %s --loss loss --micro-batch 2 --optimizer sgd --entry train --optimize 0 --emit=source -o %t
// RUN: FileCheck %s --check-prefixes=CHECK,CPU --input-file=%t/src/stage0_forward.cpp
// RUN: rm -rf %t && hyc-compile %s --loss loss --micro-batch 2 --optimizer sgd --entry train --optimize 0 --target cuda --emit=source -o %t
// RUN: FileCheck %s --check-prefixes=CHECK,CUDA --input-file=%t/src/stage0_forward.cpp
// RUN: rm -rf %t && hyc-compile %s --loss loss --micro-batch 2 --optimizer sgd --entry train --optimize 0 --target cuda --tp 2 --emit=source -o %t
// RUN: FileCheck %s --check-prefixes=CHECK,SPLIT --input-file=%t/src/stage0_forward.cpp

// CHECK: #include "hycrt/indices.h"
// CHECK-NOT: checkIndices
// CHECK: embedding({{.*}}.tokens = 10
// CPU: hycrt::checkIndices(ctx, "of_sum", i64({{.*}}), 10, 9);
// CUDA: ctx.accelerator()->checkIndices(ctx, "of_sum", i64({{.*}}), 10, 9);
// SPLIT: ctx.accelerator()->checkIndices(ctx, "of_sum", i64({{.*}}), 10, 9);
// CHECK-NEXT: embedding({{.*}}.tokens = 10
// CPU: hycrt::checkIndices(ctx, "picked", i64({{.*}}), 10, 10);
// CUDA: ctx.accelerator()->checkIndices(ctx, "picked", i64({{.*}}), 10, 10);
// SPLIT: ctx.accelerator()->checkIndices(ctx, "picked", i64({{.*}}), 10, 10);
// CHECK-NEXT: gather(
// Labels may also be what is not counted; of a split vocabulary the bound is that of the whole.
// CPU: hycrt::checkIndices(ctx, "nll", i64({{.*}}), 10, 9, -100);
// CPU-NEXT: crossEntropyForward(
// CUDA: ctx.accelerator()->checkIndices(ctx, "nll", i64({{.*}}), 10, 9, -100);
// CUDA-NEXT: cuda::crossEntropyForward(stream,
// SPLIT: ctx.accelerator()->checkIndices(ctx, "nll", i64({{.*}}), 10, 9, -100);
// SPLIT-NEXT: cuda::crossEntropyCombine(stream,
// CHECK-NOT: checkIndices
hyc.param @table : tensor<9x16xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.param @head : tensor<16x9xf32> from #hyc.normal<mean = 0.0 : f64, stddev = 0.02 : f64>
hyc.func @train(%ids: tensor<2x5xi64> {hyc.input = "ids"}) -> (tensor<f32> {hyc.output = "loss"}) {
  %table = hyc.read @table {id = "table.read"} : tensor<9x16xf32>
  %one = hyc.constant {id = "one"} dense<1> : tensor<2x5xi64>
  %next = hyc.add %ids, %one {id = "next"} : tensor<2x5xi64>
  %a = hyc.embedding %ids, %table {id = "of_data"} : (tensor<2x5xi64>, tensor<9x16xf32>) -> tensor<2x5x16xf32>
  %b = hyc.embedding %next, %table {id = "of_sum"} : (tensor<2x5xi64>, tensor<9x16xf32>) -> tensor<2x5x16xf32>
  %rows = hyc.reshape %b {id = "rows"} : (tensor<2x5x16xf32>) -> tensor<10x16xf32>
  %c = hyc.gather %rows, %next dim 0 batch 0 {id = "picked"} : (tensor<10x16xf32>, tensor<2x5xi64>) -> tensor<2x5x16xf32>
  %x = hyc.add %a, %c {id = "x"} : tensor<2x5x16xf32>
  %head = hyc.read @head {id = "head.read"} : tensor<16x9xf32>
  %logits = hyc.einsum "bsk,kv->bsv" %x, %head {id = "head"} : (tensor<2x5x16xf32>, tensor<16x9xf32>) -> tensor<2x5x9xf32>
  %sum, %count, %lse = hyc.cross_entropy %logits, %next {id = "nll"} : (tensor<2x5x9xf32>, tensor<2x5xi64>) -> (tensor<f32>, tensor<i64>, tensor<2x5xf32>)
  %n = hyc.convert %count {id = "n"} : (tensor<i64>) -> tensor<f32>
  %loss = hyc.div %sum, %n {id = "loss"} : tensor<f32>
  hyc.return %loss : tensor<f32>
}
