// manifest.json: what hyc-run and the ranks need to know about a compiled folder beside the executables themselves.
// The learning-rate rule, the threads and the model files are here and nowhere else, so they can be edited without
// compiling again; mesh, batch and plan hash are also in each executable, and a contradiction is refused.
//
//   {
//     "format_version": 1,
//     "name": "gpt2-tiny",
//     "plan_hash": "00c5b1e2f4a89d37",              16 lower-case hexadecimal digits
//     "mesh": {"tp": 2, "pp": 2, "dp": 2},          "pp" stages; all else are axes, in the order of their names, major
//     "axes": ["dp", "tp"],                         to minor, unless this says otherwise
//     "batch": {"micro_batch": 2, "grad_accum": 4, "sequence": 64},
//     "schedule": "1f1b",                           gpipe or 1f1b
//     "entry": "evaluate",                          of programs that train nothing; else it is not there
//     "adapter": {"scale": 2, "magnitudes": false, "layers": [{"path": "h.0.attn.c_attn", "inputs_first": true}],
//     "whole": ["ln_f.weight"]},
//                                                   of programs that train adapters: their layers, in the order of
//                                                   paths, whether a layer's weight is stored [in, out], whether
//                                                   its outputs have magnitudes, and the
//                                                   parameters that are saved whole with them; else it is not there
//     "data": "tokens",                             what the programs read: tokens, or samples; else it is not there
//     "cpu": {"march": "native", "instructions": ["avx2", "avx512f"]},
//                                                   what programs for CPUs were compiled for, and which of Linux' names
//                                                   of instructions that takes; else it is not there
//     "threads": 0,                                 of each rank; 0: the cores divided by the ranks
//     "nvme_path": "",                              folder of the ranks' offload files; empty where there are none
//     "learning_rate": {"rule": "cosine", "base": 0.001, "warmup_steps": 10},      constant, linear or cosine;
//                                                   or one of DeepSpeed's schedules (learning_rate.h), as
//       {"rule": "WarmupLR", "warmup_min_lr": 0, "warmup_max_lr": 0.001, "warmup_num_steps": 10, "warmup_type": "log"}
//       {"rule": "WarmupDecayLR", the same, "total_num_steps": 100}                 0: the run's steps
//       {"rule": "WarmupCosineLR", "base": 0.001, "warmup_min_ratio": 0, "cos_min_ratio": 0.0001,
//        "warmup_num_steps": 10, "warmup_type": "linear", "total_num_steps": 0}
//       {"rule": "OneCycle", "cycle_min_lr": 0.0001, "cycle_max_lr": 0.001, "decay_lr_rate": 0,
//        "cycle_first_step_size": 40, "cycle_second_step_size": 40, "cycle_first_stair_count": 0,
//        "cycle_second_stair_count": 0, "decay_step_size": 0, "cycle_momentum": true, "cycle_min_mom": 0.8,
//        "cycle_max_mom": 0.9, "decay_mom_rate": 0}
//     "optimizer": "adamw, betas 0.9 and 0.999, …", and its settings, in words; else it is not there
//     "estimate": {"own_thread": {"step_ms": 8.1, "waiting": 0.05}, "in_turn": {"step_ms": 8.9, "waiting": 0.14}},
//                                                   of rank 0, where the plan's cost model has one: a step, and the
//                                                   part of it that waits for other ranks, with communication on a
//                                                   thread of its own and without; for the run to print beside what it
//                                                   measures
//     "model_files": [{"path": "/data/gpt2-tiny.onnx",     absolute, or relative to the folder of the manifest
//                      "bytes": 2183256, "header_bytes": 0, "header_crc32c": "00000000",    what was compiled against
//                      "crc32c": "8a9136aa…"}],     (file_sums.h): eight digits a MiB
//     "ranks": [
//       {"rank": 0, "tp": 0, "pp": 0, "dp": 0, "program": "bin/stage0"},           relative, inside the folder
//       ...                                         each rank once, in order; its stage as "pp", and
//                                                   its coordinate along each axis
//     ]
//   }
//
// Every key but "axes", "entry", "adapter", "data", "cpu", "optimizer" and "estimate" is required, none other is
// allowed, none may come twice.
#ifndef HYCRT_MANIFEST_H_
#define HYCRT_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/file_sums.h"
#include "hycrt/learning_rate.h"
#include "hycrt/mesh.h"
#include "hycrt/options.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

inline constexpr int kManifestVersion = 1;

struct ManifestRank {
  Coordinates at;
  std::string program;  // as written: relative to Manifest::folder
};

// What hyc-compile expected of a step of rank 0.
struct StepEstimate {
  double milliseconds = 0;  // 0: unknown
  double waiting = 0;       // the part of it that waits for other ranks
};

// A linear layer PATH.weight with an adapter, whose parameters are PATH.lora_A.weight [rank, inputs] and
// PATH.lora_B.weight [outputs, rank], and maybe PATH.lora_magnitude_vector [outputs].
struct AdapterLayer {
  std::string path;
  bool inputsFirst;  // PATH.weight is stored [inputs, outputs]
};

struct Adapter {
  double scale = 0;                  // of B · A
  bool hasMagnitudes = false;        // what B · A has changed is scaled, each output's weights to their own length
  std::vector<AdapterLayer> layers;  // in the order of their paths
  std::vector<std::string> whole;    // parameters that are saved with the adapter as they are
  std::vector<std::string> tied;     // trained embeddings that also make the output, which no adapter can say
};

enum class DataKind { kNothing, kTokens, kSamples };

struct Manifest {
  std::string folder;
  std::string name;
  uint64_t planHash = 0;
  Mesh mesh;
  BatchDesc batch{};
  std::string schedule;
  bool evaluates = false;          // the programs tell a loss and train nothing
  bool evaluatesBeside = false;    // they train, and have an entry that tells a loss
  std::optional<Adapter> adapter;  // what they train
  std::string dim;                 // of which they train several sizes; empty: none
  std::vector<int64_t> sizes;      // these, ascending
  DataKind data = DataKind::kNothing;
  std::string march;                      // what programs for CPUs were compiled for
  std::vector<std::string> instructions;  // that they may use
  int threads = 0;       // of each rank, unless a run says otherwise; 0: the cores divided by the ranks
  std::string nvmePath;  // where the plan keeps states on a disk, unless a run says otherwise
  LearningRateRule learningRate;
  std::string optimizer;                           // in words that are the same for the same one; empty: not told
  StepEstimate estimateOwnThread, estimateInTurn;  // by where communication runs
  std::vector<ModelFile> modelFiles;               // resolved: absolute or relative to the working directory
  std::vector<ManifestRank> ranks;                 // by world rank
  std::vector<std::string> madeFiles;              // by hyc-compile, of files.json; relative to the folder
  std::string text;                                // the file's
};

// Everything that a run reads of the compiled folder and the model, and all else that hyc-compile made there: no output
// may be one of these.
std::vector<std::string> filesReadBy(const Manifest& manifest);

// What is wrong with --data as far as the manifest knows what is read: told once, before there are ranks that all
// would.
Status checkData(const Manifest& manifest, const RunOptions& options);

// Whether this host's CPU has what the programs may use: otherwise they would end by SIGILL, somewhere.
Status checkCpu(const Manifest& manifest);

// Reads FOLDER/manifest.json. Errors name the file and the key ("/ranks/3/program").
Result<Manifest> readManifest(const std::string& folder);

// The same from text that is already there; `folder` only resolves model files and labels errors.
Result<Manifest> parseManifest(std::string_view text, const std::string& folder);

}  // namespace hycrt

#endif  // HYCRT_MANIFEST_H_
