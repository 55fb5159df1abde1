// manifest.json: what hyc-run and the ranks need to know about a compiled folder beside the executables themselves.
// The learning-rate rule, the threads and the model files are here and nowhere else, so they can be edited without compiling again;
// mesh, batch and plan hash are also in each executable, and a contradiction is refused.
//
//   {
//     "format_version": 1,
//     "name": "gpt2-tiny",
//     "plan_hash": "00c5b1e2f4a89d37",              16 lower-case hexadecimal digits
//     "mesh": {"tp": 2, "pp": 2, "dp": 2},
//     "batch": {"micro_batch": 2, "grad_accum": 4, "sequence": 64},
//     "schedule": "1f1b",                           gpipe or 1f1b
//     "threads": 0,                                 of each rank; 0: the cores divided by the ranks
//     "learning_rate": {"rule": "cosine", "base": 0.001, "warmup_steps": 10},      constant, linear or cosine
//     "model_files": ["/data/gpt2-tiny.onnx"],      absolute, or relative to the folder of the manifest
//     "ranks": [
//       {"rank": 0, "tp": 0, "pp": 0, "dp": 0, "program": "bin/stage0"},           relative, inside the folder
//       ...                                         each rank once, in order; coordinates as in mesh.h
//     ]
//   }
//
// Every key is required, none other is allowed, none may come twice.
#ifndef HYCRT_MANIFEST_H_
#define HYCRT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/mesh.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

inline constexpr int kManifestVersion = 1;

enum class LearningRateKind : uint8_t { kConstant, kLinear, kCosine };

// With k the step (from 0), w the warm-up steps and n the run's steps:
//   k < w    base * (k + 1) / w
//   else     constant: base;  linear: base * (1 - t);  cosine: base * (1 + cos(pi t)) / 2;   t = (k - w) / (n - w)
struct LearningRateRule {
  LearningRateKind kind = LearningRateKind::kConstant;
  double base = 0;
  int64_t warmupSteps = 0;

  double at(int64_t step, int64_t steps) const;
};

struct ManifestRank {
  Coordinates at;
  std::string program;  // as written: relative to Manifest::folder
};

struct Manifest {
  std::string folder;
  std::string name;
  uint64_t planHash = 0;
  Mesh mesh;
  BatchDesc batch{};
  std::string schedule;
  int threads = 0;  // of each rank, unless a run says otherwise; 0: the cores divided by the ranks
  LearningRateRule learningRate;
  std::vector<std::string> modelFiles;  // resolved: absolute or relative to the working directory
  std::vector<ManifestRank> ranks;      // by world rank
};

// Everything that a run reads of the compiled folder and the model: no output may be one of these.
std::vector<std::string> filesReadBy(const Manifest& manifest);

// Reads FOLDER/manifest.json. Errors name the file and the key ("/ranks/3/program").
Result<Manifest> readManifest(const std::string& folder);

// The same from text that is already there; `folder` only resolves model files and labels errors.
Result<Manifest> parseManifest(std::string_view text, const std::string& folder);

}  // namespace hycrt

#endif  // HYCRT_MANIFEST_H_
