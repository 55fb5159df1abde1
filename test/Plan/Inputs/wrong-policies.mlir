//--- range.mlir
module attributes {dist.policy = {offload_prefetch = -1 : i64}} {}
//--- type.mlir
module attributes {dist.policy = {reduce_bucket_size = 5 : i32}} {}
//--- list.mlir
module attributes {dist.policy = []} {}
