// Two ways by instructions. CRC32 takes eight bytes in three cycles, but begins one in each: three parts of the data
// are summed side by side, and their sums joined. A sum moves past `n` zero bytes by a linear map, which is a table for
// each of its bytes. Where products without carries are there for 64 bytes at once, 256 bytes of the data are kept as
// they are and folded onto the next 256: a polynomial times x^n is, modulo the CRC's, itself times (x^n modulo the
// CRC's).
#include "base/crc32c.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <array>
#include <cstring>

namespace hycrt {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // with the lowest power in the highest bit

using ByteTable = std::array<uint32_t, 256>;

// [0] takes one byte; [i] what a byte becomes after i more of zeros.
constexpr std::array<ByteTable, 8> makeTables() {
  std::array<ByteTable, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t i = 1; i < tables.size(); ++i) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[i - 1][byte];
      tables[i][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}
constexpr std::array<ByteTable, 8> kTables = makeTables();

uint64_t load(const unsigned char* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

#ifdef __x86_64__

constexpr size_t kLong = 4096, kShort = 256;  // bytes of one of the three parts

// What a sum becomes after zeros, by its bytes.
using ZerosTable = std::array<ByteTable, 4>;

ZerosTable makeZeros(size_t zeros) {
  uint32_t ofBit[32];
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < zeros; ++i) crc = crc >> 8 ^ kTables[0][crc & 0xFF];
    ofBit[bit] = crc;
  }
  ZerosTable table{};
  for (size_t part = 0; part < 4; ++part) {
    for (size_t byte = 0; byte < 256; ++byte) {
      for (size_t bit = 0; bit < 8; ++bit) table[part][byte] ^= byte >> bit & 1 ? ofBit[part * 8 + bit] : 0;
    }
  }
  return table;
}

uint32_t pass(const ZerosTable& zeros, uint32_t crc) {
  return zeros[0][crc & 0xFF] ^ zeros[1][crc >> 8 & 0xFF] ^ zeros[2][crc >> 16 & 0xFF] ^ zeros[3][crc >> 24];
}

// As many times three parts of `kPart` bytes as there are.
template <size_t kPart>
__attribute__((target("sse4.2"))) uint64_t takeThrees(uint64_t crc, const unsigned char** data, size_t* bytes) {
  static const ZerosTable zeros = makeZeros(kPart);
  for (; *bytes >= 3 * kPart; *data += 3 * kPart, *bytes -= 3 * kPart) {
    uint64_t second = 0, third = 0;
    const unsigned char* from = *data;
    for (size_t i = 0; i < kPart; i += 8) {
      crc = __builtin_ia32_crc32di(crc, load(from + i));
      second = __builtin_ia32_crc32di(second, load(from + kPart + i));
      third = __builtin_ia32_crc32di(third, load(from + 2 * kPart + i));
    }
    crc = pass(zeros, static_cast<uint32_t>(crc)) ^ second;
    crc = pass(zeros, static_cast<uint32_t>(crc)) ^ third;
  }
  return crc;
}

// x^power modulo the polynomial.
constexpr uint32_t powerOfX(int power) {
  uint32_t value = 0x80000000;
  for (int i = 0; i < power; ++i) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
  return value;
}

// What the two halves of 128 bits are multiplied by to move them `bits` on; products of reversed bits are one off.
struct Fold {
  uint32_t low, high;
};
constexpr Fold foldBy(int bits) { return {powerOfX(bits + 31), powerOfX(bits - 33)}; }

#define HYCRT_TARGET_FOLDING __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

HYCRT_TARGET_FOLDING __m512i folded(__m512i sum, __m512i fold, __m512i next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, fold, 0x00), _mm512_clmulepi64_epi128(sum, fold, 0x11),
                                   next, 0x96);  // of three, exclusive or
}

HYCRT_TARGET_FOLDING __m512i broadcast(Fold fold) {
  return _mm512_set4_epi64(fold.high, fold.low, fold.high, fold.low);
}

constexpr size_t kFolded = 256;  // bytes that are folded at once

// As many times kFolded bytes as there are, at least one.
HYCRT_TARGET_FOLDING uint64_t foldAll(uint64_t crc, const unsigned char** data, size_t* bytes) {
  constexpr Fold kWide = foldBy(2048), kNext = foldBy(512), kNarrow = foldBy(128);
  const auto loadAt = [data](size_t i) HYCRT_TARGET_FOLDING { return _mm512_loadu_si512(*data + 64 * i); };
  __m512i sums[4];
  for (size_t i = 0; i < 4; ++i) sums[i] = loadAt(i);
  sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<long long>(crc))));
  *data += kFolded, *bytes -= kFolded;
  const __m512i wide = broadcast(kWide), next = broadcast(kNext);
  for (; *bytes >= kFolded; *data += kFolded, *bytes -= kFolded) {
    for (size_t i = 0; i < 4; ++i) sums[i] = folded(sums[i], wide, loadAt(i));
  }
  __m512i sum = sums[0];
  for (size_t i = 1; i < 4; ++i) sum = folded(sum, next, sums[i]);
  alignas(64) __m128i parts[4];
  _mm512_store_si512(parts, sum);
  const __m128i narrow = _mm_set_epi64x(kNarrow.high, kNarrow.low);
  __m128i last = parts[0];
  for (size_t i = 1; i < 4; ++i) {
    last = _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(last, narrow, 0x00), _mm_clmulepi64_si128(last, narrow, 0x11)), parts[i]);
  }
  crc = __builtin_ia32_crc32di(0, static_cast<uint64_t>(_mm_cvtsi128_si64(last)));
  return __builtin_ia32_crc32di(crc, static_cast<uint64_t>(_mm_extract_epi64(last, 1)));
}

bool canFold() {
  static const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
  return can;
}

__attribute__((target("sse4.2"))) uint32_t crc32cByInstruction(uint32_t before, const void* data, size_t bytes,
                                                               bool folds) {
  const unsigned char* from = static_cast<const unsigned char*>(data);
  uint64_t crc = ~before;
  if (folds && bytes >= kFolded) crc = foldAll(crc, &from, &bytes);
  crc = takeThrees<kLong>(crc, &from, &bytes);
  crc = takeThrees<kShort>(crc, &from, &bytes);
  for (; bytes >= 8; from += 8, bytes -= 8) crc = __builtin_ia32_crc32di(crc, load(from));
  uint32_t rest = static_cast<uint32_t>(crc);
  for (; bytes > 0; ++from, --bytes) rest = __builtin_ia32_crc32qi(rest, *from);
  return ~rest;
}

#endif

}  // namespace

uint32_t crc32cByTables(uint32_t crc, const void* data, size_t bytes) {
  const unsigned char* from = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; bytes >= 8; from += 8, bytes -= 8) {
    uint32_t next = 0;
    for (size_t i = 0; i < 8; ++i) next ^= kTables[7 - i][from[i] ^ (i < 4 ? crc >> 8 * i & 0xFF : 0)];
    crc = next;
  }
  for (; bytes > 0; ++from, --bytes) crc = crc >> 8 ^ kTables[0][(crc ^ *from) & 0xFF];
  return ~crc;
}

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
#ifdef __x86_64__
  static const bool hasInstruction = __builtin_cpu_supports("sse4.2");
  if (hasInstruction) return crc32cByInstruction(crc, data, bytes, canFold());
#endif
  return crc32cByTables(crc, data, bytes);
}

uint32_t crc32cWithoutFolding(uint32_t crc, const void* data, size_t bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.2")) return crc32cByInstruction(crc, data, bytes, /*folds=*/false);
#endif
  return crc32cByTables(crc, data, bytes);
}

}  // namespace hycrt
