// Constants are copied from tables that the compiler does not look into: GCC 12 copies some of those that it sees wrongly
// where vectors have 512 bits, such as these.
// RUN: hyc-opt %s --hyc-make-forward-program --hyc-rank-phase --hyc-emit-cpp="folder=%t name=m" -o /dev/null
// RUN: FileCheck %s --check-prefix=PREPARE --input-file=%t/stage0_prepare.cpp
// RUN: FileCheck %s --check-prefix=ADDRESSES --input-file=%t/addresses.h

// PREPARE: static constexpr int64_t values[] = {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, };
// PREPARE-NEXT: std::memcpy(i64(constants + 0), hidden(values), sizeof(values));

// ADDRESSES: inline const void* hidden(const void* values) {
// ADDRESSES-NEXT: asm("" : "+r"(values));
hyc.func @train(%table: tensor<4x8xf32> {hyc.input = "table"}) -> (tensor<16x8xf32> {hyc.output = "rows"}) {
  %at = hyc.constant {id = "at"} dense<[1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]> : tensor<16xi64>
  %rows = hyc.gather %table, %at dim 0 batch 0 {id = "rows"} : (tensor<4x8xf32>, tensor<16xi64>) -> tensor<16x8xf32>
  hyc.return %rows : tensor<16x8xf32>
}
