// A permutation of documents, and sums of their lengths along it.
#include "io/document_order.h"

#include <algorithm>

#include "io/shuffle.h"

namespace hycrt {

DocumentOrder::DocumentOrder(DocumentIndex* documents)
    : documents_(documents), begins_(static_cast<size_t>((documents->count() + kApart - 1) / kApart)) {}

// Of the document that is `place`th in the order.
Status DocumentOrder::documentAt(int64_t place, int64_t* begin, int64_t* end) {
  const Shuffle order(seed_, epoch_, static_cast<uint64_t>(documents_->count()));
  return documents_->find(static_cast<int64_t>(order(static_cast<uint64_t>(place))), begin, end);
}

Status DocumentOrder::makeList(uint64_t seed, uint64_t epoch) {
  if (isMade_ && seed_ == seed && epoch_ == epoch) return {};
  isMade_ = false;
  seed_ = seed;
  epoch_ = epoch;
  document_ = passed_ = 0;
  int64_t sum = 0, begin = 0, end = 0;
  for (int64_t place = 0; place < documents_->count(); ++place) {
    if (place % kApart == 0) begins_[static_cast<size_t>(place / kApart)] = sum;
    HYCRT_RETURN_IF_ERROR(documentAt(place, &begin, &end));
    sum += end - begin;
  }
  isMade_ = true;
  return {};
}

Status DocumentOrder::at(uint64_t seed, uint64_t epoch, int64_t place, int64_t most, Part* part) {
  HYCRT_RETURN_IF_ERROR(makeList(seed, epoch));
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), place);
  const int64_t kept = (after - begins_.begin() - 1) * kApart;
  // As a rule what was found last lies just before.
  if (place < passed_ || document_ < kept) {
    document_ = kept;
    passed_ = begins_[static_cast<size_t>(kept / kApart)];
  }
  for (; document_ < documents_->count(); ++document_) {
    int64_t begin = 0, end = 0;
    HYCRT_RETURN_IF_ERROR(documentAt(document_, &begin, &end));
    if (place < passed_ + end - begin) {
      const int64_t into = place - passed_;
      *part = {begin + into, std::min(most, end - begin - into), into == 0};
      return {};
    }
    passed_ += end - begin;
  }
  return internalError("place " + std::to_string(place) + " lies behind the last document");
}

}  // namespace hycrt
