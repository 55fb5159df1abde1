// A compiled folder as hyc-compile would leave it, with programs of the miniature model (miniature.cpp).
#ifndef HYC_TEST_RUNTIME_COMPILED_FOLDER_H_
#define HYC_TEST_RUNTIME_COMPILED_FOLDER_H_

#include <cmath>
#include <string>
#include <vector>

#include "temporary_folder.h"
#include "test/Places.h"

struct Layout {
  int tp, pp, dp;
  int ranks() const { return tp * pp * dp; }
  int microBatches() const { return 4 / dp; }
};

inline const std::string kHycRun = hyc::places::program("hyc-run");

class CompiledFolder {
 public:
  explicit CompiledFolder(Layout layout, const std::string& planHash = "0000000000001234") {
    std::filesystem::create_directory(folder_ / "bin");
    for (int stage = 0; stage < layout.pp; ++stage) {
      const std::string name = "miniature_" + std::to_string(layout.tp) + std::to_string(layout.pp) +
                               std::to_string(layout.dp) + "_stage" + std::to_string(stage);
      std::filesystem::create_symlink(hyc::places::inBuild("test/unit/runtime/" + name),
                                      folder_ / ("bin/stage" + std::to_string(stage)));
    }
    folder_.write("manifest.json", manifest(layout, planHash));
    std::string text;
    for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(64 + 60 * std::sin(i / 12.0)));
    folder_.write("text", text);
  }

  std::vector<std::string> command(std::vector<std::string> more) const {
    std::vector<std::string> words{kHycRun, path(), "--data", *this / "text", "--seed", "3", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  const TemporaryFolder& files() const { return folder_; }

 private:
  static std::string manifest(Layout layout, const std::string& planHash) {
    const auto number = [](int value) { return std::to_string(value); };
    std::string ranks;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const int tp = rank % layout.tp, dp = rank / layout.tp % layout.dp, pp = rank / layout.tp / layout.dp;
      ranks += (rank > 0 ? ", " : "") + std::string("{\"rank\": ") + number(rank) + ", \"tp\": " + number(tp) +
               ", \"pp\": " + number(pp) + ", \"dp\": " + number(dp) + ", \"program\": \"bin/stage" + number(pp) +
               "\"}";
    }
    return "{\"format_version\": 1, \"name\": \"miniature\", \"plan_hash\": \"" + planHash +
           "\", \"mesh\": {\"tp\": " + number(layout.tp) + ", \"pp\": " + number(layout.pp) +
           ", \"dp\": " + number(layout.dp) +
           "}, \"batch\": {\"micro_batch\": 2, \"grad_accum\": " + number(layout.microBatches()) +
           ", \"sequence\": 8}, \"schedule\": \"gpipe\", \"threads\": 0, \"nvme_path\": \"\", \"learning_rate\": "
           "{\"rule\": \"linear\", \"base\": 0.5, "
           "\"warmup_steps\": 2}, \"data\": \"tokens\", \"model_files\": [], \"ranks\": [" +
           ranks + "]}";
  }

  TemporaryFolder folder_;
};

#endif  // HYC_TEST_RUNTIME_COMPILED_FOLDER_H_
