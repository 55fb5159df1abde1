// Rows, a fact each; what is alike on all hosts is said once.
#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace hyccheck {
namespace {

using nlohmann::json;

constexpr int kNameWidth = 16;

std::string joined(const std::vector<std::string> &words, const char *between) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : between) + word;
  return text;
}

std::string size(int64_t bytes) {
  constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;
  char text[32];
  const bool isSmall = bytes < kGiB;
  std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(bytes) / (isSmall ? kMiB : kGiB),
                isSmall ? "MiB" : "GiB");
  return text;
}

std::string limit(int64_t most, const char *what) {
  return most < 0 ? std::string("no limit of ") + what : std::to_string(most) + " " + what;
}

std::string age(int64_t seconds) {
  if (seconds < 120)
    return std::to_string(seconds) + " s";
  if (seconds < 7200)
    return std::to_string(seconds / 60) + " min";
  return std::to_string(seconds / 3600) + " h";
}

std::string row(const std::string &name, const std::string &value) {
  return name + std::string(std::max<size_t>(1, kNameWidth - std::min<size_t>(kNameWidth, name.size())), ' ') + value +
         "\n";
}

using FactRow = std::pair<const char *, std::function<std::string(const Facts &)>>;

const std::vector<FactRow> &factRows() {
  static const std::vector<FactRow> rows{
      {"kernel", [](const Facts &f) { return f.kernel; }},
      {"C++ compiler", [](const Facts &f) { return f.compiler.empty() ? "none" : f.compiler; }},
      {"cores", [](const Facts &f) { return std::to_string(f.cores) + (f.cpu.empty() ? "" : ", " + f.cpu); }},
      {"instructions",
       [](const Facts &f) {
         return f.sets.empty() ? "no AVX2: kernels run in their portable versions" : joined(f.sets, ", ");
       }},
      {"memory", [](const Facts &f) { return size(f.memory) + ", " + size(f.available) + " of it available"; }},
      {"disk",
       [](const Facts &f) {
         std::vector<std::string> texts;
         for (const Disk &disk : f.disks) {
           texts.push_back(size(disk.free) + " of " + size(disk.total) + " free in " + disk.folder);
         }
         return joined(texts, "; ");
       }},
      {"GPU", [](const Facts &f) { return f.gpus.empty() ? "none" : joined(f.gpus, "; "); }},
      {"NCCL",
       [](const Facts &f) {
         return f.nccl.empty() ? "not found: GPUs exchange by way of the host (--comm shm)" : f.nccl;
       }},
      {"limits",
       [](const Facts &f) {
         return limit(f.descriptors, "open files") + ", " + limit(f.processes, "processes") + ", " +
                (f.locked < 0 ? "no limit of locked memory" : size(f.locked) + " of locked memory");
       }},
      {"variables", [](const Facts &f) { return f.variables.empty() ? "none" : joined(f.variables, " "); }},
      {"runs",
       [](const Facts &f) {
         std::vector<std::string> texts;
         for (const Process &one : f.running) {
           texts.push_back(one.what + " (process " + std::to_string(one.pid) + ", for " + age(one.seconds) +
                           (one.isLeft ? ", left behind)" : ")"));
         }
         return texts.empty() ? "none" : joined(texts, "; ");
       }},
  };
  return rows;
}

std::string factsText(const std::vector<const HostReport *> &hosts) {
  std::string text;
  for (const auto &[name, of] : factRows()) {
    const std::string first = of(hosts[0]->facts);
    const bool isAlike = std::all_of(hosts.begin(), hosts.end(),
                                     [&, &of = of](const HostReport *host) { return of(host->facts) == first; });
    if (isAlike) {
      text += row(name, first);
      continue;
    }
    for (const HostReport *host : hosts)
      text += row(host == hosts[0] ? name : "", host->host + ": " + of(host->facts));
  }
  return text;
}

std::string clocksText(const std::vector<const HostReport *> &hosts) {
  double low = 0, high = 0, error = 0;
  for (const HostReport *host : hosts) {
    low = std::min(low, host->clock);
    high = std::max(high, host->clock);
    error = std::max(error, host->clockError);
  }
  char text[96];
  std::snprintf(text, sizeof text, "%.1f ms apart, known to %.1f ms", (high - low) * 1e3, error * 1e3);
  return row("clocks", text);
}

std::string reachText(const std::vector<const HostReport *> &hosts) {
  size_t reached = 0, tried = 0;
  double low = INFINITY, high = 0;
  for (const HostReport *host : hosts) {
    for (const Attempt &attempt : host->attempts) {
      ++tried;
      if (!attempt.error.empty())
        continue;
      ++reached;
      low = std::min(low, attempt.milliseconds);
      high = std::max(high, attempt.milliseconds);
    }
  }
  std::string text = std::to_string(reached) + " of " + std::to_string(tried) + " ways between hosts";
  char times[64] = "";
  if (reached > 0)
    std::snprintf(times, sizeof times, ", there and back in %.1f to %.1f ms", low, high);
  return row("connections", text + times);
}

std::string hereText(const Tools &tools) {
  std::string text;
  for (const auto &[name, path] : tools.paths)
    text += row(name, path.empty() ? "not found" : path);
  text += row("OpenMP", tools.openMpThreads > 0 ? std::to_string(tools.openMpThreads) + " threads"
                                                : "does not compile and run: install g++ (12 or newer)");
  return text + row("CUDA", tools.nvcc.empty() ? "no nvcc" : tools.nvcc);
}

bool has(const Tools &tools, const std::string &name) {
  return std::any_of(tools.paths.begin(), tools.paths.end(),
                     [&](const auto &path) { return path.first == name && !path.second.empty(); });
}

std::string yes(bool is, const char *how, const char *whyNot) {
  return std::string(is ? "yes" : "no") + (is ? how : whyNot) + "\n";
}

} // namespace

bool trainsHere(const Tools &tools) {
  return has(tools, "hyc-compile") && has(tools, "hyc-run") && tools.openMpThreads > 0;
}

Tools findTools() {
  Tools tools;
  for (const char *name :
       {"hyc-compile", "hyc-run", "hyc-checkpoint", "hyc-bench", "ssh", "mpirun", "srun", "torchrun"}) {
    tools.paths.emplace_back(name, findProgram(name));
  }
  tools.openMpThreads = openMpThreads();
  tools.nvcc = findProgram("nvcc");
  return tools;
}

std::string toText(const Inspection &inspection, const Tools &tools, const std::vector<Finding> &findings) {
  std::vector<const HostReport *> hosts;
  for (const HostReport &host : inspection.hosts) {
    if (host.error.empty())
      hosts.push_back(&host);
  }
  std::string text = inspection.hasHosts ? std::to_string(hosts.size()) + " of " +
                                               std::to_string(inspection.hosts.size()) + " hosts answer\n"
                                         : row("machine", hosts.empty() ? "" : hosts[0]->host);
  if (!inspection.hasHosts)
    text += hereText(tools);
  if (!hosts.empty())
    text += factsText(hosts);
  if (inspection.hasHosts && !hosts.empty())
    text += clocksText(hosts) + reachText(hosts);
  if (!findings.empty())
    text += "\n";
  const auto isProblem = [](const Finding &finding) { return finding.weight == Weight::kProblem; };
  for (const Finding &finding : findings)
    text += (isProblem(finding) ? "problem: " : "note: ") + finding.text + "\n";
  text += "\n";
  const bool isClear = std::none_of(findings.begin(), findings.end(), isProblem);
  if (inspection.hasHosts)
    return text + "trains on these hosts: " + yes(isClear, "", ": see the problems above");
  const bool able = trainsHere(tools) && isClear;
  const bool hasDevice = !hosts.empty() && !hosts[0]->facts.gpus.empty() && !tools.nvcc.empty();
  text += "trains on CPUs: " + yes(able, "", ": see what is missing above");
  text += "trains on GPUs: " + yes(able && hasDevice, ", --target cuda", "");
  return text + "trains on several hosts: " +
         yes(able && has(tools, "ssh"), ", by ssh (check them: --hostfile FILE)", ", only under another launcher");
}

json toJson(const Inspection &inspection, const Tools &tools, const std::vector<Finding> &findings) {
  json all = {{"hosts", json::array()}, {"problems", json::array()}, {"notes", json::array()}};
  for (const HostReport &host : inspection.hosts) {
    json &row = all["hosts"].emplace_back(json{{"host", host.host}, {"slots", host.slots}});
    if (!host.error.empty()) {
      row["error"] = host.error;
      continue;
    }
    row.update(
        {{"facts", toJson(host.facts)}, {"clock_seconds", host.clock}, {"clock_error_seconds", host.clockError}});
    if (!host.listenError.empty())
      row["listen_error"] = host.listenError;
    for (const Attempt &attempt : host.attempts) {
      json &way = row["connections"].emplace_back(
          json{{"host", attempt.host}, {"address", attempt.address}, {"port", attempt.port}});
      if (attempt.error.empty())
        way["milliseconds"] = attempt.milliseconds;
      if (!attempt.error.empty())
        way["error"] = attempt.error;
    }
  }
  for (const Finding &finding : findings) {
    all[finding.weight == Weight::kProblem ? "problems" : "notes"].push_back(finding.text);
  }
  if (inspection.hasHosts)
    return all;
  for (const auto &[name, path] : tools.paths)
    all["tools"][name] = path;
  all["tools"]["openmp_threads"] = tools.openMpThreads;
  all["tools"]["nvcc"] = tools.nvcc;
  return all;
}

} // namespace hyccheck
