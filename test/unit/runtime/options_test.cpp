// The table of options: what hyc-run is told arrives at the ranks, whatever the option; defaults are not spelled out;
// and what contradicts itself is refused.
#include "hycrt/options.h"

#include <gtest/gtest.h>

#include "hycrt/manifest.h"
#include "temporary_folder.h"

namespace hycrt {
namespace {

Result<ParsedCommandLine> parse(std::vector<std::string> words, CommandLine kind) {
  std::vector<const char*> arguments{"program"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return parseCommandLine(static_cast<int>(arguments.size()), arguments.data(), kind);
}

// A value of each option that is not its default, as far as they go together.
const std::vector<std::string> kEverything{"OUT",
                                           "--data=a file.bin",
                                           "--data-format=uint16",
                                           "--steps=7",
                                           "--evaluate-data=held-out.bin",
                                           "--evaluate-every=5",
                                           "--evaluate-batches=2",
                                           "--seed=18446744073709551615",
                                           "--threads=3",
                                           "--no-shuffle",
                                           "--shuffle-documents",
                                           "--log-file=log.jsonl",
                                           "--csv=log.csv",
                                           "--tensorboard=events",
                                           "--prometheus=0.0.0.0:9400",
                                           "--prometheus-textfile=run.prom",
                                           "--dump-gradients=--data",
                                           "--save-weights=weights",
                                           "--merge",
                                           "--checkpoint=runs",
                                           "--checkpoint-every=20",
                                           "--keep=3",
                                           "--resume=runs/step-20",
                                           "--checkpoint-failure=warn",
                                           "--checkpoint-mode=sync",
                                           "--time-limit=3600",
                                           "--max-restarts=4",
                                           "--copy=neighbour",
                                           "--copy-every=3",
                                           "--batch-shares=3,1",
                                           "--verify-states=10",
                                           "--allow-nonfinite",
                                           "--trace=trace.json",
                                           "--profile=profile.json",
                                           "--replan-after=9",
                                           "--replan=auto",
                                           "--replan-margin=20",
                                           "--replan-with=a,b",
                                           "--communication-thread=off",
                                           "--exchange-timeout=5",
                                           "--comm=shm",
                                           "--ranks=6",
                                           "--as-rank",
                                           "--hostfile=hosts",
                                           "--include=a:0,1@b",
                                           "--exclude=c",
                                           "--ssh-port=2222",
                                           "--copy-out",
                                           "--transport=tcp",
                                           "--interface=10.0.0.0/8",
                                           "--ports=4000-4100",
                                           "--sockets=2",
                                           "--plaintext",
                                           "--cuda-graph=on",
                                           "--tf32",
                                           "--measure-memory=memory.jsonl",
                                           "--poison",
                                           "--nvme-path=/disk"};

TEST(Options, ArriveAtTheRanks) {
  const Result<ParsedCommandLine> told = parse(kEverything, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  const Result<ParsedCommandLine> rank = parse(argumentsForRanks(told->options), CommandLine::kRank);
  ASSERT_TRUE(rank.ok()) << rank.status().message();
  RunOptions expected = told->options;
  expected.out = "";  // given apart
  expected.prometheus = expected.prometheusTextfile = "";
  expected.logFile = expected.csv = expected.tensorboard = "";   // what tells of a run is hyc-run's
  expected.hostfile = expected.include = expected.exclude = "";  // and so are the hosts
  expected.sshPort = 0;
  expected.copyOut = false;
  expected.maxRestarts = expected.ranks = 0;  // of which ranks know nothing
  expected.asRank = false;
  expected.replan = ReplanMode::kPropose;
  expected.replanMargin = 10;
  expected.replanWith = "";
  EXPECT_EQ(rank->options.limitsSteps, expected.limitsSteps);
  const RunOptions defaults;
  int unchanged = 0;
#define HYC_RUN_OPTION(type, member, defaultValue, flag, values, traits, help) \
  EXPECT_EQ(rank->options.member, expected.member) << flag;                    \
  unchanged += told->options.member == defaults.member;
#include "hycrt/run_option_rows.h"
#undef HYC_RUN_OPTION
  EXPECT_EQ(unchanged, 1) << "only --evaluate cannot be given together with the others; name new options above";
}

// A variable of a shell that is not set makes an empty value.
TEST(Options, HaveNoEmptyValues) {
  int values = 0;
  for (const std::string& word : kEverything) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    ++values;
    const std::string flag = word.substr(0, equals);
    const auto expect = [&](const std::vector<std::string>& given, const std::string& message) {
      std::vector<std::string> words{"OUT"};
      words.insert(words.end(), given.begin(), given.end());
      const Result<ParsedCommandLine> parsed = parse(words, CommandLine::kHycRun);
      ASSERT_FALSE(parsed.ok()) << flag;
      EXPECT_EQ(parsed.status().code(), StatusCode::kUsage);
      EXPECT_EQ(parsed.status().message().rfind(message, 0), 0u) << parsed.status().message();
    };
    expect({flag, ""}, flag + ": found '', expected ");
    expect({flag + "="}, flag + " has no value, expected one behind it");
  }
  EXPECT_GT(values, 40);
  const Result<ParsedCommandLine> data = parse({"OUT", "--data", ""}, CommandLine::kHycRun);
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.status().message(), "--data: found '', expected FILE");
  const Result<ParsedCommandLine> out = parse({""}, CommandLine::kHycRun);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().message(), "OUT: found '', expected a value");
  EXPECT_FALSE(parse({"--out", ""}, CommandLine::kRank).ok());
}

TEST(Options, OfAnEvaluationArriveToo) {
  const Result<ParsedCommandLine> told = parse({"OUT", "--evaluate", "--steps", "100"}, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_EQ(argumentsForRanks(told->options), (std::vector<std::string>{"--steps=100", "--evaluate"}));
}

TEST(Options, ThatAreNotGivenAreNotHandedOn) {
  const Result<ParsedCommandLine> told = parse({"OUT"}, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_TRUE(argumentsForRanks(told->options).empty());
}

TEST(Options, OfTrainingContradictAnEvaluation) {
  Manifest trains, evaluates;
  evaluates.evaluates = true;
  for (const char* option : {"--save-weights=x", "--dump-gradients=x"}) {
    EXPECT_FALSE(parse({"OUT", "--evaluate", option}, CommandLine::kHycRun).ok()) << option;
    Result<ParsedCommandLine> told = parse({"OUT", option}, CommandLine::kHycRun);
    ASSERT_TRUE(told.ok());
    EXPECT_FALSE(takeEntry(evaluates, &told->options).ok()) << option;
    EXPECT_TRUE(takeEntry(trains, &told->options).ok()) << option;
  }
}

TEST(Options, OfACheckpointGoWithItsEvaluationAndNotWithProgramsThatOnlyEvaluate) {
  Manifest trains, evaluates;
  evaluates.evaluates = true;
  Result<ParsedCommandLine> told = parse({"OUT", "--evaluate", "--resume", "runs"}, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_TRUE(takeEntry(trains, &told->options).ok());
  EXPECT_FALSE(takeEntry(evaluates, &told->options).ok());
}

TEST(Options, AskForAnAdapterThatCanHoldWhatIsTrained) {
  Manifest manifest;
  manifest.adapter = Adapter{};
  Result<ParsedCommandLine> told = parse({"OUT", "--save-weights=x"}, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_TRUE(takeEntry(manifest, &told->options).ok());
  EXPECT_TRUE(told->options.savesAdapter);
  manifest.adapter->tied = {"wte.weight"};
  const Status refused = takeEntry(manifest, &told->options);
  EXPECT_NE(refused.message().find("'wte.weight'"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find("give --merge"), std::string::npos) << refused.message();
  told = parse({"OUT", "--save-weights=x", "--merge"}, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_TRUE(takeEntry(manifest, &told->options).ok());
  EXPECT_FALSE(told->options.savesAdapter);
}

TEST(Options, OfHeldOutDataWantAnEntryThatEvaluates) {
  Manifest trains, both;
  both.evaluatesBeside = true;
  Result<ParsedCommandLine> told =
      parse({"OUT", "--evaluate-data", "x", "--evaluate-every", "5"}, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_TRUE(takeEntry(both, &told->options).ok());
  EXPECT_NE(takeEntry(trains, &told->options).message().find("--entry train,evaluate"), std::string::npos);
  told = parse({"OUT", "--evaluate-every", "5"}, CommandLine::kHycRun);
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_NE(takeEntry(both, &told->options).message().find("--evaluate-data FILE"), std::string::npos);
  EXPECT_FALSE(parse({"OUT", "--evaluate", "--evaluate-data", "x"}, CommandLine::kHycRun).ok());
}

TEST(Options, OfWhichTwoWriteOneFileAreRefused) {
  const TemporaryFolder folder;
  const std::string one = folder / "one";
  for (const std::string& option : {"--dump-gradients=" + one, "--trace=" + one, "--measure-memory=" + one}) {
    Result<ParsedCommandLine> told = parse({"OUT", "--log-file=" + one, option}, CommandLine::kHycRun);
    ASSERT_TRUE(told.ok());
    EXPECT_FALSE(checkOutputs(told->options, {}).ok()) << option;
    told->options.logFile = folder / "other";
    EXPECT_TRUE(checkOutputs(told->options, {}).ok()) << option;
    EXPECT_FALSE(checkOutputs(told->options, {one}).ok()) << option;
  }
}

TEST(Options, WithValuesOutOfRangeSayWhatIsExpected) {
  const auto messageOf = [](const char* option) {
    const Result<ParsedCommandLine> told = parse({"OUT", option}, CommandLine::kHycRun);
    return told.ok() ? std::string() : told.status().message();
  };
  EXPECT_NE(messageOf("--comm=mpi").find("found 'mpi', expected auto, nccl or shm"), std::string::npos);
  EXPECT_NE(messageOf("--threads=-3").find("found '-3', expected a whole number from 0 to 4096"), std::string::npos);
  for (const char* address :
       {"x", "65536", "-1", ":9400", "1:2:9400", "host:", "[]:9400", "99999999999999999999", "::1"}) {
    const std::string message = messageOf((std::string("--prometheus=") + address).c_str());
    EXPECT_NE(message.find("'" + std::string(address) + "', expected a port"), std::string::npos) << message;
  }
  for (const char* address : {"0", "9400", "localhost:9400", "[::1]:9400", "0.0.0.0:65535"}) {
    EXPECT_EQ(messageOf((std::string("--prometheus=") + address).c_str()), "");
  }
  EXPECT_NE(messageOf("--prometheus-textfile=run.txt").find("ends in .prom"), std::string::npos);
  EXPECT_NE(messageOf("--thread=3").find("the nearest is '--threads'"), std::string::npos);
}

}  // namespace
}  // namespace hycrt
