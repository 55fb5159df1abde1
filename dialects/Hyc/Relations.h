// What the predicates of hyc.compare say of two numbers.
#ifndef HYC_DIALECTS_HYC_RELATIONS_H
#define HYC_DIALECTS_HYC_RELATIONS_H

#include "dialects/Hyc/HycDialect.h"

namespace hyc {

/// Whether `x` is to `y` as `predicate` says; of a NaN only `ne` holds.
template <typename T> bool holds(ComparePredicate predicate, T x, T y) {
  switch (predicate) {
  case ComparePredicate::eq:
    return x == y;
  case ComparePredicate::ne:
    return x != y;
  case ComparePredicate::lt:
    return x < y;
  case ComparePredicate::le:
    return x <= y;
  case ComparePredicate::gt:
    return x > y;
  case ComparePredicate::ge:
    return x >= y;
  }
  llvm_unreachable("no such predicate");
}

} // namespace hyc

#endif // HYC_DIALECTS_HYC_RELATIONS_H
