// PMI 1: a line each way. "cmd=put kvsname=K key=A value=B" is answered by "cmd=put_result rc=0 msg=success".
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "comm/launch/board.h"

namespace hycrt {
namespace {

constexpr size_t kMostLineBytes = 4096;

// Of "cmd=x rc=0 value=a"; a value that is the last may hold anything.
std::string fieldOf(const std::string& line, const std::string& name) {
  const std::string padded = " " + line;
  const size_t at = padded.find(" " + name + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 2;
  return padded.substr(begin, name == "value" ? std::string::npos : padded.find(' ', begin) - begin);
}

class Pmi : public Board {
 public:
  Pmi(int descriptor, int64_t timeoutMs) : descriptor_(descriptor), timeoutMs_(timeoutMs) {}
  ~Pmi() override {
    if (isOpen_) (void)ask("cmd=finalize", "finalize_ack");
  }

  Status open() {
    Result<std::string> answer = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
    if (!answer.ok()) return answer.status();
    isOpen_ = true;
    answer = ask("cmd=get_my_kvsname", "my_kvsname");
    if (!answer.ok()) return answer.status();
    space_ = fieldOf(*answer, "kvsname");
    return space_.empty() ? unexpected(*answer) : Status();
  }

  // Keys are one space for all ranks.
  Status put(const std::string& key, const std::string& value) override {
    return ask("cmd=put kvsname=" + space_ + " key=" + key + " value=" + value, "put_result").status();
  }
  Status fence() override { return ask("cmd=barrier_in", "barrier_out").status(); }
  Result<std::string> get(int, const std::string& key) override {
    Result<std::string> answer = ask("cmd=get kvsname=" + space_ + " key=" + key, "get_result");
    return answer.ok() ? Result<std::string>(fieldOf(*answer, "value")) : answer;
  }

 private:
  static Status unexpected(const std::string& answer) {
    return unavailableError("the launcher answers '" + answer +
                            "' by PMI (PMI_FD), which is not understood; set "
                            "MASTER_ADDR to the host of rank 0 and MASTER_PORT to a port that is free there");
  }

  Result<std::string> ask(const std::string& question, const std::string& command) {
    const std::string line = question + "\n";
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t count = write(descriptor_, line.data() + sent, line.size() - sent);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return errnoError("cannot talk to the launcher by PMI (PMI_FD)", errno);
      sent += static_cast<size_t>(count);
    }
    Result<std::string> answer = receive();
    if (!answer.ok()) return answer;
    const std::string code = fieldOf(*answer, "rc");
    if (fieldOf(*answer, "cmd") != command || !(code.empty() || code == "0")) return unexpected(*answer);
    return answer;
  }

  Result<std::string> receive() {
    const int64_t deadlineMs = monotonicMs() + timeoutMs_;
    for (std::string line;;) {
      pollfd polled{descriptor_, POLLIN, 0};
      const int64_t left = deadlineMs - monotonicMs();
      if (left <= 0) {
        return unavailableError("the launcher has not answered for " + std::to_string(timeoutMs_ / 1000) +
                                " s by PMI (PMI_FD): not all ranks have come");
      }
      if (poll(&polled, 1, static_cast<int>(left)) <= 0) continue;
      char byte = 0;
      const ssize_t count = read(descriptor_, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0 || line.size() > kMostLineBytes) return unavailableError("the launcher has ended (PMI_FD)");
      if (byte == '\n') return line;
      line.push_back(byte);
    }
  }

  const int descriptor_;
  const int64_t timeoutMs_;
  std::string space_;
  bool isOpen_ = false;
};

}  // namespace

Result<std::unique_ptr<Board>> openPmi(int descriptor, int64_t timeoutMs) {
  auto pmi = std::make_unique<Pmi>(descriptor, timeoutMs);
  HYCRT_RETURN_IF_ERROR(pmi->open());
  return std::unique_ptr<Board>(std::move(pmi));
}

}  // namespace hycrt
