// Rows in order by merging, bottom up: stable, and without memory of its own.
#include "kernels/argsort/op.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {

template <typename T>
static void sortRow(const ArgSortDesc &d, const T *x, int64_t *order, int64_t *other) {
  for (int64_t i = 0; i < d.size; ++i) order[i] = i;
  int64_t *from = order, *to = other;
  for (int64_t width = 1; width < d.size; width *= 2) {
    for (int64_t begin = 0; begin < d.size; begin += 2 * width) {
      const int64_t middle = begin + width < d.size ? begin + width : d.size;
      const int64_t end = begin + 2 * width < d.size ? begin + 2 * width : d.size;
      int64_t left = begin, right = middle;
      for (int64_t i = begin; i < end; ++i) {
        // The right one only where it truly comes first.
        const bool takesRight =
            right < end && (left == middle || (d.descending ? sortsBefore(x[from[left]], x[from[right]])
                                                            : sortsBefore(x[from[right]], x[from[left]])));
        to[i] = takesRight ? from[right++] : from[left++];
      }
    }
    int64_t *const written = to;
    to = from, from = written;
  }
  if (from != order)
    for (int64_t i = 0; i < d.size; ++i) order[i] = from[i];
}

template <typename T>
void argSort(const ArgSortDesc &d, const T *x, int64_t *order, int64_t *workspace) {
  constexpr int64_t kWorthATeam = 4096;
  runTeam(d.rows * d.size >= kWorthATeam, [&] {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < d.rows; ++row)
      sortRow(d, x + row * d.size, order + row * d.size, workspace + row * d.size);
  });
}
template void argSort(const ArgSortDesc &, const float *, int64_t *, int64_t *);
template void argSort(const ArgSortDesc &, const double *, int64_t *, int64_t *);
template void argSort(const ArgSortDesc &, const int64_t *, int64_t *, int64_t *);
template void argSort(const ArgSortDesc &, const int32_t *, int64_t *, int64_t *);

}  // namespace hyc::kernels
