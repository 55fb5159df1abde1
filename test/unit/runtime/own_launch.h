// Ranks that no hyc-run starts: the environment is all that they get.
#ifndef HYC_TEST_RUNTIME_OWN_LAUNCH_H_
#define HYC_TEST_RUNTIME_OWN_LAUNCH_H_

#include <memory>
#include <string>
#include <vector>

#include "claimed_port.h"
#include "compiled_folder.h"
#include "run_command.h"

// What one rank of a launch is given otherwise than the others.
struct OddRank {
  int rank = -1;
  std::string folder;                // where its manifest is
  std::vector<std::string> options;  // beside those of all
};

// Ranks as torchrun or mpirun start them: the environment is all they get.
class OwnLaunch {
 public:
  OwnLaunch(const CompiledFolder& folder, Layout layout, int port, const Environment& more,
            const std::vector<std::string>& options, const OddRank& odd = {}) {
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const bool isOdd = rank == odd.rank;
      Environment environment{{"RANK", std::to_string(rank)},
                              {"WORLD_SIZE", std::to_string(layout.ranks())},
                              {"LOCAL_RANK", std::to_string(rank)},
                              {"MASTER_ADDR", "127.0.0.1"},
                              {"MASTER_PORT", std::to_string(port)}};
      environment.insert(environment.end(), more.begin(), more.end());
      std::vector<std::string> words{folder / ("bin/stage" + std::to_string(rank / layout.tp / layout.dp)), "--out",
                                     isOdd && !odd.folder.empty() ? odd.folder : folder.path(), "--threads", "1"};
      words.insert(words.end(), options.begin(), options.end());
      if (isOdd) words.insert(words.end(), odd.options.begin(), odd.options.end());
      if (!isOdd || odd.options.empty()) words.insert(words.end(), {"--data", folder / "text", "--seed", "3"});
      ranks.push_back(std::make_unique<RunningCommand>(words, environment));
    }
  }
  std::vector<std::unique_ptr<RunningCommand>> ranks;
};

#endif  // HYC_TEST_RUNTIME_OWN_LAUNCH_H_
