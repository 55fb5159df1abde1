// WeightParts: states that are made of a whole weight though a rank holds a part of it: codes of a frozen weight, and
// what they are multiplied with (kernels/dequantize/codes.h).
//
// Every rank reads the whole weight, a chunk at a time and never more of it, to measure its blocks; then its own part
// again, to code it. So the bits depend on no layout, no block has to end where a shard does, and what is needed beside
// the arenas is a number a block of the largest weight.
#ifndef HYCRT_SRC_IO_WEIGHT_PARTS_H_
#define HYCRT_SRC_IO_WEIGHT_PARTS_H_

#include <cstdint>
#include <vector>

#include "hycrt/file_sums.h"
#include "hycrt/mesh.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "io/state_window.h"

namespace hycrt {

// Element type and count of the whole that `init` makes.
DType typeOfPart(WeightPart part);
int64_t sizeOfPart(const Initializer& init);

// Lengths of rows, which alone may be of a type that is not typeOfPart: of a copy.
bool isNorms(WeightPart part);

// Whether both are made of one weight, and by one kind of codes.
bool areOfOneWeight(const Initializer& a, const Initializer& b);

class WeightParts {
 public:
  // What initial values come from and go to; outlives this.
  struct Place {
    const Mesh& mesh;
    const Coordinates& at;
    uint64_t seed;
    const std::vector<ModelFile>& modelFiles;
    const ArenaBases& arenas;
  };
  explicit WeightParts(const Place& place) : place_(place) {}

  // Has `state` of the program filled by `fill`.
  void add(const StateDesc& state);

  // Weight by weight.
  Status fill();

 private:
  const Place place_;
  std::vector<std::vector<const StateDesc*>> weights_;  // states by the weight that they are made of
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_WEIGHT_PARTS_H_
