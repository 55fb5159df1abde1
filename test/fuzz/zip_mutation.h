// Zip archives of stored records, taken apart and put together again, so that what lies inside can be changed without
// every checksum refusing the result.
#ifndef HYC_TEST_FUZZ_ZIP_MUTATION_H
#define HYC_TEST_FUZZ_ZIP_MUTATION_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hyc::fuzzing {

/// Names and contents in the order of the directory.
using ZipRecords = std::vector<std::pair<std::string, std::string>>;

/// Nothing where the bytes are no archive of stored records.
std::optional<ZipRecords> readZip(const uint8_t *data, size_t size);

std::string writeZip(const ZipRecords &records);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_ZIP_MUTATION_H
