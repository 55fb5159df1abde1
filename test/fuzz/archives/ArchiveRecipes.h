// How torch.export's operators are called: arguments by name, and what each may be.
#ifndef HYC_TEST_FUZZ_ARCHIVES_ARCHIVERECIPES_H
#define HYC_TEST_FUZZ_ARCHIVES_ARCHIVERECIPES_H

#include <string>
#include <vector>

namespace hyc::fuzzing {

struct ArchiveArgument {
  std::string name;
  /// f[n,c]: a tensor of reals of such sizes, letters being drawn; z[n]: of complex numbers; i[n]{0..2} and b[n]: of
  /// integers and booleans; d: data, which has no gradient; a: a buffer; …*2: a list of two; o…: a list that may have
  /// holes; #0..2 an integer;
  /// @1,2 a list; % a number; ? a boolean; ! false; + true; 'a|b a word; ^ a type.
  std::string kind;
  bool isOptional = false;
};

struct ArchiveRecipe {
  std::string target;
  std::vector<ArchiveArgument> arguments;
  char result = 'f';
  int results = 1;
  bool isList = false; ///< the results are one list
};

std::vector<ArchiveRecipe> archiveRecipes();

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_ARCHIVES_ARCHIVERECIPES_H
