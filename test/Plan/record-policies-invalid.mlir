// What is no policy, or none that can be, is refused where it is written and where it is read.
// RUN: not hyc-opt %s --hyc-record-policies="policies=offload_prefech=2" -o /dev/null 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not hyc-opt %s --hyc-record-policies="policies=offload_prefetch=-1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not hyc-opt %s --hyc-record-policies="policies=check_finite=maybe" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not hyc-opt %s --hyc-record-policies="policies=communication_type=f64" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHOICE
// UNKNOWN: error: unknown policy "offload_prefech"; the nearest known one is "offload_prefetch"
// RANGE: error: policy "offload_prefetch" is -1, expected 0 to 65536
// TYPE: error: policy "check_finite" is maybe, expected true or false
// CHOICE: error: policy "communication_type" is f64, expected f32, bf16 or fp16

// RUN: split-file %S/Inputs/wrong-policies.mlir %t
// RUN: not hyc-opt %t/range.mlir --hyc-overlap-moves -o /dev/null 2>&1 | FileCheck %s --check-prefix=READ
// RUN: not hyc-opt %t/type.mlir --hyc-bucket-exchanges -o /dev/null 2>&1 | FileCheck %s --check-prefix=WIDTH
// RUN: not hyc-opt %t/list.mlir --hyc-check-finite -o /dev/null 2>&1 | FileCheck %s --check-prefix=LIST
// READ: error: policy "offload_prefetch" is -1 : i64, expected 0 to 65536
// WIDTH: error: policy "reduce_bucket_size" is 5 : i32, expected 0 to
// LIST: error: "dist.policy" is [], expected a dictionary of policies
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
