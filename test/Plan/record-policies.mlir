// Every policy stands in the module, those that nobody names with their defaults; passes read them there.
// RUN: hyc-opt %s --hyc-record-policies | FileCheck %s --check-prefix=DEFAULTS
// RUN: hyc-opt %s --hyc-record-policies="policies=offload_prefetch=2,communication_type=bf16,check_finite=true target=cuda" | FileCheck %s --check-prefix=SAID

// DEFAULTS: module attributes {dist.policy = {allgather_bucket_size = 500000000 : i64, check_finite = false, communication_type = "",
// DEFAULTS-SAME: offload_prefetch = 0 : i64
// DEFAULTS-SAME: sub_group_size = 16777216 : i64
// DEFAULTS-NOT: rank.target

// SAID: module attributes {dist.policy = {allgather_bucket_size = 500000000 : i64, check_finite = true, communication_type = "bf16",
// SAID-SAME: offload_prefetch = 2 : i64
// SAID-SAME: rank.target = "cuda"
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
