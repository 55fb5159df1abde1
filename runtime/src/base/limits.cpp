// Which limit it was, by elimination: the system says only that it has had enough.
#include "base/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <system_error>
#include <vector>

namespace hycrt {
namespace {

std::string limitOf(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return std::to_string(limit.rlim_cur);
}

// A number in a file of the kernel's; -1: there is none.
long long numberIn(const std::string& path) {
  std::ifstream file(path);
  long long number = -1;
  return file >> number ? number : -1;
}

// The folder of the control group that counts this process's tasks.
std::string tasksGroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    for (const std::string& root : {std::string("/sys/fs/cgroup"), "/sys/fs/cgroup/" + controllers}) {
      for (const std::string& folder : {root + path, root}) {
        if (numberIn(folder + "/pids.max") >= 0) return folder;
      }
    }
  }
  return "";
}

// What ends the start of threads and processes.
std::string taskLimit() {
  const std::string group = tasksGroup();
  const long long most = numberIn(group + "/pids.max"), current = numberIn(group + "/pids.current");
  if (!group.empty() && current + 2 >= most) {
    return "the container's or the service's limit of " + std::to_string(most) + " tasks (pids.max)";
  }
  if (const std::string tasks = limitOf(RLIMIT_NPROC); !tasks.empty()) {
    return "the limit of " + tasks + " processes and threads of this user (ulimit -u)";
  }
  if (const std::string space = limitOf(RLIMIT_AS); !space.empty()) {
    return "the limit of " + space + " bytes of address space (ulimit -v)";
  }
  return "the system's limit (kernel.threads-max, kernel.pid_max), or there is no memory left";
}

}  // namespace

void raiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Status startError(const std::string& what, int error) {
  return unavailableError(what + ": " + std::generic_category().message(error) + "; what was hit is " + taskLimit() +
                          "; raise it, or start fewer ranks or --threads");
}

int descriptorCount() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

std::string descriptorLimit() {
  const std::string count = limitOf(RLIMIT_NOFILE);
  if (count.empty()) return "; the system has no more descriptors (fs.file-max)";
  return "; this process may have " + count + " descriptors open at once (ulimit -n): raise that, or start fewer ranks";
}

Status startThread(const std::string& purpose, std::function<void()> work, std::thread* thread) {
  try {
    *thread = std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return startError("cannot start a thread for " + purpose, error.code().value());
  }
  return {};
}

Status checkThreadsCanStart(int count) {
  std::mutex mutex;
  std::condition_variable over;
  bool isOver = false;
  std::vector<std::thread> threads(static_cast<size_t>(std::max(count, 0)));
  Status status;
  for (std::thread& thread : threads) {
    if (!status.ok()) break;
    status = startThread(
        "computing",
        [&] {
          std::unique_lock<std::mutex> lock(mutex);
          over.wait(lock, [&] { return isOver; });
        },
        &thread);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
  }
  over.notify_all();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return status;
}

}  // namespace hycrt
