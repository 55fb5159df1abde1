// /proc/N/cmdline, environ and stat.
#include "processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace hyccheck {
namespace {

namespace fs = std::filesystem;

// Words that end with NUL each.
std::vector<std::string> wordsOf(const fs::path &file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

fs::path programOf(const fs::path &file) {
  const std::vector<std::string> words = wordsOf(file);
  return words.empty() ? fs::path() : fs::path(words[0]);
}

std::string valueOf(const std::vector<std::string> &environment, const std::string &name) {
  for (const std::string &assignment : environment) {
    if (assignment.compare(0, name.size() + 1, name + "=") == 0)
      return assignment.substr(name.size() + 1);
  }
  return "";
}

// The field behind the state, which follows the name in brackets; the name may hold anything.
int parentOf(const fs::path &process) {
  std::ifstream stream(process / "stat");
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  const size_t name = text.rfind(") ");
  return name == std::string::npos || name + 4 > text.size() ? 0 : std::atoi(text.c_str() + name + 4);
}

// bin/stageN of a compiled folder.
bool isRank(const fs::path &program) {
  const std::string name = program.filename();
  const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  return program.parent_path().filename() == "bin" && name.compare(0, 5, "stage") == 0 && name.size() > 5 &&
         std::all_of(name.begin() + 5, name.end(), isDigit);
}

bool isLauncher(const fs::path &program, const std::vector<std::string> &words) {
  return program.filename() == "hyc-run" && std::find(words.begin(), words.end(), "--help") == words.end();
}

} // namespace

std::vector<Process> findProcesses() {
  std::vector<Process> found;
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator("/proc", ignored)) {
    const std::string number = entry.path().filename();
    struct stat about{};
    if (number.find_first_not_of("0123456789") != std::string::npos)
      continue;
    if (stat(entry.path().c_str(), &about) != 0 || about.st_uid != getuid())
      continue;
    const std::vector<std::string> words = wordsOf(entry.path() / "cmdline");
    if (words.empty())
      continue;
    const fs::path program = words[0];
    Process process;
    process.pid = std::atoi(number.c_str());
    process.parent = parentOf(entry.path());
    process.seconds = std::max<int64_t>(0, std::time(nullptr) - about.st_ctime);
    if (isRank(program)) {
      const std::string rank = valueOf(wordsOf(entry.path() / "environ"), "RANK");
      process.what = (rank.empty() ? "a rank" : "rank " + rank) + " of " + program.string();
    } else if (isLauncher(program, words)) {
      const std::string told = words.size() == 2 ? words[1] : "";
      process.what = told == "--agent"         ? "hyc-run of another host's hyc-run"
                     : told == "--keep-copies" ? "hyc-run that keeps copies for another host's hyc-run"
                                               : "hyc-run";
    } else {
      continue;
    }
    // Whoever inherits what others leave behind has number 1, but for a container that hyc-run is the first of.
    process.isLeft = isRank(program) && process.parent == 1 && !isLauncher(programOf("/proc/1/cmdline"), {});
    found.push_back(process);
  }
  std::sort(found.begin(), found.end(), [](const Process &a, const Process &b) { return a.pid < b.pid; });
  return found;
}

} // namespace hyccheck
