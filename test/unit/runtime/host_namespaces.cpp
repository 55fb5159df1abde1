// Namespaces by unshare, nsenter and ip.
#include "host_namespaces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace {

// Whether the process has a network namespace other than this one's, and has come to what it is to do.
bool isApart(pid_t process) {
  struct stat own{}, other{};
  const std::string folder = "/proc/" + std::to_string(process);
  char name[64] = {};
  const ssize_t bytes = readlink((folder + "/exe").c_str(), name, sizeof name - 1);
  return bytes > 0 && std::string(name).find("sleep") != std::string::npos && stat("/proc/self/ns/net", &own) == 0 &&
         stat((folder + "/ns/net").c_str(), &other) == 0 && own.st_ino != other.st_ino;
}

}  // namespace

HostNamespaces::HostNamespaces(int count) {
  for (int i = 0; i <= count && missing_.empty(); ++i) {
    const std::string name = i < count ? "host" + std::to_string(i) : "switch";
    holders_.push_back(std::make_unique<RunningCommand>(
        std::vector<std::string>{"/usr/bin/unshare", "--net", "--uts", "--mount", "/bin/sh", "-c",
                                 "hostname " + name + " && ip link set lo up && exec sleep 600"}));
    for (int waited = 0; waited < 500 && !isApart(holders_.back()->pid()); ++waited) usleep(10000);
    if (!isApart(holders_.back()->pid())) {
      missing_ = "cannot make namespaces: " + holders_.back()->finish(0).errors;
    }
  }
  const size_t middle = static_cast<size_t>(count);
  if (missing_.empty()) run(middle, "ip link add br0 type bridge && ip link set br0 up");
  for (size_t i = 0; i < middle && missing_.empty(); ++i) {
    const std::string cable = "cable" + std::to_string(i);
    run(middle, "ip link add " + cable + " type veth peer name eth0 netns " + std::to_string(holders_[i]->pid()) +
                    " && ip link set " + cable + " master br0 up");
    if (missing_.empty()) {
      run(i, "ip address add " + addressOf(static_cast<int>(i)) + "/24 dev eth0 && ip link set eth0 up");
    }
  }
}

HostNamespaces::~HostNamespaces() = default;

std::vector<std::string> HostNamespaces::inside(size_t holder) const {
  return {"/usr/bin/nsenter", "--target", std::to_string(holders_[holder]->pid()), "--net", "--uts", "--mount", "--"};
}

std::vector<std::string> HostNamespaces::on(int host) const { return inside(static_cast<size_t>(host)); }

void HostNamespaces::run(size_t holder, const std::string& command) {
  std::vector<std::string> words = inside(holder);
  words.insert(words.end(), {"/bin/sh", "-c", command});
  const CommandResult result = runCommand(words);
  if (result.status != 0) missing_ = command + ": " + result.errors;
}

void HostNamespaces::setLink(int host, bool up) {
  run(holders_.size() - 1, "ip link set cable" + std::to_string(host) + (up ? " up" : " down"));
}

std::vector<pid_t> HostNamespaces::processesIn(pid_t holder) {
  struct stat network{};
  std::vector<pid_t> found;
  if (stat(("/proc/" + std::to_string(holder) + "/ns/net").c_str(), &network) != 0) return found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    struct stat other{};
    const std::string process = entry.path().filename();
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    if (stat((entry.path() / "ns/net").c_str(), &other) == 0 && other.st_ino == network.st_ino) {
      found.push_back(std::stoi(process));
    }
  }
  return found;
}

void HostNamespaces::tearDown(int host) {
  setLink(host, false);
  const pid_t holder = holders_[static_cast<size_t>(host)]->pid();
  for (const pid_t process : processesIn(holder)) kill(process, SIGKILL);
}

void HostNamespaces::shape(int host, const std::vector<std::string>& how) {
  std::string command = "tc qdisc replace dev eth0 root";
  for (const std::string& word : how) command += " " + word;
  run(static_cast<size_t>(host), command);
}
