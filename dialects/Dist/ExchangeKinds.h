// What holds of a kind of exchange in every phase: how many parts its operand and its result have, whether it combines,
// how much each member sends. Verifiers, lowering, interpreter, account and printers ask here instead of naming kinds.
#ifndef HYC_DIALECTS_DIST_EXCHANGEKINDS_H
#define HYC_DIALECTS_DIST_EXCHANGEKINDS_H

#include "dialects/Dist/DistDialect.h"

namespace hyc::dist {

struct ExchangeFacts {
  /// Terms of members become one, so that the result has new numbers in it.
  bool combines = false;
  /// The operand has a part for each member; the result has one of each member. An exchange with neither works on
  /// tensors of one size; in phase 5 the count of elements is that of one part.
  bool takesParts = false, givesParts = false;
  /// Works on flat shards of several tensors, too.
  bool hasFlatForm = false;
  /// The result lies apart from the operand: what one member reads, another may not have overwritten.
  bool isApart = false;
};

const ExchangeFacts &factsOf(ExchangeKind kind);

/// Bytes that a member of a group of `members` sends, of a tensor that has `bytes` on the side where it is whole. Those
/// of the best algorithm that is known for each: a ring, or one message a pair.
double sentBytes(ExchangeKind kind, double bytes, int64_t members);

/// "all_reduce, reduce_scatter, … or shift", for messages.
std::string listExchangeKinds();

} // namespace hyc::dist

#endif // HYC_DIALECTS_DIST_EXCHANGEKINDS_H
