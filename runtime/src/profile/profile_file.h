// profile.json: what --profile writes, of all ranks (docs/instruments.md describes it).
//
// Each rank gives a line of sums (toJsonLine); rank 0 makes the file of them, by what the compiler has written of the
// programs' statements (ops.json, described in lib/Driver/Report/OpsJson.cpp).
#ifndef HYCRT_SRC_PROFILE_PROFILE_FILE_H_
#define HYCRT_SRC_PROFILE_PROFILE_FILE_H_

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/manifest.h"
#include "hycrt/status.h"
#include "profile/profile.h"

namespace hycrt {

// A row of ops.json.
struct OpsCall {
  enum class Kind { kKernel, kExchange, kMove } kind = Kind::kKernel;
  std::string what, op, layer, bound;
  double operations = 0, bytes = 0, roofSeconds = 0;
  // Of an exchange.
  std::string cause, because;
  std::vector<std::string> axes;
  std::vector<int64_t> stages;
  int64_t members = 1;
  double messageBytes = 0;
};

struct OpsStage {
  std::vector<OpsCall> calls;
  std::map<std::string, std::vector<int64_t>> functions;  // rows; -1 - row is the wait for one
};

struct OpsFile {
  std::string machine;  // whose roof it is; empty: nobody's in particular
  std::vector<OpsStage> stages;
};

// FOLDER/ops.json; an error where it is not that of the manifest's programs.
Result<OpsFile> readOps(const Manifest& manifest);

// What is measured of a run beside the profile of a rank.
struct ProfileFacts {
  int threads = 1;
  bool communicationThread = false, onDevice = false;
};

// One line of JSON without its end.
std::string toJsonLine(const Profile& profile, const Program& program, int rank);

// Takes the lines of the ranks, in any order.
class ProfileFile {
 public:
  ProfileFile(const Manifest& manifest, const OpsFile& ops, const ProfileFacts& facts);
  ~ProfileFile();
  Status add(std::string_view line);
  nlohmann::ordered_json finish() const;

 private:
  struct Stage;
  nlohmann::ordered_json stageToJson(size_t number) const;
  Status addFunction(Stage& stage, const OpsStage& ops, const std::string& name, const nlohmann::json& function);

  const Manifest& manifest_;
  const OpsFile& ops_;
  const ProfileFacts facts_;
  int64_t steps_ = 0;
  double stepSeconds_ = 0;  // of rank 0
  std::vector<std::unique_ptr<Stage>> stages_;
  std::map<int, nlohmann::ordered_json> ranks_;
};

// The tables that end a profiled run, a line each.
std::vector<std::string> profileTables(const nlohmann::ordered_json& profile);

// The page: one file that asks for nothing.
std::string profilePage(const nlohmann::ordered_json& profile);

// Where the page of FILE.json is: FILE.html.
std::string profilePagePath(const std::string& path);

// What the ranks' lines in `partial` become, before both are put in place: the profile and its page.
struct ProfilePartials {
  std::string profile, page;
};
ProfilePartials profilePartials(const std::string& partial);

}  // namespace hycrt

#endif  // HYCRT_SRC_PROFILE_PROFILE_FILE_H_
