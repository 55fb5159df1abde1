// The shortest decimal that a float reads back from.
#include "hyc/Support/Decimal.h"
#include <cstdio>
#include <cstdlib>

double hyc::shortestDecimal(double value) {
  float single = static_cast<float>(value);
  char text[32];
  for (int digits = 1; digits < 10; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, single);
    if (std::strtof(text, nullptr) == single)
      break;
  }
  return std::strtod(text, nullptr);
}
