// Runs whose ranks stand on several hosts: namespaces that the tests make. Where they cannot be made the tests are
// skipped, and say why.
#include "hosts_fixture.h"

namespace {

TEST_F(Hosts, GiveTheSameLossesAsOne) {
  const std::vector<double> expected = lossesOnOneHost();
  ASSERT_EQ(expected.size(), 20u);
  for (const int hosts : {2, 4}) {
    MAKE_HOSTS(hosts);
    for (const std::vector<std::string>& how :
         {std::vector<std::string>{}, {"--plaintext", "--interface", "eth0"}, {"--sockets", "3"}}) {
      const std::string log = folder_ / "log";
      std::vector<std::string> options{"--steps", "20", "--log-file", log};
      options.insert(options.end(), how.begin(), how.end());
      start(hosts, options);
      for (const CommandResult& result : finish()) EXPECT_EQ(result.status, 0) << result.errors;
      EXPECT_EQ(lossesOf(log), expected) << hosts << " hosts";
    }
  }
}

// Whoever is a neighbour in the world need not be one of the machine: sums follow the group's order, wherever it
// stands.
TEST_F(Hosts, NeedNotHaveConsecutiveRanks) {
  const std::vector<double> expected = lossesOnOneHost();
  MAKE_HOSTS(2);
  placeInTurn_ = true;
  start(2, {"--steps", "20", "--log-file", folder_ / "log"});
  for (const CommandResult& result : finish()) EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(lossesOf(folder_ / "log"), expected);
}

TEST_F(Hosts, RefuseAnotherToken) {
  MAKE_HOSTS(2);
  ranksHere_ = 4;
  const std::string other = folder_.files().write("other", "another token, which has 32 bytes too\n");
  chmod(other.c_str(), 0600);
  std::vector<std::string> options{"--steps", "3", "--log-file", folder_ / "log"};
  for (int rank = 0; rank < 8; ++rank) startRank(rank, options);
  startRank(7, options, {{"HYC_TOKEN_FILE", other}});
  std::unique_ptr<RunningCommand> stranger = std::move(ranks_.back());
  ranks_.pop_back();
  for (const CommandResult& result : finish()) EXPECT_EQ(result.status, 0) << result.errors;
  kill(stranger->pid(), SIGKILL);
  EXPECT_EQ(lossesOf(folder_ / "log").size(), 3u);
}

TEST_F(Hosts, RefuseTwoRanksOfOneNumber) {
  MAKE_HOSTS(2);
  ranksHere_ = 4;
  const std::vector<std::string> options{"--steps", "3"};
  for (int rank = 0; rank < 8; ++rank) startRank(rank == 7 ? 6 : rank, options);
  std::vector<CommandResult> results = finish();
  for (const CommandResult& result : results) EXPECT_EQ(result.status, 65) << result.errors;
  EXPECT_CONTAINS(results[0].errors, "has the rank of rank 6 (process ");
  EXPECT_CONTAINS(results[0].errors, "on host 'host1'");
}

TEST_F(Hosts, AreNotHeldUpByStrangersAtAnyPort) {
  MAKE_HOSTS(2);
  // Silence, HTTP, TLS and a long frame, over and over, on the ports of rank 0 and of every rank.
  std::vector<std::string> words = namespaces_->on(1);
  words.insert(words.end(), {"/bin/bash", "-c",
                             "while :; do for port in 4600 4700 4701 4702 4703; do for host in 10.77.0.1 10.77.0.2; do "
                             "for text in '' 'GET / HTTP/1.1\\r\\n\\r\\n' '\\x16\\x03\\x01\\x02\\x00\\x01' "
                             "'HYCR\\xff\\xff\\xff\\x7f'; do (exec 3<>/dev/tcp/$host/$port && printf \"$text\" >&3 && "
                             "sleep 0.2) 2>/dev/null & done; done; done; wait; done"});
  RunningCommand strangers(words);
  start(2, {"--steps", "3", "--log-file", folder_ / "log", "--ports", "4700-4710"});
  for (const CommandResult& result : finish()) {
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_LT(result.seconds, kSoon);
  }
  EXPECT_EQ(lossesOf(folder_ / "log").size(), 3u);
}

TEST_F(HostsBySsh, GiveTheSameLossesAsOne) {
  const std::vector<double> expected = lossesOnOneHost();
  MAKE_HOSTS_WITH_SSH(2);
  const CommandResult result = runCommand(command({"--steps", "20", "--log-file", folder_ / "log"}));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(lossesOf(folder_ / "log"), expected);
  expectNoneLeft();
}

TEST_F(HostsBySsh, LeaveNoProcessWhenARankIsKilledOrTheUserStopsThem) {
  MAKE_HOSTS_WITH_SSH(2);
  for (const bool killsRank : {true, false}) {
    const std::string log = folder_ / (killsRank ? "killed" : "stopped");
    RunningCommand running(command({"--steps", "1000000000", "--log-file", log}));
    awaitFirstStep(log);
    ASSERT_EQ(processes().size(), 8u);
    kill(killsRank ? processes().back() : running.pid(), killsRank ? SIGKILL : SIGINT);
    const CommandResult result = running.finish();
    EXPECT_EQ(result.status, killsRank ? 137 : 130) << result.errors;
    EXPECT_LT(result.seconds, kSoon);
    if (killsRank) {
      EXPECT_CONTAINS(result.errors, "was ended by SIGKILL");
    }
    expectNoneLeft();
  }
}

TEST_F(HostsBySsh, SayWhereTheyAreWhenTheyAreAsked) {
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(command({"--steps", "1000000000", "--log-file", folder_ / "log"}));
  awaitFirstStep(folder_ / "log");
  kill(running.pid(), SIGUSR1);
  usleep(1000000);
  kill(running.pid(), SIGINT);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 130) << result.errors;
  for (int rank : {0, 3, 4, 7}) {
    EXPECT_CONTAINS(result.errors,
                    namespaces_->addressOf(rank / 4) + ": rank " + std::to_string(rank) + ": is at: step ");
  }
}

TEST_F(HostsBySsh, StartAgainAndSaveWhenTheyAreAsked) {
  MAKE_HOSTS_WITH_SSH(2);
  const std::string log = folder_ / "log", runs = folder_ / "runs";
  RunningCommand running(command({"--steps", "1000000000", "--log-file", log, "--checkpoint", runs,
                                  "--checkpoint-every", "50", "--keep", "2", "--max-restarts", "1"}));
  const auto awaitEvent = [&](const std::string& kind) {
    for (int i = 0; i < 3000; ++i) {
      if (folder_.files().read("log").find("{\"event\":\"" + kind + "\"") != std::string::npos) return true;
      usleep(5000);
    }
    return false;
  };
  awaitFirstStep(log);
  ASSERT_TRUE(awaitEvent("checkpoint"));
  ASSERT_EQ(processes().size(), 8u);
  kill(processes().back(), SIGKILL);
  ASSERT_TRUE(awaitEvent("restart") && awaitEvent("resume"));
  for (int i = 0; i < 3000; ++i, usleep(5000)) {
    const std::string text = folder_.files().read("log");
    if (text.find("\"loss\"", text.find("{\"event\":\"resume\"")) != std::string::npos) break;
  }
  kill(running.pid(), SIGTERM);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_CONTAINS(result.errors, "was ended by SIGKILL");
  EXPECT_CONTAINS(result.errors, "restart 1 of 1 (rank ");
  EXPECT_CONTAINS(folder_.files().read("log"), "\"cause\":\"SIGTERM\"");
  expectNoneLeft();
}

// By the time that a batch system has set where hyc-run was started.
TEST_F(HostsBySsh, SaveAndEndInTime) {
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(
      command({"--steps", "1000000000", "--log-file", folder_ / "log", "--checkpoint", folder_ / "runs"}),
      {{"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 6)}});
  const CommandResult result = running.finish(60);
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_CONTAINS(folder_.files().read("log"), "\"cause\":\"the time limit\"");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs"));
  expectNoneLeft();
}

// hyc-run, its ssh, the other hosts' hyc-run and the ranks.
TEST_F(HostsBySsh, SaveAndEndWhereAllProcessesAreAskedTo) {
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(
      command({"--steps", "1000000000", "--log-file", folder_ / "log", "--checkpoint", folder_ / "runs"}));
  awaitFirstStep(folder_ / "log");
  std::vector<pid_t> all = running.children();
  const std::vector<pid_t> ranks = processes();
  ASSERT_EQ(all.size(), 2u);
  ASSERT_EQ(ranks.size(), 8u);
  for (const pid_t rank : {ranks.front(), ranks.back()}) {
    std::ifstream stat("/proc/" + std::to_string(rank) + "/stat");
    std::string number, name, state;
    pid_t parent = 0;
    ASSERT_TRUE(stat >> number >> name >> state >> parent);
    all.push_back(parent);
  }
  all.insert(all.end(), ranks.begin(), ranks.end());
  for (const pid_t process : ranks) kill(process, SIGSTOP);  // so that there is time for all of it
  kill(running.pid(), SIGTERM);
  usleep(100000);
  for (const pid_t process : all) kill(process, SIGTERM);
  usleep(100000);
  for (const pid_t process : ranks) kill(process, SIGCONT);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_CONTAINS(folder_.files().read("log"), "\"cause\":\"SIGTERM\"");
  expectNoneLeft();
}

// Not the host whose rank has waited, and says so.
TEST_F(HostsBySsh, BlameTheHostOfARankThatIsStopped) {
  MAKE_HOSTS_WITH_SSH(2);
  const std::string log = folder_ / "log";
  RunningCommand running(
      command({"--steps", "1000000000", "--log-file", log, "--checkpoint", folder_ / "runs", "--checkpoint-every", "50",
               "--keep", "2", "--max-restarts", "2", "--exchange-timeout", "1"}));
  awaitFirstStep(log);
  pid_t stopped = 0;
  for (const pid_t process : processes()) {
    std::ifstream file("/proc/" + std::to_string(process) + "/environ");
    for (std::string variable; std::getline(file, variable, '\0');) {
      if (variable == "RANK=6") stopped = process;
    }
  }
  ASSERT_GT(stopped, 0);
  kill(stopped, SIGSTOP);
  const auto hasRestarted = [&] {
    return folder_.files().read("log").find("{\"event\":\"restart\"") != std::string::npos;
  };
  for (int i = 0; i < 4000 && !hasRestarted(); ++i) usleep(5000);
  EXPECT_CONTAINS(folder_.files().read("log"),
                  "\"cause\":\"rank 6 has not moved for 1 s (--exchange-timeout) (host '10.77.0.2')\"");
  kill(running.pid(), SIGINT);
  running.finish();
  expectNoneLeft();
}

// With the size that the other host has slots for.
TEST_F(HostsBySsh, GoOnWithoutAHostThatIsLost) {
  MAKE_HOSTS_WITH_SSH(2);
  const CompiledFolder four{Layout{1, 2, 2}};
  const TemporaryFolder& files = folder_.files();
  std::filesystem::create_directory(folder_ / "out");
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "out/ranks-8");
  std::filesystem::create_directory_symlink(four.path(), folder_ / "out/ranks-4");
  files.write("out/manifest.json",
              "{\"format_version\": 1, \"sizes\": [{\"ranks\": 8, \"folder\": \"ranks-8\"}, {\"ranks\": 4, "
              "\"folder\": \"ranks-4\"}]}");
  const std::string log = folder_ / "log";
  std::vector<std::string> words =
      command({"--steps", "1000000000", "--log-file", log, "--checkpoint", folder_ / "runs", "--checkpoint-every", "50",
               "--keep", "2", "--max-restarts", "3"});
  std::replace(words.begin(), words.end(), folder_.path(), folder_ / "out");
  RunningCommand running(words);
  awaitFirstStep(log);
  endServersOf(1);
  const auto hasGoneOn = [&] {
    const std::string text = files.read("log");
    const size_t resized = text.find("{\"event\":\"resize\"");
    return resized != std::string::npos && text.find("\"loss\"", resized) != std::string::npos;
  };
  for (int i = 0; i < 4000 && !hasGoneOn(); ++i) usleep(5000);
  EXPECT_TRUE(hasGoneOn());
  kill(running.pid(), SIGTERM);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_CONTAINS(result.errors, "is left out from now on");
  EXPECT_CONTAINS(result.errors, ", with 4 ranks");
}

// Shares that were given for the ranks of before do not fit those that are left.
TEST_F(HostsBySsh, GoOnInEqualSharesWithoutAHostThatIsLost) {
  MAKE_HOSTS_WITH_SSH(2);
  const CompiledFolder two{Layout{2, 1, 1}};
  std::filesystem::create_directory(folder_ / "out");
  std::filesystem::create_directory_symlink(folder_.path(), folder_ / "out/ranks-8");
  std::filesystem::create_directory_symlink(two.path(), folder_ / "out/ranks-2");
  folder_.files().write("out/manifest.json",
                        "{\"format_version\": 1, \"sizes\": [{\"ranks\": 8, \"folder\": \"ranks-8\"}, {\"ranks\": 2, "
                        "\"folder\": \"ranks-2\"}]}");
  std::vector<std::string> words =
      command({"--steps", "1000000000", "--log-file", folder_ / "log", "--max-restarts", "3", "--batch-shares", "2,1",
               "--checkpoint", folder_ / "runs", "--checkpoint-every", "50", "--keep", "2"});
  std::replace(words.begin(), words.end(), folder_.path(), folder_ / "out");
  RunningCommand running(words);
  awaitFirstStep(folder_ / "log");
  endServersOf(1);
  const auto hasGoneOn = [&] {
    const std::string text = folder_.files().read("log");
    const size_t resized = text.find("{\"event\":\"resize\"");
    return resized != std::string::npos && text.find("\"loss\"", resized) != std::string::npos;
  };
  for (int i = 0; i < 4000 && !hasGoneOn() && !hasEnded(running.pid()); ++i) usleep(5000);
  EXPECT_TRUE(hasGoneOn());
  kill(running.pid(), SIGTERM);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_CONTAINS(result.errors, "--batch-shares 2,1 was for 8 ranks; from now on all take what was compiled");
  EXPECT_EQ(result.errors.find("\\x0d"), std::string::npos) << "of what ssh says: " << result.errors;
}

// What a user sets in front of the command holds on every host.
TEST_F(HostsBySsh, HaveTheVariablesThatRanksAreSetUpBy) {
  MAKE_HOSTS_WITH_SSH(2);
  RunningCommand running(command({"--steps", "1000000000", "--log-file", folder_ / "log"}),
                         {{"NCCL_SOCKET_IFNAME", "=eth0"}, {"HYC_LOG", "debug"}, {"SECRET", "unseen"}});
  awaitFirstStep(folder_ / "log");
  const std::vector<pid_t> ranks = processes();
  EXPECT_EQ(ranks.size(), 8u);
  for (const pid_t rank : ranks) {
    std::ifstream file("/proc/" + std::to_string(rank) + "/environ");
    const std::string variables((std::istreambuf_iterator<char>(file)), {});
    EXPECT_CONTAINS(variables, std::string("NCCL_SOCKET_IFNAME==eth0\0", 25));
    EXPECT_CONTAINS(variables, "HYC_LOG=debug");
    EXPECT_EQ(variables.find("SECRET="), std::string::npos);
  }
  kill(running.pid(), SIGINT);
  EXPECT_CONTAINS(running.finish().errors, namespaces_->addressOf(1) + ": rank 7: debug: meets the other ranks");
}

// Behind a firewall nothing else comes through: where ranks meet is one of them, too, and each rank takes one, as does
// the keeper of copies.
TEST_F(HostsBySsh, KeepToThePortsThatTheyAreGiven) {
  MAKE_HOSTS_WITH_SSH(2);
  for (const bool copies : {false, true}) {
    std::vector<std::string> more{"--steps", "2", "--ports", copies ? "4700-4704" : "4700-4703"};
    if (copies) more.insert(more.end(), {"--copy", "neighbour", "--max-restarts", "1"});
    const CommandResult result = RunningCommand(command(more), {{"HYC_LOG", "debug"}}).finish(60);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_CONTAINS(result.errors, "by tcp, at 10.77.0.1 port 470");
  }
}

// To a host that does not have it; what has changed, to one that has it from before; and never over what is another's.
TEST_F(HostsBySsh, GetTheFolderThatTheyLack) {
  MAKE_HOSTS_WITH_SSH(2);
  namespace fs = std::filesystem;
  const TemporaryFolder place;
  const std::string out = place / "runs/out";
  fs::create_directories(out + "/bin");
  for (const char* name : {"bin/stage0", "bin/stage1", "manifest.json"}) {
    fs::copy_file(folder_ / name, out + "/" + name);
  }
  const auto onHost1 = [&](const std::string& shell) {
    std::vector<std::string> words = namespaces_->on(1);
    words.insert(words.end(), {"/bin/sh", "-c", shell});
    return runCommand(words);
  };
  ASSERT_EQ(onHost1("mount -t tmpfs none " + place.path()).status, 0);
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = command({"--steps", "3", "--log-file", folder_ / "log"});
    std::replace(words.begin(), words.end(), folder_.path(), out);
    words.insert(words.end(), more.begin(), more.end());
    return runCommand(words);
  };
  const CommandResult without = run({});
  EXPECT_NE(without.status, 0);
  EXPECT_CONTAINS(without.errors, "cannot open '" + out + "/manifest.json'");
  CommandResult result = run({"--copy-out"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(lossesOf(folder_ / "log").size(), 3u);
  EXPECT_CONTAINS(result.errors, "hyc-run: copied '" + out + "' to " + namespaces_->addressOf(1) + " (");
  EXPECT_EQ(onHost1("cd " + out + " && test -x bin/stage1 && cmp bin/stage1 " + (folder_ / "bin/stage1") +
                    " && ! test -x manifest.json && ls -a .. | grep -c partial")
                .output,
            "0\n");
  result = run({"--copy-out"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, testing::Not(testing::HasSubstr("copied '")));
  std::ofstream(out + "/manifest.json", std::ios::app) << "\n";
  result = run({"--copy-out"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "copied '" + out + "' to " + namespaces_->addressOf(1) + " (0.0 MB)");
  // Changed by somebody else there, and here.
  EXPECT_EQ(onHost1("echo >>" + out + "/bin/stage0").status, 0);
  result = run({"--copy-out"});
  EXPECT_EQ(result.status, 65) << result.errors;
  EXPECT_CONTAINS(result.errors,
                  namespaces_->addressOf(1) + ": hyc-run: error: '" + out + "/bin/stage0' of this host is ");
  EXPECT_CONTAINS(result.errors, ", and was changed since; move '" + out + "' away");
  EXPECT_EQ(onHost1("rm -r " + out + " && mkdir " + out + " && echo mine >" + out + "/notes").status, 0);
  result = run({"--copy-out"});
  EXPECT_EQ(result.status, 65) << result.errors;
  EXPECT_CONTAINS(result.errors, "of this host has other things in it, and was not copied there by hyc-run");
  EXPECT_EQ(onHost1("cd " + out + " && ls && ls -a .. | grep -c partial").output, "notes\n0\n");
  expectNoneLeft();
}

// hyc-bench measures within hosts and between them, and where a host cannot be reached writes nothing.
TEST_F(HostsBySsh, AreMeasured) {
  MAKE_HOSTS_WITH_SSH(2);
  std::vector<std::string> words = namespaces_->on(0);
  for (const std::string& word :
       std::vector<std::string>{hyc::places::program("hyc-bench"), "--hostfile", folder_ / "hosts", "--include",
                                namespaces_->addressOf(0) + ":0,1@" + namespaces_->addressOf(1) + ":0,1", "--ssh-port",
                                "2222", "--mib", "1", "--seconds", "0.001", "-o", folder_ / "machine.json"}) {
    words.push_back(word);
  }
  const CommandResult measured = runCommand(words);
  EXPECT_EQ(measured.status, 0) << measured.errors;
  EXPECT_CONTAINS(measured.output, "4 ranks of ");
  EXPECT_CONTAINS(measured.output, "on 2 hosts, ");
  for (const char* tier : {"host", "cluster"}) {
    for (const char* measure : {"all_reduce", "all_gather", "reduce_scatter", "send/receive"}) {
      EXPECT_THAT(measured.output, testing::ContainsRegex("\n" + std::string(measure) + " +" + tier + " +1 MiB "));
    }
  }
  const std::string file = folder_.files().read("machine.json");
  EXPECT_CONTAINS(file, "\"name\": \"cluster\",\n      \"ranks\": 4,");
  EXPECT_CONTAINS(file, "\"name\": \"host\",\n      \"ranks\": 2,");
  endServersOf(1);
  words.back() = folder_ / "none.json";
  const CommandResult lost = runCommand(words);
  EXPECT_EQ(lost.status, 69) << lost.errors;
  EXPECT_CONTAINS(lost.errors, "host '" + namespaces_->addressOf(1) + "' cannot be reached by ssh");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.json"));
}

// hyc-check asks each host, has each try each other, and says what is in the way.
TEST_F(HostsBySsh, AreChecked) {
  MAKE_HOSTS_WITH_SSH(3);
  std::vector<std::string> words = namespaces_->on(0);
  words.insert(words.end(), {hyc::places::program("hyc-check"), "--hostfile", folder_ / "hosts", "--ssh-port", "2222",
                             "--ports", "4700-4710", "--seconds", "1"});
  CommandResult result = runCommand(words);
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_CONTAINS(result.output, "3 of 3 hosts answer\n");
  EXPECT_CONTAINS(result.output, "connections     6 of 6 ways between hosts, there and back in ");
  EXPECT_CONTAINS(result.output, " ms apart, known to ");
  std::vector<std::string> prohibit = namespaces_->on(1);
  prohibit.insert(prohibit.end(), {"ip", "route", "add", "prohibit", namespaces_->addressOf(2) + "/32"});
  ASSERT_EQ(runCommand(prohibit).status, 0);
  result = runCommand(words);
  EXPECT_EQ(result.status, 69) << result.output << result.errors;
  EXPECT_CONTAINS(result.output, "4 of 6 ways between hosts");
  EXPECT_CONTAINS(result.output, "problem: host '" + namespaces_->addressOf(2) + "' is not reached from '" +
                                     namespaces_->addressOf(1) + "': cannot reach " + namespaces_->addressOf(2) +
                                     ":47");
  EXPECT_CONTAINS(result.output, "trains on these hosts: no");
  endServersOf(2);
  result = runCommand(words);
  EXPECT_EQ(result.status, 69) << result.output << result.errors;
  EXPECT_CONTAINS(result.output, "2 of 3 hosts answer\n");
  EXPECT_CONTAINS(result.output, "problem: host '" + namespaces_->addressOf(2) + "' cannot be reached by ssh");
  words.insert(words.end(), {"--interface", "10.99.0.0/16", "--exclude", namespaces_->addressOf(2), "--json"});
  result = runCommand(words);
  EXPECT_EQ(result.status, 69) << result.output << result.errors;
  EXPECT_CONTAINS(result.output,
                  "\"listen_error\": \"--interface is '10.99.0.0/16', which holds no address of this host");
}

TEST(AMachinesFile, ReplacesNothingElse) {
  const TemporaryFolder files;
  for (const std::string text : {"my notes\n", "{\"name\": \"mine\"}\n", "[1, 2]"}) {
    const CommandResult result = runCommand({hyc::places::program("hyc-bench"), "-o", files.write("mine", text)});
    EXPECT_EQ(result.status, 65) << result.errors;
    EXPECT_CONTAINS(result.errors, "is there and is no machine's file");
    EXPECT_EQ(files.read("mine"), text);
  }
}

TEST_F(HostsBySsh, SaveNothingThatTheLogCannotTell) {
  MAKE_HOSTS_WITH_SSH(2);
  const CommandResult result =
      RunningCommand(command({"--steps", "1000000000", "--log-file", "/dev/full", "--checkpoint", folder_ / "runs",
                              "--checkpoint-every", "1000000000"}))
          .finish();
  EXPECT_EQ(result.status, 74) << result.errors;
  EXPECT_CONTAINS(result.errors, "cannot write the log file '/dev/full': No space left on device");
  expectNoneLeft();
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "runs")) ADD_FAILURE() << entry.path();
}

TEST(ACpu, ThatLacksWhatProgramsWereCompiledForIsToldSo) {
  CompiledFolder folder(Layout{1, 1, 1});
  std::string manifest = folder.files().read("manifest.json");
  const auto write = [&](const std::string& instructions) {
    std::string text = manifest;
    folder.files().write("manifest.json", text.insert(1, "\"cpu\": {\"march\": \"native\", \"instructions\": [" +
                                                             instructions + "]}, "));
  };
  write("\"of_no_cpu\", \"nor_of_this\"");
  for (const std::vector<std::string>& words :
       {folder.command({}), {folder / "bin/stage0", "--out", folder.path(), "--data", folder / "text"}}) {
    const CommandResult result = runCommand(words);
    EXPECT_EQ(result.status, 69) << result.errors;
    EXPECT_CONTAINS(result.errors, "'" + folder.path() +
                                       "' was compiled for CPUs with of_no_cpu, nor_of_this, and this "
                                       "host's (");
  }
  write("");
  EXPECT_EQ(runCommand(folder.command({"--steps", "1"})).status, 0);
  write("1");
  const CommandResult wrong = runCommand(folder.command({}));
  EXPECT_EQ(wrong.status, 65);
  EXPECT_CONTAINS(wrong.errors, "/cpu/instructions: expected texts");
}

TEST(Hostfile, IsRefusedWithItsLine) {
  CompiledFolder folder(kEight);
  const std::vector<std::pair<std::string, std::string>> rows{
      {"a slots=4\n-oProxyCommand=x slots=4\n", "hosts:2: '-oProxyCommand=x' is no host's name"},
      {"a;b slots=4\n", "hosts:1: 'a;b' is no host's name"},
      {"$(x) slots=4\n", "hosts:1: '$(x)' is no host's name"},
      {"a slots=0\n", "hosts:1: 'slots=0' is found, expected slots from 1"},
      {"a slots=4\n\na slots=4\n", "hosts:3: host 'a' is named twice"},
      {"a\n", "hosts:1: 'a' is followed by '', expected slots=N"},
      {"# nothing\n", "no host is named"}};
  for (const auto& [text, why] : rows) {
    folder.files().write("hosts", text);
    const CommandResult result = runCommand(folder.command({"--hostfile", folder / "hosts"}));
    EXPECT_EQ(result.status, 65) << result.errors;
    EXPECT_CONTAINS(result.errors, why);
  }
  folder.files().write("hosts", "a slots=4\nb slots=2\n");
  const auto expectUsage = [&](const std::vector<std::string>& more, const std::string& why) {
    std::vector<std::string> words{"--hostfile", folder / "hosts"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = runCommand(folder.command(words));
    EXPECT_EQ(result.status, 64) << result.errors;
    EXPECT_CONTAINS(result.errors, why);
  };
  expectUsage({}, "the hosts have 6 slots, and the programs are 8 ranks");
  expectUsage({"--include", "c"}, "--include names host 'c', which is not in the hostfile");
  expectUsage({"--exclude", "a:4"}, "--exclude names slot '4' of host 'a', which has slots 0 to 3");
  expectUsage({"--exclude", "a@b"}, "--exclude leaves no host");
  expectUsage({"--include", "a:0,1@b"}, "the hosts have 4 slots");
  expectUsage({"--include", "a", "--exclude", "b"}, "are both given");
  EXPECT_EQ(runCommand(folder.command({"--hostfile", folder / "missing"})).status, 74);
  EXPECT_EQ(runCommand(folder.command({"--include", "a"})).status, 64);
}

}  // namespace
