// A profile on the terminal: the step of each stage, and what takes most of it. Layers that differ only in their number
// are one row.
#include <algorithm>
#include <cstdio>
#include <map>

#include "profile/profile_file.h"

namespace hycrt {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 12;    // of a table
constexpr size_t kMostStages = 16;  // that have a row
constexpr const char* kParts[] = {"compute", "update", "exchange", "late", "disk", "data", "other"};

// "h.*.mlp" of "h.3.mlp".
std::string withoutNumbers(const std::string& name) {
  std::string folded, part;
  const auto flush = [&] {
    const bool isNumber = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    folded += isNumber ? "*" : part;
    part.clear();
  };
  for (char c : name) {
    if (c == '.' || c == ' ') {
      flush();
      folded += c;
    } else {
      part += c;
    }
  }
  flush();
  return folded;
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%9.3f", seconds * 1e3);
  return text;
}

std::string share(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%5.1f %%", whole > 0 ? part / whole * 100 : 0);
  return text;
}

// "  12.3 Gop/s    4.5 GB/s   57.1 %", the last of the roof.
// The roof is told where the plan knows the machine: an assumed one says nothing of this.
std::string rates(const Json& row, double seconds, bool hasRoof) {
  if (seconds <= 0) return "";
  char text[96];
  std::snprintf(text, sizeof text, "%9.2f Gop/s %8.2f GB/s", row["operations"].get<double>() / seconds * 1e-9,
                row["bytes"].get<double>() / seconds * 1e-9);
  return text + (hasRoof ? "  " + share(row["roof_seconds"].get<double>(), seconds) : "");
}

// What several stages and layers have in common.
struct Row {
  Json sums = {{"operations", 0.0}, {"bytes", 0.0}, {"roof_seconds", 0.0}};
  double seconds = 0, late = 0, forward = 0, backward = 0, update = 0, times = 0;
  void add(const Json& from) {
    for (auto& [key, sum] : sums.items()) sum = sum.get<double>() + from.value(key, 0.0);
    forward += from.value("forward", 0.0);
    backward += from.value("backward", 0.0);
    update += from.value("update", 0.0);
    late += from.value("late_seconds", 0.0);
    times += from.value("times", 0.0);
    seconds +=
        from.value("seconds", from.value("forward", 0.0) + from.value("backward", 0.0) + from.value("update", 0.0));
  }
};

using Rows = std::vector<std::pair<std::string, Row>>;

template <typename Name>
Rows collect(const Json& profile, const char* table, Name nameOf) {
  std::map<std::string, Row> rows;
  for (const Json& stage : profile["stages"]) {
    for (const Json& row : stage[table]) rows[nameOf(row)].add(row);
  }
  Rows sorted(rows.begin(), rows.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  if (sorted.size() > kMostRows) sorted.resize(kMostRows);
  return sorted;
}

// The sum over the stages: what the shares are of.
double allSeconds(const Json& profile) {
  double seconds = 0;
  for (const Json& stage : profile["stages"]) seconds += stage["step"]["total"].get<double>();
  return seconds;
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

void addSteps(const Json& profile, std::vector<std::string>& lines) {
  std::string head = padded("ms of a step", 14) + "    total";
  for (const char* part : kParts) head += std::string(10 - std::string(part).size(), ' ') + part;
  lines.push_back(head);
  for (const Json& stage : profile["stages"]) {
    if (stage["stage"].get<size_t>() >= kMostStages) break;
    std::string line =
        padded("stage " + std::to_string(stage["stage"].get<int>()), 14) + milliseconds(stage["step"]["total"]);
    for (const char* part : kParts) line += " " + milliseconds(stage["step"][part]);
    lines.push_back(line);
  }
}

void addKernels(const Json& profile, double whole, std::vector<std::string>& lines) {
  const bool hasRoof = !profile["machine"].get<std::string>().empty();
  lines.push_back(padded("kernel", 40) + "       ms   of step    calls                              " +
                  (hasRoof ? "of roof" : "reached; hyc-compile --machine FILE tells of what roof"));
  for (const auto& [name, row] :
       collect(profile, "kernels", [](const Json& each) { return each["kernel"].get<std::string>(); })) {
    char calls[32];
    std::snprintf(calls, sizeof calls, "%8.0f", row.times);
    lines.push_back(padded(name, 40) + milliseconds(row.seconds) + "   " + share(row.seconds, whole) + " " + calls +
                    " " + rates(row.sums, row.seconds, hasRoof));
  }
}

void addLayers(const Json& profile, double whole, std::vector<std::string>& lines) {
  lines.push_back(padded("layers", 40) + "       ms   of step   forward  backward    update");
  for (const auto& [name, row] :
       collect(profile, "layers", [](const Json& each) { return withoutNumbers(each["layer"].get<std::string>()); })) {
    lines.push_back(padded(name.empty() ? "(none)" : name, 40) + milliseconds(row.seconds) + "   " +
                    share(row.seconds, whole) + " " + milliseconds(row.forward) + " " + milliseconds(row.backward) +
                    " " + milliseconds(row.update));
  }
}

void addExchanges(const Json& profile, double whole, std::vector<std::string>& lines) {
  const Rows rows = collect(profile, "exchanges", [](const Json& each) {
    std::string axes;
    for (const Json& axis : each["axes"]) axes += (axes.empty() ? "" : ", ") + axis.get<std::string>();
    return each["kind"].get<std::string>() + " {" + axes + "} " + withoutNumbers(each["cause"].get<std::string>());
  });
  if (rows.empty()) return;
  lines.push_back(padded("exchanges, exposed", 64) + "       ms   of step   of it late");
  for (const auto& [name, row] : rows) {
    lines.push_back(padded(name, 64) + milliseconds(row.seconds) + "   " + share(row.seconds, whole) + "   " +
                    milliseconds(row.late));
  }
}

// The rank that others waited for most.
void addLateRank(const Json& profile, std::vector<std::string>& lines) {
  std::map<int64_t, double> late;
  for (const Json& rank : profile["ranks"]) {
    for (const Json& other : rank["late_for"]) late[other["rank"].get<int64_t>()] += other["seconds"].get<double>();
  }
  const auto most =
      std::max_element(late.begin(), late.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == late.end()) return;
  lines.push_back("waited for: rank " + std::to_string(most->first) + ", by all others together" +
                  milliseconds(most->second) + " ms a step");
}

}  // namespace

std::vector<std::string> profileTables(const nlohmann::ordered_json& profile) {
  std::vector<std::string> lines;
  const double whole = allSeconds(profile);
  lines.push_back("profile of " + std::to_string(profile["steps"].get<int64_t>()) +
                  " steps after the first; means over the ranks of a stage");
  addSteps(profile, lines);
  addKernels(profile, whole, lines);
  addLayers(profile, whole, lines);
  addExchanges(profile, whole, lines);
  addLateRank(profile, lines);
  return lines;
}

}  // namespace hycrt
