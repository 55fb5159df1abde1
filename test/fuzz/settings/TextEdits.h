// What may be taken away from JSON text, which need not be sound: a key may be there twice, a number be none.
#ifndef HYC_TEST_FUZZ_SETTINGS_TEXTEDITS_H
#define HYC_TEST_FUZZ_SETTINGS_TEXTEDITS_H

#include "test/fuzz/trials/Shrink.h"

#include <string>
#include <vector>

namespace hyc::fuzzing {

/// Runs of an object's or array's elements; a value in the place of what holds it; shorter strings; white space.
std::vector<Edits<std::string>> textEdits();

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_SETTINGS_TEXTEDITS_H
