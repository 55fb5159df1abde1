// How fast an offloaded AdamW is, as ratios within one run:
//   host     bytes/s of the update over sub-groups in memory, over the memory's bandwidth (triad)
//   nvme     a step whose states stream from and to a file, over max(the update alone, bytes / the disk's rate)
// The disk's rate is measured beside it, in the same folder, reading and writing as many bytes as the step does: the
// best of plain threads in pread and pwrite on a file of their own, with several depths and sizes, and of the step's
// own transfers all started at once, without updates.
//
//   offload_bench FOLDER [Mi elements = 64] [Ki elements of a sub-group = 4096] [steps = 5] [--in-memory]
// A folder in memory is refused unless --in-memory says that it is meant: there is no disk to be measured.
#include <fcntl.h>
#include <linux/magic.h>
#include <omp.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "forked_ranks.h"
#include "hycrt/offload.h"
#include "io/block_file.h"
#include "kernels/adamw/op.h"
#include "kernels/isa/dispatch.h"

namespace {

using namespace hycrt;

struct Settings {
  std::string folder;
  int64_t elements = int64_t{64} << 20;
  int64_t subGroup = int64_t{4} << 20;
  int steps = 5;
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Master weight, m and v live in the file; the gradient is in memory, as the reduction left it.
enum Arena { kHost, kNvme };
enum Quantity { kMaster, kM, kV, kQuantities };
constexpr int kBuffers = 3;  // one is read into, one updated, one written from

class Stream {
 public:
  explicit Stream(const Settings &settings) : settings_(settings) {
    const int64_t scalars = kBlockBytes;
    arenas_ = {{"host", gradientOffset() + 4 * settings.elements + scalars, Sharing::kPrivate},
               {"nvme", kQuantities * 4 * settings.elements, Sharing::kFile}};
    program_.name = "offload_bench";
    program_.batch = {1, 1, 1};
    program_.arenas = tableOf(arenas_);
    Environment environment;
    environment.socketName = uniqueSocketName();
    Result<std::unique_ptr<ConnectedRank>> rank = ConnectedRank::connect(program_, environment, settings.folder);
    if (!rank.ok()) fail(rank.status());
    rank_ = std::move(*rank);
    float *gradient = ctx().ptr<float>(kHost, gradientOffset());
    for (int64_t i = 0; i < settings.elements; ++i) gradient[i] = 1e-3f * static_cast<float>(i % 17 - 8);
  }

  Context &ctx() { return rank_->context(); }
  int64_t groups() const { return settings_.elements / settings_.subGroup; }

  // One step as an emitted @apply makes it: group i + 1 is read and group i - 1 written while group i is updated.
  double streamedStep() {
    const double begin = seconds();
    MoveTicket reads[kBuffers][kQuantities], writes[kBuffers][kQuantities];
    startReads(0, reads[0]);
    for (int64_t group = 0; group < groups(); ++group) {
      if (group + 1 < groups()) {
        const int64_t next = (group + 1) % kBuffers;
        waitAll(writes[next]);
        startReads(group + 1, reads[next]);
      }
      waitAll(reads[group % kBuffers]);
      update(group);
      for (int q = 0; q < kQuantities; ++q) {
        writes[group % kBuffers][q] = evictStart(ctx(), inHost(group, q), inFile(group, q), bytes());
      }
    }
    for (auto &tickets : writes) waitAll(tickets);
    if (!ctx().status().ok()) fail(ctx().status());
    return seconds() - begin;
  }

  // Bytes per second of the same transfers, bounded by nothing but the disk: all are started at once.
  double transfersAlone() {
    BlockFile &file = *ctx().file();
    const double begin = seconds();
    std::vector<IoTicket> tickets;
    for (int64_t group = 0; group < groups(); group += 2) {
      // Even groups are read while odd ones are written, then the other way round.
      for (int64_t side : {int64_t{0}, int64_t{1}}) {
        const int64_t read = group + side, written = group + 1 - side;
        for (int q = 0; q < kQuantities; ++q) {
          std::byte *to = ctx().ptr<std::byte>(inHost(side, q));
          std::byte *from = ctx().ptr<std::byte>(inHost(2, q));
          if (read < groups()) tickets.push_back(file.startRead(to, bytes(), inFile(read, q).offset));
          if (written < groups()) tickets.push_back(file.startWrite(from, bytes(), inFile(written, q).offset));
        }
      }
    }
    for (const IoTicket &ticket : tickets) {
      const Status status = file.wait(ticket);
      if (!status.ok()) fail(status);
    }
    return 2.0 * kQuantities * static_cast<double>(bytes() * groups()) / (seconds() - begin);
  }

  // The same updates without the disk.
  double updatesAlone() {
    const double begin = seconds();
    for (int64_t group = 0; group < groups(); ++group) update(group);
    return seconds() - begin;
  }

  [[noreturn]] static void fail(const Status &status) {
    std::fprintf(stderr, "offload_bench: error: %s\n", status.message().c_str());
    std::exit(status.exitCode());
  }

 private:
  int64_t bytes() const { return 4 * settings_.subGroup; }
  int64_t gradientOffset() const { return kBuffers * kQuantities * bytes(); }
  BufferRef inHost(int64_t group, int q) const { return {kHost, (group % kBuffers * kQuantities + q) * bytes()}; }
  BufferRef inFile(int64_t group, int q) const { return {kNvme, (group * kQuantities + q) * bytes()}; }

  void startReads(int64_t group, MoveTicket *tickets) {
    for (int q = 0; q < kQuantities; ++q) {
      tickets[q] = fetchStart(ctx(), inFile(group, q), inHost(group, q), bytes());
    }
  }
  void waitAll(MoveTicket (&tickets)[kQuantities]) {
    for (MoveTicket &ticket : tickets) {
      wait(ctx(), ticket);
      ticket = {};
    }
  }
  void update(int64_t group) {
    hyc::kernels::adamw({}, settings_.subGroup, ctx().ptr<float>(inHost(group, kMaster)),
                        ctx().ptr<float>(kHost, gradientOffset() + group * bytes()),
                        ctx().ptr<float>(inHost(group, kM)), ctx().ptr<float>(inHost(group, kV)));
  }

  Settings settings_;
  std::vector<ArenaDesc> arenas_;
  Program program_{};
  std::unique_ptr<ConnectedRank> rank_;
};

// Bytes per second of `depth` threads that read one half of a file and write the other, past the cache.
double mixedRate(const Settings &settings, int64_t bytesEachWay, int depth, int64_t pieceBytes) {
  const std::string path = settings.folder + "/offload_bench-" + std::to_string(getpid());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
  if (fd < 0) Stream::fail(errnoError("cannot create '" + path + "'", errno));
  unlink(path.c_str());
  const int64_t pieces = bytesEachWay / pieceBytes;
  std::atomic<int64_t> next{0};
  std::atomic<int> failures{0};
  const auto run = [&](bool onlyWrites) {
    std::vector<std::thread> threads;
    next = 0;
    for (int i = 0; i < depth; ++i) {
      threads.emplace_back([&] {
        void *memory = std::aligned_alloc(kBlockBytes, pieceBytes);
        std::memset(memory, 1, pieceBytes);
        for (int64_t piece = next++; piece < 2 * pieces; piece = next++) {
          // In turn one of each half.
          const int64_t at = (piece % 2 * pieces + piece / 2) * pieceBytes;
          const bool write = onlyWrites || piece % 2 == 1;
          const ssize_t done = write ? pwrite(fd, memory, pieceBytes, at) : pread(fd, memory, pieceBytes, at);
          if (done != pieceBytes) ++failures;
        }
        std::free(memory);
      });
    }
    for (std::thread &thread : threads) thread.join();
  };
  run(true);  // so that what is read was written
  const double begin = seconds();
  run(false);
  const double time = seconds() - begin;
  close(fd);
  if (failures > 0)
    Stream::fail(ioError("the disk of '" + settings.folder + "' failed in the measurement of its rate"));
  return static_cast<double>(2 * pieces * pieceBytes) / time;
}

double bestRate(const Settings &settings, int64_t bytesEachWay) {
  double best = 0;
  for (int64_t pieceBytes : {int64_t{1} << 20, int64_t{4} << 20}) {
    for (int depth : {4, 16, 64}) {
      const double rate = mixedRate(settings, bytesEachWay, depth, pieceBytes);
      if (std::getenv("V")) printf("%ld %d %.2f\n", pieceBytes, depth, rate * 1e-9);
      best = std::max(best, rate);
    }
  }
  return best;
}

double triadRate() {
  const int64_t n = int64_t{1} << 25;
  std::vector<float> a(n, 1.0f), b(n, 2.0f), c(n, 3.0f);
  float *x = a.data(), *y = b.data(), *z = c.data();
  double best = 1e30;
  for (int i = 0; i < 6; ++i) {
    const double begin = seconds();
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < n; ++j) x[j] = y[j] + 3.0f * z[j];
    if (i > 0) best = std::min(best, seconds() - begin);
  }
  return 12.0 * static_cast<double>(n) / best;
}

// The update in memory over groups one after the other, as a step without a disk runs it.
void benchHost(const Settings &settings, double triad) {
  std::vector<float> state[4];
  for (std::vector<float> &quantity : state) quantity.assign(static_cast<size_t>(settings.elements), 0.5f);
  double best = 1e30;
  for (int i = 0; i <= settings.steps; ++i) {
    const double begin = seconds();
    for (int64_t at = 0; at < settings.elements; at += settings.subGroup) {
      hyc::kernels::adamw({}, settings.subGroup, &state[0][at], &state[1][at], &state[2][at], &state[3][at]);
    }
    if (i > 0) best = std::min(best, seconds() - begin);
  }
  const double rate = 28.0 * static_cast<double>(settings.elements) / best;
  std::printf("host: adam %.1f GB/s (7 streams), triad %.1f GB/s: ratio %.2f\n", rate * 1e-9, triad * 1e-9,
              rate / triad);
}

void benchNvme(const Settings &settings) {
  const int64_t bytesEachWay = kQuantities * 4 * settings.elements;
  const double before = bestRate(settings, bytesEachWay);
  Stream stream(settings);
  std::printf("nvme: %s\n", stream.ctx().file()->description().c_str());
  stream.streamedStep();  // the file's blocks are written for the first time
  double step = 1e30, alone = 1e30, own = 0;
  for (int i = 0; i < settings.steps; ++i) {
    step = std::min(step, stream.streamedStep());
    alone = std::min(alone, stream.updatesAlone());
    own = std::max(own, stream.transfersAlone());
  }
  const double after = bestRate(settings, bytesEachWay);  // a disk shared with others changes its mind
  const double disk = 2.0 * static_cast<double>(bytesEachWay) / std::max({before, after, own});
  std::printf("nvme: disk %.2f and %.2f GB/s by threads before and after, %.2f by the step's transfers alone\n",
              before * 1e-9, after * 1e-9, own * 1e-9);
  std::printf("nvme: update alone %.3f s, bytes / rate %.3f s, step %.3f s\n", alone, disk, step);
  std::printf("nvme: step over max(update, bytes / rate): ratio %.2f\n", step / std::max(alone, disk));
}

bool isInMemory(const std::string &folder) {
  struct statfs info;
  return statfs(folder.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

}  // namespace

int main(int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto flag = std::find(words.begin(), words.end(), "--in-memory");
  const bool inMemory = flag != words.end();
  if (inMemory) words.erase(flag);
  if (words.empty()) {
    std::fprintf(stderr, "offload_bench FOLDER [Mi elements] [Ki elements of a sub-group] [steps] [--in-memory]\n");
    return 64;
  }
  Settings settings;
  settings.folder = words[0];
  if (words.size() > 1) settings.elements = std::max(1, std::atoi(words[1].c_str())) * (int64_t{1} << 20);
  if (words.size() > 2) settings.subGroup = std::max(1, std::atoi(words[2].c_str())) * (int64_t{1} << 10);
  if (words.size() > 3) settings.steps = std::max(1, std::atoi(words[3].c_str()));
  settings.elements = std::max(settings.elements / settings.subGroup, int64_t{1}) * settings.subGroup;
  if (isInMemory(settings.folder) && !inMemory) {
    std::fprintf(stderr,
                 "offload_bench: error: '%s' is in memory, not on a disk; --in-memory measures it all the same\n",
                 settings.folder.c_str());
    return 64;
  }
  std::printf("%s, %d threads, %ld Mi elements in sub-groups of %ld Ki\n",
              hyc::kernels::isaName(hyc::kernels::currentIsa()), omp_get_max_threads(), long(settings.elements >> 20),
              long(settings.subGroup >> 10));
  benchHost(settings, triadRate());
  benchNvme(settings);
  return 0;
}
