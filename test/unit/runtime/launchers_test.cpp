// A rank's place by the variables of each launcher, as these document them.
#include "base/launchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "comm/network_options.h"
#include "hycrt/options.h"

namespace hycrt {
namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

// What a process is told that has these variables and no others of a launcher.
Result<Launch> launchOf(const Variables& variables, bool mayBeAlone = false) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PMI_RANK", "SLURM_PROCID"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  Result<Launch> launch = readLaunch(mayBeAlone);
  return launch;
}

class Launchers : public testing::Test {
 protected:
  void expectPlace(const Variables& variables, const char* launcher, std::vector<int> place) {
    const Result<Launch> launch = launchOf(variables);
    ASSERT_TRUE(launch.ok()) << launch.status().message();
    EXPECT_STREQ(launch->launcher->name, launcher);
    EXPECT_EQ((std::vector<int>{launch->rank, launch->worldSize, launch->localRank, launch->ranksHere}), place);
    forget(variables);
  }
  void expectRefused(const Variables& variables, const std::string& why) {
    const Result<Launch> launch = launchOf(variables);
    ASSERT_FALSE(launch.ok());
    EXPECT_EQ(launch.status().code(), StatusCode::kUsage);
    EXPECT_THAT(launch.status().message(), testing::HasSubstr(why));
    forget(variables);
  }
  static void forget(const Variables& variables) {
    for (const auto& [name, value] : variables) unsetenv(name);
  }
};

TEST_F(Launchers, TellARankItsPlace) {
  expectPlace({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}, "torchrun",
              {5, 8, 1, 4});
  expectPlace({{"RANK", "5"}, {"WORLD_SIZE", "8"}}, "torchrun", {5, 8, 5, 8});
  expectPlace({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_SIZE", "4"}, {"CROSS_SIZE", "2"}},
              "torchrun", {5, 8, 1, 4});
  expectPlace({{"OMPI_COMM_WORLD_RANK", "5"},
               {"OMPI_COMM_WORLD_SIZE", "8"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
              "Open MPI", {5, 8, 1, 4});
  expectPlace({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}}, "MPICH",
              {5, 8, 1, 4});
  expectPlace({{"SLURM_PROCID", "5"},
               {"SLURM_NTASKS", "8"},
               {"SLURM_LOCALID", "1"},
               {"SLURM_NODEID", "1"},
               {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}},
              "Slurm", {5, 8, 1, 4});
  // srun --mpi=pmi2 says by MPICH's names who a rank is, and not where.
  expectPlace({{"PMI_RANK", "5"},
               {"PMI_SIZE", "8"},
               {"SLURM_PROCID", "5"},
               {"SLURM_NTASKS", "8"},
               {"SLURM_LOCALID", "1"},
               {"SLURM_NODEID", "1"},
               {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}},
              "Slurm", {5, 8, 1, 4});
}

TEST_F(Launchers, AreAskedWhereRankZeroIsWhereNobodyHasSaid) {
  const auto boardWith = [&](Variables variables) {
    const Variables rank{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}};
    variables.insert(variables.end(), rank.begin(), rank.end());
    const Result<Launch> launch = launchOf(variables);
    const HubIsTold told = launch.ok() ? boardOf(*launch) : HubIsTold::kByTorchStore;
    forget(variables);
    return told;
  };
  EXPECT_EQ(boardWith({{"PMI_FD", "7"}}), HubIsTold::kByPmi);
  EXPECT_EQ(boardWith({}), HubIsTold::kByVariables);
  EXPECT_EQ(boardWith({{"PMI_FD", "7"}, {"MASTER_ADDR", "a"}}), HubIsTold::kByVariables);
}

TEST_F(Launchers, ThatContradictThemselvesAreNamed) {
  expectRefused({{"RANK", "8"}, {"WORLD_SIZE", "8"}}, "RANK is '8', expected a number from 0 to 7");
  expectRefused({{"RANK", "1"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "9"}},
                "LOCAL_WORLD_SIZE is '9', expected a number from 1 to 8");
  expectRefused({{"RANK", "1"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "4"}, {"LOCAL_WORLD_SIZE", "4"}},
                "LOCAL_RANK is '4', expected a number from 0 to 3");
  expectRefused(
      {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_NODEID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "many"}},
      "SLURM_STEP_TASKS_PER_NODE is 'many'");
}

TEST_F(Launchers, OfOthersLeaveAProcessAloneThatMayBe) {
  const Variables slurm{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}};
  const Result<Launch> launch = launchOf(slurm, /*mayBeAlone=*/true);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->worldSize, 0);
  forget(slurm);
}

// Those that have no core of their own sleep at once; others spin for a moment; and what the user says is left alone.
TEST(Threads, WaitAsThereAreCores) {
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  const int cores = defaultThreads(1);
  EXPECT_THAT(waitVariables(cores), testing::ElementsAre(testing::StartsWith("GOMP_SPINCOUNT=")));
  EXPECT_THAT(waitVariables(cores + 1), testing::ElementsAre("OMP_WAIT_POLICY=passive"));
  setenv("OMP_WAIT_POLICY", "active", 1);
  EXPECT_THAT(waitVariables(cores + 1), testing::IsEmpty());
  unsetenv("OMP_WAIT_POLICY");
}

TEST(Slurm, SaysWhichNodesThereAreAndWhatTheyHave) {
  EXPECT_EQ(firstOfNodeList("node[07-09,12],other"), "node07");
  EXPECT_EQ(firstOfNodeList("a,b[1-2]"), "a");
  EXPECT_EQ(firstOfNodeList("alone"), "alone");
  EXPECT_EQ(firstOfNodeList("node[07"), "");
  EXPECT_EQ(tasksOfNode("4(x2),3", 1), 4);
  EXPECT_EQ(tasksOfNode("4(x2),3", 2), 3);
  EXPECT_EQ(tasksOfNode("4(x2),3", 3), 0);
  EXPECT_EQ(tasksOfNode("4(x2", 1), 0);
}

TEST(Ports, AreOneOrARange) {
  int low = 0, high = 0;
  EXPECT_TRUE(parsePorts("4000-4100", &low, &high));
  EXPECT_EQ(high - low, 100);
  EXPECT_TRUE(parsePorts("4000", &low, &high));
  for (const char* text : {"", "0", "x", "4100-4000", "4000-", "4000-70000", "-4000", "4000 "}) {
    EXPECT_FALSE(parsePorts(text, &low, &high)) << text;
  }
}

}  // namespace
}  // namespace hycrt
