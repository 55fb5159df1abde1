// The lines between hyc-run and its keepers, and which copy is whole.
#include "copies/copy_lines.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace hycrt {
namespace {

using nlohmann::json;

constexpr int kMostPort = 65535;
constexpr int64_t kMost = int64_t{1} << 53;
constexpr int64_t kMostRanks = 1 << 30;

std::string lineOf(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

std::vector<std::string> textsOf(const json& list) {
  std::vector<std::string> texts;
  for (const json& item : list) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

json encode(const KeeperAddress& address) {
  return {{"number", address.number}, {"host", address.host}, {"port", address.port}, {"socket", address.socket}};
}

Status parse(const json& value, const std::string& where, KeeperAddress* address) {
  ObjectReader object(value, "a keeper's line", where, {"number", "host", "port", "socket"});
  address->number = static_cast<int>(object.integer("number", 0, INT32_MAX));
  address->host = object.text("host");
  address->port = static_cast<int>(object.integer("port", 1, kMostPort));
  address->socket = object.text("socket");
  return object.status();
}

}  // namespace

std::string encodeCopyKey(const CopyKey& key) {
  return key.isNone() ? "" : std::to_string(key.start) + "/" + std::to_string(key.step);
}

CopyKey parseCopyKey(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || text.find_first_not_of("0123456789/") != std::string::npos) return {};
  const std::string step = text.substr(slash + 1);
  if (slash == 0 || slash > 15 || step.empty() || step.size() > 15 || step.find('/') != std::string::npos) return {};
  return {std::atoll(text.c_str()), std::atoll(step.c_str())};
}

std::string describe(const CopyKey& key) { return "the copy of step " + std::to_string(key.step) + " in memory"; }

std::string encodeKeeperTask(const KeeperTask& task) {
  return lineOf({{"job", task.job},
                 {"token", task.token},
                 {"number", task.number},
                 {"plaintext", task.plaintext},
                 {"interface", task.interface},
                 {"ports", task.ports},
                 {"patience_ms", task.patienceMs}});
}

Result<KeeperTask> parseKeeperTask(const std::string& line) {
  const Result<json> value = parseJson(line, "a keeper's task");
  if (!value.ok()) return value.status();
  KeeperTask task;
  ObjectReader object(*value, "a keeper's task", "",
                      {"job", "token", "number", "plaintext", "interface", "ports", "patience_ms"});
  task.job = object.text("job");
  task.token = object.text("token");
  task.number = static_cast<int>(object.integer("number", 0, INT32_MAX));
  task.plaintext = object.boolean("plaintext");
  task.interface = object.text("interface");
  task.ports = object.text("ports");
  task.patienceMs = object.integer("patience_ms", 1, kMost);
  HYCRT_RETURN_IF_ERROR(object.status());
  return task;
}

std::string encodeReady(const KeeperAddress& address) { return lineOf({{"ready", encode(address)}}); }

bool isReady(const std::string& line, KeeperAddress* address) {
  const Result<json> value = parseJson(line, "a keeper's line");
  return value.ok() && value->is_object() && value->contains("ready") &&
         parse(value->at("ready"), "/ready", address).ok();
}

std::string encodeRing(int next, const std::vector<KeeperAddress>& others) {
  json rows = json::array();
  for (const KeeperAddress& other : others) rows.push_back(encode(other));
  return lineOf({{"next", next}, {"others", std::move(rows)}});
}

Result<KeeperRing> parseRing(const json& line) {
  KeeperRing ring;
  ObjectReader object(line, "a keeper's line", "", {"next", "others"});
  ring.next = static_cast<int>(object.integer("next", -1, INT32_MAX));
  const json* const others = object.array("others");
  HYCRT_RETURN_IF_ERROR(object.status());
  for (size_t i = 0; i < others->size(); ++i) {
    KeeperAddress address;
    HYCRT_RETURN_IF_ERROR(parse((*others)[i], "/others/" + std::to_string(i), &address));
    ring.others.push_back(std::move(address));
  }
  return ring;
}

std::string encodeHolding(const CopyHolding& holding) {
  return lineOf({{"copy", encodeCopyKey(holding.key)},
                 {"rank", holding.rank},
                 {"ranks", holding.ranks},
                 {"table", holding.hasTable},
                 {"files", holding.files},
                 {"held", holding.held}});
}

std::string encodeLastHolding(int64_t bytes, int64_t mostBytes) {
  return lineOf({{"copies", "all"}, {"bytes", bytes}, {"most_bytes", mostBytes}});
}

std::string encodeLooking() { return lineOf({{"looking", true}}); }

KeeperLine parseHolding(const std::string& line, CopyHolding* holding) {
  const Result<json> value = parseJson(line, "a keeper's line");
  if (!value.ok() || !value->is_object()) return KeeperLine::kOther;
  if (value->contains("looking")) return KeeperLine::kLooking;
  const bool isLast = value->contains("copies");
  if (!isLast && !value->contains("copy")) return KeeperLine::kOther;
  *holding = {};
  if (isLast) {
    ObjectReader last(*value, "a keeper's line", "", {"copies", "bytes", "most_bytes"});
    (void)last.text("copies");
    holding->bytes = last.integer("bytes", 0, kMost);
    holding->mostBytes = last.integer("most_bytes", 0, kMost);
    return last.status().ok() ? KeeperLine::kLast : KeeperLine::kOther;
  }
  ObjectReader object(*value, "a keeper's line", "", {"copy", "rank", "ranks", "table", "files", "held"});
  holding->key = parseCopyKey(object.text("copy"));
  holding->rank = static_cast<int>(object.integer("rank", 0, kMostRanks));
  holding->ranks = object.integer("ranks", 0, kMostRanks);
  holding->hasTable = object.boolean("table");
  const json *files = object.array("files"), *held = object.array("held");
  if (!object.status().ok() || holding->key.isNone()) return KeeperLine::kOther;
  for (const std::string& name : textsOf(*files)) holding->files.insert(name);
  for (const std::string& name : textsOf(*held)) holding->held.insert(name);
  return KeeperLine::kHolding;
}

namespace {

// What keepers have of one copy, together.
struct Gathered {
  int64_t ranks = 0;
  std::map<int, std::set<std::string>> files;  // by rank: that it has written
  std::set<std::string> held;

  // Empty: nothing is missing.
  std::string missing() const {
    if (ranks == 0) return "what rank 0 says of it";
    for (int rank = 0; rank < ranks; ++rank) {
      const auto table = files.find(rank);
      if (table == files.end()) return "the part of rank " + std::to_string(rank);
      for (const std::string& name : table->second) {
        if (held.count(name) == 0) return "'" + name + "' of rank " + std::to_string(rank);
      }
    }
    return "";
  }
};

}  // namespace

CopyKey newestWholeCopy(const std::vector<CopyHolding>& holdings, std::string* why) {
  std::map<CopyKey, Gathered> copies;
  for (const CopyHolding& holding : holdings) {
    Gathered& copy = copies[holding.key];
    copy.ranks = std::max(copy.ranks, holding.ranks);
    if (!holding.hasTable) continue;
    copy.files[holding.rank].insert(holding.files.begin(), holding.files.end());
    copy.held.insert(holding.held.begin(), holding.held.end());
  }
  why->clear();
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    const std::string missing = copy->second.missing();
    if (missing.empty()) return copy->first;
    *why += (why->empty() ? "" : "; ") + describe(copy->first) + " lacks " + missing;
  }
  if (copies.empty()) *why = "no host holds one";
  return {};
}

}  // namespace hycrt
