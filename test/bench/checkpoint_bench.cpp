// How fast ranks write and read a checkpoint's files, over fio's rate on the same disk.
//
// Each rank is a process. Writing is StreamFile: the bytes are summed (CRC32C a chunk, SHA-256 a file), and the file is
// synced. Reading is readStates, which compares every chunk with its sum, into new memory, with nothing in the page
// cache. The rate is all ranks' bytes over the time from a common start until the last is done. fio runs between the
// repetitions, with as many jobs as there are ranks, in blocks of 1 MiB past the page cache, one and four at a time:
// the better one is the bound. It computes no sums.
//
//   checkpoint_bench FOLDER [MiB a rank = 1024] [repetitions = 3]
#include <fcntl.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/secret.h"
#include "base/table_of.h"
#include "base/threads.h"
#include "checkpoint/part_writer.h"
#include "checkpoint/state_reader.h"
#include "checkpoint/stream_file.h"
#include "hycrt/context.h"
#include "hycrt/safetensors.h"
#include "memory/rank_memory.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kTensorBytes = 64 * kMiB;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void fail(const Status &status) {
  std::fprintf(stderr, "checkpoint_bench: error: %s\n", status.message().c_str());
  std::exit(status.exitCode());
}

// A stage with so many bytes of parameters, and where a checkpoint of it lies.
struct Stage {
  Stage(std::string folder, int64_t bytes) {
    const int64_t count = bytes / kTensorBytes, rows = kTensorBytes / 4 / 4096;
    for (int64_t i = 0; i < count; ++i) names.push_back("w" + std::to_string(i));
    for (int64_t i = 0; i < count; ++i) {
      const Shape shape{rows, 4096};
      states.push_back({names[static_cast<size_t>(i)].c_str(),
                        "parameter",
                        DType::kF32,
                        {0, i * kTensorBytes},
                        shape,
                        shape,
                        shape,
                        {},
                        Initializer::zeros()});
    }
    arenas = {{"parameters", count * kTensorBytes, Sharing::kPrivate}};
    program.mesh = meshOf(1, 1, 1);
    program.states = tableOf(states);
    program.arenas = tableOf(arenas);
    checkpoint.folder = std::move(folder);
  }
  int64_t bytes() const { return arenas[0].bytes; }

  std::vector<std::string> names;
  std::vector<StateDesc> states;
  std::vector<ArenaDesc> arenas;
  Program program{};
  Checkpoint checkpoint;
};

std::string fileOf(int rank) { return partFileName(rank, 0, DType::kF32); }

// As PartWriter does it, one file.
Status writeFile(const Stage &stage, int rank, const std::byte *memory, CheckpointParts *parts) {
  TensorDirectory directory;
  std::map<std::string, Shape> offsets;
  for (const StateDesc &state : stage.states) {
    directory[state.name].dtype = state.dtype;
    directory[state.name].shape = {state.logical[0], state.logical[1]};
    offsets[state.name] = {0, 0};
  }
  const std::string header = encodePartHeader(&directory, offsets), name = fileOf(rank);
  Result<StreamFile> file = StreamFile::create(stage.checkpoint.folder + "/" + name, nullptr);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(file->write(header.data(), static_cast<int64_t>(header.size())));
  for (const auto &[tensor, entry] : directory) {
    CheckpointTensor &told = parts->tensors[tensor];
    told.dtype = entry.dtype;
    told.shape = {entry.shape[0], entry.shape[1]};
    told.slices = {{name, file->position(), Box{{0, 0}, {entry.shape[0], entry.shape[1]}}}};
    const int64_t index = std::stoll(tensor.substr(1));
    HYCRT_RETURN_IF_ERROR(file->write(memory + index * kTensorBytes, kTensorBytes));
  }
  Result<CheckpointFile> sums = file->finish(header);
  if (!sums.ok()) return sums.status();
  parts->files[name] = std::move(*sums);
  return {};
}

// Bytes per second of `ranks` processes that prepare() and then, all at once, work().
double rateOf(int ranks, int64_t bytes, const std::function<Status(int, std::byte *)> &work) {
  int ready[2], start[2];
  if (pipe(ready) != 0 || pipe(start) != 0) fail(errnoError("cannot make a pipe", errno));
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) fail(errnoError("cannot fork", errno));
    if (child > 0) continue;
    applyThreadPlan({std::max(1, omp_get_num_procs() / ranks), rank, ranks});
    Result<Mapping> memory = Mapping::anonymous(bytes, "parameters");
    if (!memory.ok()) _exit(70);
    // Every page is there, and no two are alike.
    for (int64_t i = 0; i < bytes; i += 8) *reinterpret_cast<int64_t *>(memory->base() + i) = i * 0x9E3779B97F4A7C15;
    char byte = 0;
    if (write(ready[1], &byte, 1) != 1 || read(start[0], &byte, 1) != 1) _exit(70);
    const Status status = work(rank, memory->base());
    if (!status.ok()) std::fprintf(stderr, "checkpoint_bench: rank %d: %s\n", rank, status.message().c_str());
    if (write(ready[1], &byte, 1) != 1) _exit(70);
    _exit(status.exitCode());
  }
  std::vector<char> all(static_cast<size_t>(ranks));
  const auto await = [&] {
    for (char &byte : all) {
      if (read(ready[0], &byte, 1) != 1) fail(internalError("a rank did not come"));
    }
  };
  await();
  const double begin = seconds();
  if (write(start[1], all.data(), all.size()) != ranks) fail(internalError("the ranks cannot be started"));
  await();
  const double time = seconds() - begin;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) fail(internalError("a rank failed"));
  }
  for (int fd : {ready[0], ready[1], start[0], start[1]}) close(fd);
  return static_cast<double>(ranks * bytes) / time;
}

void evict(const std::string &path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) fail(errnoError("cannot evict " + path, errno));
  close(file);
}

// Bytes per second, of the better of one block at a time and four.
double fioRate(const std::string &folder, const char *operation, int ranks, int64_t bytes) {
  double best = 0;
  for (const char *how : {"psync --iodepth=1", "io_uring --iodepth=4"}) {
    const std::string command =
        "fio --name=bench --directory='" + folder + "' --size=" + std::to_string(bytes) +
        " --numjobs=" + std::to_string(ranks) +
        " --bs=1M --direct=1 --end_fsync=1 --group_reporting --output-format=json --rw=" + operation +
        " --ioengine=" + how + " 2>/dev/null";
    FILE *const pipe = popen(command.c_str(), "r");
    std::string text;
    char chunk[4096];
    for (size_t count; pipe && (count = fread(chunk, 1, sizeof chunk, pipe)) > 0;) text.append(chunk, count);
    if (!pipe || pclose(pipe) != 0) continue;
    const auto report = nlohmann::json::parse(text.substr(std::min(text.find('{'), text.size())), nullptr, false);
    if (report.is_discarded()) continue;
    best = std::max(best, report["jobs"][0][operation]["bw_bytes"].get<double>());
  }
  if (best == 0) fail(unavailableError("fio gives no rate; is it installed, and does the folder allow direct access?"));
  return best;
}

void bench(const std::string &folder, int ranks, int64_t bytes, int repetitions) {
  double written = 0, read = 0, writes = 0, reads = 0;
  for (int i = 0; i < repetitions; ++i) {
    writes = std::max(writes, fioRate(folder, "write", ranks, bytes));
    reads = std::max(reads, fioRate(folder, "read", ranks, bytes));
    // As often as the bound is tried, so that a busy machine is unfair to neither.
    for (int j = 0; j < 2; ++j) {
      Stage stage(folder, bytes);
      const auto remove = [&] {
        for (int rank = 0; rank < ranks; ++rank) unlink((folder + "/" + fileOf(rank)).c_str());
      };
      remove();
      written = std::max(written, rateOf(ranks, bytes, [&](int rank, std::byte *memory) {
                           CheckpointParts parts;
                           return writeFile(stage, rank, memory, &parts);
                         }));
      for (int rank = 0; rank < ranks; ++rank) {
        const std::string path = folder + "/" + fileOf(rank);
        evict(path);
        const Result<FileSums> sums = measureFile(path);
        if (!sums.ok()) fail(sums.status());
        stage.checkpoint.manifest.parts.files[fileOf(rank)].sums = *sums;
        evict(path);
      }
      Result<TensorDirectory> directory = readSafetensorsDirectory(folder + "/" + fileOf(0));
      if (!directory.ok()) fail(directory.status());
      for (const auto &[tensor, entry] : *directory) {
        const std::vector<int64_t> shape(entry.shape.begin(), entry.shape.end());
        CheckpointTensor &told = stage.checkpoint.manifest.parts.tensors[tensor];
        told.dtype = entry.dtype;
        told.shape = {shape[0], shape[1]};
        told.slices = {{"", entry.begin, Box{{0, 0}, {shape[0], shape[1]}}}};
      }
      read = std::max(read, rateOf(ranks, bytes, [&](int rank, std::byte *memory) {
                        Checkpoint own = stage.checkpoint;
                        for (auto &[name, tensor] : own.manifest.parts.tensors) tensor.slices[0].file = fileOf(rank);
                        std::byte *arenas[] = {memory};
                        const Context ctx(stage.program, {0, 0}, arenas, nullptr);
                        std::vector<bool> filled;
                        return readStates(ctx, own, &filled);
                      }));
      remove();
    }
    for (int rank = 0; rank < ranks; ++rank) unlink((folder + "/bench." + std::to_string(rank) + ".0").c_str());
  }
  std::printf("%d rank%s: written at %.2f GB/s, fio %.2f: ratio %.2f; read at %.2f GB/s, fio %.2f: ratio %.2f\n", ranks,
              ranks == 1 ? " " : "s", written * 1e-9, writes * 1e-9, written / writes, read * 1e-9, reads * 1e-9,
              read / reads);
  std::fflush(stdout);
}

void tellSums() {
  std::vector<std::byte> bytes(256 * kMiB);
  double begin = seconds();
  Sha256 sha;
  for (size_t i = 0; i < bytes.size(); i += kChunkBytes) sha.add(bytes.data() + i, kChunkBytes);
  const std::string digest = sha.finish();
  const double shaTime = seconds() - begin;
  begin = seconds();
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += kChunkBytes) sum ^= crc32c(0, bytes.data() + i, kChunkBytes);
  const double crcTime = seconds() - begin;
  std::printf("one thread: SHA-256 at %.2f GB/s, CRC32C at %.2f GB/s (%s %08x)\n",
              static_cast<double>(bytes.size()) / shaTime * 1e-9, static_cast<double>(bytes.size()) / crcTime * 1e-9,
              digest.substr(0, 8).c_str(), sum);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "checkpoint_bench FOLDER [MiB a rank = 1024] [repetitions = 3]\n");
    return 64;
  }
  const int64_t bytes =
      std::max<int64_t>(1, (argc > 2 ? std::atoi(argv[2]) : 1024) * kMiB / kTensorBytes) * kTensorBytes;
  const int repetitions = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
  const std::string folder = std::string(argv[1]) + "/checkpoint_bench-" + std::to_string(getpid());
  if (const Status made = makeDirectory(folder); !made.ok()) fail(made);
  std::printf("%ld MiB a rank in tensors of 64 MiB, %d cores, best of %d\n", long(bytes / kMiB), omp_get_num_procs(),
              repetitions);
  tellSums();
  for (const int ranks : {1, 2}) bench(folder, ranks, bytes, repetitions);
  rmdir(folder.c_str());
  return 0;
}
