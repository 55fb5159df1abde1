// Patterns of names, as flags and files give them: regular expressions whose cost is bounded, whoever wrote them. A
// pattern is at most so long, so deep and so large once its repetitions are written out; matching looks at each
// character of a name once for each state.
//
// POSIX extended syntax without back-references: . [a-z] [^a-z] [[:alpha:]] ( ) | * + ? {m,n} ^ $, and \d \w \s.
// A pattern matches anywhere in a name unless it says ^ or $.
#ifndef HYC_SUPPORT_NAMEPATTERN_H
#define HYC_SUPPORT_NAMEPATTERN_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <bitset>
#include <string>
#include <vector>

namespace hyc {

class NamePattern {
public:
  static constexpr size_t kMostCharacters = 1024, kMostNesting = 32, kMostStates = 2048;

  /// An error says what is wrong with the text and at which character, but does not repeat the text.
  static llvm::Expected<NamePattern> compile(llvm::StringRef text);
  /// The text of a pattern that stands for `name` and nothing else.
  static std::string escape(llvm::StringRef name);

  bool match(llvm::StringRef name) const;

private:
  friend class PatternCompiler;
  enum class Step : uint8_t { Match, Character, Either, Begin, End };
  using Characters = std::bitset<256>;

  struct State {
    Step step = Step::Match;
    unsigned next = 0, other = 0; ///< the latter of Either
    unsigned characters = 0;      ///< of Character: which of `sets`
  };

  /// Adds a state and all that it leads to without a character.
  void add(std::vector<unsigned> &set, std::vector<unsigned> &seen, unsigned state, unsigned round, bool atBegin,
           bool atEnd) const;

  std::vector<State> states;
  std::vector<Characters> sets;
  unsigned start = 0;
};

} // namespace hyc

#endif // HYC_SUPPORT_NAMEPATTERN_H
