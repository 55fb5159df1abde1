// Units and digits.
#include "hyc/Support/ByteCount.h"

#include "hyc/Support/DriverError.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace hyc;

Expected<int64_t> hyc::parseByteCount(StringRef flag, StringRef text) {
  constexpr std::pair<StringLiteral, int64_t> units[] = {{"KiB", int64_t(1) << 10},
                                                         {"MiB", int64_t(1) << 20},
                                                         {"GiB", int64_t(1) << 30},
                                                         {"TiB", int64_t(1) << 40},
                                                         {"KB", 1000},
                                                         {"MB", 1000 * 1000},
                                                         {"GB", 1000000000},
                                                         {"TB", 1000000000000}};
  StringRef digits = text;
  int64_t unit = 1;
  for (const auto &[name, bytes] : units)
    if (digits.consume_back(name)) {
      unit = bytes;
      break;
    }
  digits = digits.rtrim(' ');
  if (unit == 1)
    digits.consume_back("B");
  // "1.5GiB" is a whole number of bytes too, or nearly so.
  double number = 0;
  bool valid = !digits.empty() && !digits.starts_with("-") && !digits.getAsDouble(number, /*AllowInexact=*/true);
  double bytes = number * static_cast<double>(unit);
  if (valid && bytes >= 1 && bytes < 0x1p60)
    return static_cast<int64_t>(bytes);
  return usageError("--" + flag + " is \"" + text + "\", expected a size such as 24GiB, 512MiB or a number of bytes");
}
