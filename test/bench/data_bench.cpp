// What a micro-batch of data costs the step that waits for it: BatchLoader::fill, with a thread that reads ahead and
// without one, of files in the page cache. Between two fills the computing thread is busy for as long as a step would
// be, since that is when the thread reads.
//
//   data_bench FOLDER [step ms = 10] [steps = 200]
//
// The kinds: windows of 64 and 1,024 tokens in their file's order of windows and by document (100,000 documents), a
// mixture of two, and images of 3 × 224 × 224 taken out of 256 × 256.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hycrt/context.h"
#include "hycrt/philox.h"
#include "hycrt/safetensors.h"
#include "io/dataset.h"
#include "run/batch_loader.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int64_t kMicroBatches = 4;

[[noreturn]] void fail(const Status &status) {
  std::fprintf(stderr, "data_bench: error: %s\n", status.message().c_str());
  std::exit(status.exitCode());
}

template <typename T>
void put(std::ofstream &file, const T &value) {
  file.write(reinterpret_cast<const char *>(&value), sizeof value);
}

// A file of hyc's own: `documents` of 1 to 400 tokens.
void writeTokens(const std::string &path, uint64_t seed, int64_t documents) {
  std::vector<uint64_t> ends;
  uint64_t tokens = 0;
  for (int64_t i = 0; i < documents; ++i) ends.push_back(tokens += 1 + mix64(seed, static_cast<uint64_t>(i)) % 400);
  std::ofstream file(path, std::ios::binary);
  const uint64_t endsAt = (64 + 2 * tokens + 7) / 8 * 8;
  file.write("hyctoken", 8);
  put(file, uint32_t{1});
  put(file, uint32_t{2});
  for (uint64_t value : {uint64_t{50257}, tokens, uint64_t(documents), uint64_t{64}, endsAt, uint64_t{0}})
    put(file, value);
  std::vector<uint16_t> values((endsAt - 64) / 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(mix64(seed, i) % 50257);
  file.write(reinterpret_cast<const char *>(values.data()), static_cast<std::streamsize>(2 * values.size()));
  file.write(reinterpret_cast<const char *>(ends.data()), static_cast<std::streamsize>(8 * ends.size()));
}

void writeImages(const std::string &path, int64_t count) {
  TensorDirectory directory;
  directory["pixel_values"] = {DType::kU8, {count, 3, 256, 256}, 0, 0};
  const std::string header = encodeSafetensorsHeader(&directory, {{"image", "pixel_values"},
                                                                  {"size", "224"},
                                                                  {"mean", "0.485 0.456 0.406"},
                                                                  {"std", "0.229 0.224 0.225"},
                                                                  {"flip", "horizontal"}});
  std::ofstream file(path, std::ios::binary);
  file << header;
  std::string image(3 * 256 * 256, '\0');
  for (int64_t i = 0; i < count; ++i) {
    std::iota(image.begin(), image.end(), static_cast<char>(i));
    file << image;
  }
}

void computeFor(double milliseconds) {
  const int64_t end = monotonicNs() + static_cast<int64_t>(milliseconds * 1e6);
  while (monotonicNs() < end) {
  }
}

constexpr Instruction kSchedule[] = {{InstructionKind::kForward, 0, 0},
                                     {InstructionKind::kForward, 0, 1},
                                     {InstructionKind::kForward, 0, 2},
                                     {InstructionKind::kForward, 0, 3}};
constexpr int kBoth[] = {0, 1}, kOne[] = {0};

struct Kind {
  std::string name, data;
  int64_t sequence;  // 0: images
  int64_t samples;   // of a micro-batch
  WindowOrder order;
};

// Microseconds that a step waits for its data, the mean over all but the first.
double measure(const Kind &kind, bool readsAhead, double stepMs, int64_t steps) {
  Program program{};
  program.batch = {kind.samples, kMicroBatches, std::max<int64_t>(kind.sequence, 1)};
  program.mesh = meshOf(1, 1, 1);
  const int64_t bytes = kind.samples * (kind.sequence > 0 ? 8 * kind.sequence : 3 * 224 * 224 * 4);
  InputDesc inputs[] = {
      {"input_ids", DType::kI64, InputSource::kTokens, {0, 0}, 50257, {kind.sequence}},
      {"labels", DType::kI64, InputSource::kTokens, {0, bytes}, 50257, {kind.sequence}, nullptr, 0, -100}};
  if (kind.sequence == 0)
    inputs[0] = {"pixel_values", DType::kF32, InputSource::kSamples, {0, 0}, INT64_MAX, {3, 224, 224}};
  program.inputs.rows = inputs;
  program.inputs.size = kind.sequence > 0 ? 2 : 1;
  const Table<int> read = kind.sequence > 0 ? Table<int>(kBoth) : Table<int>(kOne);
  const Entry entry{kTrainEntry, read, {}, kSchedule, nullptr, nullptr, nullptr, nullptr};
  std::vector<std::byte> arena(static_cast<size_t>(2 * bytes));
  std::byte *arenas[] = {arena.data()};
  Context ctx(program, placeOn(program.mesh, 0, 0, 0), arenas, nullptr);
  Result<std::unique_ptr<Dataset>> data = openDataset({"--data", kind.data, DataFormat::kAuto, kind.order}, program);
  if (!data.ok()) fail(data.status());
  BatchLoader loader(ctx, entry, data->get());
  if (readsAhead) loader.readAhead();
  int64_t waited = 0;
  for (int64_t step = 0; step <= steps; ++step) {
    ctx.setStep(step);
    for (int64_t microBatch = 0; microBatch < kMicroBatches; ++microBatch) {
      const int64_t begin = monotonicNs();
      if (const Status status = loader.fill(microBatch); !status.ok()) fail(status);
      if (step > 0) waited += monotonicNs() - begin;
      computeFor(stepMs / static_cast<double>(kMicroBatches));
    }
  }
  return static_cast<double>(waited) / static_cast<double>(steps) / 1e3;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: data_bench FOLDER [step ms = 10] [steps = 200]\n");
    return 64;
  }
  const std::string folder = argv[1];
  const double stepMs = argc > 2 ? std::atof(argv[2]) : 10;
  const int64_t steps = argc > 3 ? std::atoll(argv[3]) : 200;
  mkdir(folder.c_str(), 0777);
  const std::string a = folder + "/a.bin", b = folder + "/b.bin", images = folder + "/images.safetensors";
  writeTokens(a, 1, 100000);
  writeTokens(b, 2, 100000);
  writeImages(images, 512);
  const Kind kinds[] = {
      {"4 × 2 windows of 64", a, 64, 2, WindowOrder::kShuffled},
      {"4 × 8 windows of 1024", a, 1024, 8, WindowOrder::kShuffled},
      {"4 × 8 windows of 1024, by document", a, 1024, 8, WindowOrder::kByDocument},
      {"4 × 8 windows of 1024, a mixture", a + "=0.7," + b + "=0.3", 1024, 8, WindowOrder::kShuffled},
      {"4 × 8 images of 224", images, 0, 8, WindowOrder::kShuffled},
  };
  std::printf("%-40s %14s %14s %10s\n", "a step's data", "µs, at once", "µs, ahead", "of a step");
  for (const Kind &kind : kinds) {
    const double atOnce = measure(kind, false, stepMs, steps), ahead = measure(kind, true, stepMs, steps);
    std::printf("%-40s %14.1f %14.1f %9.2f %%\n", kind.name.c_str(), atOnce, ahead, ahead / stepMs / 10);
  }
  return 0;
}
