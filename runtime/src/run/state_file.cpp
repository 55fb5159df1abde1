// Writing shards of all ranks to their places in one file.
#include "run/state_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "comm/exchanger.h"
#include "hycrt/safetensors.h"
#include "io/float_convert.h"
#include "io/state_layout.h"
#include "io/state_window.h"

namespace hycrt {
namespace {

using nlohmann::json;

constexpr const char* kCodes = "codes";
constexpr const char* kScale = "codes.scale";

// What is written, and how it is changed on its way out.
struct Selection {
  std::string role;
  Scaling scaling;
  SavedParameters saved;

  // Empty: not at all.
  std::string nameOf(const std::string& ofRole, const std::string& state) const {
    if (saved.scales && ofRole == kScale) return state;
    if (ofRole != role && !(saved.decode && ofRole == kCodes)) return {};
    return saved.nameOf ? saved.nameOf(state) : state;
  }
};

// The tensors that are written over all stages, by their names in the file, and which stage writes each.
struct Plan {
  TensorDirectory directory;
  std::map<std::string, int> stageOf;
  std::string header;
};

// A tensor of the file that some of a state's elements go into: all of them, but where parameters are read and written
// in parts. `count` from number `first` on.
struct Piece {
  std::string name;
  int64_t first, count;
};

std::vector<Piece> piecesOf(const StateDesc& state, const std::string& name, bool inParts) {
  if (!inParts || state.init.parts.size == 0) return {{name, 0, elementCount(state.logical)}};
  std::vector<Piece> pieces;
  int64_t first = 0;
  for (const FilePart& part : state.init.parts) {
    pieces.push_back({part.name, first, elementCount(part.shape)});
    first += pieces.back().count;
  }
  return pieces;
}

Status addTensor(const std::string& name, DType dtype, const json& shape, int stage, Plan* plan) {
  TensorEntry entry;
  entry.dtype = dtype;
  entry.shape = shape.get<std::vector<int64_t>>();
  const auto [known, isNew] = plan->directory.emplace(name, entry);
  if (isNew) plan->stageOf[name] = stage;
  if (known->second.dtype == entry.dtype && known->second.shape == entry.shape) return {};
  return internalError("stages " + std::to_string(plan->stageOf[name]) + " and " + std::to_string(stage) + " hold " +
                       name + " with different types or shapes");
}

Status addStage(const std::string& catalog, const Selection& selection, int stage, Plan* plan) {
  Result<json> rows = parseJson(catalog, "catalog of stage " + std::to_string(stage));
  if (!rows.ok()) return rows.status();
  for (const json& row : rows->at("states")) {
    const std::string role = row.at("role"), name = selection.nameOf(role, row.at("name"));
    if (name.empty()) continue;
    const DType dtype = role == kCodes ? DType::kF32 : static_cast<DType>(row.at("dtype").get<int>());
    if (!selection.saved.inParts || !row.contains("parts")) {
      HYCRT_RETURN_IF_ERROR(addTensor(name, dtype, row.at("shape"), stage, plan));
      continue;
    }
    for (const json& part : row.at("parts")) {
      HYCRT_RETURN_IF_ERROR(addTensor(part.at("name"), dtype, part.at("shape"), stage, plan));
    }
  }
  return {};
}

Result<Plan> makePlan(const Context& ctx, const Selection& selection) {
  Plan plan;
  for (int stage = 0; stage < ctx.mesh().stages; ++stage) {
    const std::string catalog = ctx.exchanger().catalogOf(rankOf(ctx.mesh(), {stage, 0}));
    HYCRT_RETURN_IF_ERROR(addStage(catalog, selection, stage, &plan));
  }
  plan.header = encodeSafetensorsHeader(&plan.directory);
  return plan;
}

template <typename T>
void divideInto(const std::byte* from, double divisor, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * int64_t{sizeof(T)}, sizeof value);
    value = static_cast<T>(static_cast<double>(value) / divisor);
    std::memcpy(to + i * int64_t{sizeof(T)}, &value, sizeof value);
  }
}

class Writer {
 public:
  Writer(const Context& ctx, const Plan& plan, const Selection& selection, std::string path, FolderLink link)
      : ctx_(ctx), plan_(plan), selection_(selection), path_(std::move(path)), link_(link) {}

  // Rank 0's part that comes first: the header, and the room for everything.
  Status create() {
    Result<FileDescriptor> made = createNew(path_, link_);
    if (!made.ok()) return made.status();
    const FileDescriptor& file = *made;
    int64_t end = static_cast<int64_t>(plan_.header.size());
    for (const auto& [name, entry] : plan_.directory) end = std::max(end, entry.begin + entry.bytes);
    const int error = posix_fallocate(file.get(), 0, end);
    if (error == EOPNOTSUPP || error == EINVAL) {
      if (ftruncate(file.get(), end) != 0) return errnoError("cannot write '" + path_ + "'", errno);
    } else if (error != 0) {
      return errnoError("cannot write '" + path_ + "'", error);
    }
    return writeAt(file, path_, plan_.header.data(), static_cast<int64_t>(plan_.header.size()), 0);
  }

  Status writeShards() {
    Result<FileDescriptor> made = openMade(path_, link_);
    if (!made.ok()) return made.status();
    const FileDescriptor& file = *made;
    for (const StateDesc& state : ctx_.program().states) {
      const std::string name = selection_.nameOf(state.role, state.name);
      if (name.empty()) continue;
      const std::vector<Piece> pieces = piecesOf(state, name, selection_.saved.inParts);
      if (plan_.stageOf.at(pieces.front().name) != ctx_.at().stage) continue;
      const ShardLayout layout(state, ctx_.mesh(), ctx_.at());
      if (layout.isWriter()) HYCRT_RETURN_IF_ERROR(writeShard(file, state, pieces, layout));
    }
    if (fsync(file.get()) != 0) return errnoError("cannot sync '" + path_ + "'", errno);
    return {};
  }

 private:
  Status writeShard(const FileDescriptor& file, const StateDesc& state, const std::vector<Piece>& pieces,
                    const ShardLayout& layout) {
    return forEachWindow(state, {ctx_.arenas(), ctx_.file()}, WindowUse::kRead, [&](const StateWindow& window) {
      Status status;
      layout.forEachRun([&](const ElementRun& whole) {
        const std::optional<ElementRun> run = window.clip(whole);
        if (run) status = writePieces(file, state, pieces, window, *run);
        return status.ok();
      });
      return status;
    });
  }

  // The run's elements, to the tensors that have them.
  Status writePieces(const FileDescriptor& file, const StateDesc& state, const std::vector<Piece>& pieces,
                     const StateWindow& window, const ElementRun& run) {
    const int64_t size = sizeOf(state.dtype);
    const bool areCodes = std::strcmp(state.role, kCodes) == 0;
    const int64_t perElement = areCodes ? elementCount(state.logical) / elementCount(state.global) : 1;
    auto piece = std::upper_bound(pieces.begin(), pieces.end(), run.global * perElement,
                                  [](int64_t value, const Piece& each) { return value < each.first; });
    for (--piece; piece != pieces.end() && piece->first < (run.global + run.count) * perElement; ++piece) {
      const int64_t begin = std::max(run.global, piece->first / perElement);
      const int64_t end = std::min(run.global + run.count, (piece->first + piece->count) / perElement);
      const ElementRun part{run.local + (begin - run.global), begin, end - begin};
      const std::byte* const from = window.memory + (part.local - window.begin) * size;
      // Where the state's first element would lie.
      const int64_t valueSize = areCodes ? int64_t{sizeof(float)} : size;
      const int64_t origin = plan_.directory.at(piece->name).begin - piece->first * valueSize;
      HYCRT_RETURN_IF_ERROR(areCodes ? writeCodes(file, state, from, part, origin)
                                     : writeRun(file, state, from, part, origin + part.global * size));
    }
    return {};
  }

  Status writeRun(const FileDescriptor& file, const StateDesc& state, const std::byte* from, const ElementRun& run,
                  int64_t offset) {
    const int64_t size = sizeOf(state.dtype);
    const bool divides = selection_.scaling.divisor != 1 && (state.dtype == DType::kF32 || state.dtype == DType::kF64);
    const bool adds = selection_.saved.add && canConvert(state.dtype, DType::kF32) && state.dtype != DType::kF64;
    if (!divides && !adds) return writeAt(file, path_, from, run.count * size, offset);
    constexpr int64_t kChunk = 1 << 16;
    std::vector<std::byte> staging(static_cast<size_t>(std::min(kChunk, run.count) * size));
    for (int64_t done = 0; done < run.count; done += kChunk) {
      const ElementRun part{run.local + done, run.global + done, std::min(kChunk, run.count - done)};
      const std::byte* source = from + done * size;
      if (adds) {
        HYCRT_RETURN_IF_ERROR(addInto(source, state, part, staging.data()));
      } else if (state.dtype == DType::kF32) {
        divideInto<float>(source, selection_.scaling.divisor, part.count, staging.data());
      } else {
        divideInto<double>(source, selection_.scaling.divisor, part.count, staging.data());
      }
      HYCRT_RETURN_IF_ERROR(writeAt(file, path_, staging.data(), part.count * size, offset + done * size));
    }
    return {};
  }

  // As the weights that they mean, with what is added to these.
  Status writeCodes(const FileDescriptor& file, const StateDesc& state, const std::byte* from, const ElementRun& run,
                    int64_t begin) {
    constexpr int64_t kChunk = 1 << 16;
    const int64_t perElement = elementCount(state.logical) / elementCount(state.global);
    for (int64_t done = 0; done < run.count; done += kChunk) {
      const int64_t some = std::min(kChunk, run.count - done);
      const int64_t first = (run.global + done) * perElement, count = some * perElement;
      wide_.resize(static_cast<size_t>(count));
      HYCRT_RETURN_IF_ERROR(selection_.saved.decode(state, run.global + done, some, from + done, wide_.data()));
      if (selection_.saved.add) HYCRT_RETURN_IF_ERROR(selection_.saved.add(state.name, first, count, wide_.data()));
      const int64_t size = sizeof(float);
      HYCRT_RETURN_IF_ERROR(writeAt(file, path_, wide_.data(), count * size, begin + first * size));
    }
    return {};
  }

  // By way of f32.
  Status addInto(const std::byte* from, const StateDesc& state, const ElementRun& run, std::byte* to) {
    wide_.resize(static_cast<size_t>(run.count));
    std::byte* const wide = reinterpret_cast<std::byte*>(wide_.data());
    convertFloats(from, state.dtype, wide, DType::kF32, run.count);
    HYCRT_RETURN_IF_ERROR(selection_.saved.add(state.name, run.global, run.count, wide_.data()));
    convertFloats(wide, DType::kF32, to, state.dtype, run.count);
    return {};
  }

  const Context& ctx_;
  const Plan& plan_;
  const Selection& selection_;
  std::string path_;
  FolderLink link_;
  std::vector<float> wide_;  // what is being added to
};

// Called by all ranks together.
Status writeSelection(Context& ctx, const Selection& selection, const std::string& path, FolderLink link) {
  Result<Plan> plan = makePlan(ctx, selection);
  if (!plan.ok()) return plan.status();
  Writer writer(ctx, *plan, selection, path, link);
  if (rankOf(ctx.mesh(), ctx.at()) == 0) HYCRT_RETURN_IF_ERROR(writer.create());
  HYCRT_RETURN_IF_ERROR(ctx.exchanger().barrier());
  HYCRT_RETURN_IF_ERROR(writer.writeShards());
  return ctx.exchanger().barrier();
}

}  // namespace

std::string catalogOf(const Program& program, const std::string& run) {
  json rows = json::array();
  for (const StateDesc& state : program.states) {
    rows.push_back({{"name", state.name},
                    {"role", state.role},
                    {"dtype", static_cast<int>(state.dtype)},
                    {"shape", std::vector<int64_t>(state.logical.begin(), state.logical.end())}});
    for (const FilePart& part : state.init.parts) {
      rows.back()["parts"].push_back(
          {{"name", part.name}, {"shape", std::vector<int64_t>(part.shape.begin(), part.shape.end())}});
    }
  }
  return json{{"run", run}, {"states", rows}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string runOf(const std::string& catalog) {
  const Result<json> object = parseJson(catalog, "catalog");
  const bool isTold = object.ok() && object->is_object() && object->contains("run") && object->at("run").is_string();
  return isTold ? object->at("run").get<std::string>() : std::string();
}

Result<bool> holdsCodes(const Context& ctx) {
  for (int stage = 0; stage < ctx.mesh().stages; ++stage) {
    const std::string catalog = ctx.exchanger().catalogOf(rankOf(ctx.mesh(), {stage, 0}));
    Result<json> rows = parseJson(catalog, "catalog of stage " + std::to_string(stage));
    if (!rows.ok()) return rows.status();
    for (const json& row : rows->at("states")) {
      if (row.at("role") == kCodes) return true;
    }
  }
  return false;
}

Status writeParameters(Context& ctx, const std::string& path, FolderLink link, const SavedParameters& saved) {
  return writeSelection(ctx, {"parameter", {}, saved}, path, link);
}

Status saveStates(Context& ctx, const std::string& role, const std::string& path, const std::string& run,
                  Scaling scaling) {
  const bool leads = rankOf(ctx.mesh(), ctx.at()) == 0;
  const std::string partial = partialName(path, run);
  Status status = writeSelection(ctx, {role, scaling, {}}, partial, FolderLink::kFollow);
  if (!leads) return status;
  if (status.ok()) status = publishFile(partial, path);
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

}  // namespace hycrt
