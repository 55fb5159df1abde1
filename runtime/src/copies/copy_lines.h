// The keeper's side of the lines of hycrt/copies.h.
#ifndef HYCRT_SRC_COPIES_COPY_LINES_H_
#define HYCRT_SRC_COPIES_COPY_LINES_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "hycrt/copies.h"

namespace hycrt {

struct KeeperRing {
  int next = -1;
  std::vector<KeeperAddress> others;
};

Result<KeeperTask> parseKeeperTask(const std::string& line);
Result<KeeperRing> parseRing(const nlohmann::json& line);
std::string encodeReady(const KeeperAddress& address);
std::string encodeHolding(const CopyHolding& holding);
std::string encodeLastHolding(int64_t bytes, int64_t mostBytes);
std::string encodeLooking();

}  // namespace hycrt

#endif  // HYCRT_SRC_COPIES_COPY_LINES_H_
