// gloo_bench [MiB]: what tcp_bench measures, by gloo's TCP transport (libgloo-dev): the rate of a long transfer one way
// between two processes over the loopback, in the clear, and half of what 8 bytes take there and back. A peer.
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kRounds = 40, kShortRounds = 2000;
constexpr uint64_t kLong = 1, kThere = 2, kBack = 3;  // slots

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Rank {
 public:
  Rank(int rank, const std::string &folder, size_t bytes)
      : rank_(rank), bytes_(bytes), context_(std::make_shared<gloo::rendezvous::Context>(rank, 2)), memory_(bytes) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
    buffer_ = context_->createUnboundBuffer(memory_.data(), bytes);
  }

  void run() {
    std::vector<double> rates, halves;
    for (int round = 0; round < kRounds; ++round) {
      meet();
      const double begin = seconds();
      pass(rank_ == 0, kLong, bytes_);
      rates.push_back(static_cast<double>(bytes_) / (seconds() - begin) / 1e9);
    }
    for (int round = 0; round < kShortRounds; ++round) {
      const double begin = seconds();
      pass(rank_ == 0, kThere, 8);
      pass(rank_ == 1, kBack, 8);
      halves.push_back((seconds() - begin) / 2 * 1e6);
    }
    meet();
    if (rank_ == 1)  // whose transfers are over when the bytes are there
      std::printf("gloo    %9.2f  %10.1f\n", median(rates), median(halves));
    std::fflush(stdout);
  }

 private:
  void meet() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void pass(bool sends, uint64_t slot, size_t bytes) {
    if (sends) {
      buffer_->send(1 - rank_, slot, 0, bytes);
      buffer_->waitSend();
    } else {
      buffer_->recv(1 - rank_, slot, 0, bytes);
      buffer_->waitRecv();
    }
  }

  const int rank_;
  const size_t bytes_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<char> memory_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

}  // namespace

int main(int argc, char **argv) {
  const long long mebibytes = argc > 1 ? std::atoll(argv[1]) : 16;
  if (mebibytes <= 0) {
    std::fprintf(stderr, "gloo_bench [MiB]\n");
    return 64;
  }
  char folder[] = "/tmp/gloo_bench.XXXXXX";
  if (!mkdtemp(folder)) return 74;
  std::printf("        long GB/s  8 bytes us\n");
  std::fflush(stdout);
  const pid_t other = fork();
  Rank(other == 0 ? 1 : 0, folder, static_cast<size_t>(mebibytes) << 20).run();
  if (other == 0) _exit(0);
  waitpid(other, nullptr, 0);
  return std::system((std::string("rm -r ") + folder).c_str()) == 0 ? 0 : 74;
}
