// Lines of a run, and its curve.
#include "instruments/live_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace hycrt {
namespace {

constexpr size_t kMostBar = 40, kLeastCurve = 8;
constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr const char* kAscii[] = {"_", ".", "-", "=", "+", "*", "%", "#"};
constexpr int kLevels = 8;

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string cut(std::string text, size_t width) {
  text.resize(std::min(text.size(), width));
  return text;
}

std::string mebibytes(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 10240 ? format("%.1f MiB", mib) : format("%.1f GiB", mib / 1024);
}

}  // namespace

void LossCurve::add(double loss) {
  if (count_ == 0 || last_ == steps_) {
    if (count_ == kMeans) {
      for (size_t i = 0; i < kMeans / 2; ++i) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
      count_ = kMeans / 2;
      steps_ *= 2;
    }
    sums_[count_++] = 0;
    last_ = 0;
  }
  sums_[count_ - 1] += loss;
  ++last_;
}

std::vector<double> LossCurve::means(size_t most) const {
  const size_t shown = std::min(most, count_);
  std::vector<double> values;
  for (size_t i = 0; i < shown; ++i) {
    const size_t begin = i * count_ / shown, end = (i + 1) * count_ / shown;
    double sum = 0, steps = 0;
    for (size_t mean = begin; mean < end; ++mean) {
      sum += sums_[mean];
      steps += static_cast<double>(mean + 1 == count_ ? last_ : steps_);
    }
    values.push_back(sum / steps);
  }
  return values;
}

std::string sparkline(const std::vector<double>& values, Glyphs glyphs) {
  double least = INFINITY, most = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  std::string line;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      line += '!';
      continue;
    }
    const double height = most > least ? (value - least) / (most - least) : 0;
    const int level = std::min(kLevels - 1, static_cast<int>(height * kLevels));
    line += (glyphs == Glyphs::kBlocks ? kBlocks : kAscii)[level];
  }
  return line;
}

void LiveView::add(const StepRecord& record) {
  if (record.batches > 0) {
    evaluation_ = record;
    return;
  }
  if (newest_.step == 0) first_ = record.loss;
  newest_ = record;
  curve_.add(record.loss);
}

std::string LiveView::progress(size_t width, Glyphs glyphs) const {
  const double part = newest_.steps > 0 ? static_cast<double>(newest_.step) / static_cast<double>(newest_.steps) : 1.0;
  const std::string head = (newest_.evaluates ? "batch " : "step  ") + std::to_string(newest_.step) + "/" +
                           std::to_string(newest_.steps) + "  ";
  const std::string tail = format("  %5.1f %%", part * 100) + "   left " + duration(newest_.etaSeconds);
  if (head.size() + tail.size() + kLeastCurve > width) return cut(head + tail, width);
  const size_t bar = std::min(kMostBar, width - head.size() - tail.size());
  const size_t done = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(bar));
  std::string line = head;
  for (size_t i = 0; i < bar; ++i) {
    line += glyphs == Glyphs::kBlocks ? (i < done ? "█" : "░") : (i < done ? "#" : "-");
  }
  return line + tail;
}

std::string LiveView::loss(size_t width, Glyphs glyphs) const {
  const std::string head = "loss  " + format("%.5f", newest_.loss) + "  ";
  const std::string tail = newest_.step > 1 ? "  from " + format("%.5f", first_) : "";
  if (head.size() + tail.size() + kLeastCurve > width) return cut(head + tail, width);
  return head + sparkline(curve_.means(width - head.size() - tail.size()), glyphs) + tail;
}

std::vector<std::string> LiveView::lines(size_t width, Glyphs glyphs) const {
  std::vector<std::string> lines;
  if (newest_.step > 0) {
    lines.push_back(progress(width, glyphs));
    lines.push_back(loss(width, glyphs));
    std::string rates = "      " + format("%.1f ms", newest_.milliseconds) + "   " + rateOf(newest_);
    if (newest_.residentBytes > 0) {
      rates += "   memory " + mebibytes(newest_.residentBytes) + " of " + mebibytes(newest_.plannedBytes) + " planned";
    }
    lines.push_back(cut(rates, width));
    std::string update =
        "      grad norm " + format("%.3e", newest_.gradNorm) + "   lr " + format("%.3e", newest_.learningRate);
    if (newest_.lossScale != 0) {
      update += "   scale " + format("%g", newest_.lossScale) + "   skipped " + std::to_string(newest_.skipped);
    }
    if (newest_.evaluates) {
      update = "      perplexity " + format("%.3f", std::exp(newest_.loss));
      if (newest_.accuracy) update += "   accuracy " + format("%.2f %%", *newest_.accuracy * 100);
    }
    lines.push_back(cut(update, width));
  }
  if (evaluation_.step > 0) {
    std::string held = "held-out loss " + format("%.5f", evaluation_.loss) + " after step " +
                       std::to_string(evaluation_.step) + "   perplexity " + format("%.3f", std::exp(evaluation_.loss));
    if (evaluation_.accuracy) held += "   accuracy " + format("%.2f %%", *evaluation_.accuracy * 100);
    lines.push_back(cut(held, width));
  }
  return lines;
}

}  // namespace hycrt
