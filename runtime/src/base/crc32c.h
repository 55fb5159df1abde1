// CRC32C (Castagnoli; RFC 3720, B.4), by the processor's instruction where it has one.
#ifndef HYCRT_SRC_BASE_CRC32C_H_
#define HYCRT_SRC_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace hycrt {

// Of what was summed before, which gave `crc`, and `bytes` bytes behind it: crc32c(crc32c(0, a), b) is that of ab.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);

// The same on a processor with the instruction, but without wide products; and from tables, on any.
uint32_t crc32cWithoutFolding(uint32_t crc, const void* data, size_t bytes);
uint32_t crc32cByTables(uint32_t crc, const void* data, size_t bytes);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_CRC32C_H_
