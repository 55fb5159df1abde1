// Three lines a series: what it means, of which kind it is, its value.
#include "instruments/prometheus_text.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <set>

namespace hycrt {
namespace {

constexpr char kBegin[] = "# HELP hyc_";

void appendNumber(double value, std::string* text) {
  if (!std::isfinite(value)) {
    *text += std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
    return;
  }
  char digits[32];
  text->append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// A series stands once, of the record that comes first.
template <typename Record>
void append(MetricList<Record> metrics, const Record& record, std::set<std::string>* told, std::string* text) {
  for (const Metric<Record>& metric : metrics) {
    if (!metric.isIn(record) || !told->insert(metric.series).second) continue;
    const std::string name = metric.series;
    *text += "# HELP " + name + " " + metric.meaning + "\n# TYPE " + name +
             (metric.kind == MetricKind::kCounter ? " counter\n" : " gauge\n") + name + " ";
    appendNumber(metric.valueOf(record) * metric.baseUnit, text);
    *text += "\n";
  }
}

// The value of a label.
std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + "\"";
}

// One series a record, told apart by labels; what a series means stands once.
void append(const std::vector<ExchangeRecord>& exchanges, std::string* text) {
  if (exchanges.empty()) return;
  for (const Metric<ExchangeRecord>& metric : exchangeMetrics()) {
    const std::string name = metric.series;
    *text += "# HELP " + name + " " + metric.meaning + "\n# TYPE " + name + " counter\n";
    for (const ExchangeRecord& record : exchanges) {
      *text += name + "{kind=" + quoted(record.kind) + ",over=" + quoted(record.over) +
               ",cause=" + quoted(record.cause) + "} ";
      appendNumber(metric.valueOf(record) * metric.baseUnit, text);
      *text += "\n";
    }
  }
}

}  // namespace

std::string prometheusText(const RunSnapshot& snapshot) {
  std::string text;
  std::set<std::string> told;
  if (snapshot.step.step > 0) append(stepMetrics(), snapshot.step, &told, &text);
  if (snapshot.evaluation.step > 0) append(stepMetrics(), snapshot.evaluation, &told, &text);
  append(snapshot.exchanges, &text);
  append(totalMetrics(), snapshot.totals, &told, &text);
  return text;
}

bool isPrometheusText(const std::string& start) { return start.compare(0, sizeof kBegin - 1, kBegin) == 0; }

}  // namespace hycrt
