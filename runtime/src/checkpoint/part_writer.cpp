// Which rectangles a rank has, in which files they go, and their bytes.
#include "checkpoint/part_writer.h"

#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "checkpoint/state_names.h"
#include "comm/exchanger.h"
#include "hycrt/safetensors.h"
#include "io/block_file.h"
#include "io/state_layout.h"

namespace hycrt {
namespace {

using nlohmann::json;

constexpr int64_t kWindowBytes = 4 << 20;

// A state's elements, wherever they lie; those of a file by a window that moves.
class StateElements {
 public:
  StateElements(const Context& ctx, const StateDesc& state)
      : state_(state), file_(ctx.file()), memory_(ctx.arena(state.buffer.arena)), size_(sizeOf(state.dtype)) {
    if (memory_) memory_ += state.buffer.offset;
  }

  // Element `element` and what follows it: *count of them at most, and as many as are there.
  Result<const std::byte*> from(int64_t element, int64_t* count) {
    if (memory_) return static_cast<const std::byte*>(memory_ + element * size_);
    const int64_t byte = element * size_, first = byte / kWindowBytes * kWindowBytes;
    if (first != first_) HYCRT_RETURN_IF_ERROR(load(first));
    *count = std::min(*count, (held_ - (byte - first_)) / size_);
    return static_cast<const std::byte*>(window_.get() + (byte - first_));
  }

 private:
  struct AlignedDelete {
    void operator()(std::byte* memory) const { operator delete[](memory, std::align_val_t{kBlockBytes}); }
  };

  Status load(int64_t first) {
    if (!window_) window_.reset(new (std::align_val_t{kBlockBytes}) std::byte[static_cast<size_t>(kWindowBytes)]);
    held_ = std::min(kWindowBytes, heldElements(state_) * size_ - first);
    const int64_t blocks = (held_ + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    first_ = first;
    return file_->wait(file_->startRead(window_.get(), blocks, state_.buffer.offset + first));
  }

  const StateDesc& state_;
  BlockFile* file_;
  std::byte* memory_;
  int64_t size_;
  std::unique_ptr<std::byte[], AlignedDelete> window_;
  int64_t first_ = -1, held_ = 0;
};

// A rectangle of a state, or a number that stands beside one.
struct Piece {
  const StateDesc* state = nullptr;  // null: `number`
  float number = 0;
  DType dtype = DType::kF32;
  Shape shape;  // of the tensor
  Box box;
};
using PieceFile = std::map<std::string, Piece>;  // by the tensor's name

class PartWriter {
 public:
  PartWriter(const Context& ctx, const CheckpointTensors& tensors, std::string folder, IoFaults* faults)
      : ctx_(ctx), tensors_(tensors), folder_(std::move(folder)), faults_(faults) {}

  Result<CheckpointParts> write() {
    updates_ = updatesOf(readCounters(ctx_));
    for (const StateDesc& state : ctx_.program().states) plan(state);
    for (const auto& [name, pieces] : files_) HYCRT_RETURN_IF_ERROR(writeFile(name, pieces));
    return std::move(parts_);
  }

 private:
  void plan(const StateDesc& state) {
    const Keeping keeping = keepingOf(state.role);
    if (keeping != Keeping::kTensor && keeping != Keeping::kOptional) return;
    const std::string name = checkpointName(state.name, state.role);
    const ShardLayout layout(state, ctx_.mesh(), ctx_.at());
    if (tensors_.rows.at(name).stage != ctx_.at().stage || !layout.isWriter()) return;
    const std::vector<Box> boxes = boxesOf(layout, state.logical);
    for (size_t i = 0; i < boxes.size(); ++i) {
      files_[fileName(i, state.dtype)].emplace(name, Piece{&state, 0, state.dtype, state.logical, boxes[i]});
    }
    const auto isZero = [](int64_t offset) { return offset == 0; };
    if (boxes.empty() || !hasStepBeside(state.role) || updates_ < 0) return;
    if (!std::all_of(boxes[0].offset.begin(), boxes[0].offset.end(), isZero)) return;
    files_[fileName(0, DType::kF32)].emplace(stepName(state.name),
                                             Piece{nullptr, static_cast<float>(updates_), DType::kF32, {}, {}});
  }

  std::string fileName(size_t index, DType dtype) const {
    return partFileName(rankOf(ctx_.mesh(), ctx_.at()), index, dtype);
  }

  Status writeFile(const std::string& name, const PieceFile& pieces) {
    TensorDirectory directory;
    std::map<std::string, Shape> offsets;
    for (const auto& [tensor, piece] : pieces) {
      TensorEntry& entry = directory[tensor];
      entry.dtype = piece.dtype;
      entry.shape.assign(piece.box.size.begin(), piece.box.size.end());
      offsets[tensor] = piece.box.offset;
    }
    const std::string header = encodePartHeader(&directory, offsets);
    Result<StreamFile> file = StreamFile::create(folder_ + "/" + name, faults_);
    if (!file.ok()) return file.status();
    HYCRT_RETURN_IF_ERROR(file->write(header.data(), static_cast<int64_t>(header.size())));
    for (const auto& [tensor, piece] : pieces) {
      CheckpointTensor& told = parts_.tensors[tensor];
      told.dtype = piece.dtype;
      told.shape = piece.shape;
      told.slices.push_back({name, file->position(), piece.box});
      HYCRT_RETURN_IF_ERROR(writePiece(piece, &*file));
    }
    Result<CheckpointFile> sums = file->finish(header);
    if (!sums.ok()) return sums.status();
    parts_.files[name] = std::move(*sums);
    return {};
  }

  Status writePiece(const Piece& piece, StreamFile* file) {
    if (!piece.state) return file->write(&piece.number, sizeof piece.number);
    const ShardLayout layout(*piece.state, ctx_.mesh(), ctx_.at());
    StateElements elements(ctx_, *piece.state);
    const BoxRows rows(piece.box, piece.shape);
    for (int64_t element = 0; element < rows.elements();) {
      BoxRow row = rows.rowFrom(element);
      // The run of the shard that this is in.
      ElementRun run{0, 0, 0};
      layout.forEachRunFromGlobal(row.global, [&](const ElementRun& found) {
        run = found;
        return false;
      });
      const int64_t end = run.global + run.count;
      if (run.global > row.global || end <= row.global) return internalError("a rectangle is not in its shard");
      int64_t count = std::min({row.count, end - row.global, rows.elements() - element});
      Result<const std::byte*> from = elements.from(run.local + (row.global - run.global), &count);
      if (!from.ok()) return from.status();
      HYCRT_RETURN_IF_ERROR(file->write(*from, count * sizeOf(piece.dtype)));
      element += count;
    }
    return {};
  }

  const Context& ctx_;
  const CheckpointTensors& tensors_;
  std::string folder_;
  IoFaults* faults_;
  int64_t updates_ = -1;
  std::map<std::string, PieceFile> files_;
  CheckpointParts parts_;
};

}  // namespace

std::string partFileName(int rank, size_t index, DType dtype) {
  char number[16];
  std::snprintf(number, sizeof number, "%05d", rank);
  const std::string bits = sizeOf(dtype) == 4 ? "" : "-" + std::to_string(8 * sizeOf(dtype)) + "bit";
  return std::string("part-") + number + "-" + std::to_string(index) + bits + ".safetensors";
}

std::string encodePartHeader(TensorDirectory* directory, const std::map<std::string, Shape>& offsets) {
  json told = json::object();
  for (const auto& [tensor, offset] : offsets) {
    told[tensor] = {{"saved_offsets", std::vector<int64_t>(offset.begin(), offset.end())}};
  }
  return encodeSafetensorsHeader(directory, {{"DCP_VERSION", "1.0"}, {"DCP_SHARDING_INFO", told.dump()}});
}

Result<CheckpointTensors> checkpointTensors(const Context& ctx) {
  CheckpointTensors tensors;
  for (int stage = 0; stage < ctx.mesh().stages; ++stage) {
    const std::string catalog = ctx.exchanger().catalogOf(rankOf(ctx.mesh(), {stage, 0}));
    Result<json> rows = parseJson(catalog, "catalog of stage " + std::to_string(stage));
    if (!rows.ok()) return rows.status();
    for (const json& row : rows->at("states")) {
      const std::string name = row.at("name"), role = row.at("role");
      const Keeping keeping = keepingOf(role);
      if (keeping != Keeping::kTensor && keeping != Keeping::kOptional) continue;
      const std::string called = checkpointName(name, role);
      const CheckpointTensors::Row own{static_cast<DType>(row.at("dtype").get<int>()),
                                       row.at("shape").get<std::vector<int64_t>>(), stage,
                                       keeping == Keeping::kOptional};
      const auto [known, isNew] = tensors.rows.emplace(called, own);
      if (isNew || (known->second.dtype == own.dtype && known->second.shape == own.shape)) continue;
      return internalError("stages " + std::to_string(known->second.stage) + " and " + std::to_string(stage) +
                           " hold " + called + " with different types or shapes");
    }
  }
  return tensors;
}

std::map<std::string, double> readCounters(const Context& ctx) {
  std::map<std::string, double> counters;
  for (const StateDesc& state : ctx.program().states) {
    if (keepingOf(state.role) != Keeping::kCounter || !ctx.arena(state.buffer.arena)) continue;
    if (state.dtype == DType::kI64) counters[state.role] = static_cast<double>(*ctx.ptr<int64_t>(state.buffer));
    if (state.dtype == DType::kF32) counters[state.role] = static_cast<double>(*ctx.ptr<float>(state.buffer));
  }
  return counters;
}

int64_t updatesOf(const std::map<std::string, double>& counters) {
  for (const char* role : {"applied_step", "step"}) {
    if (const auto found = counters.find(role); found != counters.end()) return static_cast<int64_t>(found->second);
  }
  return -1;
}

Result<CheckpointParts> writePart(const Context& ctx, const CheckpointTensors& tensors, const std::string& folder,
                                  IoFaults* faults) {
  return PartWriter(ctx, tensors, folder, faults).write();
}

}  // namespace hycrt
