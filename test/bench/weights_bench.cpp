// How fast ranks read their weights when they start, over what the page cache and the disk give for the same bytes.
//
// The ranks' rate is that of initializeStates into new arenas, all ranks of a layout at once: the bytes of the file
// over the time from a common start until the last is done. The bound is measured between the repetitions: the best of
// threads in pread, over several numbers of them and sizes of blocks, into new memory too (warm), or past the cache
// (cold). Of a split over tp every byte of the file is wanted by one of the ranks, so that the bound is the same.
//
// Each layout is read twice in turns: compared with the sums of the file, as a run does, and taken as it is.
//
//   weights_bench FOLDER [MiB = 1024] [repetitions = 3]
// Prints the ratio for each layout, with the file in the page cache and, where FOLDER is on a disk, without.
#include <fcntl.h>
#include <linux/magic.h>
#include <omp.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/threads.h"
#include "forked_ranks.h"
#include "hycrt/file_sums.h"
#include "io/initial_values.h"
#include "memory/rank_memory.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kColumns = 4096, kTensorBytes = 64 * kMiB;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void fail(const Status &status) {
  std::fprintf(stderr, "weights_bench: error: %s\n", status.message().c_str());
  std::exit(status.exitCode());
}

// A file of weights that goes with its owner.
class WeightsFile {
 public:
  WeightsFile(const std::string &folder, int64_t bytes)
      : path_(folder + "/weights_bench-" + std::to_string(getpid())), bytes_(bytes) {
    fd_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd_.isOpen()) fail(errnoError("cannot create '" + path_ + "'", errno));
    std::vector<uint32_t> block(static_cast<size_t>(kMiB) / 4);
    for (int64_t done = 0; done < bytes; done += kMiB) {
      for (size_t i = 0; i < block.size(); ++i)
        block[i] = static_cast<uint32_t>(done / kMiB * 2654435761u + i * 40503u);
      const Status status = writeAt(fd_, path_, block.data(), kMiB, done);
      if (!status.ok()) fail(status);
    }
    if (fsync(fd_.get()) != 0) fail(errnoError("cannot sync '" + path_ + "'", errno));
  }
  ~WeightsFile() { unlink(path_.c_str()); }

  const std::string &path() const { return path_; }
  int64_t bytes() const { return bytes_; }

  // Takes the file out of the page cache.
  void evict() const { posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED); }

 private:
  std::string path_;
  int64_t bytes_;
  FileDescriptor fd_;
};

// ---------------------------------------------------------------------------------------------------------- the bound

// Bytes per second of `threads` that read the file in blocks into one new mapping.
double threadsRate(const WeightsFile &file, int threads, int64_t blockBytes, bool direct) {
  FileDescriptor fd(open(file.path().c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)));
  if (!fd.isOpen()) return 0;  // a file system without direct access
  Result<Mapping> memory = Mapping::anonymous(file.bytes(), "bound");
  if (!memory.ok()) fail(memory.status());
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  const double begin = seconds();
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&] {
      for (int64_t at = blockBytes * next++; at < file.bytes(); at = blockBytes * next++) {
        const int64_t bytes = std::min(blockBytes, file.bytes() - at);
        if (!readAt(fd, file.path(), memory->base() + at, bytes, at).ok()) failed = true;
      }
    });
  }
  for (std::thread &thread : team) thread.join();
  const double time = seconds() - begin;
  return failed ? 0 : static_cast<double>(file.bytes()) / time;
}

double bound(const WeightsFile &file, bool cold) {
  double best = 0;
  const int cores = omp_get_num_procs();
  for (int64_t blockBytes : {kMiB, 4 * kMiB}) {
    for (int threads : cold ? std::vector<int>{4, 16} : std::vector<int>{1, cores, 2 * cores}) {
      if (cold) file.evict();
      best = std::max(best, threadsRate(file, threads, blockBytes, cold));
    }
  }
  if (!cold) return best;
  file.evict();
  return std::max(best, threadsRate(file, cores, 4 * kMiB, false));
}

// ---------------------------------------------------------------------------------------------------------- the ranks

struct Layout {
  const char *name;
  int tp;
  ShortList<Split> splits;
  Shape global, local;  // of one tensor of kTensorBytes
};

// The stage's tables: as many tensors as the file holds, one after the other.
struct Stage {
  Stage(const Layout &layout, const WeightsFile &file) {
    const int64_t localBytes = elementCount(layout.local) * 4;
    for (int64_t i = 0; i < file.bytes() / kTensorBytes; ++i) {
      names.push_back("w" + std::to_string(i));
      states.push_back({"w",
                        "parameter",
                        DType::kF32,
                        {0, i * localBytes},
                        layout.global,
                        layout.global,
                        layout.local,
                        layout.splits,
                        Initializer::fromFile(0, i * kTensorBytes, DType::kF32)});
    }
    arenas = {{"parameters", static_cast<int64_t>(states.size()) * localBytes, Sharing::kPrivate}};
    program.mesh = meshOf(layout.tp, 1, 1);
    program.states = tableOf(states);
    program.arenas = tableOf(arenas);
  }
  std::vector<std::string> names;
  std::vector<StateDesc> states;
  std::vector<ArenaDesc> arenas;
  Program program{};
};

// A rank's process: says that it is there, waits for the start, reads.
[[noreturn]] void runRank(const Stage &stage, const ModelFile &file, int rank, int ready, int start) {
  applyThreadPlan(
      {std::max(1, omp_get_num_procs() / sizeOf(stage.program.mesh, kTp)), rank, sizeOf(stage.program.mesh, kTp)});
  Result<Mapping> memory = Mapping::anonymous(stage.arenas[0].bytes, "parameters");
  char byte = 0;
  if (!memory.ok() || write(ready, &byte, 1) != 1 || read(start, &byte, 1) != 1) _exit(70);
  std::byte *arenas[] = {memory->base()};
  const Status status = initializeStates(stage.program, {0, rank}, 0, {file}, {arenas, nullptr});
  _exit(status.exitCode());
}

double ranksRate(const Layout &layout, const WeightsFile &file, const std::optional<FileSums> &sums) {
  ModelFile model(file.path());
  model.sums = sums;
  const Stage stage(layout, file);
  int ready[2], start[2];
  if (pipe(ready) != 0 || pipe(start) != 0) fail(errnoError("cannot make a pipe", errno));
  for (int rank = 0; rank < layout.tp; ++rank) {
    const pid_t child = fork();
    if (child < 0) fail(errnoError("cannot fork", errno));
    if (child == 0) runRank(stage, model, rank, ready[1], start[0]);
  }
  std::vector<char> bytes(static_cast<size_t>(layout.tp));
  for (char &byte : bytes) {
    if (read(ready[0], &byte, 1) != 1) fail(internalError("a rank did not start"));
  }
  const double begin = seconds();
  if (write(start[1], bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    fail(internalError("the ranks cannot be started"));
  for (int rank = 0; rank < layout.tp; ++rank) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) fail(internalError("a rank failed to read its weights"));
  }
  const double time = seconds() - begin;  // a rank's end, which gives its memory back, is in it
  for (int fd : {ready[0], ready[1], start[0], start[1]}) close(fd);
  return static_cast<double>(file.bytes()) / time;
}

void compare(const Layout &layout, const WeightsFile &file, const FileSums &sums, int repetitions, bool cold) {
  double best = 0, unchecked = 0, given = 0;
  for (int i = 0; i < repetitions; ++i) {
    given = std::max(given, bound(file, cold));
    // As often as the bound is tried, so that a busy machine is unfair to neither.
    for (int j = 0; j < 6; ++j) {
      if (cold) file.evict();
      best = std::max(best, ranksRate(layout, file, sums));
      if (cold) file.evict();
      unchecked = std::max(unchecked, ranksRate(layout, file, std::nullopt));
    }
  }
  std::printf("%-28s %-5s ranks %6.2f GB/s (unchecked %6.2f), %s %6.2f GB/s: ratio %.2f\n", layout.name,
              cold ? "cold" : "warm", best * 1e-9, unchecked * 1e-9, cold ? "disk      " : "page cache", given * 1e-9,
              best / given);
  std::fflush(stdout);
}

bool isInMemory(const std::string &folder) {
  struct statfs info;
  return statfs(folder.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "weights_bench FOLDER [MiB = 1024] [repetitions = 3]\n");
    return 64;
  }
  const std::string folder = argv[1];
  const int64_t tensors = std::max<int64_t>(1, (argc > 2 ? std::atoi(argv[2]) : 1024) * kMiB / kTensorBytes);
  const int repetitions = argc > 3 ? std::max(1, std::atoi(argv[3])) : 3;
  const WeightsFile file(folder, tensors * kTensorBytes);
  std::printf("%ld MiB in tensors of 64 MiB, %d cores, best of %d\n", long(file.bytes() / kMiB), omp_get_num_procs(),
              repetitions);
  const double begin = seconds();
  const Result<FileSums> sums = measureFile(file.path());
  if (!sums.ok()) fail(sums.status());
  std::printf("summed at %.2f GB/s\n", static_cast<double>(file.bytes()) / (seconds() - begin) * 1e-9);
  constexpr int64_t kRows = kTensorBytes / 4 / kColumns;
  const std::vector<Layout> layouts = {
      {"whole", 1, {}, {kRows, kColumns}, {kRows, kColumns}},
      {"tp 2, rows", 2, {{0, kTp}}, {kRows, kColumns}, {kRows / 2, kColumns}},
      {"tp 2, columns (8 KiB runs)", 2, {{1, kTp}}, {kRows, kColumns}, {kRows, kColumns / 2}},
      {"tp 2, heads (1 KiB runs)", 2, {{2, kTp}}, {kRows, kColumns / 512, 8, 64}, {kRows, kColumns / 512, 4, 64}},
  };
  for (bool cold : {false, true}) {
    if (cold && isInMemory(folder)) {
      std::printf("'%s' is in memory: there is no disk to be measured\n", folder.c_str());
      break;
    }
    for (const Layout &layout : layouts) compare(layout, file, *sums, repetitions, cold);
  }
  return 0;
}
