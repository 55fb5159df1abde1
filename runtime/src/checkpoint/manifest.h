// checkpoint.json: what a checkpoint is. Where each tensor's rectangles lie, what the files hold, and where in its
// training the run was. What wrote it (the mesh, the plan) is told for people and is not part of its meaning.
//
//   {
//     "format_version": 1,
//     "name": "gpt2-tiny", "plan_hash": "00c5b1e2f4a89d37", "mesh": "pp 2 × dp 2 × tp 2", "ranks": 8,
//     "step": 200, "samples": 3200,               steps that are over, and what they have read of the endless list
//     "global_batch": 16, "sequence": 64,
//     "data": {"samples": 4096, "shuffled": true, "epoch": 0, "place": 3200},      0 samples: the model reads none;
//                                                 "arrangement", where more decides than these (io/dataset.h)
//     "seed": 1,                                  of the order of the data, of dropout (Philox, by sample) and of
//                                                 initial values
//     "steps": 1000, "learning_rate": {…},        the schedule, as in manifest.json, and the total that it was asked
//     for "counters": {"step": 200, "applied_step": 198, "loss_scale": 65536.0},       states that are one number
//     "training": {"optimizer": "adamw, …",       in words; "" where the compiled folder does not tell
//       "adapter": {…}, "adapter_config": "…"},   as in manifest.json, and the text that peft wants beside it; both
//       only
//                                                 where adapters are trained. Not there in what others or earlier
//                                                 versions have written: then nothing is known of it
//     "tensors": {"wte.weight": {"dtype": "F32", "shape": [257, 64], "slices":
//       [{"file": "part-00000-0.safetensors", "byte": 512, "offset": [0, 0], "shape": [129, 64]}, …]}, …},
//     "files": {"part-00000-0.safetensors": {"bytes": 1234, "header_bytes": 512, "header_crc32c": "…",
//       "crc32c": "…", "sha256": "…"}, …},        eight digits a MiB; sha256 is empty where there was no OpenSSL
//     "manifest_crc32c": "8a9136aa"               of all the text before this line
//   }
#ifndef HYCRT_SRC_CHECKPOINT_MANIFEST_H_
#define HYCRT_SRC_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/box.h"
#include "hycrt/file_sums.h"
#include "hycrt/manifest.h"
#include "hycrt/status.h"
#include "hycrt/types.h"

namespace hycrt {

inline constexpr int kCheckpointVersion = 1;
inline constexpr const char* kCheckpointManifest = "checkpoint.json";

struct CheckpointSlice {
  std::string file;
  int64_t byte = 0;  // of the file
  Box box;
};

struct CheckpointTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<CheckpointSlice> slices;
};

struct CheckpointFile {
  FileSums sums;
  std::string sha256;
};

// What one rank has written, or all of them.
struct CheckpointParts {
  std::map<std::string, CheckpointTensor> tensors;
  std::map<std::string, CheckpointFile> files;
};

// What trained, beside the schedule.
struct CheckpointTraining {
  std::string optimizer;  // Manifest::optimizer
  std::optional<Adapter> adapter;
  std::string adapterConfig;  // adapter_config.json; empty: there was none
};

struct CheckpointManifest {
  std::string name;
  uint64_t planHash = 0;
  std::string mesh;
  int64_t ranks = 1;
  int64_t step = 0;
  int64_t samples = 0;
  int64_t globalBatch = 0;
  int64_t sequence = 0;
  int64_t dataSamples = 0;
  bool shuffled = true;
  std::string arrangement;  // Dataset::arrangement()
  uint64_t seed = 0;
  int64_t steps = 0;
  nlohmann::json learningRate = nlohmann::json::object();
  std::map<std::string, double> counters;
  std::optional<CheckpointTraining> training;  // none: nothing is known of it
  CheckpointParts parts;
};

// Text, with its sum.
std::string encodeCheckpointManifest(const CheckpointManifest& manifest);
// `file` labels errors. Every number is checked: slices lie in their tensors and files, and fill the tensors.
Result<CheckpointManifest> parseCheckpointManifest(const std::string& text, const std::string& file);

// Whether a text that does not parse, since it is damaged or of another version, was such a manifest.
bool isManifestOfSomeKind(const std::string& text);

// What a rank tells the one that makes the manifest.
std::string encodeCheckpointParts(const CheckpointParts& parts);
// Of several ranks; slices in the order in which they are added.
void addParts(CheckpointParts parts, CheckpointParts* all);
Result<CheckpointParts> parseCheckpointParts(const std::string& text, const std::string& file);

// Whether a file that lies in a checkpoint's folder is one of a checkpoint's.
bool isCheckpointFileName(const std::string& name);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_MANIFEST_H_
