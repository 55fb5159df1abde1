// Text by its brackets, commas and strings, and no further: it is for files that parsers refuse.
#include "TextEdits.h"

#include <algorithm>
#include <cctype>
#include <cstring>

using namespace hyc::fuzzing;

namespace {
struct Range {
  size_t begin, end;
};

/// What stands between brackets, cut at its commas: pairs of an object with their keys.
struct Group {
  Range inside;
  std::vector<Range> elements;
};

/// All groups, the outermost first. A bracket that is never closed ends with the text.
std::vector<Group> groupsOf(const std::string &text) {
  std::vector<Group> groups;
  std::vector<size_t> open;
  auto finish = [&](size_t at) {
    Group &group = groups[open.back()];
    group.elements.back().end = group.inside.end = at;
    open.pop_back();
  };
  bool isInString = false;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (isInString) {
      at += c == '\\';
      isInString = c != '"';
      continue;
    }
    isInString = c == '"';
    if (c == '{' || c == '[') {
      open.push_back(groups.size());
      groups.push_back({{at + 1, text.size()}, {{at + 1, text.size()}}});
    } else if (open.empty()) {
      continue;
    } else if (c == '}' || c == ']') {
      finish(at);
    } else if (c == ',') {
      groups[open.back()].elements.back().end = at;
      groups[open.back()].elements.push_back({at + 1, text.size()});
    }
  }
  while (!open.empty())
    finish(text.size());
  return groups;
}

std::string replaced(const std::string &text, Range range, const std::string &by) {
  return text.substr(0, range.begin) + by + text.substr(range.end);
}

std::vector<std::string> withoutElements(const std::string &text) {
  std::vector<std::string> smaller;
  for (const Group &group : groupsOf(text))
    for (auto [begin, end] : rangesOf(group.elements.size())) {
      std::string rest;
      for (size_t i = 0; i < group.elements.size(); ++i)
        if (i < begin || i >= end)
          rest += (rest.empty() ? "" : ",") +
                  text.substr(group.elements[i].begin, group.elements[i].end - group.elements[i].begin);
      if (std::string next = replaced(text, group.inside, rest); next.size() < text.size())
        smaller.push_back(next);
    }
  return smaller;
}

/// Of nested brackets those half as deep inside, and so on; a value alone in the place of what holds it.
std::vector<std::string> withLessNesting(const std::string &text) {
  std::vector<std::string> smaller;
  std::vector<Group> groups = groupsOf(text);
  for (size_t outer = 0; outer < groups.size(); ++outer) {
    Range whole{groups[outer].inside.begin - 1, std::min(text.size(), groups[outer].inside.end + 1)};
    size_t within = outer;
    while (within + 1 < groups.size() && groups[within + 1].inside.end <= groups[outer].inside.end)
      ++within;
    for (size_t deeper = within - outer; deeper > 0; deeper /= 2) {
      Range inner = groups[outer + deeper].inside;
      size_t end = std::min(text.size(), inner.end + 1);
      smaller.push_back(replaced(text, whole, text.substr(inner.begin - 1, end - inner.begin + 1)));
    }
  }
  return smaller;
}

/// Strings and numbers of half the length, down to one character.
std::vector<std::string> withShorterWords(const std::string &text) {
  std::vector<std::string> smaller;
  auto isOfWord = [&](size_t at) {
    return !std::isspace(static_cast<unsigned char>(text[at])) && !strchr("{}[],:\"", text[at]);
  };
  for (size_t at = 0; at < text.size(); ++at) {
    size_t end = at;
    while (end < text.size() && isOfWord(end))
      ++end;
    for (size_t drop = (end - at + 1) / 2; end > at + 1 && drop > 0; drop /= 2) {
      smaller.push_back(replaced(text, {end - drop, end}, ""));
      smaller.push_back(replaced(text, {at, at + drop}, ""));
    }
    at = end;
  }
  return smaller;
}

std::vector<std::string> withoutSpace(const std::string &text) {
  std::string next;
  bool isInString = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!isInString && std::isspace(static_cast<unsigned char>(text[at])))
      continue;
    next += text[at];
    if (isInString && text[at] == '\\' && at + 1 < text.size())
      next += text[++at];
    else if (text[at] == '"')
      isInString = !isInString;
  }
  return next.size() < text.size() ? std::vector{next} : std::vector<std::string>();
}
} // namespace

std::vector<Edits<std::string>> hyc::fuzzing::textEdits() {
  return {withoutElements, withLessNesting, withoutSpace, withShorterWords};
}
