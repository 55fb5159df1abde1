// Thompson's construction, from the end to the front, and the simulation of all paths at once.
#include "hyc/Support/NamePattern.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <cctype>
#include <memory>
#include <optional>

using namespace llvm;
using namespace hyc;

namespace {
using Characters = std::bitset<256>;

/// A part of a pattern.
struct Part {
  enum class Kind { Sequence, Choice, Repeat, Characters, Begin, End };
  static constexpr unsigned kUnbounded = ~0u;

  Kind kind = Kind::Sequence;
  std::vector<std::unique_ptr<Part>> parts; // of a sequence, of a choice; the only one of a repetition
  unsigned least = 0, most = 0;             // of a repetition
  Characters characters = {};
};
using PartPtr = std::unique_ptr<Part>;

Characters charactersThat(function_ref<bool(unsigned char)> test) {
  Characters set;
  for (unsigned c = 0; c < 256; ++c)
    set[c] = test(static_cast<unsigned char>(c));
  return set;
}

/// Of [:name:]; nothing where there is no such class.
std::optional<Characters> classOf(StringRef name) {
  int (*test)(int) = StringSwitch<int (*)(int)>(name)
                         .Case("alpha", [](int c) { return int(isAlpha(char(c))); })
                         .Case("digit", [](int c) { return int(isDigit(char(c))); })
                         .Case("alnum", [](int c) { return int(isAlnum(char(c))); })
                         .Case("upper", [](int c) { return int(c >= 'A' && c <= 'Z'); })
                         .Case("lower", [](int c) { return int(c >= 'a' && c <= 'z'); })
                         .Case("space", [](int c) { return int(isSpace(char(c))); })
                         .Case("xdigit", [](int c) { return int(isHexDigit(char(c))); })
                         .Case("punct", [](int c) { return int(isPunct(char(c))); })
                         .Default(nullptr);
  if (!test)
    return std::nullopt;
  return charactersThat([&](unsigned char c) { return c < 128 && test(c) != 0; });
}

class PatternParser {
public:
  explicit PatternParser(StringRef text) : text(text) {}

  Expected<PartPtr> parse() {
    if (text.empty())
      return fail("expected at least one character");
    if (text.size() > NamePattern::kMostCharacters)
      return createStringError(inconvertibleErrorCode(), "has " + Twine(text.size()) +
                                                             " characters, expected at most " +
                                                             Twine(NamePattern::kMostCharacters));
    Expected<PartPtr> whole = parseChoice(0);
    if (whole && at < text.size())
      return fail("')' closes nothing");
    return whole;
  }

private:
  Error fail(const Twine &what) const {
    return createStringError(inconvertibleErrorCode(), "at character " + Twine(at + 1) + ": " + what);
  }
  bool sees(char c) const { return at < text.size() && text[at] == c; }
  bool consume(char c) { return sees(c) && ++at; }

  Expected<PartPtr> parseChoice(size_t depth);
  Expected<PartPtr> parseSequence(size_t depth);
  Expected<PartPtr> parseAtom(size_t depth);
  Expected<PartPtr> parseSet();
  Expected<PartPtr> parseEscape();
  Error parseRange(Characters &set);
  Error parseRepetitions(PartPtr &part);
  Error parseBounds(unsigned &least, unsigned &most);
  std::optional<unsigned> parseCount();

  StringRef text;
  size_t at = 0;
};

PartPtr makePart(Part::Kind kind) {
  auto part = std::make_unique<Part>();
  part->kind = kind;
  return part;
}

PartPtr makeCharacters(const Characters &characters) {
  PartPtr part = makePart(Part::Kind::Characters);
  part->characters = characters;
  return part;
}

Expected<PartPtr> PatternParser::parseChoice(size_t depth) {
  if (depth > NamePattern::kMostNesting)
    return fail("nested deeper than " + Twine(NamePattern::kMostNesting) + " brackets");
  PartPtr choice = makePart(Part::Kind::Choice);
  do {
    Expected<PartPtr> sequence = parseSequence(depth);
    if (!sequence)
      return sequence;
    choice->parts.push_back(std::move(*sequence));
  } while (consume('|'));
  return choice;
}

Expected<PartPtr> PatternParser::parseSequence(size_t depth) {
  PartPtr sequence = makePart(Part::Kind::Sequence);
  while (at < text.size() && text[at] != '|' && text[at] != ')') {
    Expected<PartPtr> atom = parseAtom(depth);
    if (!atom)
      return atom;
    if (Error error = parseRepetitions(*atom))
      return error;
    sequence->parts.push_back(std::move(*atom));
  }
  return sequence;
}

Expected<PartPtr> PatternParser::parseAtom(size_t depth) {
  char c = text[at];
  if (StringRef("*+?{").contains(c))
    return fail("'" + Twine(c) + "' repeats nothing");
  ++at;
  switch (c) {
  case '(': {
    Expected<PartPtr> inner = parseChoice(depth + 1);
    if (inner && !consume(')'))
      return fail("expected ')'");
    return inner;
  }
  case '[':
    return parseSet();
  case '\\':
    return parseEscape();
  case '.':
    return makeCharacters(Characters().set());
  case '^':
    return makePart(Part::Kind::Begin);
  case '$':
    return makePart(Part::Kind::End);
  default:
    return makeCharacters(Characters().set(static_cast<unsigned char>(c)));
  }
}

Expected<PartPtr> PatternParser::parseEscape() {
  if (at == text.size())
    return fail("expected a character after the backslash");
  char c = text[at++];
  if (c == 'd')
    return makeCharacters(*classOf("digit"));
  if (c == 's')
    return makeCharacters(*classOf("space"));
  if (c == 'w')
    return makeCharacters(charactersThat([](unsigned char c) { return c < 128 && (isAlnum(char(c)) || c == '_'); }));
  if (isAlnum(c)) {
    --at;
    return fail("unknown escape; expected \\d, \\w, \\s or a character that is no letter and no digit");
  }
  return makeCharacters(Characters().set(static_cast<unsigned char>(c)));
}

/// One character, a range, or a class in brackets.
Error PatternParser::parseRange(Characters &set) {
  if (text.substr(at).starts_with("[:")) {
    size_t end = text.find(":]", at);
    std::optional<Characters> named = end == StringRef::npos ? std::nullopt : classOf(text.slice(at + 2, end));
    if (!named)
      return fail("unknown class of characters");
    set |= *named;
    at = end + 2;
    return Error::success();
  }
  unsigned char first = static_cast<unsigned char>(text[at++]), last = first;
  if (sees('-') && at + 1 < text.size() && text[at + 1] != ']') {
    last = static_cast<unsigned char>(text[at + 1]);
    at += 2;
  }
  if (last < first)
    return fail("a range that ends before it begins");
  for (unsigned c = first; c <= last; ++c)
    set.set(c);
  return Error::success();
}

Expected<PartPtr> PatternParser::parseSet() {
  bool isNegated = consume('^');
  Characters set;
  bool isFirst = true; // where a ']' stands for itself
  for (; at < text.size() && (isFirst || text[at] != ']'); isFirst = false)
    if (Error error = parseRange(set))
      return error;
  if (!consume(']'))
    return fail("expected ']'");
  return makeCharacters(isNegated ? ~set : set);
}

std::optional<unsigned> PatternParser::parseCount() {
  StringRef digits = text.substr(at).take_while([](char c) { return isDigit(c); });
  unsigned count = 0;
  if (digits.getAsInteger(10, count) || count > NamePattern::kMostStates)
    return std::nullopt;
  at += digits.size();
  return count;
}

/// "3}", "3,}" or "3,5}".
Error PatternParser::parseBounds(unsigned &least, unsigned &most) {
  std::optional<unsigned> first = parseCount(), last = first;
  if (first && consume(','))
    last = sees('}') ? std::optional(Part::kUnbounded) : parseCount();
  if (!first || !last || *last < *first || !consume('}'))
    return fail("expected {m}, {m,} or {m,n} of ascending numbers up to " + Twine(NamePattern::kMostStates));
  least = *first, most = *last;
  return Error::success();
}

Error PatternParser::parseRepetitions(PartPtr &part) {
  for (bool isRepeated = false; at < text.size() && StringRef("*+?{").contains(text[at]); isRepeated = true) {
    if (isRepeated)
      return fail("a repetition of a repetition; put the inner one in brackets");
    char c = text[at++];
    PartPtr repeat = makePart(Part::Kind::Repeat);
    repeat->least = c == '+' ? 1 : 0;
    repeat->most = c == '?' ? 1 : Part::kUnbounded;
    if (c == '{')
      if (Error error = parseBounds(repeat->least, repeat->most))
        return error;
    repeat->parts.push_back(std::move(part));
    part = std::move(repeat);
  }
  return Error::success();
}
} // namespace

namespace hyc {
class PatternCompiler {
public:
  explicit PatternCompiler(NamePattern &pattern) : pattern(pattern) {}

  /// The state at which `part` begins, after which `next` follows. Each visit is counted: parts that need no state take
  /// time, too.
  unsigned emit(const Part &part, unsigned next) {
    if (++visits > 4 * NamePattern::kMostStates)
      return next;
    switch (part.kind) {
    case Part::Kind::Characters:
      pattern.sets.push_back(part.characters);
      return add({NamePattern::Step::Character, next, 0, static_cast<unsigned>(pattern.sets.size() - 1)});
    case Part::Kind::Begin:
      return add({NamePattern::Step::Begin, next});
    case Part::Kind::End:
      return add({NamePattern::Step::End, next});
    case Part::Kind::Sequence:
      for (const PartPtr &each : llvm::reverse(part.parts))
        next = emit(*each, next);
      return next;
    case Part::Kind::Choice: {
      unsigned first = emit(*part.parts.back(), next);
      for (const PartPtr &each : llvm::reverse(ArrayRef<PartPtr>(part.parts).drop_back()))
        first = add({NamePattern::Step::Either, emit(*each, next), first});
      return first;
    }
    case Part::Kind::Repeat:
      return emitRepeat(part, next);
    }
    return next;
  }

  unsigned add(NamePattern::State state) {
    pattern.states.push_back(state);
    return static_cast<unsigned>(pattern.states.size() - 1);
  }

  bool isTooLarge() const {
    return visits > 4 * NamePattern::kMostStates || pattern.states.size() > NamePattern::kMostStates;
  }

private:
  unsigned emitRepeat(const Part &part, unsigned next) {
    const Part &repeated = *part.parts.front();
    unsigned first = next;
    if (part.most == Part::kUnbounded) {
      first = add({NamePattern::Step::Either, 0, next});
      unsigned body = emit(repeated, first);
      pattern.states[first].next = body;
    }
    for (unsigned i = part.least; part.most != Part::kUnbounded && i < part.most && !isTooLarge(); ++i)
      first = add({NamePattern::Step::Either, emit(repeated, first), next});
    for (unsigned i = 0; i < part.least && !isTooLarge(); ++i)
      first = emit(repeated, first);
    return first;
  }

  NamePattern &pattern;
  size_t visits = 0;
};
} // namespace hyc

Expected<NamePattern> NamePattern::compile(StringRef text) {
  Expected<PartPtr> whole = PatternParser(text).parse();
  if (!whole)
    return whole.takeError();
  NamePattern pattern;
  PatternCompiler compiler(pattern);
  unsigned end = compiler.add({});
  pattern.start = compiler.emit(**whole, end);
  if (compiler.isTooLarge())
    return createStringError(inconvertibleErrorCode(),
                             "has more than " + Twine(kMostStates) + " parts once its repetitions are written out");
  return pattern;
}

std::string NamePattern::escape(StringRef name) {
  std::string text;
  for (char c : name) {
    if (StringRef("\\^$.|?*+()[]{}").contains(c))
      text += '\\';
    text += c;
  }
  return text;
}

void NamePattern::add(std::vector<unsigned> &set, std::vector<unsigned> &seen, unsigned state, unsigned round,
                      bool atBegin, bool atEnd) const {
  SmallVector<unsigned> waiting{state};
  while (!waiting.empty()) {
    unsigned now = waiting.pop_back_val();
    if (seen[now] == round)
      continue;
    seen[now] = round;
    const State &of = states[now];
    if (of.step == Step::Match || of.step == Step::Character)
      set.push_back(now);
    if (of.step == Step::Either)
      waiting.append({of.next, of.other});
    if ((of.step == Step::Begin && atBegin) || (of.step == Step::End && atEnd))
      waiting.push_back(of.next);
  }
}

bool NamePattern::match(StringRef name) const {
  std::vector<unsigned> now, next, seen(states.size(), 0);
  for (size_t at = 0;; ++at) {
    // A match may begin anywhere.
    unsigned round = static_cast<unsigned>(at) + 1;
    add(now, seen, start, round, at == 0, at == name.size());
    if (llvm::any_of(now, [&](unsigned state) { return states[state].step == Step::Match; }))
      return true;
    if (at == name.size())
      return false;
    next.clear();
    for (unsigned state : now)
      if (sets[states[state].characters][static_cast<unsigned char>(name[at])])
        add(next, seen, states[state].next, round + 1, false, at + 1 == name.size());
    std::swap(now, next);
  }
}
