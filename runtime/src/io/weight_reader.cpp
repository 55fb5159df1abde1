// Reading, checking and converting values by many threads, a chunk each.
#include "io/weight_reader.h"

#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/crc32c.h"
#include "base/work_by_threads.h"
#include "io/float_convert.h"

namespace hycrt {
namespace {

// Bytes that are read at once, and summed while the processor's cache still has them (test/bench/weights_bench.cpp).
constexpr int64_t kReadBytes = 256 << 10;

std::string hex(uint32_t sum) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", sum);
  return text;
}

std::string rangeOf(int64_t begin, int64_t end) {
  return "bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

constexpr char kWayOut[] = "; bring that file back, or compile the model again";

}  // namespace

Status WeightReader::open(int index) {
  OpenFile& entry = files_[static_cast<size_t>(index)];
  if (entry.file.isOpen()) return {};
  const ModelFile& model = models_[static_cast<size_t>(index)];
  Result<FileDescriptor> file = openForReading(model.path);
  if (!file.ok()) return file.status();
  Result<int64_t> bytes = fileSize(*file, model.path);
  if (!bytes.ok()) return bytes.status();
  if (model.sums && model.sums->bytes != *bytes) {
    return dataError("'" + model.path + "' has " + std::to_string(*bytes) +
                     " bytes, but the model was compiled against " + std::to_string(model.sums->bytes) + kWayOut);
  }
  entry = {std::move(*file), *bytes};
  return checkHeader(index);
}

Status WeightReader::checkHeader(int index) const {
  const ModelFile& model = models_[static_cast<size_t>(index)];
  if (!model.sums) return {};
  std::vector<std::byte> header(static_cast<size_t>(model.sums->headerBytes));
  HYCRT_RETURN_IF_ERROR(
      readAt(files_[static_cast<size_t>(index)].file, model.path, header.data(), model.sums->headerBytes, 0));
  const uint32_t sum = crc32c(0, header.data(), header.size());
  if (sum == model.sums->header) return {};
  return dataError("'" + model.path + "': its header, " + rangeOf(0, model.sums->headerBytes) + ", has the CRC32C " +
                   hex(sum) + ", but the model was compiled against " + hex(model.sums->header) + kWayOut);
}

Status WeightReader::add(const StateDesc& state, const ShardLayout& layout, const StateWindow& window) {
  return addWants(state, layout, window, 1, nullptr);
}

Status WeightReader::add(const StateDesc& state, const ShardLayout& layout, const StateWindow& window,
                         int64_t perElement, const Take& take) {
  return addWants(state, layout, window, perElement, &take);
}

std::optional<ElementRun> WeightReader::Want::clip(const ElementRun& run) const {
  const std::optional<ElementRun> inside = window.clip(run);
  if (!inside) return std::nullopt;
  const int64_t begin = std::max(inside->global, placeFirst);
  const int64_t end = std::min(inside->global + inside->count, placeEnd);
  if (begin >= end) return std::nullopt;
  return ElementRun{inside->local + (begin - inside->global), begin, end - begin};
}

Status WeightReader::checkPlace(const StateDesc& state, const FilePlace& place) const {
  const int64_t fileBytes = files_[static_cast<size_t>(place.file)].bytes, bytes = place.count * sizeOf(place.dtype);
  if (place.offset >= 0 && bytes <= fileBytes && place.offset <= fileBytes - bytes) return {};
  return dataError("'" + models_[static_cast<size_t>(place.file)].path + "': " + state.name + " should lie at bytes [" +
                   std::to_string(place.offset) + ", " + std::to_string(place.offset) + " + " + std::to_string(bytes) +
                   "), but the file has " + std::to_string(fileBytes));
}

// A want for each place that has anything of the window.
Status WeightReader::addWants(const StateDesc& state, const ShardLayout& layout, const StateWindow& window,
                              int64_t perElement, const Take* take) {
  std::optional<int64_t> begin;  // of the window, in the whole state
  layout.forEachRunFrom(window.begin, [&](const ElementRun& whole) {
    if (const std::optional<ElementRun> run = window.clip(whole)) begin = run->global;
    return false;
  });
  const int64_t values = elementCount(state.global) * perElement;  // checked with the tables
  int64_t before = 0;                                              // elements of other places
  for (int64_t i = 0; i < placeCount(state.init); ++i) {
    const FilePlace place = placeOf(state.init, i, values);
    HYCRT_RETURN_IF_ERROR(open(place.file));  // in range: checked against the manifest
    HYCRT_RETURN_IF_ERROR(checkPlace(state, place));
    if (place.count % perElement != 0) {
      return dataError(std::string(state.name) +
                       " is made of parts that end within an element, expected multiples of " +
                       std::to_string(perElement) + " values");
    }
    const int64_t count = place.count / perElement;
    Want want{&state, &layout, window,         place,      sizeOf(place.dtype) * perElement,
              0,      before,  before + count, perElement, take};
    before += count;
    if (!begin) continue;  // all of it is padding
    layout.forEachRunFromGlobal(std::max(*begin, want.placeFirst), [&](const ElementRun& whole) {
      if (const std::optional<ElementRun> run = want.clip(whole)) {
        want.first = run->global;
        wants_.push_back(want);
      }
      return false;
    });
  }
  return {};
}

WeightReader::Bytes WeightReader::bytesOf(const Use& use) const {
  const int64_t begin = use.chunk * kChunkBytes;
  return {begin, std::min(begin + kChunkBytes, files_[static_cast<size_t>(use.file)].bytes)};
}

// From chunk to chunk that has an element of the want: between runs there may be many that have none.
void WeightReader::findUses(size_t index, std::vector<Use>* uses) const {
  const Want& want = wants_[index];
  int64_t from = want.first;  // no element before it is looked for
  for (bool found = true; found;) {
    found = false;
    want.layout->forEachRunFromGlobal(from, [&](const ElementRun& whole) {
      const std::optional<ElementRun> run = want.clip(whole);
      if (!run) return false;  // behind the window
      const int64_t first = std::max(run->global, from), last = run->global + run->count;
      if (first >= last) return true;
      const int64_t chunks[] = {(want.begin() + first * want.elementBytes) / kChunkBytes,
                                (want.begin() + last * want.elementBytes - 1) / kChunkBytes};
      for (int64_t chunk = chunks[0]; chunk <= chunks[1]; ++chunk) {
        if (!uses->empty() && uses->back().want == index && uses->back().chunk >= chunk) continue;
        uses->push_back({want.place.file, chunk, index});
      }
      // The first element that does not end in the last of these chunks.
      from = ((chunks[1] + 1) * kChunkBytes - want.begin()) / want.elementBytes;
      found = true;
      return false;
    });
  }
}

std::byte* WeightReader::directPlace(const Unit& unit, const Bytes& bytes) const {
  const Want& want = wants_[uses_[unit.first].want];
  if (unit.last - unit.first != 1 || want.take || want.place.dtype != want.state->dtype) return nullptr;
  std::byte* place = nullptr;
  want.layout->forEachRunFromGlobal((bytes.begin - want.begin()) / want.elementBytes, [&](const ElementRun& whole) {
    const std::optional<ElementRun> run = want.clip(whole);
    if (!run) return false;
    const int64_t begin = want.begin() + run->global * want.elementBytes;
    if (begin <= bytes.begin && begin + run->count * want.elementBytes >= bytes.end) {
      place = want.window.memory + (run->local - want.window.begin) * want.elementBytes + (bytes.begin - begin);
    }
    return false;
  });
  return place;
}

Status WeightReader::readChecked(const Use& use, const Bytes& bytes, std::byte* to) const {
  const ModelFile& model = models_[static_cast<size_t>(use.file)];
  const FileDescriptor& file = files_[static_cast<size_t>(use.file)].file;
  uint32_t sum = 0;
  for (int64_t at = bytes.begin; at < bytes.end; at += kReadBytes, to += kReadBytes) {
    const int64_t some = std::min(kReadBytes, bytes.end - at);
    HYCRT_RETURN_IF_ERROR(readAt(file, model.path, to, some, at));
    if (model.sums) sum = crc32c(sum, to, static_cast<size_t>(some));
  }
  if (!model.sums || sum == model.sums->chunks[static_cast<size_t>(use.chunk)]) return {};
  return dataError("'" + model.path + "': " + wants_[use.want].state->name + " lies in chunk " +
                   std::to_string(use.chunk) + ", " + rangeOf(bytes.begin, bytes.end) + ", which has the CRC32C " +
                   hex(sum) + ", but the model was compiled against " +
                   hex(model.sums->chunks[static_cast<size_t>(use.chunk)]) + kWayOut);
}

// A little at a time.
void WeightReader::give(const Want& want, const ElementRun& run, const std::byte* from) const {
  constexpr int64_t kValues = 4096;
  float values[kValues];
  const int64_t most = kValues / want.perElement;
  for (int64_t done = 0; done < run.count; done += most) {
    const int64_t some = std::min(most, run.count - done);
    convertFloats(from + done * want.elementBytes, want.place.dtype, reinterpret_cast<std::byte*>(values), DType::kF32,
                  some * want.perElement);
    (*want.take)({run.local + done, run.global + done, some}, values);
  }
}

void WeightReader::put(const Want& want, const ElementRun& run, const std::byte* from) const {
  if (want.take) return give(want, run, from);
  const DType fileType = want.place.dtype, type = want.state->dtype;
  std::byte* const to = want.window.memory + (run.local - want.window.begin) * sizeOf(type);
  if (fileType != type) return convertFloats(from, fileType, to, type, run.count);
  std::memcpy(to, from, static_cast<size_t>(run.count * want.elementBytes));
}

// Those that lie in the chunk as a whole.
void WeightReader::takeElements(const Use& use, const Bytes& bytes, const std::byte* from) const {
  const Want& want = wants_[use.want];
  const int64_t size = want.elementBytes, before = bytes.begin - want.begin();
  const int64_t whole = before <= 0 ? 0 : (before + size - 1) / size;
  const int64_t first = std::max(whole, want.first), last = (bytes.end - want.begin()) / size;
  want.layout->forEachRunFromGlobal(first, [&](const ElementRun& all) {
    const std::optional<ElementRun> run = want.clip(all);
    if (!run) return false;  // behind the window
    const int64_t begin = std::max(run->global, first), end = std::min(run->global + run->count, last);
    if (run->global >= last) return false;
    if (begin < end) {
      put(want, {run->local + (begin - run->global), begin, end - begin},
          from + (want.begin() + begin * size - bytes.begin));
    }
    return true;
  });
}

Status WeightReader::readUnit(Unit& unit, std::vector<std::byte>* staging) const {
  const Use& use = uses_[unit.first];
  const Bytes bytes = bytesOf(use);
  const size_t count = static_cast<size_t>(bytes.end - bytes.begin);
  std::byte* place = directPlace(unit, bytes);
  const bool isDirect = place != nullptr;
  if (!isDirect) {
    staging->resize(static_cast<size_t>(kChunkBytes));
    place = staging->data();
  }
  HYCRT_RETURN_IF_ERROR(readChecked(use, bytes, place));
  const size_t edge = std::min(count, unit.head.size());
  std::memcpy(unit.head.data(), place, edge);
  std::memcpy(unit.tail.data() + unit.tail.size() - edge, place + count - edge, edge);
  for (size_t i = unit.first; i < unit.last && !isDirect; ++i) takeElements(uses_[i], bytes, place);
  return {};
}

// The element at the chunk's end that goes on in the next one, of each tensor that is wanted of both.
void WeightReader::joinShared(size_t index) const {
  const Unit& unit = units_[index];
  for (size_t i = unit.first; i < unit.last; ++i) {
    const Want& want = wants_[uses_[i].want];
    const int64_t end = bytesOf(uses_[i]).end - want.begin(), inside = end % want.elementBytes;
    const int64_t element = end / want.elementBytes;
    if (end <= 0 || inside == 0) continue;
    want.layout->forEachRunFromGlobal(element, [&](const ElementRun& whole) {
      const std::optional<ElementRun> run = want.clip(whole);
      if (!run || run->global > element || run->global + run->count <= element) return false;
      std::array<std::byte, 16> value;  // its other part is in the next unit: both chunks are wanted
      std::memcpy(value.data(), unit.tail.data() + unit.tail.size() - inside, static_cast<size_t>(inside));
      std::memcpy(value.data() + inside, units_[index + 1].head.data(),
                  static_cast<size_t>(want.elementBytes - inside));
      put(want, {run->local + (element - run->global), element, 1}, value.data());
      return false;
    });
  }
}

Status WeightReader::read() {
  uses_.clear();
  units_.clear();
  for (size_t i = 0; i < wants_.size(); ++i) findUses(i, &uses_);
  std::stable_sort(uses_.begin(), uses_.end(),
                   [](const Use& a, const Use& b) { return a.file != b.file ? a.file < b.file : a.chunk < b.chunk; });
  for (size_t i = 0; i < uses_.size(); ++i) {
    const bool isNew = i == 0 || uses_[i].file != uses_[i - 1].file || uses_[i].chunk != uses_[i - 1].chunk;
    isNew ? units_.push_back({i, i + 1, {}, {}}) : void(units_.back().last = i + 1);
  }
  const size_t count = units_.size();
  // Two for each that computes: while one waits for the disk another copies.
  const Status status =
      forEachPiece(count, 2 * static_cast<size_t>(omp_get_max_threads()), "reading weights",
                   [&](size_t i, std::vector<std::byte>* staging) { return readUnit(units_[i], staging); });
  for (size_t i = 0; i < count && status.ok(); ++i) joinShared(i);
  wants_.clear();
  return status;
}

}  // namespace hycrt
