// hyc-checkpoint list|verify|show|export|import: checkpoints that hyc-run has
// written, and those of others.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>

#include "base/command_line.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/export.h"
#include "checkpoint/torch/export_torch.h"
#include "checkpoint/torch/import_torch.h"
#include "hycrt/printable.h"
#include "hycrt/standard_output.h"
#include "hycrt/status.h"

namespace {

using hycrt::Checkpoint;
using hycrt::Result;
using hycrt::Status;

int fail(const Status &status) {
  std::fprintf(stderr, "hyc-checkpoint: error: %s\n", hycrt::printable(status.message()).c_str());
  return status.exitCode();
}

void warn(const std::string &line) {
  std::fprintf(stderr, "hyc-checkpoint: warning: %s\n", hycrt::printable(line).c_str());
}

// A checkpoint, or of a folder of them the newest whose files are all there.
Result<Checkpoint> open(const std::string &path) {
  if (hycrt::isCheckpoint(path))
    return hycrt::openCheckpoint(path);
  return hycrt::newestCheckpoint(path, /*verifies=*/false, warn);
}

int64_t bytesOf(const Checkpoint &checkpoint) {
  int64_t bytes = 0;
  for (const auto &[name, file] : checkpoint.manifest.parts.files)
    bytes += file.sums.bytes;
  return bytes;
}

// The steps of the checkpoints in a folder, the newest first; one at least.
Result<std::vector<int64_t>> someStepsIn(const std::string &directory) {
  Result<std::vector<int64_t>> steps = hycrt::stepsIn(directory);
  if (!steps.ok() || !steps->empty())
    return steps;
  if (hycrt::isCheckpoint(directory))
    return hycrt::usageError("'" + directory + "' is one checkpoint, expected the folder that it is in");
  return hycrt::unavailableError("'" + directory + "' holds no checkpoint, expected folders step-N");
}

// One line each, the newest first. What is damaged is listed, too, and is the
// command's status.
Status list(const std::string &directory) {
  Result<std::vector<int64_t>> steps = someStepsIn(directory);
  if (!steps.ok())
    return steps.status();
  Status damaged;
  for (int64_t step : *steps) {
    const std::string path = hycrt::checkpointPath(directory, step);
    const Result<Checkpoint> checkpoint = hycrt::openCheckpoint(path);
    if (checkpoint.ok()) {
      const hycrt::CheckpointManifest &manifest = checkpoint->manifest;
      std::printf("%s   %s   %" PRId64 " samples   %.1f MB   %s\n", path.c_str(),
                  hycrt::printable(manifest.name).c_str(), manifest.samples,
                  static_cast<double>(bytesOf(*checkpoint)) / 1e6, hycrt::printable(manifest.mesh).c_str());
      continue;
    }
    std::printf("%s   not whole: %s\n", path.c_str(), hycrt::printable(checkpoint.status().message()).c_str());
    if (damaged.ok())
      damaged = checkpoint.status();
  }
  return damaged;
}

Status verify(const std::string &path) {
  const auto check = [](const std::string &folder) -> Status {
    Result<Checkpoint> checkpoint = hycrt::openCheckpoint(folder);
    if (!checkpoint.ok())
      return checkpoint.status();
    HYCRT_RETURN_IF_ERROR(hycrt::verifyCheckpoint(*checkpoint));
    std::printf("%s   whole: %zu tensors in %zu files, %.1f MB\n", folder.c_str(),
                checkpoint->manifest.parts.tensors.size(), checkpoint->manifest.parts.files.size(),
                static_cast<double>(bytesOf(*checkpoint)) / 1e6);
    return {};
  };
  if (hycrt::isCheckpoint(path))
    return check(path);
  Result<std::vector<int64_t>> steps = someStepsIn(path);
  if (!steps.ok())
    return steps.status();
  Status first;
  for (int64_t step : *steps) {
    const Status status = check(hycrt::checkpointPath(path, step));
    if (!status.ok() && !first.ok())
      warn(status.message());
    if (first.ok())
      first = status;
  }
  return first;
}

std::string textOf(const hycrt::Shape &shape) {
  std::string text = "[";
  for (int i = 0; i < shape.size; ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Status show(const std::string &path) {
  Result<Checkpoint> checkpoint = open(path);
  if (!checkpoint.ok())
    return checkpoint.status();
  const hycrt::CheckpointManifest &manifest = checkpoint->manifest;
  std::printf("%s\nmodel         %s\nwritten by    %s, %" PRId64 " ranks, plan %016" PRIx64 "\n",
              checkpoint->folder.c_str(), hycrt::printable(manifest.name).c_str(),
              hycrt::printable(manifest.mesh).c_str(), manifest.ranks, manifest.planHash);
  std::printf("step          %" PRId64 " of %" PRId64 "\nsamples       %" PRId64 ", %" PRId64 " a step, of %" PRId64
              " in the data (%s)\nseed          %" PRIu64 "\nschedule      %s\n",
              manifest.step, manifest.steps, manifest.samples, manifest.globalBatch, manifest.dataSamples,
              manifest.shuffled ? "shuffled" : "in file order", manifest.seed,
              hycrt::printable(manifest.learningRate.dump(-1, ' ', true)).c_str());
  for (const auto &[name, value] : manifest.counters) {
    std::printf("%-30s %.17g\n", hycrt::printable(name).c_str(), value);
  }
  for (const auto &[name, tensor] : manifest.parts.tensors) {
    std::printf("%s   %s %s", hycrt::printable(name).c_str(), hycrt::nameOf(tensor.dtype),
                textOf(tensor.shape).c_str());
    if (tensor.slices.size() > 1)
      std::printf(" in %zu slices", tensor.slices.size());
    std::printf("\n");
    for (const hycrt::CheckpointSlice &slice : tensor.slices) {
      if (tensor.slices.size() < 2)
        continue;
      std::printf("    %s at %s   %s\n", textOf(slice.box.size).c_str(), textOf(slice.box.offset).c_str(),
                  slice.file.c_str());
    }
  }
  return {};
}

enum class Format { HuggingFace, Distributed, Universal };

struct ExportOptions {
  std::string target, config;
  Format format = Format::HuggingFace;
  bool takesStates = false, merges = false, hasTensorSteps = false;
  hycrt::ForeignNames names;
};

Status write(const Checkpoint &checkpoint, const ExportOptions &options) {
  if (options.format != Format::HuggingFace && !options.config.empty())
    return hycrt::usageError("--config is for --format huggingface");
  if (options.merges && (options.format != Format::HuggingFace || options.takesStates))
    return hycrt::usageError("--merge is for weights; leave out " +
                             std::string(options.takesStates ? "--states" : "--format"));
  if (options.format != Format::Universal && options.hasTensorSteps)
    return hycrt::usageError("--steps-as-tensors is for --format deepspeed");
  if (options.format == Format::Distributed)
    return hycrt::exportDistributed(checkpoint, options.target, options.names);
  if (options.format == Format::Universal)
    return hycrt::exportUniversal(checkpoint, options.target, options.names,
                                  options.hasTensorSteps ? hycrt::UpdateCount::kTensor : hycrt::UpdateCount::kNumber);
  const hycrt::Exported what = options.takesStates ? hycrt::Exported::kStates
                               : options.merges    ? hycrt::Exported::kMerged
                                                   : hycrt::Exported::kWeights;
  return hycrt::exportTensors(checkpoint, what, options.target, options.config);
}

Status exportTo(const std::string &path, const ExportOptions &options) {
  Result<Checkpoint> checkpoint = open(path);
  if (!checkpoint.ok())
    return checkpoint.status();
  HYCRT_RETURN_IF_ERROR(write(*checkpoint, options));
  std::printf("wrote %s from %s\n", options.target.c_str(), checkpoint->folder.c_str());
  return {};
}

Status importFrom(const std::string &path, const std::string &target, const hycrt::ImportOptions &options) {
  Result<hycrt::Imported> imported = hycrt::importCheckpoint(path, target, options);
  if (!imported.ok())
    return imported.status();
  std::printf("wrote %s from %s (%s): %" PRId64 " tensors", imported->folder.c_str(), path.c_str(),
              imported->kind.c_str(), imported->tensors);
  if (imported->leftOut > 0)
    std::printf("; %" PRId64 " entries were left out", imported->leftOut);
  std::printf("\n");
  if (options.samples == 0)
    std::printf("a run that resumes it begins its data at sample 0; --samples "
                "says how many were read before\n");
  return {};
}

int finish(const Status &status) {
  const Status printed = hycrt::flushOutput();
  if (!status.ok())
    return fail(status);
  return printed.ok() ? 0 : fail(printed);
}

} // namespace

void addNames(CLI::App *command, hycrt::ForeignNames *names) {
  command->add_option("--weights-prefix", names->weights, "What names of weights begin with there, such as model.");
  command
      ->add_option("--optimizer-prefix", names->optimizer,
                   "What names of the optimizer's states begin with there, in "
                   "front of state.NAME.exp_avg")
      ->capture_default_str();
}

CLI::App *addExport(CLI::App *app, std::string *path, ExportOptions *options) {
  CLI::App *const exports = app->add_subcommand("export", "Write whole tensors, in a form that others load");
  exports->add_option("DIR", *path, "A checkpoint, or a folder of them, of which the newest is taken")->required();
  exports->add_option("OUT", options->target, "A new folder, or of weights a new file NAME.safetensors")->required();
  const std::map<std::string, Format> formats = {
      {"huggingface", Format::HuggingFace}, {"dcp", Format::Distributed}, {"deepspeed", Format::Universal}};
  exports
      ->add_option("--format", options->format,
                   "huggingface: weights, for transformers; dcp: all states, "
                   "for torch.distributed.checkpoint; deepspeed: "
                   "all states, as a universal checkpoint")
      ->transform(CLI::Validator(
          [formats](std::string &text) {
            const auto found = formats.find(text);
            if (found == formats.end())
              return "found '" + text + "', expected huggingface, dcp or deepspeed";
            text = std::to_string(static_cast<int>(found->second));
            return std::string();
          },
          ""))
      ->option_text("huggingface|dcp|deepspeed");
  exports->add_option("--config", options->config, "The model's config.json, which is copied into the folder");
  exports->add_flag("--states", options->takesStates, "Write what the optimizer keeps, too");
  exports->add_flag("--merge", options->merges, "Of adapters: write the model's weights with the adapters added");
  exports->add_flag("--steps-as-tensors", options->hasTensorSteps,
                    "For torch's optimizers under DeepSpeed, whose own count "
                    "updates by a number");
  addNames(exports, &options->names);
  return exports;
}

CLI::App *addImport(CLI::App *app, std::string *path, std::string *target, hycrt::ImportOptions *options) {
  CLI::App *const imports = app->add_subcommand("import", "Make a checkpoint of what PyTorch or DeepSpeed has saved");
  imports
      ->add_option("SOURCE", *path,
                   "A folder with .metadata (torch.distributed.checkpoint) or "
                   "zero/ (DeepSpeed)")
      ->required();
  imports->add_option("DIR", *target, "Folder in which step-N is made")->required();
  imports->add_option("--step", options->step, "Step that the training was after, if not the number of updates")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 53));
  imports->add_option("--samples", options->samples, "Samples that were read; the data goes on behind them")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 53));
  imports->add_option("--seed", options->seed, "Of the order of the data and of dropout, from here on")->type_name("N");
  imports->add_option("--without", options->names.without,
                      "A tensor to leave out, by the name in a checkpoint; of "
                      "a parameter all that the optimizer keeps, too");
  addNames(imports, &options->names);
  return imports;
}

int main(int argc, char **argv) {
  CLI::App app("Looks at checkpoints that hyc-run --checkpoint has written.", "hyc-checkpoint");
  std::string path, target;
  ExportOptions exportOptions;
  hycrt::ImportOptions importOptions;
  app.require_subcommand(1);
  CLI::App *const lists = app.add_subcommand("list", "The checkpoints of a folder, a line each, the newest first");
  lists->add_option("DIR", path, "Folder that --checkpoint named")->required();
  CLI::App *const verifies = app.add_subcommand("verify", "Compare every byte with what was written");
  verifies->add_option("DIR", path, "A checkpoint, or a folder of them")->required();
  CLI::App *const shows = app.add_subcommand("show", "Where the training was, and each tensor with its slices");
  shows->add_option("DIR", path, "A checkpoint, or a folder of them, of which the newest is shown")->required();
  const CLI::App *const exports = addExport(&app, &path, &exportOptions);
  addImport(&app, &path, &target, &importOptions);
  hycrt::refuseEmptyValues(app, {"--weights-prefix", "--optimizer-prefix"}); // names that begin with nothing else
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    const auto chosen = app.get_subcommands();
    std::fputs((chosen.empty() ? app.help() : chosen[0]->help()).c_str(), stdout);
    return finish({});
  } catch (const CLI::ParseError &error) {
    return fail(hycrt::refuseCommandLine(app, error));
  }
  if (lists->parsed())
    return finish(list(path));
  if (verifies->parsed())
    return finish(verify(path));
  if (shows->parsed())
    return finish(show(path));
  if (exports->parsed())
    return finish(exportTo(path, exportOptions));
  return finish(importFrom(path, target, importOptions));
}
