// What children print into memory, whatever the disks have room for.
#include "Build/MemoryFile.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

using hyc::MemoryFile;

TEST(MemoryFile, HoldsWhatChildrenPrint) {
  llvm::Expected<std::unique_ptr<MemoryFile>> first = MemoryFile::create(), second = MemoryFile::create();
  ASSERT_TRUE(first && second);
  const MemoryFile &one = **first, &other = **second;
  EXPECT_EQ(one.read(100), "");
  ASSERT_EQ(std::system(("echo said twice > " + one.getPath() + "; echo else > " + other.getPath()).c_str()), 0);
  EXPECT_EQ(one.read(100), "said twice\n");
  EXPECT_EQ(one.read(4), "said");
  EXPECT_EQ(other.read(100), "else\n");
  ASSERT_EQ(std::system(("head -c 300000 /dev/zero >> " + one.getPath()).c_str()), 0);
  EXPECT_EQ(one.read(1 << 20).size(), 300011u);
}
