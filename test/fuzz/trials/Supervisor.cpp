// Children that try seed after seed and say so by lines through a pipe; who dies is replaced.
#include "Supervisor.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace hyc::fuzzing;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {
/// A line may have no tab, no end of line and no end.
std::string cleaned(std::string text) {
  for (char &c : text)
    if (c == '\t' || c == '\n')
      c = ' ';
  return text.substr(0, 600);
}

std::string encode(const Verdict &verdict) {
  std::string line = std::to_string(verdict.code) + "\t" + cleaned(verdict.finding) + "\t" + cleaned(verdict.about) +
                     "\t" + cleaned(verdict.said);
  for (const std::string &reached : verdict.reached)
    line += "\t" + cleaned(reached);
  return line;
}

Verdict decode(const std::string &line) {
  std::vector<std::string> parts;
  std::stringstream stream(line);
  for (std::string part; std::getline(stream, part, '\t');)
    parts.push_back(part);
  parts.resize(std::max<size_t>(parts.size(), 4));
  return {std::atoi(parts[0].c_str()), parts[1], parts[2], parts[3], {parts.begin() + 4, parts.end()}};
}

void writeLine(int pipe, const std::string &line) {
  std::string whole = line + "\n";
  if (::write(pipe, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size()))
    _exit(3);
}

/// What a process said when it died: the reason, and the first functions of hyc in the trace.
std::string lastWords(const std::string &file) {
  std::ifstream stream(file);
  std::string words;
  int frames = 0;
  for (std::string line; std::getline(stream, line);)
    if (size_t at = line.find(" hyc::"); line.rfind(" #", 0) == 0 || line.rfind("#", 0) == 0) {
      if (at != std::string::npos && line.find("fuzzing") == std::string::npos && frames++ < 3)
        words += " in " + line.substr(at + 1, line.find('(', at) - at - 1);
    } else if (words.empty() && !line.empty() && line.find("PLEASE submit") == std::string::npos) {
      words = line;
    }
  return words;
}

class Child {
public:
  Child(const Supervision &options, const Trial &trial, int number)
      : options(options), trial(trial), number(number), folder(options.folder + "/trial-" + std::to_string(number)),
        next(options.first + static_cast<uint64_t>(number)) {}

  bool isDone() const { return pid < 0 && next >= options.first + options.count; }
  int descriptor() const { return pipe; }
  bool isRunning() const { return pid >= 0; }
  void start();
  /// Takes what has been said; ends and judges the process where it has died or hangs.
  void look(const std::function<void(uint64_t, Verdict)> &take);
  const std::string &ownFolder() const { return folder; }

private:
  [[noreturn]] void work(int out);
  void end(const std::function<void(uint64_t, Verdict)> &take, bool hangs);

  const Supervision &options;
  const Trial &trial;
  int number;
  std::string folder, said;
  uint64_t next, present = 0; ///< the seed to begin with, and the one that is under way
  bool isTrying = false;
  pid_t pid = -1;
  int pipe = -1;
  Clock::time_point since;
};

void Child::work(int out) {
  rlimit memory{static_cast<rlim_t>(options.megabytes) << 20, static_cast<rlim_t>(options.megabytes) << 20};
  setrlimit(RLIMIT_AS, &memory);
  rlimit core{0, 0};
  setrlimit(RLIMIT_CORE, &core);
  int err = open((folder + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  dup2(err, STDERR_FILENO);
  for (uint64_t seed = next; seed < options.first + options.count; seed += static_cast<uint64_t>(options.jobs)) {
    writeLine(out, "begin\t" + std::to_string(seed));
    writeLine(out, "end\t" + encode(trial(seed, folder)));
  }
  _exit(0);
}

void Child::start() {
  fs::remove_all(folder);
  fs::create_directories(folder);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
    std::perror("a trial cannot be started");
    std::exit(69);
  }
  if (pid == 0)
    work(ends[1]);
  close(ends[1]);
  pipe = ends[0];
  said.clear();
  since = Clock::now();
}

void Child::end(const std::function<void(uint64_t, Verdict)> &take, bool hangs) {
  if (hangs)
    kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  close(pipe);
  pid = pipe = -1;
  if (isTrying) {
    Verdict verdict;
    verdict.code = hangs ? 124 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    verdict.finding = hangs ? "takes longer than " + std::to_string(options.seconds) + " s"
                            : "ends with " + std::to_string(verdict.code);
    verdict.said = lastWords(folder + ".err");
    std::ifstream about(folder + "/about");
    std::getline(about, verdict.about);
    take(present, verdict);
    next = present + static_cast<uint64_t>(options.jobs);
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "a process ended with %d between trials\n", status);
    std::exit(70);
  }
  isTrying = false;
}

void Child::look(const std::function<void(uint64_t, Verdict)> &take) {
  pollfd ready{pipe, POLLIN, 0};
  if (poll(&ready, 1, 0) > 0) {
    char buffer[4096];
    ssize_t count = read(pipe, buffer, sizeof buffer);
    if (count <= 0)
      return end(take, false);
    said.append(buffer, static_cast<size_t>(count));
    for (size_t at; (at = said.find('\n')) != std::string::npos; said.erase(0, at + 1)) {
      std::string line = said.substr(0, at);
      since = Clock::now();
      isTrying = line.rfind("begin\t", 0) == 0;
      if (isTrying) {
        present = std::strtoull(line.c_str() + 6, nullptr, 10);
        continue;
      }
      next = present + static_cast<uint64_t>(options.jobs);
      take(present, decode(line.substr(4)));
    }
  } else if (Clock::now() - since > std::chrono::seconds(options.seconds)) {
    end(take, true);
  }
}

/// The same fault on the same thing, whatever its sizes.
std::string kindOf(const Verdict &verdict) {
  std::string kind = verdict.finding + "|" + (verdict.said.empty() ? verdict.about : "") + "|";
  for (char c : verdict.said.substr(0, 160))
    if (!std::isdigit(static_cast<unsigned char>(c)))
      kind += c;
  return kind;
}

class Tallying {
public:
  explicit Tallying(const Supervision &options) : options(options) {
    if (!options.log.empty())
      log.open(options.log);
  }

  void take(const Child &child, uint64_t seed, const Verdict &verdict) {
    ++tally.trials;
    ++tally.codes[verdict.code];
    log << seed << "\t" << encode(verdict) << "\n";
    for (const std::string &reached : verdict.reached)
      ++tally.reached[reached];
    if (verdict.finding.empty())
      return;
    auto [entry, isNew] = kinds.try_emplace(kindOf(verdict), tally.findings.size());
    if (!isNew) {
      ++tally.findings[entry->second].times;
      return;
    }
    tally.findings.push_back({seed, verdict});
    std::string kept = options.folder + "/found/" + std::to_string(seed);
    std::error_code ignored;
    fs::create_directories(options.folder + "/found", ignored);
    fs::remove_all(kept, ignored);
    fs::copy(child.ownFolder(), kept, fs::copy_options::recursive, ignored);
    std::ofstream(kept + "/finding") << verdict.finding << "\n" << verdict.about << "\n" << verdict.said << "\n";
  }

  Tally tally;

private:
  const Supervision &options;
  std::ofstream log;
  std::map<std::string, size_t> kinds;
};
} // namespace

Tally hyc::fuzzing::superviseTrials(const Supervision &options, const Trial &trial) {
  Tallying tallying(options);
  std::vector<Child> children;
  for (int i = 0; i < options.jobs; ++i)
    children.emplace_back(options, trial, i);
  Clock::time_point told = Clock::now();
  while (!std::all_of(children.begin(), children.end(), [](const Child &child) { return child.isDone(); })) {
    std::vector<pollfd> ready;
    for (Child &child : children) {
      if (!child.isDone() && !child.isRunning())
        child.start();
      if (child.isRunning())
        ready.push_back({child.descriptor(), POLLIN, 0});
    }
    poll(ready.data(), ready.size(), 200);
    for (Child &child : children)
      if (child.isRunning())
        child.look([&](uint64_t seed, const Verdict &verdict) { tallying.take(child, seed, verdict); });
    if (!options.isQuiet && Clock::now() - told > std::chrono::seconds(30)) {
      told = Clock::now();
      std::fprintf(stderr, "%s\n", describe(tallying.tally).substr(0, describe(tallying.tally).find('\n')).c_str());
    }
  }
  return std::move(tallying.tally);
}

Verdict hyc::fuzzing::runAlone(const Supervision &options, const std::function<Verdict()> &trial) {
  Supervision one = options;
  one.count = 1, one.jobs = 1, one.first = 0, one.isQuiet = true;
  Tally tally = superviseTrials(one, [&](uint64_t, const std::string &) { return trial(); });
  return tally.findings.empty() ? Verdict{tally.codes.begin()->first} : tally.findings.front().verdict;
}

std::string hyc::fuzzing::describe(const Tally &tally) {
  std::stringstream text;
  text << tally.trials << " trials:";
  for (auto [code, count] : tally.codes)
    text << " " << count << (code < 0 ? " not tried" : " exit " + std::to_string(code)) << ",";
  text << " " << tally.findings.size() << " kinds of findings\n";
  for (const Finding &finding : tally.findings)
    text << "seed " << finding.seed << " (" << finding.times << " times): " << finding.verdict.finding << " on "
         << finding.verdict.about << ": " << finding.verdict.said << "\n";
  return text.str();
}
