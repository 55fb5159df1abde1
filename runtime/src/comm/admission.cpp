// Comparing what ranks say of themselves.
#include "comm/admission.h"

#include <cstdio>

namespace hycrt {

static std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string describe(const RankHello& hello) {
  return "rank " + std::to_string(hello.rank) + " (process " + std::to_string(hello.processId) +
         (hello.host.empty() ? "" : " on host '" + hello.host + "'") + ", program '" + hello.program + "', plan " +
         hexadecimal(hello.planHash) + ")";
}

Admission::Admission(const RankHello& own) : own_(own), agreement_(decodeAgreement(own.agreement)) {}

std::string Admission::misfit(const RankHello& hello, const RankHello* holder) {
  if (hello.planHash != own_.planHash) {
    return describe(hello) + " and " + describe(own_) +
           " run programs of different plans; start every rank from one compiled folder";
  }
  if (hello.worldSize != own_.worldSize || hello.rank < 0 || hello.rank >= own_.worldSize) {
    return describe(hello) + " of " + std::to_string(hello.worldSize) + " does not belong to a job of " +
           std::to_string(own_.worldSize) + " ranks, as " + describe(own_) + " does";
  }
  const Agreement theirs = decodeAgreement(hello.agreement);
  if (const std::string differing = disagreement(theirs, agreement_); !differing.empty()) {
    return describe(hello) + " and the ranks before it, with " + describe(own_) + ", disagree: " + differing +
           "; start every rank from one compiled folder, with the same options";
  }
  for (const auto& [name, value] : theirs) {
    if (value != kNoSay) agreement_[name] = value;  // rank 0 may have had no say
  }
  const RankHello* const taken = hello.rank == 0 ? &own_ : holder;
  if (!taken) return "";
  return describe(hello) + " has the rank of " + describe(*taken) + "; each rank may be started once";
}

}  // namespace hycrt
