// Whether hosts reach each other as ranks would: each listens where its ranks would listen, and all try all others.
#ifndef HYC_CHECK_REACH_H_
#define HYC_CHECK_REACH_H_

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "comm/network_options.h"
#include "hycrt/status.h"

namespace hyccheck {

// Where a host listens, and what somebody who was told of it says there.
struct Meeting {
  std::string host;    // as the hostfile calls it
  std::string address; // numeric
  int port = 0;
  std::string word;
};

// What came of trying one.
struct Attempt {
  std::string host, address;
  int port = 0;
  double milliseconds = 0; // from the first packet until the other has answered
  std::string error;       // empty: it answered
};

// Answers those who know its word, one after the other; a stranger is not heard for longer than a moment.
class Listener {
public:
  // At the address from which `master`, a host's name, is reached, or that the options name.
  static hycrt::Result<std::unique_ptr<Listener>> open(const std::string &master, const hycrt::NetworkOptions &options);
  ~Listener();
  const Meeting &where() const { return where_; }

private:
  Listener() = default;
  void serve();

  hycrt::FileDescriptor socket_;
  Meeting where_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// All at once, each for at most `seconds`.
std::vector<Attempt> tryAll(const std::vector<Meeting> &others, double seconds);

} // namespace hyccheck

#endif // HYC_CHECK_REACH_H_
