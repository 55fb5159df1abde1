// Mixture: several sources of samples as one.
//
// With weights, "a.bin=0.7,b.bin=0.3", the endless list is cut into blocks of kBlock items. Each block has its whole
// number of items from every source, the nearest to its weight, at places that a permutation keyed by (seed, block)
// deals out. So which source an item is of, and its number in that source's own endless list, follow from (seed, item)
// alone, and every source goes through its samples as it would by itself.
//
// Without, "a.bin,b.bin", all samples of all sources are one list, and each comes once an epoch.
#ifndef HYCRT_SRC_IO_MIXTURE_H_
#define HYCRT_SRC_IO_MIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/dataset.h"

namespace hycrt {

struct DataSource {
  std::string path;
  double weight = 0;  // 0: none is given
};

// What --data says: the name of a file that is there, or files, separated by commas, each with =WEIGHT behind it or
// none of them. Usage errors name the weight that is none.
Result<std::vector<DataSource>> parseDataSources(const char* flag, const std::string& text);

class Mixture : public Dataset {
 public:
  static constexpr uint64_t kBlock = 1 << 16;

  // A source a row of `sources`.
  static Result<std::unique_ptr<Dataset>> of(const std::vector<DataSource>& sources,
                                             std::vector<std::unique_ptr<Dataset>> data, WindowOrder order);

  int64_t sampleCount() const override { return sampleCount_; }
  std::string arrangement() const override;
  bool isOfOneLength() const override;
  Status checkIndices(const InputDesc& input) override;
  Status read(uint64_t item, uint64_t seed, const InputDesc& input, std::byte* to) override;

  // Which source an item is of, and which item of its list.
  struct Drawn {
    size_t source;
    uint64_t item;
  };
  Drawn draw(uint64_t item, uint64_t seed) const;

 private:
  Mixture(std::vector<std::unique_ptr<Dataset>> data, WindowOrder order) : Dataset(order), data_(std::move(data)) {}
  Drawn drawOfAll(uint64_t item, uint64_t seed) const;

  std::vector<std::unique_ptr<Dataset>> data_;
  std::vector<uint64_t> shares_;  // of a block, for each source; empty: without weights
  int64_t sampleCount_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_MIXTURE_H_
