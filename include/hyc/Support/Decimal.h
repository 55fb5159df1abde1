// Numbers that were written in single precision, as the decimals that their authors wrote.
#ifndef HYC_SUPPORT_DECIMAL_H
#define HYC_SUPPORT_DECIMAL_H

namespace hyc {

/// The shortest decimal that rounds to the same float as `value`: 1e-5 for 9.99999974e-6.
double shortestDecimal(double value);

} // namespace hyc

#endif // HYC_SUPPORT_DECIMAL_H
