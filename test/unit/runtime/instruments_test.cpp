// What instruments write, apart from runs: events as TensorBoard's own writer has them, byte by byte; rows of CSV, also
// of a run that goes on; the table that all of them are made from.
#include "hycrt/instruments.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <regex>
#include <set>

#include "hycrt/options.h"
#include "instruments/csv_file.h"
#include "instruments/event_message.h"
#include "instruments/live_view.h"
#include "instruments/metrics.h"
#include "instruments/prometheus_text.h"
#include "instruments/scrape_server.h"
#include "instruments/tensorboard_folder.h"
#include "run/tier_report.h"
#include "temporary_folder.h"
#include "test/Places.h"
#include "test_mesh.h"

static int64_t allocations = 0;
__attribute__((noinline)) void* operator new(size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace hycrt {
namespace {

namespace fs = std::filesystem;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    text += digits;
  }
  return text;
}

// RFC 3720 gives e3069283 for these nine bytes.
TEST(EventMessage, MasksTheChecksum) {
  const uint32_t crc = 0xE3069283;
  EXPECT_EQ(maskedCrc32c("123456789", 9), ((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
}

// The records are those of tensorboard 2.21 and Protobuf (RecordWriter, Event.SerializeToString).
TEST(EventMessage, IsWhatTensorBoardsOwnWriterMakes) {
  EventMessage version(1700000000.25, 0);
  version.setFileVersion("brain.Event:2");
  EXPECT_EQ(hex(version.record()), "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9");

  EventMessage values(1700000000.5, 300);
  EXPECT_TRUE(values.addValue("loss", 2.5));
  EXPECT_TRUE(values.addValue("lr", 0.001));
  EXPECT_EQ(hex(values.record()),
            "2600000000000000734fe3000900002040fc54d94110ac022a180a0b0a046c6f737315000020400a090a026c72156f12833abad47b"
            "51");

  EventMessage start(2, 21);
  start.setSessionStart();
  EXPECT_EQ(hex(start.record()), "0f000000000000006d532b0909000000000000004010153a020801d06350f8");
}

TEST(EventMessage, OfMoreThan127BytesHasALongerLength) {
  EventMessage message(1700000000.5, int64_t{1} << 53);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(message.addValue("time_metrics/end_to_end(s)", i / 4.0));
  std::string expected = "2d010000000000003a711aa30900002040fc54d9411080808080808080102a9802";
  for (const char* value :
       {"00000000", "0000803e", "0000003f", "0000403f", "0000803f", "0000a03f", "0000c03f", "0000e03f"}) {
    expected += std::string("0a210a1a74696d655f6d6574726963732f656e645f746f5f656e6428732915") + value;
  }
  EXPECT_EQ(hex(message.record()), expected + "4a836eff");
}

TEST(EventMessage, RefusesWhatHasNoRoom) {
  EventMessage message(0, 1);
  const std::string tag(100, 't');
  int taken = 0;
  while (taken < 1000 && message.addValue(tag, 1)) ++taken;
  EXPECT_GT(taken, 30);
  EXPECT_LT(taken, 41);
  EXPECT_LE(message.record().size(), 4096u);
}

StepRecord trainingStep(int64_t step) {
  StepRecord record;
  record.step = step;
  record.steps = 40;
  record.loss = 1.0 / static_cast<double>(step);
  record.gradNorm = 0.5;
  record.learningRate = 1e-3;
  record.milliseconds = 12.5;
  record.tokensPerSecond = 1024;
  record.etaSeconds = 3;
  return record;
}

StepRecord heldOut(int64_t step) {
  StepRecord record = trainingStep(step);
  record.evaluates = true;
  record.batches = 7;
  record.loss = 2;
  record.accuracy = 0.25;
  return record;
}

// A record with all that one can have.
StepRecord everything(StepRecord record) {
  record.exchangeMilliseconds = 2.5;
  record.lateMilliseconds = 1.5;
  record.lateRank = 3;
  record.residentBytes = 4096000;
  record.plannedBytes = 8192000;
  record.size = 256;
  record.lossScale = 65536;
  record.skipped = 2;
  record.momentum = 0.9;
  record.accuracy = 0.5;
  return record;
}

TEST(Metrics, HaveOneNameEachInEveryPlace) {
  const std::regex series("hyc_[a-z][a-z0-9_]*"), key("[a-z][a-z0-9_]*");
  for (const bool samples : {false, true}) {
    StepRecord evaluates = everything(trainingStep(3));
    evaluates.evaluates = true;
    for (StepRecord record : {everything(trainingStep(3)), everything(heldOut(3)), evaluates}) {
      if (samples) record.samplesPerSecond = 5;
      std::multiset<std::string> keys, tags, names;
      for (const Metric<StepRecord>& metric : stepMetrics()) {
        if (!metric.isIn(record)) continue;
        keys.insert(metric.key);
        tags.insert(metric.tag ? metric.tag : std::string(metric.key) + " has none");
        names.insert(metric.series);
        EXPECT_TRUE(std::regex_match(metric.key, key)) << metric.key;
        EXPECT_TRUE(std::regex_match(metric.series, series)) << metric.series;
        EXPECT_TRUE(std::isfinite(metric.valueOf(record))) << metric.key;
        EXPECT_FALSE(std::string(metric.meaning).empty()) << metric.key;
      }
      EXPECT_GE(keys.size(), 8u);
      for (const auto* all : {&keys, &tags, &names}) {
        for (const std::string& name : *all) EXPECT_EQ(all->count(name), 1u) << name;
      }
    }
  }
}

TEST(Metrics, ThatShareAColumnAreBehindEachOther) {
  std::set<std::string> columns;
  for (const Metric<StepRecord>& metric : stepMetrics()) {
    EXPECT_EQ(columns.insert(metric.key).second, isColumn(metric)) << metric.key;
  }
}

// By Prometheus' rules: counters, and they alone, end in _total, and names say the base unit.
TEST(Metrics, FollowPrometheusRules) {
  const auto endsIn = [](const std::string& name, const std::string& end) {
    return name.size() > end.size() && name.substr(name.size() - end.size()) == end;
  };
  std::map<std::string, std::string> meanings;
  for (const Metric<RunTotals>& metric : totalMetrics()) {
    const bool counts = metric.kind == MetricKind::kCounter;
    EXPECT_EQ(endsIn(metric.series, "_total"), counts) << metric.series;
    EXPECT_EQ(endsIn(metric.series, counts ? "_seconds_total" : "_seconds"), std::string(metric.unit) == "s")
        << metric.series;
    EXPECT_TRUE(meanings.emplace(metric.series, metric.meaning).second) << metric.series;
  }
  for (const Metric<StepRecord>& metric : stepMetrics()) {
    EXPECT_FALSE(endsIn(metric.series, "_total")) << metric.series;
    EXPECT_EQ(metric.kind, MetricKind::kGauge) << metric.series;
    const std::string unit = metric.unit;
    EXPECT_EQ(endsIn(metric.series, "_seconds"), unit == "s" || unit == "ms") << metric.series;
    EXPECT_EQ(endsIn(metric.series, "_bytes"), unit == "bytes") << metric.series;
    EXPECT_EQ(metric.baseUnit, unit == "ms" ? 1e-3 : 1.0) << metric.series;
    // Of a run that only evaluates and one that also does, the series is the same.
    EXPECT_EQ(meanings.emplace(metric.series, metric.meaning).first->second, metric.meaning) << metric.series;
  }
}

// No file of this process gets longer.
class LimitedFileSize {
 public:
  explicit LimitedFileSize(size_t bytes) : former_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit less{bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &less);
  }
  ~LimitedFileSize() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, former_);
  }
  LimitedFileSize(const LimitedFileSize&) = delete;
  LimitedFileSize& operator=(const LimitedFileSize&) = delete;

 private:
  void (*former_)(int);
  rlimit limit_{};
};

class Csv : public testing::Test {
 protected:
  std::string path() const { return folder_ / "log.csv"; }
  std::vector<std::string> rows() const {
    std::vector<std::string> found;
    std::istringstream text(folder_.read("log.csv"));
    for (std::string line; std::getline(text, line);) found.push_back(line);
    return found;
  }
  void write(CsvFile::Mode mode, const std::vector<StepRecord>& records) const {
    Result<std::unique_ptr<CsvFile>> file = CsvFile::open(path(), mode);
    ASSERT_TRUE(file.ok()) << file.status().message();
    for (const StepRecord& record : records) {
      const Status status = (*file)->step(record);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  }
  static std::vector<StepRecord> steps(int64_t first, int64_t last) {
    std::vector<StepRecord> all;
    for (int64_t step = first; step <= last; ++step) all.push_back(trainingStep(step));
    return all;
  }
  static constexpr CsvFile::Mode kAnew = CsvFile::Mode::kAnew, kGoesOn = CsvFile::Mode::kGoesOn;

  TemporaryFolder folder_;
};

TEST_F(Csv, HasAColumnAMetric) {
  StepRecord scaled = everything(trainingStep(2));
  scaled.loss = std::numeric_limits<double>::quiet_NaN();
  scaled.gradNorm = std::numeric_limits<double>::infinity();
  scaled.samplesPerSecond = 32;
  write(kAnew, {trainingStep(1), scaled, heldOut(2)});
  EXPECT_EQ(rows(), (std::vector<std::string>{
                        "step,steps,loss,perplexity,accuracy,evaluate_loss,evaluate_perplexity,evaluate_accuracy,"
                        "evaluate_batches,grad_norm,lr,momentum,ms,tokens_per_s,samples_per_s,eta_s,exchange_ms,"
                        "late_ms,late_rank,resident_bytes,planned_bytes,loss_scale,skipped,size",
                        "1,40,1,,,,,,,0.5,0.001,,12.5,1024,,3,,,,,,,,",
                        "2,40,nan,,,,,,,inf,0.001,0.9,12.5,,32,3,2.5,1.5,3,4096000,8192000,65536,2,256",
                        "2,40,,,,2,7.38905609893065,0.25,7,,,,12.5,1024,,,,,,,,,,"}));
}

TEST_F(Csv, BeginsAnewOnlyWithTheFirstRow) {
  write(kAnew, steps(1, 3));
  const std::string before = folder_.read("log.csv");
  write(kAnew, {});
  EXPECT_EQ(folder_.read("log.csv"), before);
  write(kAnew, steps(1, 1));
  EXPECT_EQ(rows().size(), 2u);
}

TEST_F(Csv, WithoutARowIsNotMade) {
  write(kAnew, {});
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(Csv, GoesOnWithEachStepOnce) {
  write(kAnew, steps(1, 25));
  const std::vector<std::string> whole = rows();
  write(kGoesOn, steps(21, 25));
  EXPECT_EQ(rows(), whole);
  // An evaluation after the step that was saved stays; those of steps that are done again go.
  write(kAnew, {trainingStep(1), trainingStep(2), heldOut(2), trainingStep(3), heldOut(3)});
  const std::vector<std::string> evaluated = rows();
  write(kGoesOn, {trainingStep(3), heldOut(3)});
  EXPECT_EQ(rows(), evaluated);
  // A run that was killed over a row.
  folder_.write("log.csv", folder_.read("log.csv") + "4,40,0.3");
  write(kGoesOn, {trainingStep(4)});
  ASSERT_EQ(rows().size(), evaluated.size() + 1);
  EXPECT_EQ(rows().back().substr(0, 10), "4,40,0.25,");
}

// More rows than are read at once.
TEST_F(Csv, GoesOnInALongFile) {
  write(kAnew, steps(1, 5000));
  const std::string whole = folder_.read("log.csv");
  ASSERT_GT(whole.size(), size_t{3} << 16);
  for (const int64_t first : {2, 1499, 1500, 1501, 4999, 5000}) {
    write(kGoesOn, steps(first, 5000));
    EXPECT_EQ(folder_.read("log.csv"), whole) << first;
  }
}

TEST_F(Csv, OfARestartHasEachStepOnce) {
  std::vector<StepRecord> records = steps(1, 9);
  for (const StepRecord& record : steps(5, 12)) records.push_back(record);
  write(kAnew, records);
  const std::vector<std::string> found = rows();
  write(kAnew, steps(1, 12));
  EXPECT_EQ(found, rows());
}

TEST_F(Csv, TakesNoForeignFile) {
  for (const std::string& content : {std::string("name,amount\nrent,900\n"), std::string("x"), std::string(100000, 'a'),
                                     CsvFile::header().substr(0, 20), "\x1b[31m" + CsvFile::header()}) {
    folder_.write("log.csv", content);
    for (const CsvFile::Mode mode : {kAnew, kGoesOn}) {
      const Result<std::unique_ptr<CsvFile>> file = CsvFile::open(path(), mode);
      ASSERT_FALSE(file.ok());
      EXPECT_EQ(file.status().code(), StatusCode::kData);
      EXPECT_NE(file.status().message().find("is not the CSV file of a run"), std::string::npos);
      EXPECT_LT(file.status().message().size(), 600u);
      EXPECT_EQ(folder_.read("log.csv"), content);
    }
  }
  EXPECT_EQ(CsvFile::open(folder_ / "no/where.csv", kAnew).status().code(), StatusCode::kIo);
  EXPECT_EQ(CsvFile::open(folder_.path(), kAnew).status().code(), StatusCode::kIo);
}

// A disk with room for a row and a half: by a limit of the process's, whose signal is ignored.
TEST_F(Csv, HasNoPartOfARowThatDidNotFit) {
  write(kAnew, steps(1, 2));
  const std::string before = folder_.read("log.csv");
  const LimitedFileSize limit(before.size() + 10);
  Result<std::unique_ptr<CsvFile>> file = CsvFile::open(path(), kGoesOn);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->step(trainingStep(3)).code(), StatusCode::kIo);
  EXPECT_EQ(folder_.read("log.csv"), before);
}

class Log : public testing::Test {
 protected:
  std::unique_ptr<StepLog> open(StepLog::Mode mode) const {
    Result<std::unique_ptr<StepLog>> log = StepLog::open(folder_ / "log.jsonl", mode);
    EXPECT_TRUE(log.ok()) << log.status().message();
    return std::move(*log);
  }
  std::string text() const { return folder_.read("log.jsonl"); }
  static constexpr StepLog::Mode kAnew = StepLog::Mode::kAnew, kAppend = StepLog::Mode::kAppend;
  const std::string kWhole = "{\"step\":1,\"steps\":2}\n{\"step\":2,\"steps\":2}\n";
  TemporaryFolder folder_;
};

TEST_F(Log, IsEmptiedOnlyByTheFirstLine) {
  folder_.write("log.jsonl", kWhole);
  EXPECT_TRUE(open(kAnew)->appendBehind("{\"event\":\"report\"}").ok());
  EXPECT_EQ(text(), kWhole) << "a run that told nothing";
  const std::unique_ptr<StepLog> log = open(kAnew);
  EXPECT_TRUE(log->appendBehind("{\"event\":\"restart\"}").ok());
  EXPECT_TRUE(log->append("{\"b\":2}").ok());
  EXPECT_TRUE(log->appendBehind("{\"event\":\"report\"}").ok());
  EXPECT_EQ(text(), "{\"event\":\"restart\"}\n{\"b\":2}\n{\"event\":\"report\"}\n");
}

TEST_F(Log, GoesOnBehindTheLastWholeLine) {
  for (const std::string& torn : {std::string(), std::string("{\"c\":"), std::string(200000, 'x')}) {
    folder_.write("log.jsonl", kWhole + torn);
    EXPECT_TRUE(open(kAppend)->append("{\"d\":4}").ok());
    EXPECT_EQ(text(), kWhole + "{\"d\":4}\n");
  }
  for (const char* torn : {"{", "{\"st", "{\"step\":3", "{\"step\":3,\"st", "{\"eve", "{\"event\":\"exch"}) {
    folder_.write("log.jsonl", torn);
    EXPECT_TRUE(open(kAppend)->append("{\"d\":4}").ok()) << torn;
    EXPECT_EQ(text(), "{\"d\":4}\n");
  }
}

// Lines of JSON are what users keep their data in.
TEST_F(Log, TakesNoForeignFile) {
  for (const std::string content :
       {"no line", "{\"text\":\"a tale\"}\n", "{\"step\":1,\"loss\":2.5}\n", "{\"step\": 1, \"steps\": 9}\n",
        "{\"event\":\"login\"}\n", "{\"event\":3}\n", "{\"event\": \"resume\"}\n", "[]\n"}) {
    folder_.write("log.jsonl", content);
    for (const StepLog::Mode mode : {kAnew, kAppend}) {
      const Result<std::unique_ptr<StepLog>> log = StepLog::open(folder_ / "log.jsonl", mode);
      ASSERT_FALSE(log.ok()) << content;
      EXPECT_EQ(log.status().code(), StatusCode::kData);
      EXPECT_NE(log.status().message().find("is not the log of a run"), std::string::npos) << log.status().message();
      EXPECT_EQ(folder_.read("log.jsonl"), content);
    }
  }
}

// The first one's lines are neither emptied nor mixed with another's.
TEST_F(Log, IsOneRunsAtATime) {
  std::optional<std::unique_ptr<StepLog>> first = open(kAnew);
  EXPECT_TRUE((*first)->append(kWhole.substr(0, kWhole.size() - 1)).ok());
  for (const StepLog::Mode mode : {kAnew, kAppend}) {
    const Result<std::unique_ptr<StepLog>> second = StepLog::open(folder_ / "log.jsonl", mode);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
    EXPECT_NE(second.status().message().find("another run is writing the log file"), std::string::npos);
  }
  EXPECT_EQ(text(), kWhole);
  first.reset();
  EXPECT_TRUE(StepLog::open(folder_ / "log.jsonl", kAppend).ok());
}

TEST_F(Log, KnowsEachFirstLineOfARun) {
  std::vector<std::string> lines = {toJson(trainingStep(1)), RunAccount().toJson(1)};
  for (int kind = 0; kind <= static_cast<int>(RunEvent::Kind::kRelayout); ++kind) {
    RunEvent event;
    event.kind = static_cast<RunEvent::Kind>(kind);
    lines.push_back(toJson(event));
  }
  StepRecord evaluation = trainingStep(1);
  evaluation.evaluates = true;
  lines.push_back(toJson(evaluation));
  for (const std::string& line : lines) {
    folder_.write("log.jsonl", line + "\n");
    EXPECT_TRUE(open(kAppend)->append("{\"d\":4}").ok()) << line;
    EXPECT_EQ(text(), line + "\n{\"d\":4}\n");
  }
}

TEST_F(Log, HasNoPartOfALineThatDidNotFit) {
  folder_.write("log.jsonl", kWhole);
  const LimitedFileSize limit(text().size() + 10);
  const Status status = open(kAppend)->append(trainingStep(1));
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("cannot write the log file"), std::string::npos) << status.message();
  EXPECT_EQ(text(), kWhole);
}

TEST_F(Csv, GoesIntoAPipe) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  const int reader = open(path().c_str(), O_RDONLY | O_NONBLOCK);
  write(kGoesOn, {trainingStep(3), trainingStep(4), trainingStep(4)});
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(reader, text.data(), text.size()))));
  close(reader);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(text.substr(0, CsvFile::header().size()), CsvFile::header());
}

TEST(TensorBoard, WritesAFileOfItsOwnBehindTheOthers) {
  TemporaryFolder folder;
  const std::string events = folder / "events";
  std::vector<std::string> inOrder;
  for (int run = 0; run < 3; ++run) {
    Result<std::unique_ptr<TensorBoardFolder>> file = TensorBoardFolder::open(events);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)->step(trainingStep(1)).ok());
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(events)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    ASSERT_EQ(names.size(), inOrder.size() + 1);
    EXPECT_TRUE(std::equal(inOrder.begin(), inOrder.end(), names.begin()));
    inOrder = names;
  }
  {
    EXPECT_TRUE(TensorBoardFolder::open(folder / "unused").ok());
  }
  EXPECT_TRUE(fs::is_empty(folder / "unused"));
  folder.write("file", "");
  EXPECT_EQ(TensorBoardFolder::open(folder / "file").status().code(), StatusCode::kIo);
  EXPECT_EQ(TensorBoardFolder::open("/proc/no/where").status().code(), StatusCode::kIo);
}

// As the format's description has it: HELP and TYPE once in front of each series, numbers as Go reads them.
TEST(PrometheusText, HasEachSeriesOnceWithTypeAndHelp) {
  RunSnapshot snapshot;
  EXPECT_EQ(prometheusText(snapshot).find("hyc_loss"), std::string::npos);
  EXPECT_EQ(prometheusText(snapshot).find("hyc_last_step"), std::string::npos);
  snapshot.step = everything(trainingStep(4));
  snapshot.step.gradNorm = std::numeric_limits<double>::infinity();
  snapshot.step.loss = std::numeric_limits<double>::quiet_NaN();
  snapshot.evaluation = heldOut(3);
  snapshot.totals.steps = 4;
  snapshot.totals.stepSeconds = 0.05;
  const std::string text = prometheusText(snapshot);
  EXPECT_TRUE(isPrometheusText(text));
  EXPECT_FALSE(isPrometheusText("# HELP node_cpu"));
  const auto has = [&](const std::string& lines) {
    EXPECT_NE(("\n" + text).find("\n" + lines), std::string::npos) << text;
  };
  has("# TYPE hyc_step gauge\nhyc_step 4\n");
  has("# HELP hyc_loss Mean loss over what counts of the global batch, before the update\n# TYPE hyc_loss "
      "gauge\nhyc_loss NaN\n");
  has("hyc_gradient_norm +Inf\n");
  has("hyc_evaluation_loss 2\n");
  has("hyc_step_duration_seconds 0.0125\n");
  has("# TYPE hyc_steps_total counter\nhyc_steps_total 4\n");
  has("hyc_step_seconds_total 0.05\n");
  std::multiset<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line[0] != '#') names.insert(line.substr(0, line.find(' ')));
  }
  EXPECT_GT(names.size(), 20u);
  for (const std::string& name : names) EXPECT_EQ(names.count(name), 1u) << name;
}

TEST(ScrapeServer, AnswersOnlyScrapes) {
  const auto answer = [](const std::string& request) { return answerTo(request, [] { return "hyc_step 4\n"; }); };
  const std::string found = answer("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(found.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_NE(found.find("\r\nContent-Length: 11\r\n"), std::string::npos);
  EXPECT_EQ(found.substr(found.find("\r\n\r\n") + 4), "hyc_step 4\n");
  const std::string head = answer("HEAD /metrics HTTP/1.0\r\n\r\n");
  EXPECT_EQ(head, found.substr(0, found.find("\r\n\r\n") + 4));
  EXPECT_EQ(answer("GET /metrics?x=1 HTTP/1.1\r\n\r\n"), found);
  EXPECT_EQ(answer("GET / HTTP/1.1\r\n\r\n").substr(9, 3), "404");
  EXPECT_EQ(answer("GET /metrics/../x HTTP/1.1\r\n\r\n").substr(9, 3), "404");
  EXPECT_EQ(answer("POST /metrics HTTP/1.1\r\n\r\n").substr(9, 3), "405");
  for (const std::string& request :
       {std::string(), std::string("GET"), std::string("GET /metrics"), std::string(9000, ' '),
        std::string("\x16\x03\x01\0\0", 5), std::string(" HTTP/")}) {
    EXPECT_EQ(answer(request).substr(9, 3), "400") << request.size();
  }
}

// What goes through the pipe between a rank and hyc-run loses nothing.
TEST(StepRecord, ComesBackFromJson) {
  for (const StepRecord& record : {everything(trainingStep(3)), trainingStep(3), heldOut(4)}) {
    const Result<StepRecord> read = parseStepRecord(toJson(record));
    ASSERT_TRUE(read.ok()) << read.status().message();
    for (const Metric<StepRecord>& metric : stepMetrics()) {
      ASSERT_EQ(metric.isIn(*read), metric.isIn(record)) << metric.key;
      EXPECT_TRUE(!metric.isIn(record) || metric.valueOf(*read) == metric.valueOf(record)) << metric.key;
    }
  }
  EXPECT_FALSE(parseStepRecord(R"({"step":1,"steps":2,"resident_bytes":-1})").ok());
  EXPECT_FALSE(parseStepRecord(R"({"step":1,"steps":2,"planned_bytes":1e300})").ok());
}

TEST(LossCurve, HasTheMeansOfEquallyManySteps) {
  LossCurve curve;
  EXPECT_TRUE(curve.means(10).empty());
  for (int step = 0; step < 10; ++step) curve.add(step);
  EXPECT_EQ(curve.means(5), (std::vector<double>{0.5, 2.5, 4.5, 6.5, 8.5}));
  EXPECT_EQ(curve.means(100).size(), 10u);
  // However long the run is: a straight line stays one.
  for (int step = 10; step < 100000; ++step) curve.add(step);
  const std::vector<double> means = curve.means(64);
  ASSERT_EQ(means.size(), 64u);
  for (size_t i = 0; i < means.size(); ++i) {
    EXPECT_NEAR(means[i], (static_cast<double>(i) + 0.5) / 64 * 100000, 1000) << i;
  }
}

TEST(Sparkline, GoesFromTheLeastToTheMost) {
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, Glyphs::kAscii), "_.-=+*%#");
  EXPECT_EQ(sparkline({7, 0}, Glyphs::kBlocks), "█▁");
  EXPECT_EQ(sparkline({3, 3, 3}, Glyphs::kAscii), "___");
  EXPECT_EQ(sparkline({0, NAN, 1, INFINITY}, Glyphs::kAscii), "_!#!");
}

TEST(LiveView, IsNeverWiderThanTheTerminal) {
  LiveView view;
  EXPECT_TRUE(view.lines(80, Glyphs::kAscii).empty());
  for (int64_t step = 1; step <= 40; ++step) view.add(everything(trainingStep(step)));
  view.add(heldOut(40));
  for (size_t width = 1; width < 200; ++width) {
    for (const Glyphs glyphs : {Glyphs::kAscii, Glyphs::kBlocks}) {
      const std::vector<std::string> lines = view.lines(width, glyphs);
      EXPECT_EQ(lines.size(), 5u);
      for (const std::string& line : lines) {
        const auto columns = std::count_if(line.begin(), line.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
        EXPECT_LE(static_cast<size_t>(columns), width) << line;
      }
    }
  }
  const std::vector<std::string> lines = view.lines(79, Glyphs::kAscii);
  EXPECT_NE(lines[0].find("40/40  ####"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("100.0 %"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("loss  0.02500  #"), std::string::npos) << lines[1];
  EXPECT_NE(lines[1].find("_  from 1.00000"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("1024 tokens/s   memory 3.9 MiB of 7.8 MiB planned"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("scale 65536   skipped 2"), std::string::npos) << lines[3];
  EXPECT_NE(lines[4].find("held-out loss 2.00000 after step 40"), std::string::npos) << lines[4];
}

TEST(Instruments, AllocateNothingInAStep) {
  TemporaryFolder folder;
  RunOptions options;
  options.logFile = folder / "log.jsonl";
  options.csv = folder / "log.csv";
  options.tensorboard = folder / "events";
  options.prometheus = "0";
  Result<std::unique_ptr<Instruments>> instruments = Instruments::open(options);
  ASSERT_TRUE(instruments.ok()) << instruments.status().message();
  std::vector<StepRecord> records;
  for (int64_t step = 1; step <= 50; ++step) records.push_back(everything(trainingStep(step)));
  records.push_back(heldOut(50));
  ASSERT_TRUE((*instruments)->step(records.front()).ok());  // the files begin
  const int64_t before = allocations;
  for (size_t i = 1; i < records.size(); ++i) EXPECT_TRUE((*instruments)->step(records[i]).ok());
  EXPECT_EQ(allocations, before);
  EXPECT_GT((*instruments)->nanoseconds(), 0);
}

// A look at a link before the first step may find it slower than exchanges do later, which are the better witnesses.
TEST(TierReport, ALinkGivesAtLeastWhatExchangesGot) {
  const double stepNs = 10e6, receivingNs = 1e6;  // 2.5 MB in a millisecond are 20 Gb/s
  const std::vector<RankExchanges> ranks{{"alpha", stepNs, 0, 1e6, 2.5e6, receivingNs, 1e9},
                                         {"beta", stepNs, 0, 1e6, 2.5e6, receivingNs, 5e9}};
  std::string said;
  for (const std::string& line : describeTiers(ranks, meshOf(1, 1, 2), 20).lines) said += line + "\n";
  EXPECT_NE(said.find("at 20 Gb/s, 100 % of the 20 Gb/s that its link"), std::string::npos) << said;
  EXPECT_NE(said.find("at 20 Gb/s, 50 % of the 40 Gb/s that its link"), std::string::npos) << said;
  EXPECT_EQ(said.find("warning: the network gives"), std::string::npos) << said;
}

// docs/instruments.md is held to the table.
TEST(Metrics, AreInTheDocumentation) {
  std::ostringstream page;
  page << std::ifstream(hyc::places::inTree("docs/instruments.md")).rdbuf();
  EXPECT_NE(page.str().find(metricsTable()), std::string::npos)
      << "put what hyc-run --print-metrics prints into docs/instruments.md";
}

}  // namespace
}  // namespace hycrt
