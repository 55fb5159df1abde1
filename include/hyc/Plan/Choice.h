// Choice: a value of the plan that is one of a few words, and those words. A setting is parsed as it is said: code
// compares with enumerators.
//
// The surprise: it may have a text that is none of the words, until checkRanges has refused that with the setting's
// name. Such a one is equal to no enumerator.
#ifndef HYC_PLAN_CHOICE_H
#define HYC_PLAN_CHOICE_H

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hyc {

/// The words of an enumeration, in its order, separated by '|'.
template <typename E> inline constexpr std::string_view kWordsOf = {};

/// Where a kind of what is kept lies: on the device, in the host's memory, or in a file.
enum class OffloadPlace { None, Cpu, Nvme };
template <> inline constexpr std::string_view kWordsOf<OffloadPlace> = "none|cpu|nvme";

/// What is saved for backward; Auto: within activationBudgets, Planned: what rules say.
enum class RecomputeMode { None, Layer, Selective, Auto, Planned };
template <> inline constexpr std::string_view kWordsOf<RecomputeMode> = "none|layer|selective|auto|planned";

/// What the model computes in.
enum class Precision { F32, BF16, FP16, FP8 };
template <> inline constexpr std::string_view kWordsOf<Precision> = "f32|bf16|fp16|fp8";

/// The order of micro-batches in the pipeline.
enum class PipelineSchedule { GPipe, OneForwardOneBackward };
template <> inline constexpr std::string_view kWordsOf<PipelineSchedule> = "gpipe|1f1b";

/// What programs run on.
enum class TargetKind { Cpu, Cuda };
template <> inline constexpr std::string_view kWordsOf<TargetKind> = "cpu|cuda";

/// The words from the first to that of `last`: what a setting takes that does not take all.
template <typename E> constexpr std::string_view wordsUpTo(E last) {
  constexpr std::string_view words = kWordsOf<E>;
  size_t end = words.find('|');
  for (int i = 0; i < static_cast<int>(last); ++i)
    end = words.find('|', end + 1);
  return words.substr(0, end);
}

template <typename E> constexpr std::string_view wordOf(E value) {
  std::string_view words = wordsUpTo(value);
  return words.substr(words.rfind('|') + 1); // of the first word there is no '|'
}

template <typename E> class Choice {
public:
  Choice(E value) : text(wordOf(value)), value(value) {}
  Choice(std::string word) : text(std::move(word)), value(find(text)) {}
  Choice(const char *word) : Choice(std::string(word)) {}

  const std::string &str() const { return text; }

  friend bool operator==(const Choice &a, E b) { return a.value == b; }
  friend bool operator!=(const Choice &a, E b) { return a.value != b; }
  friend bool operator==(const Choice &a, const Choice &b) { return a.text == b.text; }
  friend bool operator!=(const Choice &a, const Choice &b) { return a.text != b.text; }
  friend bool operator<(const Choice &a, const Choice &b) { return a.text < b.text; }
  // A word that is misspelled would be equal to nothing.
  friend bool operator==(const Choice &, const char *) = delete;
  friend bool operator!=(const Choice &, const char *) = delete;

private:
  static std::optional<E> find(std::string_view word) {
    for (int i = 0;; ++i) {
      const E each = static_cast<E>(i);
      if (wordOf(each) == word)
        return each;
      if (wordsUpTo(each).size() == kWordsOf<E>.size())
        return std::nullopt;
    }
  }

  std::string text;
  std::optional<E> value; // nothing: the text is no word
};

/// A value as settings of any type have it: a choice as its word.
template <typename T> const T &plain(const T &value) { return value; }
template <typename E> const std::string &plain(const Choice<E> &choice) { return choice.str(); }
template <typename T> using Plain = std::decay_t<decltype(plain(std::declval<const T &>()))>;

} // namespace hyc

#endif // HYC_PLAN_CHOICE_H
