// Agreement: what must be the same in all ranks of a job, as rows of text that two ranks can compare, and name what
// differs. A rank that has no say in a row (it reads no data, say) says so with kNoSay.
#ifndef HYCRT_SRC_COMM_AGREEMENT_H_
#define HYCRT_SRC_COMM_AGREEMENT_H_

#include <map>
#include <string>

namespace hycrt {

using Agreement = std::map<std::string, std::string>;

inline constexpr const char* kNoSay = "-";

// A line a row; what would end a line or a name is replaced.
std::string encodeAgreement(const Agreement& rows);
Agreement decodeAgreement(const std::string& text);

// "/learning_rate/base is 0.1 and 0.5; --seed is 3 and 4": what two ranks say otherwise; empty where they agree. Of
// many rows the first few.
std::string disagreement(const Agreement& a, const Agreement& b);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_AGREEMENT_H_
