// Writing one rank's part of a checkpoint: what no other rank holds, rectangle by rectangle, one of each tensor in a
// file, so that PyTorch's distributed checkpoint reads the folder as it is.
#ifndef HYCRT_SRC_CHECKPOINT_PART_WRITER_H_
#define HYCRT_SRC_CHECKPOINT_PART_WRITER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/stream_file.h"
#include "hycrt/context.h"
#include "hycrt/safetensors.h"
#include "hycrt/status.h"

namespace hycrt {

// Tensors by name, and the stage that writes each: the lowest that holds it. All ranks come to the same.
struct CheckpointTensors {
  struct Row {
    DType dtype;
    std::vector<int64_t> shape;
    int stage;
    bool isOptional;  // a resume may do without
  };
  std::map<std::string, Row> rows;
};
Result<CheckpointTensors> checkpointTensors(const Context& ctx);

// The counters of this rank's program; all ranks have the same.
std::map<std::string, double> readCounters(const Context& ctx);
// The updates that an optimizer's states have seen: those that were not skipped; -1: nothing counts them.
int64_t updatesOf(const std::map<std::string, double>& counters);

// The file of a rank's rectangles number `index`; elements of one size a file, so that all of them are aligned.
std::string partFileName(int rank, size_t index, DType dtype);
// Its header; `offsets` says where each rectangle begins in its tensor, in the form that PyTorch reads.
std::string encodePartHeader(TensorDirectory* directory, const std::map<std::string, Shape>& offsets);

// A rectangle of a state, or a number that stands beside one.
struct CheckpointPiece {
  const StateDesc* state = nullptr;  // null: the number of updates
  DType dtype = DType::kF32;
  Shape shape;  // of the tensor
  Box box;
};

// What a rank writes of its states: pieces by tensor, by file. The same after every step.
struct PartPlan {
  std::map<std::string, std::map<std::string, CheckpointPiece>> files;
  std::vector<const StateDesc*> states;  // of which there are pieces
};
PartPlan planPart(const Context& ctx, const CheckpointTensors& tensors);

// The states of one moment, and where they lie until they are written.
struct PartSource {
  const PartPlan& plan;
  const Mesh& mesh;
  const Coordinates at;
  // Of a state that lies in memory its first element; null: it lies in `file`, at its own offset.
  std::function<const std::byte*(const StateDesc&)> memoryOf;
  BlockFile* file;
  bool letsGo;  // of what it has read there for the last time
  int64_t updates;
};

// A part's file, by its name.
using MakePartFile = std::function<Result<StreamFile>(const std::string& name)>;
// On whatever thread; nothing is exchanged.
Result<CheckpointParts> writePart(const PartSource& source, const MakePartFile& makeFile);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_PART_WRITER_H_
