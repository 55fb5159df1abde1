// Files that the ranks write in turn.
#include "run/measurement.h"

#include <unistd.h>

#include "base/file.h"

namespace hycrt {
namespace {

constexpr int64_t kTracedSteps = 10;                // after the first, which warms everything up
constexpr size_t kTraceCapacity = size_t{1} << 16;  // events a track
constexpr int64_t kMostLinesBytes = int64_t{4} << 30;

}  // namespace

Status Measurement::prepare(const RunOptions& options, const Manifest& manifest, int rank, bool onDevice) {
  options_ = &options;
  manifest_ = &manifest;
  rank_ = rank;
  if (!options.trace.empty()) trace_ = std::make_unique<Trace>(kTraceCapacity);
  if (options.profile.empty() && options.replanAfter > 0) {
    return usageError(
        "--replan-after is given without a file for what is measured; name it with --profile FILE, as hyc-run does by "
        "itself");
  }
  if (options.profile.empty()) return {};
  if (onDevice && trace_) {
    return usageError(
        "--trace and --profile are both given, and a device's times are taken for one of them; leave one out");
  }
  if (options.replanAfter == 1)
    return usageError("--replan-after is 1, and the first step is not measured; give 2 or more");
  if (options.steps < 2)
    return usageError("--profile measures the steps after the first; --steps is " + std::to_string(options.steps) +
                      ", give 2 or more");
  if (rank != 0) return {};
  HYCRT_RETURN_IF_ERROR(checkWritable(profilePagePath(options.profile)));
  return readOps(manifest).status();
}

void Measurement::begin(const Program& program, const Exchanger& exchanger, Accelerator* device) {
  program_ = &program;
  if (!options_->profile.empty()) profile_ = std::make_unique<Profile>(program.entries[0], exchanger, device);
}

void Measurement::stepBegins(int64_t step) {
  if (trace_) trace_->setOn(step > 0 && step <= kTracedSteps);
}

// One rank after the other: they share the file.
Status Measurement::writeTrace(Exchanger& exchanger, int worldSize, const std::string& run) {
  if (!trace_) return {};
  trace_->setOn(false);
  for (int rank = 0; rank < worldSize; ++rank) {
    if (rank == rank_) {
      HYCRT_RETURN_IF_ERROR(appendTrace(*trace_, partialName(options_->trace, run), options_->trace, rank, worldSize));
    }
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
  }
  return {};
}

Status Measurement::writeProfile(Exchanger& exchanger, int worldSize, const std::string& run, const ProfileFacts& facts,
                                 const std::function<void(const std::string&)>& note) {
  if (!profile_ || isProfileWritten_) return {};
  isProfileWritten_ = true;
  const std::string lines = partialName(options_->profile, run);
  for (int rank = 0; rank < worldSize; ++rank) {
    if (rank == rank_) HYCRT_RETURN_IF_ERROR(addLine(lines));
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
  }
  if (rank_ == 0) {
    const Status status = makeFile(lines, worldSize, facts, note);
    unlink(lines.c_str());
    HYCRT_RETURN_IF_ERROR(status);
  }
  return exchanger.barrier();
}

Status Measurement::addLine(const std::string& partial) const {
  Result<FileDescriptor> file = rank_ == 0 ? createNew(partial) : openMade(partial);
  if (!file.ok()) return file.status();
  Result<int64_t> end = fileSize(*file, partial);
  if (!end.ok()) return end.status();
  const std::string line = toJsonLine(*profile_, *program_, rank_) + "\n";
  return writeAt(*file, partial, line.data(), static_cast<int64_t>(line.size()), *end);
}

Status Measurement::makeFile(const std::string& partial, int worldSize, const ProfileFacts& facts,
                             const std::function<void(const std::string&)>& note) const {
  Result<OpsFile> ops = readOps(*manifest_);
  if (!ops.ok()) return ops.status();
  Result<std::string> text = readWholeFile(partial, kMostLinesBytes);
  if (!text.ok()) return text.status();
  ProfileFile file(*manifest_, *ops, facts);
  std::string_view rest = *text;
  for (int rank = 0; rank < worldSize; ++rank) {
    const size_t end = rest.find('\n');
    HYCRT_RETURN_IF_ERROR(file.add(rest.substr(0, end)));
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  const nlohmann::ordered_json profile = file.finish();
  const std::string page = profilePagePath(options_->profile);
  const ProfilePartials made = profilePartials(partial);
  HYCRT_RETURN_IF_ERROR(publishText(made.profile, options_->profile, profile.dump() + "\n"));
  HYCRT_RETURN_IF_ERROR(publishText(made.page, page, profilePage(profile)));
  if (options_->replanAfter == 0) {
    for (const std::string& line : profileTables(profile)) note(line);
  }
  note("profile: " + options_->profile + ", and to look at " + page);
  return {};
}

}  // namespace hycrt
