// Reading shares, and dealing a step's micro-batches by them.
#include "run/batch_shares.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace hycrt {
namespace {

constexpr char kFlag[] = "--batch-shares";

// Whole numbers with commas; nothing where the text is something else.
std::vector<int64_t> numbersOf(const std::string& text) {
  std::vector<int64_t> numbers;
  const char* at = text.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    errno = 0;
    const long long number = std::strtoll(at, &end, 10);
    if (errno != 0) return {};
    numbers.push_back(number);
    if (*end == '\0') return numbers;
    if (*end != ',') return {};
    at = end + 1;
  }
  return {};
}

}  // namespace

BatchShares BatchShares::even(const Program& program) {
  BatchShares shares;
  shares.coordinates_ = sizeOf(program.mesh, program.mesh.batch);
  shares.most_ = program.batch.microBatches;
  shares.samples_ = program.batch.samples * shares.most_ * shares.coordinates_;
  return shares;
}

Result<BatchShares> BatchShares::of(const Program& program, const std::string& text) {
  BatchShares shares = even(program);
  if (text.empty()) return shares;
  const std::vector<int64_t> counts = numbersOf(text);
  if (counts.empty()) {
    return usageError(std::string(kFlag) + " is '" + text +
                      "', expected how many micro-batches each data-parallel coordinate takes, as in 5,3");
  }
  if (static_cast<int64_t>(counts.size()) != shares.coordinates_) {
    return usageError(std::string(kFlag) + " has " + std::to_string(counts.size()) + " numbers, but program '" +
                      program.name + "' has " + std::to_string(shares.coordinates_) +
                      " data-parallel coordinates (dp); give one number for each");
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] >= 1 && counts[i] <= shares.most_) continue;
    return usageError(std::string(kFlag) + " gives coordinate " + std::to_string(i) + " " + std::to_string(counts[i]) +
                      " micro-batches, expected 1 to the " + std::to_string(shares.most_) +
                      " that the programs were compiled for; compile with a larger --grad-accum");
  }
  if (program.meetsInMicroBatches && std::count(counts.begin(), counts.end(), counts[0]) != shares.coordinates_) {
    return usageError(std::string(kFlag) + " is '" + text + "', but in every micro-batch of program '" + program.name +
                      "' ranks meet that would take different numbers of them (ZeRO 2 or 3, batch norm); give equal "
                      "shares, or compile with --zero 1");
  }
  shares.counts_ = counts;
  shares.samples_ = program.batch.samples * std::accumulate(counts.begin(), counts.end(), int64_t{0});
  return shares;
}

Status BatchShares::take(const Program& program, const std::string& text) {
  Result<BatchShares> shares = of(program, text);
  if (!shares.ok()) return shares.status();
  *this = std::move(*shares);
  return {};
}

int64_t BatchShares::numberOf(int64_t microBatch, int64_t coordinate) const {
  if (counts_.empty()) return microBatch * coordinates_ + coordinate;
  int64_t number = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    number += std::min(counts_[i], microBatch);
    number += static_cast<int64_t>(i) < coordinate && counts_[i] > microBatch;
  }
  return number;
}

}  // namespace hycrt
