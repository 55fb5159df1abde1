// The options of a run: how they are declared, checked and suggested.
#include "hycrt/options.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>

#include "base/command_line.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/threads.h"
#include "comm/network_options.h"
#include "hycrt/manifest.h"
#include "hycrt/saved_weights.h"
#include "instruments/scrape_server.h"
#include "io/mixture.h"

namespace hycrt {
namespace {

constexpr uint64_t kMostSteps = uint64_t{1} << 53;
constexpr uint64_t kMostThreads = 4096;
constexpr uint64_t kMostPort = 65535;
constexpr uint64_t kMostSockets = 16;
constexpr uint64_t kMostSeconds = 1000000000;

// ------------------------------------------------------------------------------------------------------- the table

enum Trait : unsigned {
  kForRanks = 1,
  kTrains = 2,
  kFile = 4,
  kStream = 8,
  kWeights = 16,
  kOwn = 32,
  kFolder = 64,
  kTells = 128,
  kOfTraining = 256,
  kJson = 512
};
constexpr unsigned kWrites = kFile | kStream | kWeights | kFolder;

// What the values of an option may be; see run_option_rows.h.
struct Text {
  const char* name;
};
struct WholeNumber {
  const char* name;
  uint64_t most;
  bool RunOptions::* given;  // becomes true where the option is given; null: nobody asks
};
template <typename T>
struct FlagFor {
  T value;
};
template <typename E>
using Words = std::vector<std::pair<const char*, E>>;

Text text(const char* name) { return {name}; }
WholeNumber wholeNumber(const char* name, uint64_t most, bool RunOptions::* given = nullptr) {
  return {name, most, given};
}
template <typename T>
FlagFor<T> flagFor(T value) {
  return {value};
}
template <typename E>
Words<E> words(std::initializer_list<std::pair<const char*, E>> list) {
  return list;
}

// Decimal digits only (the library would take "-3" for an unsigned number, and "0x10"), in [0, most].
CLI::Validator isWholeNumber(uint64_t most) {
  const auto check = [most](const std::string& text) -> std::string {
    const bool digits =
        !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    errno = 0;
    const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
    if (digits && errno == 0 && value <= most) return {};
    return "found '" + text + "', expected a whole number from 0 to " + std::to_string(most);
  };
  return CLI::Validator(check, "");
}

// One option: how it is declared to the parser, and how a value other than the default is spelled, if there is one.
class Row {
 public:
  Row(const char* flag, unsigned traits, const char* help) : flag(flag), traits(traits), help(help) {}
  virtual ~Row() = default;
  virtual CLI::Option* declare(CLI::App& app, RunOptions& options) const = 0;
  virtual std::optional<std::string> argument(const RunOptions& options) const = 0;
  // "flag", "integer" or "text"; what values are called, which they are, and the default.
  virtual nlohmann::json describe() const = 0;
  // Of text alone: what is written to, or read.
  virtual const std::string* path(const RunOptions&) const { return nullptr; }

  const char* const flag;
  const unsigned traits;
  const char* const help;
};

class TextRow : public Row {
 public:
  TextRow(const char* flag, std::string RunOptions::* member, Text values, unsigned traits, const char* help)
      : Row(flag, traits, help), member_(member), values_(values) {}
  CLI::Option* declare(CLI::App& app, RunOptions& options) const override {
    return app.add_option(flag, options.*member_, help)->type_name(values_.name);
  }
  std::optional<std::string> argument(const RunOptions& options) const override {
    if ((options.*member_).empty()) return std::nullopt;
    return std::string(flag) + "=" + options.*member_;
  }
  const std::string* path(const RunOptions& options) const override { return &(options.*member_); }
  nlohmann::json describe() const override { return {{"type", "text"}, {"values", values_.name}}; }

 private:
  std::string RunOptions::* member_;
  Text values_;
};

template <typename Number>
class NumberRow : public Row {
 public:
  NumberRow(const char* flag, Number RunOptions::* member, WholeNumber values, unsigned traits, const char* help)
      : Row(flag, traits, help), member_(member), values_(values) {}
  CLI::Option* declare(CLI::App& app, RunOptions& options) const override {
    CLI::Option* option = app.add_option(flag, options.*member_, help)->check(isWholeNumber(values_.most));
    if (values_.given) option->each([&options, this](const std::string&) { options.*values_.given = true; });
    return option->type_name(values_.name)->capture_default_str();
  }
  std::optional<std::string> argument(const RunOptions& options) const override {
    const bool given = values_.given ? options.*values_.given : options.*member_ != RunOptions().*member_;
    if (!given) return std::nullopt;
    return std::string(flag) + "=" + std::to_string(options.*member_);
  }
  nlohmann::json describe() const override {
    return {{"type", "integer"}, {"values", values_.name}, {"default", std::to_string(RunOptions().*member_)}};
  }

 private:
  Number RunOptions::* member_;
  WholeNumber values_;
};

template <typename T>
class FlagRow : public Row {
 public:
  FlagRow(const char* flag, T RunOptions::* member, FlagFor<T> values, unsigned traits, const char* help)
      : Row(flag, traits, help), member_(member), value_(values.value) {}
  CLI::Option* declare(CLI::App& app, RunOptions& options) const override {
    return app.add_flag_callback(flag, [&options, this] { options.*member_ = value_; }, help);
  }
  std::optional<std::string> argument(const RunOptions& options) const override {
    if (options.*member_ != value_) return std::nullopt;
    return flag;
  }
  nlohmann::json describe() const override { return {{"type", "flag"}}; }

 private:
  T RunOptions::* member_;
  T value_;
};

template <typename E>
class WordRow : public Row {
 public:
  WordRow(const char* flag, E RunOptions::* member, Words<E> values, unsigned traits, const char* help)
      : Row(flag, traits, help), member_(member), values_(std::move(values)) {}
  CLI::Option* declare(CLI::App& app, RunOptions& options) const override {
    const auto store = [&options, this](const std::string& word) { options.*member_ = *valueOf(word); };
    const auto check = [this](const std::string& word) -> std::string {
      return valueOf(word) ? "" : "found '" + word + "', expected " + list(", ", " or ");
    };
    return app.add_option_function<std::string>(flag, store, help)->check(check)->option_text(list("|", "|"));
  }
  std::optional<std::string> argument(const RunOptions& options) const override {
    for (const auto& [word, value] : values_) {
      if (value == options.*member_ && value != values_.front().second) return std::string(flag) + "=" + word;
    }
    return std::nullopt;
  }
  nlohmann::json describe() const override {
    nlohmann::json choices = nlohmann::json::array();
    for (const auto& [word, value] : values_) choices.push_back(word);
    return {{"type", "text"}, {"choices", choices}, {"default", values_.front().first}};
  }

 private:
  std::optional<E> valueOf(const std::string& word) const {
    for (const auto& [known, value] : values_) {
      if (word == known) return value;
    }
    return std::nullopt;
  }
  std::string list(const char* between, const char* beforeLast) const {
    std::string text = values_.front().first;
    for (size_t i = 1; i < values_.size(); ++i)
      text += (i + 1 < values_.size() ? between : beforeLast) + std::string(values_[i].first);
    return text;
  }

  E RunOptions::* member_;
  Words<E> values_;
};

using RowPointer = std::unique_ptr<Row>;
RowPointer makeRow(const char* flag, std::string RunOptions::* member, Text values, unsigned traits, const char* help) {
  return std::make_unique<TextRow>(flag, member, values, traits, help);
}
template <typename Number>
RowPointer makeRow(const char* flag, Number RunOptions::* member, WholeNumber values, unsigned traits,
                   const char* help) {
  return std::make_unique<NumberRow<Number>>(flag, member, values, traits, help);
}
template <typename T>
RowPointer makeRow(const char* flag, T RunOptions::* member, FlagFor<T> values, unsigned traits, const char* help) {
  return std::make_unique<FlagRow<T>>(flag, member, values, traits, help);
}
template <typename E>
RowPointer makeRow(const char* flag, E RunOptions::* member, Words<E> values, unsigned traits, const char* help) {
  return std::make_unique<WordRow<E>>(flag, member, std::move(values), traits, help);
}

const std::vector<RowPointer>& rows() {
  static const std::vector<RowPointer> all = [] {
    std::vector<RowPointer> made;
#define HYC_RUN_OPTION(type, member, defaultValue, flag, values, traits, help) \
  made.push_back(makeRow(flag, &RunOptions::member, values, traits, help));
#include "hycrt/run_option_rows.h"
#undef HYC_RUN_OPTION
    return made;
  }();
  return all;
}

// --------------------------------------------------------------------------------------------------------- parsing

void declare(CLI::App& app, RunOptions& options, CommandLine kind) {
  if (kind == CommandLine::kHycRun) {
    app.add_option("OUT", options.out, "Folder that hyc-compile wrote (holds manifest.json)")->required();
    app.set_version_flag("--version", "hyc-run " HYC_VERSION);
  } else {
    app.add_option("--out", options.out, "Folder that hyc-compile wrote; default: the folder above this executable's");
  }
  for (const RowPointer& row : rows()) {
    CLI::Option* option = row->declare(app, options);
    if (row->traits & kTrains) option->excludes(app.get_option("--evaluate"));
  }
  refuseEmptyValues(app);
}

bool endsIn(const std::string& text, const std::string& end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

Result<ParsedCommandLine> parseCommandLine(int argc, const char* const* argv, CommandLine kind) {
  ParsedCommandLine parsed;
  CLI::App app(kind == CommandLine::kHycRun
                   ? "Starts the ranks of a compiled folder, reports each step, and ends with the first failing rank."
                   : "One rank of a compiled training program; hyc-run, torchrun or mpirun start it.",
               kind == CommandLine::kHycRun ? "hyc-run" : "");
  app.allow_extras();
  declare(app, parsed.options, kind);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.help = app.help();
    return parsed;
  } catch (const CLI::CallForVersion&) {
    parsed.help = app.version() + "\n";
    return parsed;
  } catch (const CLI::ParseError& error) {
    return refuseCommandLine(app, error);
  }
  std::vector<std::string> rest = app.remaining();
  rest.erase(std::remove(rest.begin(), rest.end(), "--"), rest.end());  // what follows it has been taken
  if (!rest.empty()) return refuseWords(app, rest);
  int low = 0, high = 0;
  if (const std::string& ports = parsed.options.ports; !ports.empty() && !parsePorts(ports, &low, &high)) {
    return usageError("--ports is '" + ports + "', expected ports from 1 to 65535, as 4000-4100");
  }
  if (parsed.options.sockets == 0) {
    return usageError("--sockets is 0, expected 1 to " + std::to_string(kMostSockets));
  }
  if (const std::string& address = parsed.options.prometheus; !address.empty()) {
    if (const Result<ListenAddress> listens = parseListenAddress(address); !listens.ok()) return listens.status();
  }
  if (const std::string& file = parsed.options.prometheusTextfile; !file.empty() && !endsIn(file, ".prom")) {
    return usageError("--prometheus-textfile is '" + file +
                      "', expected a name that ends in .prom, as node_exporter's collector reads them");
  }
  return parsed;
}

namespace {

Status cannotWriteInto(const std::string& option, const std::string& path) {
  return errnoError("cannot write into '" + path + "' (" + option + ")", errno);
}

Status checkDistinct(const std::string& option, const std::string& path, const std::vector<std::string>& inputs) {
  for (const std::string& taken : inputs) {
    if (isSameFile(path, taken)) {
      return usageError(option + " '" + path + "' would overwrite '" + taken + "'; give another name");
    }
  }
  return {};
}

// A checkpoint is written as a whole, and nothing goes into it or over its files afterwards.
Status checkOutsideCheckpoints(const std::string& option, const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty() || access((folder + "/checkpoint.json").c_str(), F_OK) != 0) return {};
  return usageError(option + " '" + path + "' lies in the checkpoint '" + folder + "'; give a name outside of it");
}

// What is replaced as a whole has to be of a kind with what is written: JSON, or whatever is empty.
Status checkReplacesJson(const std::string& option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const int first = file ? (file >> std::ws).peek() : std::ifstream::traits_type::eof();
  if (first == std::ifstream::traits_type::eof() || first == '{' || first == '[') return {};
  return dataError("'" + path + "' (" + option +
                   ") is there and is no JSON, which would be replaced; give another name");
}

// A folder that new files can be made in, or one that can be made.
Status checkFolder(const std::string& option, const std::string& path) {
  struct stat info;
  std::string there = path;  // it, or the nearest above it
  while (stat(there.c_str(), &info) != 0) {
    if (errno != ENOENT) return cannotWriteInto(option, path);
    const size_t slash = there.find_last_of('/', there.find_last_not_of('/'));
    there = slash == std::string::npos ? "." : there.substr(0, std::max(slash, size_t{1}));
  }
  if (!S_ISDIR(info.st_mode)) return ioError(option + " is '" + path + "', which is no folder; name one, or a new one");
  return access(there.c_str(), W_OK | X_OK) == 0 ? Status() : cannotWriteInto(option, there);
}

}  // namespace

std::string writeOptionsJson() {
  nlohmann::json all = nlohmann::json::array();
  for (const RowPointer& row : rows()) {
    nlohmann::json entry = {{"flag", row->flag}, {"help", row->help}, {"values", ""}, {"default", ""}};
    entry["choices"] = nlohmann::json::array();
    entry.update(row->describe());
    all.push_back(std::move(entry));
  }
  return all.dump(1) + "\n";
}

static std::vector<std::string> argumentsOf(const RunOptions& options, unsigned trait) {
  std::vector<std::string> arguments;
  for (const RowPointer& row : rows()) {
    if (!(row->traits & trait)) continue;
    if (std::optional<std::string> argument = row->argument(options)) arguments.push_back(std::move(*argument));
  }
  return arguments;
}

std::vector<std::string> argumentsForRanks(const RunOptions& options) { return argumentsOf(options, kForRanks); }
std::vector<std::string> argumentsForTelling(const RunOptions& options) { return argumentsOf(options, kTells); }

std::vector<std::pair<std::string, std::string>> optionsInCommon(const RunOptions& options) {
  std::vector<std::pair<std::string, std::string>> common;
  for (const RowPointer& row : rows()) {
    if (!(row->traits & kForRanks) || (row->traits & kOwn)) continue;
    const std::string argument = row->argument(options).value_or("");
    const size_t equals = argument.find('=');
    common.emplace_back(row->flag, argument.empty()              ? "not given"
                                   : equals == std::string::npos ? "given"
                                                                 : argument.substr(equals + 1));
  }
  return common;
}

Status takeEntry(const Manifest& manifest, RunOptions* options) {
  if (options->evaluateData.empty() && (options->evaluateEvery > 0 || options->evaluateBatches > 0)) {
    return usageError(std::string(options->evaluateEvery > 0 ? "--evaluate-every" : "--evaluate-batches") +
                      " is given without data to evaluate; give it with --evaluate-data FILE");
  }
  if (options->merge && !manifest.adapter) {
    return usageError("--merge is given, but the programs in '" + manifest.folder +
                      "' have no adapters; leave it out, or compile with --lora");
  }
  if (options->merge && options->saveWeights.empty()) {
    return usageError("--merge is given without weights to save; name them with --save-weights FOLDER");
  }
  options->savesAdapter = manifest.adapter && !options->merge;
  if (options->savesAdapter && !options->saveWeights.empty() && !manifest.adapter->tied.empty()) {
    return usageError("--save-weights without --merge saves an adapter, which cannot hold '" +
                      manifest.adapter->tied[0] +
                      "': it is trained whole, as the embedding and as the output, of which peft makes two; give "
                      "--merge for the whole weights");
  }
  if (!manifest.evaluates) {
    if (options->evaluateData.empty() || manifest.evaluatesBeside) return {};
    return usageError("--evaluate-data is given, but the programs in '" + manifest.folder +
                      "' only train; compile with --entry train,evaluate");
  }
  for (const RowPointer& row : rows()) {
    if (!(row->traits & (kTrains | kOfTraining)) || !row->argument(*options)) continue;
    return usageError(std::string(row->flag) +
                      " is given, but the programs were compiled with --entry evaluate and train "
                      "nothing; leave it out, or compile with --entry train");
  }
  options->evaluate = true;
  return {};
}

Result<WindowOrder> orderOf(const RunOptions& options) {
  if (!options.shufflesDocuments) return options.order;
  if (options.order == WindowOrder::kShuffled) return WindowOrder::kByDocument;
  return usageError("--no-shuffle and --shuffle-documents are given, expected one of them at most");
}

Status checkOutputs(const RunOptions& options, std::vector<std::string> inputs) {
  for (const auto& [flag, text] :
       {std::pair("--data", &options.data), std::pair("--evaluate-data", &options.evaluateData)}) {
    if (text->empty()) continue;
    Result<std::vector<DataSource>> sources = parseDataSources(flag, *text);
    if (!sources.ok()) return sources.status();
    for (DataSource& source : *sources) inputs.push_back(std::move(source.path));
  }
  const auto check = [&](const Row& row) -> Status {
    const std::string& path = *row.path(options);
    if (path.empty()) return {};
    if (row.traits & kWeights) {
      for (const std::string& made : filesOfWeights(path)) HYCRT_RETURN_IF_ERROR(checkDistinct(row.flag, made, inputs));
      HYCRT_RETURN_IF_ERROR(checkWeightsTarget(path, options.savesAdapter));
    } else {
      HYCRT_RETURN_IF_ERROR(checkDistinct(row.flag, path, inputs));
    }
    // A stream may go anywhere; files are renamed into place.
    if (row.traits & (kFile | kWeights)) HYCRT_RETURN_IF_ERROR(checkOutsideCheckpoints(row.flag, path));
    if (row.traits & kFile) HYCRT_RETURN_IF_ERROR(checkWritable(path));
    if (row.traits & kJson) HYCRT_RETURN_IF_ERROR(checkReplacesJson(row.flag, path));
    if (row.traits & kFolder) HYCRT_RETURN_IF_ERROR(checkFolder(row.flag, path));
    inputs.push_back(path);
    return {};
  };
  // Weights first: of two outputs by one name, the other is the one to rename.
  for (const RowPointer& row : rows()) {
    if (row->traits & kWeights) HYCRT_RETURN_IF_ERROR(check(*row));
  }
  for (const RowPointer& row : rows()) {
    if ((row->traits & kWrites) && !(row->traits & kWeights)) HYCRT_RETURN_IF_ERROR(check(*row));
  }
  return {};
}

int defaultThreads(int ranksHere) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max(1, count / std::max(1, ranksHere));
}

int threadsPerRank(const RunOptions& options, int manifestThreads, const Surroundings& surroundings) {
  if (options.threads > 0) return options.threads;
  return manifestThreads > 0 ? manifestThreads : defaultThreads(surroundings.ranksHere);
}

bool hasCommunicationThread(const RunOptions& options, int threads, const Surroundings& surroundings) {
  if (options.communicationThread != CommunicationThread::kAuto) {
    return options.communicationThread == CommunicationThread::kOn;
  }
  return surroundings.worldSize > 1 && (threads + 1) * surroundings.ranksHere <= availableCores();
}

}  // namespace hycrt
