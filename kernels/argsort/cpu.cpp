// The order of rows on CPUs. An element becomes a record: a key, an unsigned number that is ordered as the element is,
// and its place. No two records are equal, so that any way of sorting them gives the one order that is asked for. Whole
// rows are sorted digit by digit, few records by counting those before each; where a small part of the order is wanted,
// a long row is filtered by the last of the best so far, and of a short one the first is taken again and again.
#include <cstdint>

#include "kernels/argsort/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/scratch.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {
namespace {

//===-- Records -------------------------------------------------------------------------------------------------===//

// Of a key of 32 bits and a place below 2³².
struct Packed {
  using Key = uint32_t;
  uint64_t bits;

  static Packed of(Key key, int64_t place) { return {uint64_t{key} << 32 | static_cast<uint64_t>(place)}; }
  Key key() const { return static_cast<Key>(bits >> 32); }
  int64_t place() const { return static_cast<int64_t>(bits & 0xffffffffu); }
  bool isBefore(Packed other) const { return bits < other.bits; }
};
struct Wide {
  using Key = uint64_t;
  uint64_t bits;
  int64_t number;

  static Wide of(Key key, int64_t place) { return {key, place}; }
  Key key() const { return bits; }
  int64_t place() const { return number; }
  bool isBefore(Wide other) const { return bits < other.bits || (bits == other.bits && number < other.number); }
};

inline uint32_t keyOf(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000u; }
inline uint64_t keyOf(int64_t x) { return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63); }
// Negative numbers upside down; NaN above everything. −0 + 0 is 0.
inline uint32_t keyOf(float x) {
  const int32_t bits = __builtin_bit_cast(int32_t, x + 0.0f);
  const uint32_t key = static_cast<uint32_t>(bits ^ (bits >> 31 | INT32_MIN));
  return x != x ? ~uint32_t{0} : key;
}
inline uint64_t keyOf(double x) {
  const int64_t bits = __builtin_bit_cast(int64_t, x + 0.0);
  const uint64_t key = static_cast<uint64_t>(bits ^ (bits >> 63 | INT64_MIN));
  return x != x ? ~uint64_t{0} : key;
}
// In descending order the keys are turned around, places are not.
template <typename Key>
constexpr Key turning(const ArgSortDesc &d) {
  return d.descending ? ~Key{0} : Key{0};
}
template <typename Record, typename T>
inline Record recordOf(const ArgSortDesc &d, const T *x, int64_t place) {
  using Key = typename Record::Key;
  return Record::of(static_cast<Key>(keyOf(x[place])) ^ turning<Key>(d), place);
}

//===-- Sorting -------------------------------------------------------------------------------------------------===//

constexpr int64_t kFewRecords = 64;  // are sorted by counting

typedef uint64_t Words __attribute__((vector_size(64)));
constexpr int64_t kWords = sizeof(Words) / sizeof(uint64_t);

// Each record goes to the place that as many others come before.
void sortFew(Packed *records, int64_t count) {
  uint64_t bits[kFewRecords];
  for (int64_t i = 0; i < count; ++i) bits[i] = records[i].bits;
  for (int64_t i = count; i % kWords != 0; ++i) bits[i] = ~uint64_t{0};
  for (int64_t first = 0; first < count; first += kWords) {
    Words mine, before = {};
    __builtin_memcpy(&mine, bits + first, sizeof(mine));
    for (int64_t j = 0; j < count; ++j) {
      const Words other = bits[j] - Words{};
      before -= reinterpret_cast<Words>(other < mine);
    }
    for (int64_t l = 0; l < kWords && first + l < count; ++l) records[before[l]].bits = bits[first + l];
  }
}
void sortFew(Wide *records, int64_t count) {
  for (int64_t i = 1; i < count; ++i) {
    const Wide record = records[i];
    int64_t at = i;
    for (; at > 0 && record.isBefore(records[at - 1]); --at) records[at] = records[at - 1];
    records[at] = record;
  }
}

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;

// Which order the records are in before: as their places, or any.
enum class Before { kPlaces, kAny };

// Sorts digit by digit from the last on; records whose digit is equal keep their order. Those in the order of their
// places are sorted by key alone. A digit that all have in common is passed over. Returns where the records are then:
// `records` or `other`.
template <Before before, typename Record>
Record *sortByDigits(Record *records, Record *other, int64_t count) {
  constexpr int kKeyDigits = static_cast<int>(sizeof(typename Record::Key));
  constexpr int kPlaceDigits = before == Before::kAny ? static_cast<int>(sizeof(Record)) - kKeyDigits : 0;
  const auto digit = [](Record record, int pass) {
    const uint64_t number = pass < kPlaceDigits ? static_cast<uint64_t>(record.place()) : record.key();
    return number >> ((pass < kPlaceDigits ? pass : pass - kPlaceDigits) * kDigitBits) & (kDigits - 1);
  };
  int64_t starts[kPlaceDigits + kKeyDigits][kDigits] = {};
  for (int64_t i = 0; i < count; ++i)
    for (int pass = 0; pass < kPlaceDigits + kKeyDigits; ++pass) ++starts[pass][digit(records[i], pass)];
  for (int pass = 0; pass < kPlaceDigits + kKeyDigits; ++pass) {
    if (starts[pass][digit(records[0], pass)] == count) continue;
    int64_t start = 0;
    for (int64_t &each : starts[pass]) {
      const int64_t size = each;
      each = start;
      start += size;
    }
    for (int64_t i = 0; i < count; ++i) other[starts[pass][digit(records[i], pass)]++] = records[i];
    Record *const written = other;
    other = records, records = written;
  }
  return records;
}

//===-- Selecting -----------------------------------------------------------------------------------------------===//

// Puts the `kept` first of the records to the beginning, the last of them to kept − 1, as Hoare's selection does: parts
// records at the middle one of three, and goes on with the part in which the sought one is. Where that has been
// unlucky for long, the rest is sorted. `other`: as many records of scratch memory.
template <typename Record>
void select(Record *records, int64_t count, int64_t kept, Record *other) {
  constexpr int kMostRounds = 64;
  const auto exchange = [&](int64_t i, int64_t j) {
    const Record record = records[i];
    records[i] = records[j];
    records[j] = record;
  };
  int64_t first = 0, end = count;
  for (int round = 0; end - first > 1; ++round) {
    if (round == kMostRounds) {
      const Record *const sorted = sortByDigits<Before::kAny>(records + first, other, end - first);
      for (int64_t i = 0; i < end - first; ++i) records[first + i] = sorted[i];
      return;
    }
    const int64_t middle = first + (end - first) / 2, last = end - 1;
    if (records[middle].isBefore(records[first])) exchange(first, middle);
    if (records[last].isBefore(records[middle])) exchange(middle, last);
    if (records[middle].isBefore(records[first])) exchange(first, middle);
    exchange(middle, last);
    const Record parting = records[last];
    int64_t below = first;
    for (int64_t i = first; i < last; ++i) {  // without a branch that depends on what is compared
      const Record record = records[i];
      records[i] = records[below];
      records[below] = record;
      below += record.isBefore(parting);
    }
    exchange(below, last);
    if (below == kept - 1) return;
    if (below < kept - 1)
      first = below + 1;
    else
      end = below;
  }
}

constexpr int64_t kFilterBlock = 16;  // elements that are looked at together

// How many records are collected before the best are selected again.
int64_t collectedRecords(int64_t count) { return 4 * count + kFewRecords; }
bool isFiltered(const ArgSortDesc &d) { return collectedRecords(d.count) + kFilterBlock <= d.size / 2; }

// Sorted records of the first d.count elements of a row. A later element whose key is not below the last of the best so
// far is none of them.
template <typename Record, typename T>
const Record *filterRow(const ArgSortDesc &d, const T *x, Record *records, Record *other) {
  const int64_t most = collectedRecords(d.count);
  for (int64_t i = 0; i < most; ++i) records[i] = recordOf<Record>(d, x, i);
  select(records, most, d.count, other);
  using Key = typename Record::Key;
  const Key turned = turning<Key>(d);
  Key limit = records[d.count - 1].key();
  int64_t collected = d.count, i = most;
  const auto take = [&](Record record) {
    records[collected] = record;
    collected += record.key() < limit;
  };
  for (; i + kFilterBlock <= d.size; i += kFilterBlock) {
    Key keys[kFilterBlock];
    for (int64_t l = 0; l < kFilterBlock; ++l) keys[l] = static_cast<Key>(keyOf(x[i + l])) ^ turned;
    int any = 0;
    for (const Key key : keys) any |= key < limit;
    if (!any) continue;
    for (int64_t l = 0; l < kFilterBlock; ++l) take(Record::of(keys[l], i + l));
    if (collected < most) continue;
    select(records, collected, d.count, other);
    limit = records[d.count - 1].key();
    collected = d.count;
  }
  for (; i < d.size; ++i) take(recordOf<Record>(d, x, i));
  if (collected > d.count) select(records, collected, d.count, other);
  if (d.count > kFewRecords) return sortByDigits<Before::kAny>(records, other, d.count);
  sortFew(records, d.count);
  return records;
}

// Whether the first are taken one after the other: of few, that is a small part of what all else begins with. Where
// rows can be filtered, fewer, and of rows that stay in the first cache.
bool areTaken(const ArgSortDesc &d) {
  constexpr int64_t kMostTaken = 16, kMostBesideFilter = 8, kMostNear = 4096;
  if (d.size < kWords || 2 * d.count > d.size) return false;
  return isFiltered(d) ? d.count <= kMostBesideFilter && d.size <= kMostNear : d.count <= kMostTaken;
}

// The first d.count of a row's records, one after the other: each is taken out for the next. Records are filled up to
// whole vectors, for which the second row of them has room, by ones that come after all others.
template <typename T>
void takeFirst(const ArgSortDesc &d, const T *x, int64_t *order, Packed *records) {
  for (int64_t i = 0; i < d.size; ++i) records[i] = recordOf<Packed>(d, x, i);
  int64_t end = d.size;
  for (; end % kWords != 0; ++end) records[end].bits = ~uint64_t{0};
  for (int64_t taken = 0; taken < d.count; ++taken) {
    Words first;
    __builtin_memcpy(&first, records, sizeof(first));
    for (int64_t i = kWords; i < end; i += kWords) {
      Words other;
      __builtin_memcpy(&other, records + i, sizeof(other));
      first = other < first ? other : first;
    }
    Packed best = {first[0]};
    for (int64_t l = 1; l < kWords; ++l) best.bits = first[l] < best.bits ? first[l] : best.bits;
    order[taken] = best.place();
    records[best.place()].bits = ~uint64_t{0};
  }
}

template <typename Record, typename T>
void sortRow(const ArgSortDesc &d, const T *x, int64_t *order, Record *records) {
  Record *const other = records + d.size;
  const Record *sorted = records;
  if constexpr (sizeof(Record) == sizeof(Packed))
    if (areTaken(d)) return takeFirst(d, x, order, records);
  if (isFiltered(d)) {
    sorted = filterRow(d, x, records, other);
  } else {
    for (int64_t i = 0; i < d.size; ++i) records[i] = recordOf<Record>(d, x, i);
    if (d.size <= kFewRecords)
      sortFew(records, d.size);
    else
      sorted = sortByDigits<Before::kPlaces>(records, other, d.size);
  }
  for (int64_t i = 0; i < d.count; ++i) order[i] = sorted[i].place();
}

template <typename Record, typename T>
void sortRows(const ArgSortDesc &d, const T *x, int64_t *order, void *workspace) {
  constexpr int64_t kWorthATeam = 4096;
  if (d.count == 0) return;
  runTeam(d.rows * d.size >= kWorthATeam, [&] {
    constexpr int64_t kFloats = static_cast<int64_t>(sizeof(Record) / sizeof(float));
    Record *const records = workspace ? static_cast<Record *>(workspace) + omp_get_thread_num() * 2 * d.size
                                      : reinterpret_cast<Record *>(threadScratch(2 * d.size * kFloats));
#pragma omp for schedule(static)
    for (int64_t row = 0; row < d.rows; ++row) sortRow(d, x + row * d.size, order + row * d.count, records);
  });
}

template <typename T>
void sortRowsOf(const ArgSortDesc &d, const T *x, int64_t *order, void *workspace) {
  if constexpr (sizeof(T) == 4)
    if (argSortRecordBytes(d.size, sizeof(T)) == sizeof(Packed)) return sortRows<Packed>(d, x, order, workspace);
  sortRows<Wide>(d, x, order, workspace);
}

}  // namespace

void argSort(const ArgSortDesc &d, const float *x, int64_t *order, void *workspace) {
  sortRowsOf(d, x, order, workspace);
}
void argSort(const ArgSortDesc &d, const double *x, int64_t *order, void *workspace) {
  sortRowsOf(d, x, order, workspace);
}
void argSort(const ArgSortDesc &d, const int64_t *x, int64_t *order, void *workspace) {
  sortRowsOf(d, x, order, workspace);
}
void argSort(const ArgSortDesc &d, const int32_t *x, int64_t *order, void *workspace) {
  sortRowsOf(d, x, order, workspace);
}

}  // namespace HYC_ISA

HYC_DISPATCH(void, argSort, (const ArgSortDesc &d, const float *x, int64_t *order, void *workspace),
             (d, x, order, workspace))
HYC_DISPATCH(void, argSort, (const ArgSortDesc &d, const double *x, int64_t *order, void *workspace),
             (d, x, order, workspace))
HYC_DISPATCH(void, argSort, (const ArgSortDesc &d, const int64_t *x, int64_t *order, void *workspace),
             (d, x, order, workspace))
HYC_DISPATCH(void, argSort, (const ArgSortDesc &d, const int32_t *x, int64_t *order, void *workspace),
             (d, x, order, workspace))

}  // namespace hyc::kernels
