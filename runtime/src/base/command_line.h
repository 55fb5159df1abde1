// What is wrong with a command line that CLI11 does not take, in the words that all tools of the runtime have.
#ifndef HYCRT_BASE_COMMAND_LINE_H_
#define HYCRT_BASE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

// Has every option and argument of an app, and of its commands, refuse an empty value, which is what a shell makes of a
// variable that is not set: taken for "not given" it would silently leave out what was asked for. `mayBeEmpty` names
// the options of which an empty value says something. To be called when all are there.
void refuseEmptyValues(CLI::App& app, const std::vector<std::string>& mayBeEmpty = {});

// Of words that nobody has taken: the first option among them, with the nearest that there is, or else the first; of an
// app that has commands and was given none, the command.
Status refuseWords(const CLI::App& app, const std::vector<std::string>& words);

// Of an error that parsing has thrown. An unknown option may be why something else seems to be missing, so that it is
// the better thing to name.
Status refuseCommandLine(const CLI::App& app, const CLI::ParseError& error);

}  // namespace hycrt

#endif  // HYCRT_BASE_COMMAND_LINE_H_
