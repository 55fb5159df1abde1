#!/usr/bin/env bash
# The sources that hyc-compile writes build by their own CMakeLists.txt against an installed hyc, and run; inside a program
# of one's own, too.
#
# Usage: standalone-source.sh BUILD_FOLDER SCRATCH_FOLDER MODELS_FOLDER
set -euo pipefail
build=$1 scratch=$2 models=$3
rm -rf "$scratch"
mkdir -p "$scratch"

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
# The installed compiler, so that it must find the installed runtime.
"$scratch/prefix/bin/hyc-compile" "$models/gpt2-5layer.onnx" --loss cross_entropy --logits logits --labels labels \
  --micro-batch 2 --optimizer sgd --lr 0.1 -o "$scratch/out"
rm "$scratch/out/bin/stage0"
cmake -S "$scratch/out/src" -B "$scratch/own" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/own"
[ -x "$scratch/out/bin/stage0" ] || { echo "bin/stage0 was not built"; exit 1; }
"$scratch/prefix/bin/hyc-run" "$scratch/out" --data "$models/text.bin" --steps 3 --log-file "$scratch/log.jsonl"

mkdir "$scratch/embedding"
cat >"$scratch/embedding/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(embedding LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
add_subdirectory(${OUT}/src programs)
add_executable(embedding main.cpp)
target_link_libraries(embedding PRIVATE stage0_embedded)
END
cat >"$scratch/embedding/main.cpp" <<'END'
#include <cstdio>

#include "hycrt/options.h"
#include "hycrt/run.h"
#include "hycrt/step_report.h"

const hycrt::Program& stage0Program();

struct Losses : hycrt::RunEvents {
  hycrt::Status step(const hycrt::StepRecord& record) override {
    std::printf("%.17g\n", record.loss);
    return {};
  }
};

int main(int, char** argv) {
  hycrt::RunOptions settings;
  settings.out = argv[1];
  settings.data = argv[2];
  settings.steps = 3;
  Losses losses;
  return hycrt::runProgram(stage0Program(), settings, losses).exitCode();
}
END
cmake -S "$scratch/embedding" -B "$scratch/embedding/build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DOUT=$scratch/out" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/embedding/build" --target embedding
program=$(find "$scratch" -name embedding -type f -perm -u+x)
"$program" "$scratch/out" "$models/text.bin" >"$scratch/losses"
python3 - "$scratch/log.jsonl" "$scratch/losses" <<'END'
import json, sys
logged = [json.loads(line)["loss"] for line in open(sys.argv[1])]
embedded = [float(line) for line in open(sys.argv[2])]
assert len(logged) == 3 and logged == embedded, (logged, embedded)
END
