// Names of event files, and what is written into them.
#include "instruments/tensorboard_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "instruments/metrics.h"

namespace hycrt {
namespace {

constexpr mode_t kFileMode = 0644;
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr char kVersion[] = "brain.Event:2";
constexpr int kMostTries = 100;

double wallTime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Status cannotWrite(const std::string& path, int error) {
  return errnoError("cannot write events for TensorBoard into '" + path + "'", error);
}

// Readers take files in the order of their names, which the seconds decide: later than all that are there.
Result<int64_t> secondsForName(const std::string& folder) {
  DIR* const names = opendir(folder.c_str());
  if (!names) return cannotWrite(folder, errno);
  int64_t seconds = static_cast<int64_t>(wallTime());
  const int64_t future = seconds + 86400;  // a name from there is not obeyed
  while (const dirent* entry = readdir(names)) {
    const std::string_view name = entry->d_name;
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    int64_t taken = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), taken);
    if (taken >= seconds && taken < future) seconds = taken + 1;
  }
  closedir(names);
  return seconds;
}

}  // namespace

Result<std::unique_ptr<TensorBoardFolder>> TensorBoardFolder::open(const std::string& folder) {
  HYCRT_RETURN_IF_ERROR(makeFolders(folder));
  const Result<int64_t> seconds = secondsForName(folder);
  if (!seconds.ok()) return seconds.status();
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, sizeof host - 1);
  for (char* at = host; *at; ++at) *at = *at == '/' ? '-' : *at;
  for (int number = 0; number < kMostTries; ++number) {
    char name[HOST_NAME_MAX + 96];
    std::snprintf(name, sizeof name, "%s%010" PRId64 ".%s.%d.%d", kPrefix.data(), *seconds, host,
                  static_cast<int>(getpid()), number);
    const std::string path = folder + "/" + name;
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    if (!file.isOpen() && errno == EEXIST) continue;
    if (!file.isOpen()) return cannotWrite(folder, errno);
    std::unique_ptr<TensorBoardFolder> opened(new TensorBoardFolder(path, std::move(file)));
    EventMessage version(wallTime(), 0);
    version.setFileVersion(kVersion);
    HYCRT_RETURN_IF_ERROR(opened->write(version));
    return opened;
  }
  return cannotWrite(folder, EEXIST);
}

TensorBoardFolder::~TensorBoardFolder() {
  if (!hasSteps_) unlink(path_.c_str());
}

// One write a record, so that a reader sees all of it or nothing, but where a disk is full.
Status TensorBoardFolder::write(EventMessage& message) {
  const std::string_view record = message.record();
  for (;;) {
    const ssize_t count = ::write(file_.get(), record.data(), record.size());
    if (count == static_cast<ssize_t>(record.size())) return {};
    if (count < 0 && errno == EINTR) continue;
    return cannotWrite(path_, count < 0 ? errno : ENOSPC);
  }
}

Status TensorBoardFolder::step(const StepRecord& record) {
  const double now = wallTime();
  if (record.batches == 0 && (!hasSteps_ || record.step <= lastStep_)) {
    EventMessage start(now, record.step);
    start.setSessionStart();
    HYCRT_RETURN_IF_ERROR(write(start));
  }
  hasSteps_ = true;
  lastStep_ = record.step;
  EventMessage message(now, record.step);
  for (const Metric<StepRecord>& metric : stepMetrics()) {
    if (metric.tag && metric.isIn(record) && !message.addValue(metric.tag, metric.valueOf(record) * metric.baseUnit)) {
      return internalError("an event for TensorBoard has no room for '" + std::string(metric.tag) + "'");
    }
  }
  return write(message);
}

}  // namespace hycrt
