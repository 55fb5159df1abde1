// A search through text: no preprocessor, and so a little more than what a compiler would read.
#include "Build/ReachedHeaders.h"
#include "Build/ObjectCache.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace hyc;

/// The name in a line that is #include "name".
static std::optional<StringRef> includedBy(StringRef line) {
  line = line.ltrim();
  if (!line.consume_front("#"))
    return std::nullopt;
  line = line.ltrim();
  if (!line.consume_front("include"))
    return std::nullopt;
  line = line.ltrim();
  if (!line.consume_front("\""))
    return std::nullopt;
  return line.take_until([](char c) { return c == '"'; });
}

const std::optional<ReachedHeaders::File> &ReachedHeaders::read(const Place &place) {
  auto [entry, isNew] = files.try_emplace(place);
  if (!isNew)
    return entry->second;
  SmallString<256> path(folders[place.first]);
  sys::path::append(path, place.second);
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return entry->second;
  File &file = entry->second.emplace();
  file.text = (*buffer)->getBuffer().str();
  SmallVector<StringRef> lines;
  StringRef(file.text).split(lines, '\n');
  for (StringRef line : lines)
    if (std::optional<StringRef> spelled = includedBy(line))
      file.includes.push_back(spelled->str());
  return entry->second;
}

std::optional<ReachedHeaders::Place> ReachedHeaders::find(const Place &includer, StringRef spelled) {
  auto placeOf = [&](size_t folder, StringRef beside) {
    SmallString<128> path(beside);
    sys::path::append(path, spelled);
    sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    return Place(folder, path.str().str());
  };
  if (Place beside = placeOf(includer.first, sys::path::parent_path(includer.second)); read(beside))
    return beside;
  for (size_t folder = 0; folder < folders.size(); ++folder)
    if (Place place = placeOf(folder, ""); read(place))
      return place;
  return std::nullopt;
}

void ReachedHeaders::reach(const Place &place, std::set<Place> &reached) {
  const std::optional<File> &file = read(place);
  if (!file)
    return;
  for (const std::string &spelled : file->includes)
    if (std::optional<Place> found = find(place, spelled); found && reached.insert(*found).second)
      reach(*found, reached);
}

std::string ReachedHeaders::hashOf(ArrayRef<std::string> sources) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::set<Place> reached;
  for (const std::string &source : sources)
    reach({0, source}, reached);
  SmallVector<StringRef> parts;
  for (const Place &place : reached)
    parts.append({place.second, read(place)->text});
  return hashParts(parts);
}
