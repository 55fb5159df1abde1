// hyc-compile as a process beside the ranks.
#include "replanner.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/json_text.h"
#include "hycrt/run_event.h"

extern char** environ;

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::RunEvent;
using hycrt::Status;

constexpr int kNiceness = 5;  // the ranks come first, and use all cores: much less would never end
constexpr int kPollMs = 200;
constexpr int kGraceMs = 2000;  // to remove what is half written
constexpr char kError[] = "hyc-compile: error: ";

// The compiler that belongs to this hyc-run.
std::string compilerPath() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  std::string folder(path, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
  return folder + "/hyc-compile";
}

std::string withoutSlash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

Status refuseAlone(const hycrt::RunOptions& options) {
  const char* const given = options.replan != hycrt::ReplanMode::kPropose ? "--replan auto"
                            : options.replanMargin != 10                  ? "--replan-margin"
                            : !options.replanWith.empty()                 ? "--replan-with"
                                                                          : nullptr;
  if (!given) return {};
  return hycrt::usageError(std::string(given) + " is given, but no steps to measure; give --replan-after N");
}

Status checkMode(const hycrt::RunOptions& options) {
  if (!options.hostfile.empty() && options.profile.empty()) {
    return hycrt::usageError(
        "--replan-after measures the ranks of all hosts into one file; name one that all of them see with --profile "
        "FILE");
  }
  if (options.replan == hycrt::ReplanMode::kPropose) return {};
  if (!options.hostfile.empty()) {
    return hycrt::usageError(
        "--replan auto changes the layout of ranks on one host, and --hostfile has several; leave it out, and the "
        "layout is proposed");
  }
  if (!options.checkpoint.empty()) return {};
  return hycrt::usageError("--replan auto goes on from a checkpoint; name a folder for it with --checkpoint DIR");
}

}  // namespace

Status Replanner::prepare(const hycrt::Manifest& manifest, hycrt::RunOptions* options) {
  if (options->replanAfter == 0) return refuseAlone(*options);
  const std::string after = "--replan-after is " + std::to_string(options->replanAfter);
  if (options->replanAfter == 1)
    return hycrt::usageError(after + ", and the first step is not measured; give 2 or more");
  if (options->replanAfter >= options->steps) {
    return hycrt::usageError(after + ", but the run ends after " + std::to_string(options->steps) +
                             " steps (--steps); give less");
  }
  if (!options->batchShares.empty()) {
    return hycrt::usageError(
        "--replan-after and --batch-shares are given, and a layout is looked for under equal shares; leave one out");
  }
  HYCRT_RETURN_IF_ERROR(checkMode(*options));
  if (const std::string path = compilerPath(); access(path.c_str(), X_OK) != 0) {
    return hycrt::unavailableError("--replan-after needs hyc-compile beside hyc-run, and '" + path +
                                   "' cannot be executed; install it there, or leave the option out");
  }
  if (const std::string path = manifest.folder + "/command.json"; access(path.c_str(), R_OK) != 0) {
    return hycrt::errnoError("--replan-after takes what '" + manifest.folder +
                                 "' was compiled with, and cannot read '" + path + "'; compile it again",
                             errno);
  }
  if (options->profile.empty()) options->profile = withoutSlash(options->out) + ".profile.json";
  return {};
}

Replanner::Replanner(const hycrt::RunOptions& options, const hycrt::Manifest& manifest, const Signals& signals,
                     Report& report)
    : options_(options), manifest_(manifest), signals_(signals), report_(report) {}

Replanner::~Replanner() { end(); }

// It removes what it has half written.
void Replanner::end() {
  if (!process_) return;
  process_->send(SIGTERM);
  RankEnd ignored;
  waitForEnds(kGraceMs, [&] { return process_->pollEnd(&ignored); });
  process_.reset();
}

void Replanner::giveUp(const std::string& why) {
  phase_ = Phase::kOver;
  report_.say("the layout stays what it is: " + why);
}

std::string Replanner::folderForPrograms() const { return withoutSlash(options_.out) + ".replan"; }

void Replanner::start(Phase phase, std::vector<std::string> words) {
  RankCommand command;
  words.insert(words.begin(), compilerPath());
  command.arguments = std::move(words);
  for (char** variable = environ; *variable; ++variable) command.environment.emplace_back(*variable);
  command.signals = signals_.former();
  command.niceness = kNiceness;
  said_.clear();
  complaints_.clear();
  Result<RankProcess> process = RankProcess::start(command);
  if (!process.ok()) return giveUp(process.status().message());
  process_.emplace(std::move(*process));
  phase_ = phase;
}

void Replanner::addPolled(std::vector<pollfd>* polled) const {
  polled->push_back({process_ ? process_->outputFd : -1, POLLIN, 0});
  polled->push_back({process_ ? process_->errorFd : -1, POLLIN, 0});
}

void Replanner::advance() {
  if (const std::string path = report_.takeMeasurement(); phase_ == Phase::kWaiting && !path.empty()) {
    std::vector<std::string> words{"--replan=" + manifest_.folder, "--measured=" + path, "--replan-json",
                                   "--replan-margin=" + std::to_string(options_.replanMargin)};
    if (!options_.replanWith.empty()) words.push_back("--replan-with=" + options_.replanWith);
    start(Phase::kSearching, std::move(words));
  }
  if (!process_) return;
  const auto read = [](int* fd, LineReader& reader, std::vector<std::string>* lines) {
    if (*fd >= 0 && !reader.read(*fd, lines)) closeAndForget(fd);
  };
  RankEnd ending;
  const bool isOver = process_->pollEnd(&ending);
  read(&process_->outputFd, process_->output, &said_);
  read(&process_->errorFd, process_->errors, &complaints_);
  if (!isOver) return;
  process_.reset();
  if (ending.failed()) {
    std::string why = "hyc-compile ended with status " + std::to_string(ending.asExitStatus());
    for (const std::string& line : complaints_) {
      if (line.compare(0, sizeof kError - 1, kError) == 0) why = line.substr(sizeof kError - 1);
    }
    return giveUp(why);
  }
  if (phase_ == Phase::kSearching) return takeProposal();
  phase_ = Phase::kReady;
}

void Replanner::takeProposal() {
  const Result<nlohmann::json> parsed = hycrt::parseJson(said_.empty() ? "" : said_.back(), "hyc-compile --replan");
  if (!parsed.ok()) return giveUp(parsed.status().message());
  hycrt::ObjectReader reader(*parsed, "hyc-compile --replan", "",
                             {"layout", "is_better", "folder", "arguments", "batch_shares", "text"});
  flags_ = reader.text("layout");
  folder_ = reader.text("folder");
  batchShares_ = reader.text("batch_shares");
  const bool isBetter = reader.boolean("is_better");
  std::string text = reader.text("text");
  std::vector<std::string> words;
  if (const nlohmann::json* arguments = reader.array("arguments")) {
    for (const nlohmann::json& word : *arguments) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
  }
  if (!reader.status().ok()) return giveUp(reader.status().message());
  for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
    report_.say(text.substr(0, end));
  }
  (void)report_.add(
      {RunEvent::Kind::kProposal, report_.lastStep(), isBetter ? flags_ : "nothing is better", 0, folder_});
  phase_ = Phase::kOver;
  if (!isBetter || options_.replan == hycrt::ReplanMode::kPropose) return;
  if (!folder_.empty()) {
    phase_ = Phase::kReady;
    return;
  }
  folder_ = folderForPrograms();
  words.insert(words.end(), {"-o", folder_});
  start(Phase::kCompiling, std::move(words));
}

std::optional<Replanner::Layout> Replanner::take() {
  phase_ = Phase::kOver;
  Result<hycrt::Manifest> manifest = hycrt::readManifest(folder_);
  Status status = manifest.ok() ? Status() : manifest.status();
  if (status.ok() && manifest->ranks.size() != manifest_.ranks.size()) {
    status = hycrt::dataError("'" + folder_ + "' was compiled for " + std::to_string(manifest->ranks.size()) +
                              " ranks, expected " + std::to_string(manifest_.ranks.size()));
  }
  hycrt::RunOptions options = options_;
  if (status.ok()) status = hycrt::takeEntry(*manifest, &options);
  for (const hycrt::ManifestRank& rank : status.ok() ? manifest->ranks : std::vector<hycrt::ManifestRank>()) {
    const std::string program = manifest->folder + "/" + rank.program;
    if (access(program.c_str(), X_OK) != 0) status = hycrt::errnoError("cannot execute '" + program + "'", errno);
  }
  if (status.ok()) return Layout{std::move(*manifest), flags_, batchShares_};
  giveUp(status.message());
  return std::nullopt;
}

void Replanner::finish() {
  while (phase_ == Phase::kSearching || (phase_ == Phase::kWaiting && report_.hasMeasurement())) {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    addPolled(&polled);
    if (process_) poll(polled.data(), polled.size(), kPollMs);
    while (const int signal = signals_.take()) {
      if (signal != SIGCHLD) return giveUp("stopped by " + Signals::nameOf(signal));
    }
    advance();
  }
  if (phase_ == Phase::kCompiling || phase_ == Phase::kReady) giveUp("the run was over before it could be changed");
}

}  // namespace hycrun
