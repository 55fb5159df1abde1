// Hosts that a test makes for itself: each a network namespace with its own name and mounts, all on one switch. Nothing
// is seen of them outside, and they are gone with the processes that hold them.
#ifndef HYC_TEST_RUNTIME_HOST_NAMESPACES_H_
#define HYC_TEST_RUNTIME_HOST_NAMESPACES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "run_command.h"

class HostNamespaces {
 public:
  // Hosts 0 … count - 1 are called host0, … and have the addresses 10.77.0.1, …
  explicit HostNamespaces(int count);
  ~HostNamespaces();

  // Empty: they are there; else why they are not.
  const std::string& missing() const { return missing_; }

  std::string addressOf(int host) const { return "10.77.0." + std::to_string(host + 1); }
  // What goes in front of a command that is to run on that host.
  std::vector<std::string> on(int host) const;
  // Takes the cable out of a host, or puts it back.
  void setLink(int host, bool up);
  // As a host whose power is gone: nothing that was on its way leaves it any more, and what runs there is gone with its
  // namespace.
  void tearDown(int host);
  // As `tc qdisc` understands it: {"netem", "delay", "5ms"}.
  void shape(int host, const std::vector<std::string>& how);

 private:
  std::vector<std::string> inside(size_t holder) const;
  static std::vector<pid_t> processesIn(pid_t holder);
  void run(size_t holder, const std::string& command);

  std::vector<std::unique_ptr<RunningCommand>> holders_;  // of the hosts, and behind them of the switch
  std::string missing_;
};

#endif  // HYC_TEST_RUNTIME_HOST_NAMESPACES_H_
