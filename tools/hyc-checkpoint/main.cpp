// hyc-checkpoint list|verify|show|export: checkpoints that hyc-run has written.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/export.h"
#include "hycrt/printable.h"
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

// One line each, the newest first. What is damaged is listed, too, and is the command's status.
Status list(const std::string &directory) {
  Result<std::vector<int64_t>> steps = hycrt::stepsIn(directory);
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
  Result<std::vector<int64_t>> steps = hycrt::stepsIn(path);
  if (!steps.ok())
    return steps.status();
  if (steps->empty())
    return hycrt::unavailableError("'" + path + "' holds no checkpoint, expected folders step-N");
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

Status exportTo(const std::string &path, hycrt::Exported what, const std::string &target, const std::string &config) {
  Result<Checkpoint> checkpoint = open(path);
  if (!checkpoint.ok())
    return checkpoint.status();
  HYCRT_RETURN_IF_ERROR(hycrt::exportTensors(*checkpoint, what, target, config));
  std::printf("wrote %s from %s\n", target.c_str(), checkpoint->folder.c_str());
  return {};
}

int finish(const Status &status) {
  const bool printed = std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (!status.ok())
    return fail(status);
  return printed ? 0 : fail(hycrt::errnoError("cannot write to standard output", errno));
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Looks at checkpoints that hyc-run --checkpoint has written.", "hyc-checkpoint");
  std::string path, target, config;
  bool takesStates = false;
  app.require_subcommand(1);
  CLI::App *const lists = app.add_subcommand("list", "The checkpoints of a folder, a line each, the newest first");
  lists->add_option("DIR", path, "Folder that --checkpoint named")->required();
  CLI::App *const verifies = app.add_subcommand("verify", "Compare every byte with what was written");
  verifies->add_option("DIR", path, "A checkpoint, or a folder of them")->required();
  CLI::App *const shows = app.add_subcommand("show", "Where the training was, and each tensor with its slices");
  shows->add_option("DIR", path, "A checkpoint, or a folder of them, of which the newest is shown")->required();
  CLI::App *const exports = app.add_subcommand("export", "Write the weights as whole tensors");
  exports->add_option("DIR", path, "A checkpoint, or a folder of them, of which the newest is taken")->required();
  exports->add_option("OUT", target, "A new folder that transformers loads, or a new file NAME.safetensors")
      ->required();
  exports->add_option("--config", config, "The model's config.json, which is copied into the folder");
  exports->add_flag("--states", takesStates, "Write what the optimizer keeps, too");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    const auto chosen = app.get_subcommands();
    std::fputs((chosen.empty() ? app.help() : chosen[0]->help()).c_str(), stdout);
    return finish({});
  } catch (const CLI::ParseError &error) {
    return fail(hycrt::usageError(std::string(error.what()) + "; --help tells what is expected"));
  }
  if (lists->parsed())
    return finish(list(path));
  if (verifies->parsed())
    return finish(verify(path));
  if (shows->parsed())
    return finish(show(path));
  return finish(exportTo(path, takesStates ? hycrt::Exported::kStates : hycrt::Exported::kWeights, target, config));
}
