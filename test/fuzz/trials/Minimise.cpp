// The words of a finding without what differs from input to input.
#include "Minimise.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Regex.h"

#include <cctype>
#include <sstream>

using namespace hyc::fuzzing;

/// Paths, numbers, types and short names, as t5, are left out; so is all that is not a word.
static std::string wordsOf(const std::string &said) {
  std::string words;
  std::stringstream stream(said);
  for (std::string piece; stream >> piece;) {
    if (piece.find('/') != std::string::npos || piece.find("tensor<") != std::string::npos)
      continue;
    std::string word;
    for (char c : piece + " ")
      if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
        word += c;
      } else {
        words += word.size() > 2 ? word + " " : "";
        word.clear();
      }
  }
  return words;
}

bool hyc::fuzzing::isSameFinding(const Verdict &one, const Verdict &other) {
  return one.code == other.code && one.finding == other.finding && wordsOf(one.said) == wordsOf(other.said);
}

Verdict hyc::fuzzing::lookFor(Verdict verdict, const std::string &pattern) {
  if (pattern.empty())
    return verdict;
  verdict.finding = llvm::Regex(llvm::StringRef(pattern)).match(verdict.said) ? "says what is looked for" : "";
  return verdict;
}
