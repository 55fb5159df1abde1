// The options of a run: how they are declared, checked and suggested.
#include "hycrt/options.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "core/nearest.h"
#include "cpu/threads.h"
#include "hycrt/saved_weights.h"
#include "io/file.h"

namespace hycrt {
namespace {

constexpr uint64_t kMaxSteps = uint64_t{1} << 53;
constexpr uint64_t kMaxThreads = 4096;

// Decimal digits only (the library would take "-3" for an unsigned number, and "0x10"), in [0, high].
CLI::Validator wholeNumber(uint64_t high) {
  const auto check = [high](const std::string& text) -> std::string {
    const bool digits =
        !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    errno = 0;
    const uint64_t value = std::strtoull(text.c_str(), nullptr, 10);
    if (digits && errno == 0 && value <= high) return {};
    return "found '" + text + "', expected a whole number from 0 to " + std::to_string(high);
  };
  return CLI::Validator(check, "");
}

std::optional<CommunicationThread> communicationThreadOf(const std::string& text) {
  if (text == "auto") return CommunicationThread::kAuto;
  if (text == "on") return CommunicationThread::kOn;
  if (text == "off") return CommunicationThread::kOff;
  return std::nullopt;
}

std::optional<DeviceComm> deviceCommOf(const std::string& text) {
  if (text == "auto") return DeviceComm::kAuto;
  if (text == "nccl") return DeviceComm::kNccl;
  if (text == "shm") return DeviceComm::kStaged;
  return std::nullopt;
}

std::optional<StepRecording> stepRecordingOf(const std::string& text) {
  if (text == "auto") return StepRecording::kAuto;
  if (text == "on") return StepRecording::kOn;
  if (text == "off") return StepRecording::kOff;
  return std::nullopt;
}

void declare(CLI::App& app, RunOptions& options, CommandLine kind) {
  if (kind == CommandLine::kHycRun) {
    app.add_option("OUT", options.out, "Folder that hyc-compile wrote (holds manifest.json)")->required();
  } else {
    app.add_option("--out", options.out, "Folder that hyc-compile wrote; default: the folder above this executable's");
  }
  app.add_option("--data", options.data,
                 "What to train on. Tokens: an llm.c .bin, known by its magic, or plain bytes. Anything else: "
                 "NAME.safetensors, "
                 "one tensor an input, dimension 0 the sample")
      ->type_name("FILE");
  app.add_option("--steps", options.steps, "Training steps; schedules decay over them")
      ->check(wholeNumber(kMaxSteps))
      ->each([&options](const std::string&) { options.limitsSteps = true; })
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* evaluate = app.add_flag(
      "--evaluate", options.evaluate,
      "Tell the loss over the data, in file order and once, and train nothing; --steps limits the batches");
  app.add_option("--seed", options.seed, "Seed of the initial weights and of the order of the data")
      ->check(wholeNumber(UINT64_MAX))
      ->type_name("S")
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "Threads per rank; 0: as compiled, by default the cores divided by the ranks")
      ->check(wholeNumber(kMaxThreads))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag_callback(
      "--no-shuffle", [&options] { options.order = WindowOrder::kInFile; },
      "Take the windows of the data in file order");
  app.add_option("--log-file", options.logFile, "Write one JSON object per step here")->type_name("FILE");
  app.add_option("--dump-gradients", options.dumpGradients,
                 "Write the first step's gradients of the mean loss, by parameter name (safetensors)")
      ->excludes(evaluate)
      ->type_name("FILE");
  app.add_option(
         "--save-weights", options.saveWeights,
         "Write the trained parameters at the end: a folder that transformers loads, or one file where the name "
         "ends in .safetensors")
      ->excludes(evaluate)
      ->type_name("FOLDER");
  app.add_option("--trace", options.trace,
                 "Write when ranks computed, waited and communicated in the ten steps after the first, for Perfetto or "
                 "chrome://tracing (JSON)")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "--communication-thread",
         [&options](const std::string& text) { options.communicationThread = *communicationThreadOf(text); },
         "Whether exchanges progress on a thread of their own; auto: where there is a core for it")
      ->check([](const std::string& text) -> std::string {
        return communicationThreadOf(text) ? "" : "found '" + text + "', expected auto, on or off";
      })
      ->option_text("auto|on|off");
  app.add_option_function<std::string>(
         "--comm", [&options](const std::string& text) { options.comm = *deviceCommOf(text); },
         "How ranks on GPUs exchange tensors: nccl (a GPU a rank), or shm, by way of the host, where ranks may share a "
         "GPU; auto: nccl where there are several ranks")
      ->check([](const std::string& text) -> std::string {
        return deviceCommOf(text) ? "" : "found '" + text + "', expected auto, nccl or shm";
      })
      ->option_text("auto|nccl|shm");
  app.add_option_function<std::string>(
         "--cuda-graph", [&options](const std::string& text) { options.cudaGraph = *stepRecordingOf(text); },
         "Whether steps on a GPU are recorded once and then run as one CUDA graph; auto: where they can be, which is "
         "without --trace and --comm shm")
      ->check([](const std::string& text) -> std::string {
        return stepRecordingOf(text) ? "" : "found '" + text + "', expected auto, on or off";
      })
      ->option_text("auto|on|off");
  app.add_flag("--tf32", options.tf32,
               "Let products of f32 round their factors to TF32 on GPUs: faster, and good to three digits");
  app.add_option("--measure-memory", options.measureMemory,
                 "Fill arenas with a pattern first, and write here how far each was written to (a JSON line a rank); "
                 "on GPUs, what the device's memory came to")
      ->type_name("FILE");
  app.add_flag("--poison", options.poison,
               "Overwrite buffers where their planned life ends; only of what hyc-compile --poison made");
  app.add_option("--nvme-path", options.nvmePath, "Folder on a disk for what the plan keeps there, a file a rank")
      ->type_name("DIR");
}

std::vector<std::string> knownOptions(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Status unknownArgument(const CLI::App& app, const std::vector<std::string>& rest) {
  for (const std::string& word : rest) {
    if (word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      return usageError("unknown option '" + name + "'; the nearest is '" + nearest(name, knownOptions(app)) +
                        "' (--help lists all)");
    }
  }
  return usageError("unexpected argument '" + rest.front() + "'; --help tells what is expected");
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
  } catch (const CLI::ParseError& error) {
    // An unknown option may be why something else seems to be missing: it is the better thing to name.
    if (!app.remaining().empty()) return unknownArgument(app, app.remaining());
    return usageError(error.what());
  }
  if (!app.remaining().empty()) return unknownArgument(app, app.remaining());
  return parsed;
}

namespace {

Status checkDistinct(const std::string& option, const std::string& path, const std::vector<std::string>& inputs) {
  for (const std::string& taken : inputs) {
    if (isSameFile(path, taken)) {
      return usageError(option + " '" + path + "' would overwrite '" + taken + "'; give another name");
    }
  }
  return {};
}

}  // namespace

Status takeEntry(bool evaluates, RunOptions* options) {
  if (!evaluates) return {};
  for (const auto& [name, path] :
       {std::pair("--save-weights", &options->saveWeights), std::pair("--dump-gradients", &options->dumpGradients)}) {
    if (!path->empty()) {
      return usageError(std::string(name) +
                        " is given, but the programs were compiled with --entry evaluate and train "
                        "nothing; leave it out, or compile with --entry train");
    }
  }
  options->evaluate = true;
  return {};
}

Status checkOutputs(const RunOptions& options, std::vector<std::string> inputs) {
  if (!options.data.empty()) inputs.push_back(options.data);
  if (!options.saveWeights.empty()) {
    for (const std::string& made : filesOfWeights(options.saveWeights)) {
      HYCRT_RETURN_IF_ERROR(checkDistinct("--save-weights", made, inputs));
    }
    HYCRT_RETURN_IF_ERROR(checkWeightsTarget(options.saveWeights));
    inputs.push_back(options.saveWeights);
  }
  const std::pair<const char*, const std::string*> outputs[] = {{"--log-file", &options.logFile},
                                                                {"--dump-gradients", &options.dumpGradients},
                                                                {"--trace", &options.trace},
                                                                {"--measure-memory", &options.measureMemory}};
  for (const auto& [name, path] : outputs) {
    if (path->empty()) continue;
    HYCRT_RETURN_IF_ERROR(checkDistinct(name, *path, inputs));
    // A log may also go to a device or a pipe; the others are renamed into place.
    if (path != &options.logFile) HYCRT_RETURN_IF_ERROR(checkWritable(*path));
    inputs.push_back(*path);
  }
  return {};
}

int defaultThreads(int localRanks) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max(1, count / std::max(1, localRanks));
}

int threadsPerRank(const RunOptions& options, int manifestThreads, int localRanks) {
  if (options.threads > 0) return options.threads;
  return manifestThreads > 0 ? manifestThreads : defaultThreads(localRanks);
}

bool hasCommunicationThread(const RunOptions& options, int threads, int localRanks) {
  if (options.communicationThread != CommunicationThread::kAuto) {
    return options.communicationThread == CommunicationThread::kOn;
  }
  return localRanks > 1 && (threads + 1) * localRanks <= availableCores();
}

}  // namespace hycrt
