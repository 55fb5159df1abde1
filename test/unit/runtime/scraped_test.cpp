// Runs that are asked for their metrics, and the file for node_exporter: by sockets of the test's own, by promtool, and
// by a Prometheus that scrapes. Clients that say nothing, or nonsense, do not hold a run up.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "claimed_port.h"
#include "compiled_folder.h"
#include "own_launch.h"
#include "run_command.h"
#include "temporary_folder.h"
#include "test/Places.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr Layout kOne{1, 1, 1}, kTwo{2, 1, 1};

// A connection to this host; closed on destruction.
class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    isOpen_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  bool isOpen() const { return isOpen_; }
  void say(const std::string& text) const { (void)!send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  std::string hear() const {
    std::string text;
    char bytes[4096];
    for (pollfd polled{fd_, POLLIN, 0}; poll(&polled, 1, 10000) > 0;) {
      const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
      if (count <= 0) break;
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  int fd_;
  bool isOpen_ = false;
};

std::string ask(int port, const std::string& path) {
  const Client client(port);
  client.say("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return client.hear();
}

// Samples of the text format by name.
std::map<std::string, double> samplesIn(const std::string& text) {
  std::map<std::string, double> samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (line.compare(0, 4, "hyc_") == 0) samples[line.substr(0, space)] = std::strtod(line.c_str() + space, nullptr);
  }
  return samples;
}

// As a URL has it.
std::string escaped(const std::string& text) {
  std::string all;
  for (const char byte : text) {
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    all += std::isalnum(static_cast<unsigned char>(byte)) ? std::string(1, byte) : code;
  }
  return all;
}

bool isThere(const std::string& program) { return runCommand({"/bin/sh", "-c", "command -v " + program}).status == 0; }

class Scraped : public testing::Test {
 protected:
  // Of a run that goes on until it is killed: as it is told.
  std::unique_ptr<RunningCommand> start(const std::vector<std::string>& more, const Environment& environment = {}) {
    std::vector<std::string> words{"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>" + said()};
    const std::vector<std::string> command = folder_.command([&] {
      std::vector<std::string> all{"--steps", "1000000000", "--prometheus", "0"};
      all.insert(all.end(), more.begin(), more.end());
      return all;
    }());
    words.insert(words.end(), command.begin(), command.end());
    auto run = std::make_unique<RunningCommand>(words, environment);
    for (int i = 0; i < 2000 && portIn(files_.read("said")) == 0; ++i) usleep(5000);
    port_ = portIn(files_.read("said"));
    EXPECT_GT(port_, 0) << files_.read("said");
    for (int i = 0; i < 2000 && samples().count("hyc_step") == 0; ++i) usleep(5000);
    return run;
  }
  std::map<std::string, double> samples() const { return samplesIn(ask(port_, "/metrics")); }
  std::string said() const { return files_ / "said"; }
  static int portIn(const std::string& text) {
    const std::string mark = "metrics: http://127.0.0.1:";
    const size_t begin = text.find(mark), end = text.find("/metrics\n");
    return begin == std::string::npos || end == std::string::npos ? 0 : std::atoi(text.c_str() + begin + mark.size());
  }

  CompiledFolder folder_{kTwo};
  TemporaryFolder files_;
  int port_ = 0;
};

TEST_F(Scraped, ARunTellsItsNewestStep) {
  const auto run = start({"--log-file", files_ / "log"}, {{"MINIATURE_PAUSE", "5"}});
  const auto first = samples();
  EXPECT_GE(first.at("hyc_step"), 1);
  EXPECT_EQ(first.at("hyc_planned_steps"), 1e9);
  EXPECT_GT(first.at("hyc_step_duration_seconds"), 0);
  EXPECT_LT(first.at("hyc_step_duration_seconds"), 30);
  std::map<std::string, double> later = first;
  for (int i = 0; i < 1000 && later.at("hyc_step") < first.at("hyc_step") + 3; ++i) usleep(5000), later = samples();
  EXPECT_GE(later.at("hyc_step"), first.at("hyc_step") + 3);
  EXPECT_EQ(later.at("hyc_steps_total"), later.at("hyc_step"));
  // As the log has it.
  std::ifstream log(files_ / "log");
  std::string line;
  for (int i = 0; i < static_cast<int>(later.at("hyc_step")); ++i) std::getline(log, line);
  EXPECT_EQ(json::parse(line)["loss"].get<double>(), later.at("hyc_loss"));
}

TEST_F(Scraped, ClientsThatSayNothingOrNonsenseHoldNothingUp) {
  const auto run = start({}, {{"MINIATURE_PAUSE", "5"}});
  const double before = samples().at("hyc_step");
  const Client silent(port_), slow(port_), gone(port_);
  slow.say("GET /met");
  EXPECT_CONTAINS(ask(port_, "/"), "404");
  {
    const Client client(port_);
    client.say(std::string(100000, 'x'));
  }
  const Client tls(port_);
  tls.say(std::string("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 11));
  EXPECT_CONTAINS(tls.hear(), "400 Bad Request");
  EXPECT_CONTAINS(ask(port_, "/metrics"), "hyc_loss ");
  EXPECT_GT(samples().at("hyc_step"), before);
}

TEST_F(Scraped, APortInUseIsNamed) {
  const auto run = start({});
  const std::string port = std::to_string(port_);
  const CommandResult second = runCommand(folder_.command({"--steps", "1", "--prometheus", port}));
  EXPECT_EQ(second.status, 69);
  EXPECT_CONTAINS(second.errors, "cannot listen on '" + port + "' (--prometheus): Address already in use");
  EXPECT_EQ(second.output, "");
}

TEST_F(Scraped, OfRanksOfOtherLaunchersRank0Answers) {
  OwnLaunch launch(folder_, kTwo, claimPort(), {{"MINIATURE_PAUSE", "20"}},
                   {"--steps", "60", "--prometheus", "0", "--prometheus-textfile", files_ / "run.prom"});
  for (int i = 0; i < 2000 && samplesIn(files_.read("run.prom")).count("hyc_step") == 0; ++i) usleep(5000);
  const CommandResult result = launch.ranks[0]->finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_GT(portIn(result.errors), 0) << result.errors;
  EXPECT_EQ(launch.ranks[1]->finish().errors, "");
  EXPECT_EQ(samplesIn(files_.read("run.prom")).at("hyc_step"), 60);
}

// What has happened is counted, and the file is there after the run.
TEST_F(Scraped, TheTextfileIsWholeAndCountsEvents) {
  const std::string text = files_ / "run.prom";
  const std::vector<std::string> words{
      "--steps", "12", "--checkpoint", files_ / "runs", "--checkpoint-every", "5", "--prometheus-textfile", text};
  for (int run = 0; run < 2; ++run) {
    const CommandResult result = runCommand(folder_.command(words));
    ASSERT_EQ(result.status, 0) << result.errors;
    const auto found = samplesIn(files_.read("run.prom"));
    EXPECT_EQ(found.at("hyc_step"), 12);
    EXPECT_EQ(found.at("hyc_checkpoints_total"), 3);
    EXPECT_GT(found.at("hyc_checkpoint_seconds_total"), 0);
    EXPECT_EQ(found.at("hyc_restarts_total"), 0);
    fs::remove_all(files_ / "runs");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(files_.path()), fs::directory_iterator()), 1) << "beside run.prom";
  if (!isThere("promtool")) GTEST_SKIP() << "there is no promtool (apt-get install prometheus)";
  const CommandResult checked = runCommand({"/bin/sh", "-c", "promtool check metrics <" + text});
  EXPECT_EQ(checked.status, 0) << checked.output << checked.errors;
  EXPECT_EQ(checked.output + checked.errors, "") << "promtool has remarks";
}

TEST_F(Scraped, APrometheusHasTheSeries) {
  if (!isThere("prometheus")) GTEST_SKIP() << "there is no Prometheus (apt-get install prometheus)";
  const auto run = start({}, {{"MINIATURE_PAUSE", "5"}});
  files_.write("prometheus.yml",
               "scrape_configs:\n- job_name: hyc\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n  "
               "static_configs:\n  - targets: ['127.0.0.1:" +
                   std::to_string(port_) + "']\n");
  const int port = claimPort();
  const RunningCommand prometheus({"/usr/bin/env", "prometheus", "--config.file=" + files_ / "prometheus.yml",
                                   "--storage.tsdb.path=" + files_ / "data",
                                   "--web.listen-address=127.0.0.1:" + std::to_string(port), "--log.level=error"});
  const auto query = [&](const std::string& expression) {
    const std::string answer = ask(port, "/api/v1/query?query=" + expression);
    const json found = json::parse(answer.substr(std::min(answer.find("{"), answer.size())), nullptr, false);
    return found.is_object() && found["status"] == "success" ? found["data"]["result"] : json::array();
  };
  json loss = json::array();
  for (int i = 0; i < 200 && loss.empty(); ++i) usleep(100000), loss = query("hyc_loss");
  ASSERT_EQ(loss.size(), 1u) << query("up").dump() << ask(port, "/api/v1/targets") << ask(port_, "/metrics");
  EXPECT_EQ(loss[0]["metric"]["job"], "hyc");
  EXPECT_GT(std::stod(loss[0]["value"][1].get<std::string>()), 0);
  // Every query of the dashboard finds something, its rates too, which want two scrapes.
  std::ifstream file(hyc::places::inTree("deploy/grafana/hyc-runs.json"));
  const json dashboard = json::parse(file);
  int queries = 0;
  for (const json& panel : dashboard["panels"]) {
    for (const json& target : panel["targets"]) {
      std::string expression = target["expr"];
      const std::string interval = "$__rate_interval";  // Grafana's, of four scrapes
      for (size_t at; (at = expression.find(interval)) != std::string::npos;)
        expression.replace(at, interval.size(), "30s");
      json found = query(escaped(expression));
      for (int i = 0; i < 600 && found.empty(); ++i) usleep(50000), found = query(escaped(expression));
      EXPECT_GE(found.size(), 1u) << panel["title"] << ": " << expression;
      ++queries;
    }
  }
  EXPECT_GE(queries, 15);
  EXPECT_EQ(query("up")[0]["value"][1], "1");
  EXPECT_EQ(query("time()-hyc_last_step_timestamp_seconds")[0]["metric"]["job"], "hyc");
}

}  // namespace
