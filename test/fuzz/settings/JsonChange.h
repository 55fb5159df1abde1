// JSON text with one thing changed: a value, its type, a key that is missing, double or unknown, nesting, huge numbers.
#ifndef HYC_TEST_FUZZ_SETTINGS_JSONCHANGE_H
#define HYC_TEST_FUZZ_SETTINGS_JSONCHANGE_H

#include "test/fuzz/graphs/Random.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace hyc::fuzzing {

/// The text of `value`, of whose parts one is another, if `isChanged`. What JSON libraries cannot hold, such as a key
/// that is there twice, is written all the same.
std::string printChanged(const llvm::json::Value &value, Random &random, bool isChanged);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_SETTINGS_JSONCHANGE_H
