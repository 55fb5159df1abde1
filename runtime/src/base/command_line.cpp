// CLI11's complaints, one by one.
#include "base/command_line.h"

#include <algorithm>

#include "base/nearest.h"

namespace hycrt {
namespace {

constexpr const char* kAnyText = "TEXT";  // what the library calls values of which nobody has said what they are

std::vector<std::string> optionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// "list, show or export"
std::string commandsOf(const CLI::App& app) {
  std::string text;
  const std::vector<const CLI::App*> commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (size_t i = 0; i < commands.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < commands.size() ? ", " : " or ") + commands[i]->get_name();
  }
  return text;
}

std::string describe(const CLI::ParseError& error) {
  const std::string what = error.what(), name = what.substr(0, what.find(':'));
  if (what.find(": At Most 1 required") != std::string::npos) return name + " is given more than once, expected once";
  if (what.find(": 1 required") != std::string::npos) return name + " has no value, expected one behind it";
  return what;
}

// The command that was given, where an app has some; else itself.
const CLI::App& chosen(const CLI::App& app) {
  const std::vector<const CLI::App*> given =
      app.get_subcommands([](const CLI::App* command) { return command->parsed(); });
  return given.empty() ? app : *given.front();
}

}  // namespace

void refuseEmptyValues(CLI::App& app, const std::vector<std::string>& mayBeEmpty) {
  for (CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const bool takesValue = option->get_items_expected_max() > 0;
    if (!takesValue || std::find(mayBeEmpty.begin(), mayBeEmpty.end(), name) != mayBeEmpty.end()) continue;
    const std::string type = option->get_type_name();
    const std::string expected = type.empty() || type == kAnyText ? "a value" : type;
    option->check(CLI::Validator(
        [expected](const std::string& value) {
          return value.empty() ? "found '', expected " + expected : std::string();
        },
        ""));
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    refuseEmptyValues(*command, mayBeEmpty);
  }
}

Status refuseWords(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App& asked = chosen(app);
  const std::string commands = &asked == &app ? commandsOf(app) : "";
  for (const std::string& word : words) {
    if (word.size() < 2 || word[0] != '-') continue;
    const std::string name = word.substr(0, word.find('='));
    const std::string meant = resembling(name, optionsOf(asked));
    return usageError("unknown option '" + name + "'" + (meant.empty() ? "" : "; the nearest is '" + meant + "'") +
                      " (--help lists all)");
  }
  if (!commands.empty()) return usageError("unknown command '" + words.front() + "', expected " + commands);
  return usageError("unexpected argument '" + words.front() + "'; --help tells what is expected");
}

Status refuseCommandLine(const CLI::App& app, const CLI::ParseError& error) {
  if (const std::vector<std::string> rest = app.remaining(/*recurse=*/true); !rest.empty())
    return refuseWords(app, rest);
  const std::string commands = &chosen(app) == &app ? commandsOf(app) : "";
  if (!commands.empty()) return usageError("no command is given, expected " + commands);
  return usageError(describe(error));
}

}  // namespace hycrt
