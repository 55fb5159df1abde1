// Reading hostfiles and picking from them.
#include "hostfile.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "hycrt/printable.h"

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int kMostSlots = 1024;
constexpr size_t kMostHosts = 4096;
constexpr int64_t kMostBytes = 1 << 20;

bool parseNumber(const std::string& text, int low, int high, int* value) {
  char* end = nullptr;
  errno = 0;
  const long found = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) return false;
  *value = static_cast<int>(found);
  return found >= low && found <= high;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  if (text.empty() || text.back() == separator) parts.emplace_back();
  return parts;
}

Status parseLine(const std::string& line, const std::string& where, std::vector<Host>* hosts) {
  const auto wrong = [&](const std::string& what) { return hycrt::dataError(where + ": " + what); };
  std::istringstream words(line.substr(0, line.find('#')));
  std::string name, slots, more;
  if (!(words >> name)) return {};
  if (!isHostName(name)) {
    return wrong("'" + name + "' is no host's name: letters, digits, '.', '_' and '-', not in front, are expected");
  }
  if (!(words >> slots) || slots.compare(0, 6, "slots=") != 0) {
    return wrong("'" + name + "' is followed by '" + slots + "', expected slots=N");
  }
  if (words >> more) return wrong("'" + more + "' is found behind " + slots + ", expected the end of the line");
  int count = 0;
  if (!parseNumber(slots.substr(6), 1, kMostSlots, &count)) {
    return wrong("'" + slots + "' is found, expected slots from 1 to " + std::to_string(kMostSlots));
  }
  for (const Host& host : *hosts) {
    if (host.name == name) return wrong("host '" + name + "' is named twice");
  }
  if (hosts->size() == kMostHosts) return wrong("more than " + std::to_string(kMostHosts) + " hosts are named");
  Host host{name, std::vector<int>(static_cast<size_t>(count))};
  std::iota(host.slots.begin(), host.slots.end(), 0);
  hosts->push_back(std::move(host));
  return {};
}

// "a:0,1@b", as hosts with the slots that are named; all of a host's where none are.
Result<std::vector<Host>> parseSelection(const char* flag, const std::string& text, const std::vector<Host>& all) {
  std::vector<Host> selection;
  for (const std::string& part : split(text, '@')) {
    const size_t colon = part.find(':');
    Host named{part.substr(0, colon), {}};
    const auto host = std::find_if(all.begin(), all.end(), [&](const Host& one) { return one.name == named.name; });
    if (host == all.end()) {
      return hycrt::usageError(std::string(flag) + " names host '" + named.name + "', which is not in the hostfile");
    }
    if (colon == std::string::npos) named.slots = host->slots;
    for (const std::string& slot :
         colon == std::string::npos ? std::vector<std::string>() : split(part.substr(colon + 1), ',')) {
      int number = 0;
      const int last = host->slots.back();
      if (!parseNumber(slot, 0, last, &number)) {
        return hycrt::usageError(std::string(flag) + " names slot '" + slot + "' of host '" + named.name +
                                 "', which has slots 0 to " + std::to_string(last));
      }
      if (std::find(named.slots.begin(), named.slots.end(), number) == named.slots.end()) {
        named.slots.push_back(number);
      }
    }
    std::sort(named.slots.begin(), named.slots.end());
    selection.push_back(std::move(named));
  }
  return selection;
}

}  // namespace

bool isHostName(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name[0] != '-' && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
                  c == '-';
         });
}

Result<std::vector<Host>> parseHostfile(const std::string& text, const std::string& where) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    HYCRT_RETURN_IF_ERROR(parseLine(line, where + ":" + std::to_string(++number), &hosts));
  }
  if (hosts.empty()) return hycrt::dataError(where + ": no host is named, expected lines as: worker-0 slots=4");
  return hosts;
}

Result<std::vector<Host>> readHostfile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return hycrt::errnoError("cannot open '" + path + "' (--hostfile)", errno);
  if (!S_ISREG(info.st_mode)) return hycrt::ioError("'" + path + "' (--hostfile) is no regular file");
  if (info.st_size > kMostBytes) return hycrt::dataError(path + ": has more than a MiB, which no hostfile has");
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return hycrt::ioError("cannot read '" + path + "' (--hostfile)");
  return parseHostfile(text.str(), path);
}

Status selectHosts(const std::string& include, const std::string& exclude, std::vector<Host>* hosts) {
  if (!include.empty() && !exclude.empty()) {
    return hycrt::usageError("--include and --exclude are both given; keep one of them");
  }
  if (include.empty() && exclude.empty()) return {};
  Result<std::vector<Host>> named =
      parseSelection(include.empty() ? "--exclude" : "--include", include.empty() ? exclude : include, *hosts);
  if (!named.ok()) return named.status();
  std::vector<Host> kept;
  for (Host& host : *hosts) {
    const auto row = std::find_if(named->begin(), named->end(), [&](const Host& one) { return one.name == host.name; });
    if (!include.empty() && row == named->end()) continue;
    if (!include.empty()) host.slots = row->slots;
    if (include.empty() && row != named->end()) {
      std::vector<int> left;
      std::set_difference(host.slots.begin(), host.slots.end(), row->slots.begin(), row->slots.end(),
                          std::back_inserter(left));
      host.slots = left;
    }
    if (!host.slots.empty()) kept.push_back(std::move(host));
  }
  *hosts = std::move(kept);
  if (!hosts->empty()) return {};
  return hycrt::usageError("--exclude leaves no host");
}

Result<std::vector<Share>> shareRanks(const std::vector<Host>& hosts, int ranks) {
  std::vector<Share> shares;
  int placed = 0, slots = 0;
  for (const Host& host : hosts) {
    const int here = std::min(static_cast<int>(host.slots.size()), ranks - placed);
    slots += static_cast<int>(host.slots.size());
    if (here > 0) shares.push_back({host.name, placed, here});
    placed += here;
  }
  if (placed == ranks) return shares;
  return hycrt::usageError("the hosts have " + std::to_string(slots) + " slots, and the programs are " +
                           std::to_string(ranks) + " ranks; name more hosts, or compile for fewer ranks");
}

}  // namespace hycrun
