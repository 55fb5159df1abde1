// Collecting events of a run and writing them as the Trace Event Format has them.
#include "base/trace.h"

#include <time.h>

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace hycrt {
namespace {

const char* const kTrackNames[] = {"computation", "wait", "communication"};

// Waits lie inside computation and are shown there.
int threadOf(TraceTrack track) { return track == TraceTrack::kCommunication ? 1 : 0; }

}  // namespace

Trace::Trace(size_t capacity) : capacity_(capacity) {
  for (std::vector<TraceEvent>& track : tracks_) track.reserve(capacity);
}

void Trace::add(const TraceEvent& event) {
  if (!on_.load(std::memory_order_relaxed)) return;
  std::vector<TraceEvent>& track = tracks_[static_cast<int>(event.track)];
  if (track.size() == capacity_) {
    ++dropped_;
  } else {
    track.push_back(event);
  }
}

int64_t Trace::bytes() const {
  size_t events = 0;
  for (const std::vector<TraceEvent>& track : tracks_) events += track.size();
  return static_cast<int64_t>(events * sizeof(TraceEvent));
}

std::string Trace::toJsonLines(int rank) const {
  using Json = nlohmann::ordered_json;
  std::string text;
  const auto add = [&](const Json& event) { text += event.dump() + ",\n"; };
  add({{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", "rank " + std::to_string(rank)}}}});
  for (TraceTrack track : {TraceTrack::kComputation, TraceTrack::kCommunication}) {
    add({{"name", "thread_name"},
         {"ph", "M"},
         {"pid", rank},
         {"tid", threadOf(track)},
         {"args", {{"name", kTrackNames[static_cast<int>(track)]}}}});
  }
  for (const std::vector<TraceEvent>& track : tracks_) {
    for (const TraceEvent& event : track) {
      Json arguments = Json::object();
      if (event.microBatch >= 0) arguments["micro_batch"] = event.microBatch;
      const std::string cause = event.cause;
      add({{"name", cause.empty() ? event.kind : event.kind + (" " + cause)},
           {"cat", kTrackNames[static_cast<int>(event.track)]},
           {"ph", "X"},
           {"ts", static_cast<double>(event.beginNs) * 1e-3},
           {"dur", static_cast<double>(event.endNs - event.beginNs) * 1e-3},
           {"pid", rank},
           {"tid", threadOf(event.track)},
           {"args", arguments}});
    }
  }
  return text;
}

Status appendTrace(const Trace& trace, const std::string& partial, const std::string& path, int rank, int worldSize) {
  Result<FileDescriptor> file = rank == 0 ? createNew(partial) : openMade(partial);
  if (!file.ok()) return file.status();
  Result<int64_t> end = fileSize(*file, partial);
  if (!end.ok()) return end.status();
  std::string text = (rank == 0 ? "[\n" : "") + trace.toJsonLines(rank);
  const bool last = rank == worldSize - 1;
  if (last) text.replace(text.size() - 2, 2, "\n]\n");
  HYCRT_RETURN_IF_ERROR(writeAt(*file, partial, text.data(), static_cast<int64_t>(text.size()), *end));
  return last ? publishFile(partial, path) : Status();
}

}  // namespace hycrt
