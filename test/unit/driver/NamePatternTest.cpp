// Patterns of names: what they match, what is refused, and that no pattern costs more than its bound.
#include "hyc/Support/NamePattern.h"

#include <ctime>

#include <gtest/gtest.h>

#include "llvm/Support/Regex.h"

using hyc::NamePattern;

namespace {

bool matches(llvm::StringRef text, llvm::StringRef name) {
  llvm::Expected<NamePattern> pattern = NamePattern::compile(text);
  EXPECT_TRUE(bool(pattern)) << text.str() << ": " << llvm::toString(pattern.takeError());
  return pattern && pattern->match(name);
}

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<NamePattern> pattern = NamePattern::compile(text);
  return pattern ? "" : llvm::toString(pattern.takeError());
}

TEST(NamePattern, MatchesAnywhereUnlessAnchored) {
  EXPECT_TRUE(matches("bias", "h.0.bias"));
  EXPECT_TRUE(matches("bias$", "h.0.bias"));
  EXPECT_FALSE(matches("^bias", "h.0.bias"));
  EXPECT_FALSE(matches("bias$", "h.0.bias.copy"));
  EXPECT_TRUE(matches("^(h\\.[0-3]|wte)\\.", "h.2.attn"));
  EXPECT_FALSE(matches("^(h\\.[0-3]|wte)\\.", "h.4.attn"));
}

TEST(NamePattern, MatchesWhatPosixPatternsDo) {
  const char *patterns[] = {"a",       ".",           "a*",       "a+b?",  "(ab|a)(c|bcd)", "[a-c]+d", "[^a-c]",
                            "a{2,3}b", "(a|b)*c",     "[]a]",     "a\\.b", "x|^a|b$",       "(a*)+$",  "a{0}b",
                            "a{2,}",   "[[:digit:]]", "(a|ab)bc", "^$",    "((a)|b)?c"};
  const char *names[] = {"",  "a",  "b",  "ab", "abc", "abcd",   "aab",  "aaab", "a.b", "ccd", "xyz", "]",
                         "c", "ac", "bc", "7",  "h.3", "aaaaac", "abbc", "bbab", "dab", "abd", "a]b"};
  for (const char *pattern : patterns)
    for (const char *name : names)
      EXPECT_EQ(matches(pattern, name), llvm::Regex(pattern).match(name)) << pattern << " on " << name;
}

TEST(NamePattern, KnowsTheUsualClasses) {
  EXPECT_TRUE(matches("^h\\.\\d+\\.\\w+$", "h.12.c_attn"));
  EXPECT_FALSE(matches("^\\d+$", "12x"));
}

TEST(NamePattern, EscapedNamesMatchThemselves) {
  const char *name = "a.b[0]{1}(x)|^$*+?\\";
  EXPECT_TRUE(matches("^" + NamePattern::escape(name) + "$", name));
  EXPECT_FALSE(matches(NamePattern::escape("a.b"), "axb"));
}

TEST(NamePattern, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(errorOf(""), "at character 1: expected at least one character");
  EXPECT_EQ(errorOf("(a"), "at character 3: expected ')'");
  EXPECT_EQ(errorOf("a)"), "at character 2: ')' closes nothing");
  EXPECT_EQ(errorOf("[a"), "at character 3: expected ']'");
  EXPECT_EQ(errorOf("*a"), "at character 1: '*' repeats nothing");
  EXPECT_EQ(errorOf("a**").substr(0, 15), "at character 3:");
  EXPECT_EQ(errorOf("a{3,1}").substr(0, 15), "at character 6:");
  EXPECT_EQ(errorOf("(a)\\1").substr(0, 15), "at character 5:");
  EXPECT_EQ(errorOf("[z-a]").substr(0, 15), "at character 5:");
  EXPECT_EQ(errorOf("a\\"), "at character 3: expected a character after the backslash");
}

TEST(NamePattern, RefusesWhatWouldCostTooMuch) {
  EXPECT_EQ(errorOf(std::string(100000, '(')), "has 100000 characters, expected at most 1024");
  EXPECT_EQ(errorOf(std::string(500, '(') + "a" + std::string(500, ')')),
            "at character 34: nested deeper than 32 brackets");
  EXPECT_EQ(errorOf("((((a{100}){100}){100}){100})"), "has more than 2048 parts once its repetitions are written out");
  // Of nothing, a billion times.
  EXPECT_EQ(errorOf("((((){2048}){2048}){2048})").substr(0, 13), "has more than");
  EXPECT_NE(errorOf("a{100000}"), "");
}

/// A matcher that tries one way after the other would need 2^1000 steps.
TEST(NamePattern, TakesTimeInProportionToTheName) {
  llvm::Expected<NamePattern> pattern = NamePattern::compile("^(a|a|aa)*(a*)*(b|a{0,500})*c$");
  ASSERT_TRUE(bool(pattern));
  const std::string name(20000, 'a');
  const std::clock_t begin = std::clock();
  EXPECT_FALSE(pattern->match(name));
  EXPECT_TRUE(pattern->match(name + "c"));
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

} // namespace
