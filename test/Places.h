// Places: where the tree, what was built of it and the programs that tests start lie. Defined in a source of its own,
// which CMake writes (Places.cpp.in): a test that had folders among its compiler's arguments would be compiled anew in
// every checkout, whatever ccache remembers.
#ifndef HYC_TEST_PLACES_H
#define HYC_TEST_PLACES_H

#include <string>

namespace hyc::places {

/// A file or folder of the tree, by its path there: `inTree("docs/instruments.md")`.
std::string inTree(const std::string &path);
/// One of the build folder.
std::string inBuild(const std::string &path);
/// One of test/models.
std::string model(const std::string &name);
/// One of the tools, or another program among them.
std::string program(const std::string &name);

/// The compiler that this was built by.
std::string compiler();
/// A Python that may have what tests want beyond its own library.
std::string python();

} // namespace hyc::places

#endif // HYC_TEST_PLACES_H
