// Einsum as batched matrix products: both operands are laid out as (batch, rows, contracted) and (batch, contracted,
// columns), multiplied, and the result brought into the order asked for.
#include "Values/Contraction.h"

#include <string>

using namespace hyc::interpreter;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

namespace {
/// c += a · b for c: [rows, columns], a: [rows, depth], b: [depth, columns]. Four rows of c share each row of b.
template <typename T>
__attribute__((always_inline)) inline void multiplyRows(int64_t rows, int64_t columns, int64_t depth, const T *a,
                                                        const T *b, T *c) {
  constexpr int64_t kRows = 4, kColumns = 256; // a strip of c stays in the nearest cache
  for (int64_t column = 0; column < columns; column += kColumns) {
    const int64_t width = std::min(kColumns, columns - column);
    int64_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      T *__restrict c0 = c + row * columns + column, *__restrict c1 = c0 + columns;
      T *__restrict c2 = c1 + columns, *__restrict c3 = c2 + columns;
      const T *a0 = a + row * depth, *a1 = a0 + depth, *a2 = a1 + depth, *a3 = a2 + depth;
      for (int64_t k = 0; k < depth; ++k) {
        const T *__restrict line = b + k * columns + column;
        const T x0 = a0[k], x1 = a1[k], x2 = a2[k], x3 = a3[k];
        for (int64_t j = 0; j < width; ++j) {
          const T y = line[j];
          c0[j] += x0 * y;
          c1[j] += x1 * y;
          c2[j] += x2 * y;
          c3[j] += x3 * y;
        }
      }
    }
    for (; row < rows; ++row) {
      T *__restrict c0 = c + row * columns + column;
      for (int64_t k = 0; k < depth; ++k) {
        const T *__restrict line = b + k * columns + column;
        const T x0 = a[row * depth + k];
        for (int64_t j = 0; j < width; ++j)
          c0[j] += x0 * line[j];
      }
    }
  }
}

} // namespace

// One copy an instruction set: wider vectors of independent columns, the same bits.
#define HYC_MULTIPLY __attribute__((target_clones("avx512f", "avx2", "default"))) void
HYC_MULTIPLY hyc::interpreter::multiplyInto(int64_t rows, int64_t columns, int64_t depth, const float *a,
                                            const float *b, float *c) {
  multiplyRows(rows, columns, depth, a, b, c);
}
HYC_MULTIPLY hyc::interpreter::multiplyInto(int64_t rows, int64_t columns, int64_t depth, const double *a,
                                            const double *b, double *c) {
  multiplyRows(rows, columns, depth, a, b, c);
}
void hyc::interpreter::multiplyInto(int64_t rows, int64_t columns, int64_t depth, const int64_t *a, const int64_t *b,
                                    int64_t *c) {
  multiplyRows(rows, columns, depth, a, b, c);
}
#undef HYC_MULTIPLY

namespace {
/// The letters of a contraction by the part that they play, and their sizes.
struct Roles {
  std::string batch, rows, columns, contracted;
  int64_t size[256] = {};

  int64_t product(StringRef letters) const {
    int64_t count = 1;
    for (unsigned char letter : letters)
      count *= size[letter];
    return count;
  }
};
} // namespace

static Roles assignRoles(StringRef lhsLetters, const Tensor &lhs, StringRef rhsLetters, const Tensor &rhs,
                         StringRef resultLetters) {
  Roles roles;
  for (size_t i = 0; i < lhsLetters.size(); ++i)
    roles.size[static_cast<unsigned char>(lhsLetters[i])] = lhs.getDim(static_cast<int64_t>(i));
  for (size_t i = 0; i < rhsLetters.size(); ++i)
    roles.size[static_cast<unsigned char>(rhsLetters[i])] = rhs.getDim(static_cast<int64_t>(i));
  for (char letter : resultLetters)
    (!rhsLetters.contains(letter) ? roles.rows : !lhsLetters.contains(letter) ? roles.columns : roles.batch) += letter;
  for (char letter : lhsLetters)
    if (!resultLetters.contains(letter))
      roles.contracted += letter;
  return roles;
}

/// Brings `tensor`, whose dimensions are `from`, into the order `to`.
static Tensor ordered(const Tensor &tensor, StringRef from, StringRef to) {
  if (from == to)
    return tensor;
  SmallVector<int64_t> permutation;
  for (char letter : to)
    permutation.push_back(static_cast<int64_t>(from.find(letter)));
  return tensor.transposed(permutation);
}

Tensor hyc::interpreter::contract(StringRef lhsLetters, const Tensor &lhs, StringRef rhsLetters, const Tensor &rhs,
                                  StringRef resultLetters, ElementKind resultKind) {
  Roles roles = assignRoles(lhsLetters, lhs, rhsLetters, rhs, resultLetters);
  Tensor a = ordered(lhs, lhsLetters, roles.batch + roles.rows + roles.contracted);
  Tensor b = ordered(rhs, rhsLetters, roles.batch + roles.contracted + roles.columns);
  std::string productLetters = roles.batch + roles.rows + roles.columns;
  SmallVector<int64_t> shape;
  for (unsigned char letter : productLetters)
    shape.push_back(roles.size[letter]);
  Tensor product(resultKind, shape);
  int64_t batches = roles.product(roles.batch), rows = roles.product(roles.rows);
  int64_t columns = roles.product(roles.columns), depth = roles.product(roles.contracted);
  dispatchStorage(lhs.getKind(), [&](auto zero) {
    using T = decltype(zero);
    const T *aData = a.data<T>(), *bData = b.data<T>();
    T *cData = product.mutableData<T>();
    for (int64_t batch = 0; batch < batches; ++batch)
      multiplyInto(rows, columns, depth, aData + batch * rows * depth, bData + batch * depth * columns,
                   cData + batch * rows * columns);
  });
  return ordered(product, productLetters, resultLetters);
}
