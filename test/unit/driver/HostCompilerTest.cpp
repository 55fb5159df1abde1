// Compiling, linking, caching and failing, with tiny sources and no runtime.
#include "Build/HostCompiler.h"
#include "ScratchFolder.h"
#include "hyc/Support/DriverError.h"
#include "test/Places.h"

#include <fstream>
#include <gtest/gtest.h>

namespace {

struct HostCompilerTest : testing::Test {
  HostCompilerTest() {
    setenv("HYC_CACHE_DIR", folder.path("cache").c_str(), 1);
    toolchain.compiler = hyc::places::compiler();
    for (const char *name : {"src", "objects", "include"})
      std::filesystem::create_directory(folder.path(name));
    toolchain.includeDirs = toolchain.headerDirs = {folder.path("include")};
    folder.write("include/answer.h", "inline int answer() { return 42; }\n");
    folder.write("src/main.cpp", "#include \"answer.h\"\nint other();\nint main() { return answer() - other(); }\n");
    folder.write("src/other.cpp", "int other() { return 40; }\n");
    folder.write("src/third.cpp", "int third() { return 0; }\n");
  }
  ~HostCompilerTest() override { unsetenv("HYC_CACHE_DIR"); }

  llvm::Error build() {
    return hyc::HostCompiler(toolchain, folder.path("src"), folder.path("objects"))
        .build({{folder.path("program"), {"main.cpp", "third.cpp"}, {"other.cpp"}}});
  }
  size_t cachedObjects() const {
    auto entries = std::filesystem::directory_iterator(folder.path("cache"));
    return std::distance(begin(entries), end(entries));
  }
  int run() const { return WEXITSTATUS(std::system(folder.path("program").c_str())); }

  ScratchFolder folder;
  hyc::Toolchain toolchain;
};

TEST_F(HostCompilerTest, BuildsAProgramOfItsOwnSourcesInOneGoAndCommonOnes) {
  ASSERT_FALSE(bool(build()));
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(cachedObjects(), 2u);
}

TEST_F(HostCompilerTest, CompilesAgainOnlyWhatChanged) {
  ASSERT_FALSE(bool(build()));
  ASSERT_FALSE(bool(build()));
  EXPECT_EQ(cachedObjects(), 2u);
  folder.write("src/other.cpp", "int other() { return 39; }\n");
  ASSERT_FALSE(bool(build()));
  EXPECT_EQ(run(), 3);
  EXPECT_EQ(cachedObjects(), 3u);
}

TEST_F(HostCompilerTest, CompilesAgainWhatSeesAHeaderThatChanged) {
  ASSERT_FALSE(bool(build()));
  folder.write("include/answer.h", "inline int answer() { return 47; }\n");
  folder.write("include/other.h", "#error nobody includes it\n");
  ASSERT_FALSE(bool(build()));
  EXPECT_EQ(run(), 7);
  EXPECT_EQ(cachedObjects(), 3u) << "other.cpp stands";
}

TEST_F(HostCompilerTest, CompilesLongSourcesOneByOne) {
  for (const char *name : {"main", "third"}) {
    const std::string path = folder.path(std::string("src/") + name + ".cpp");
    std::ofstream(path, std::ios::app) << "// " << std::string(100 << 10, 'x') << "\n";
  }
  ASSERT_FALSE(bool(build()));
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(cachedObjects(), 3u);
}

TEST_F(HostCompilerTest, QuotesTheCompilerWhereItFails) {
  folder.write("src/other.cpp", "int other() { return undeclared; }\n");
  llvm::handleAllErrors(build(), [](const hyc::DriverError &error) {
    EXPECT_EQ(error.getCode(), hyc::ExitCode::Internal);
    EXPECT_NE(error.getMessage().find("other.cpp"), std::string::npos) << error.getMessage();
    EXPECT_NE(error.getMessage().find("undeclared"), std::string::npos) << error.getMessage();
  });
  EXPECT_FALSE(folder.has("program"));
}

TEST_F(HostCompilerTest, NamesACompilerThatIsNotThere) {
  toolchain.compiler = folder.path("no-such-compiler");
  llvm::handleAllErrors(toolchain.check(), [](const hyc::DriverError &error) {
    EXPECT_EQ(error.getCode(), hyc::ExitCode::Unavailable);
    EXPECT_NE(error.getMessage().find("no-such-compiler"), std::string::npos);
  });
}

} // namespace
