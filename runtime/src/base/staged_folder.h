// Folders that are made aside, under a name of their run's own (file.h: partialName), and put in the place of what had
// their name. Only what is known to be of such a folder is ever removed: one that holds anything else stays.
#ifndef HYCRT_SRC_BASE_STAGED_FOLDER_H_
#define HYCRT_SRC_BASE_STAGED_FOLDER_H_

#include <functional>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

// Whether a file of this name may be removed.
using IsOwnFile = std::function<bool(const std::string&)>;

// A link is no folder. False: it is still there.
bool removeOwnFolder(const std::string& folder, const IsOwnFile& isOwn);

// What a folder holds beside its own files, in the order of names; none of one that cannot be read.
std::vector<std::string> foreignIn(const std::string& folder, const IsOwnFile& isOwn);

// One step, whatever was there before, where the file system has one for that; else two, between which the old folder
// has the new one's name. What was there goes when the new is in its place. `what` names it in errors: "the new
// weights". Where the old folder holds anything else it stays, under the name that `left` is set to.
Status exchangeFolder(const std::string& partial, const std::string& target, const std::string& what,
                      const IsOwnFile& isOwn, std::string* left = nullptr);

// Removes, in `directory`, what runs that were killed left of targets that `isTarget` takes by their name; what was
// taken from its place (exchangeFolder, in two steps) and has no successor there goes back. None of them may live.
void removeLeftovers(const std::string& directory, const std::function<bool(const std::string&)>& isTarget,
                     const IsOwnFile& isOwn);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_STAGED_FOLDER_H_
