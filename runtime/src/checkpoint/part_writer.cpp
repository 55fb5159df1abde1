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
  StateElements(const StateDesc& state, const std::byte* memory, BlockFile* file)
      : state_(state), file_(file), memory_(memory), size_(sizeOf(state.dtype)) {}

  // Element `element` and what follows it: *count of them at most, and as many as are there.
  Result<const std::byte*> from(int64_t element, int64_t* count) {
    if (memory_) return memory_ + element * size_;
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
  const std::byte* memory_;
  int64_t size_;
  std::unique_ptr<std::byte[], AlignedDelete> window_;
  int64_t first_ = -1, held_ = 0;
};

using PieceFile = std::map<std::string, CheckpointPiece>;  // by the tensor's name

class PartWriter {
 public:
  PartWriter(const PartSource& source, const MakePartFile& makeFile) : source_(source), makeFile_(makeFile) {}

  Result<CheckpointParts> write() {
    for (const auto& [name, pieces] : source_.plan.files) {
      for (const auto& [tensor, piece] : pieces) ++unread_[piece.state];
    }
    for (const auto& [name, pieces] : source_.plan.files) HYCRT_RETURN_IF_ERROR(writeFile(name, pieces));
    return std::move(parts_);
  }

 private:
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
    Result<StreamFile> file = makeFile_(name);
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

  Status writePiece(const CheckpointPiece& piece, StreamFile* file) {
    const float updates = static_cast<float>(source_.updates);
    if (!piece.state) return file->write(&updates, sizeof updates);
    const ShardLayout layout(*piece.state, source_.mesh, source_.at);
    const std::byte* const memory = source_.memoryOf(*piece.state);
    StateElements elements(*piece.state, memory, source_.file);
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
    if (--unread_[piece.state] == 0 && !memory && source_.letsGo) source_.file->letGo(piece.state->buffer.offset);
    return {};
  }

  const PartSource& source_;
  const MakePartFile& makeFile_;
  std::map<const StateDesc*, int> unread_;  // pieces
  CheckpointParts parts_;
};

class PartPlanner {
 public:
  PartPlanner(const Context& ctx, const CheckpointTensors& tensors)
      : ctx_(ctx), tensors_(tensors), counts_(updatesOf(readCounters(ctx)) >= 0) {}

  PartPlan run() {
    for (const StateDesc& state : ctx_.program().states) add(state);
    return std::move(plan_);
  }

 private:
  void add(const StateDesc& state) {
    const Keeping keeping = keepingOf(state.role);
    if (keeping != Keeping::kTensor && keeping != Keeping::kOptional) return;
    const std::string name = checkpointName(state.name, state.role);
    const ShardLayout layout(state, ctx_.mesh(), ctx_.at());
    if (tensors_.rows.at(name).stage != ctx_.at().stage || !layout.isWriter()) return;
    const std::vector<Box> boxes = boxesOf(layout, state.logical);
    for (size_t i = 0; i < boxes.size(); ++i) {
      plan_.files[fileName(i, state.dtype)].emplace(name,
                                                    CheckpointPiece{&state, state.dtype, state.logical, boxes[i]});
    }
    if (!boxes.empty()) plan_.states.push_back(&state);
    const auto isZero = [](int64_t offset) { return offset == 0; };
    if (boxes.empty() || !hasStepBeside(state.role) || !counts_) return;
    if (!std::all_of(boxes[0].offset.begin(), boxes[0].offset.end(), isZero)) return;
    plan_.files[fileName(0, DType::kF32)].emplace(stepName(state.name), CheckpointPiece{});
  }

  std::string fileName(size_t index, DType dtype) const {
    return partFileName(rankOf(ctx_.mesh(), ctx_.at()), index, dtype);
  }

  const Context& ctx_;
  const CheckpointTensors& tensors_;
  const bool counts_;  // updates
  PartPlan plan_;
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

PartPlan planPart(const Context& ctx, const CheckpointTensors& tensors) { return PartPlanner(ctx, tensors).run(); }

Result<CheckpointParts> writePart(const PartSource& source, const MakePartFile& makeFile) {
  return PartWriter(source, makeFile).write();
}

}  // namespace hycrt
