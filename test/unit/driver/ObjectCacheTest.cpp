// The cache of objects: keys, hits, pruning.
#include "Build/ObjectCache.h"
#include "ScratchFolder.h"

#include <gtest/gtest.h>

namespace {

struct ObjectCacheTest : testing::Test {
  ObjectCacheTest() { setenv("HYC_CACHE_DIR", folder.path("cache").c_str(), 1); }
  ~ObjectCacheTest() override { unsetenv("HYC_CACHE_DIR"); }
  ScratchFolder folder;
};

TEST_F(ObjectCacheTest, GivesBackWhatWasStored) {
  hyc::ObjectCache cache = hyc::ObjectCache::ofUser();
  folder.write("made.o", "object");
  EXPECT_FALSE(cache.fetch("key", folder.path("fetched.o")));
  cache.store("key", folder.path("made.o"));
  ASSERT_TRUE(cache.fetch("key", folder.path("fetched.o")));
  EXPECT_EQ(folder.read("fetched.o"), "object");
  EXPECT_FALSE(cache.fetch("other", folder.path("fetched.o")));
}

TEST_F(ObjectCacheTest, PrunesWhatWasNotUsedForLongest) {
  hyc::ObjectCache cache = hyc::ObjectCache::ofUser();
  folder.write("made.o", std::string(100, 'x'));
  for (const char *key : {"a", "b", "c"})
    cache.store(key, folder.path("made.o"));
  auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const char *name : {"cache/a.o", "cache/b.o"})
    std::filesystem::last_write_time(folder.path(name), old);
  ASSERT_TRUE(cache.fetch("a", folder.path("fetched.o"))); // a is used again
  cache.prune(400);                                        // an entry has a hash, too
  EXPECT_TRUE(folder.has("cache/a.o"));
  EXPECT_FALSE(folder.has("cache/b.o"));
  EXPECT_TRUE(folder.has("cache/c.o"));
}

// A machine that lost its power, a disk that was full: what is left under the final name is made again, not linked.
TEST_F(ObjectCacheTest, RemovesWhatIsNotWhatWasStored) {
  hyc::ObjectCache cache = hyc::ObjectCache::ofUser();
  const std::string object(1000, 'x');
  folder.write("made.o", object);
  cache.store("other", folder.path("made.o"));
  const std::string other = folder.read("cache/other.o");
  cache.store("key", folder.path("made.o"));
  const std::string entry = folder.read("cache/key.o");
  std::string flipped = entry;
  flipped[500] ^= 1;
  for (const std::string &damaged : {std::string(), entry.substr(0, 10), entry.substr(0, 500),
                                     entry.substr(0, entry.size() - 1), entry + "x", flipped, other}) {
    folder.write("cache/key.o", damaged);
    EXPECT_FALSE(cache.fetch("key", folder.path("fetched.o")));
    EXPECT_FALSE(folder.has("cache/key.o"));
    EXPECT_FALSE(folder.has("fetched.o"));
    cache.store("key", folder.path("made.o"));
    ASSERT_TRUE(cache.fetch("key", folder.path("fetched.o")));
    EXPECT_EQ(folder.read("fetched.o"), object);
    std::filesystem::remove(folder.path("fetched.o"));
  }
}

TEST_F(ObjectCacheTest, WorksWithoutAFolderThatCanBeMade) {
  setenv("HYC_CACHE_DIR", "/proc/no/such", 1);
  hyc::ObjectCache cache = hyc::ObjectCache::ofUser();
  folder.write("made.o", "object");
  cache.store("key", folder.path("made.o"));
  EXPECT_FALSE(cache.fetch("key", folder.path("fetched.o")));
}

TEST(HashParts, TellsWhereOnePartEnds) {
  EXPECT_EQ(hyc::hashParts({"ab", "c"}), hyc::hashParts({"ab", "c"}));
  EXPECT_NE(hyc::hashParts({"ab", "c"}), hyc::hashParts({"a", "bc"}));
  EXPECT_EQ(hyc::hashParts({"ab"}).size(), 64u);
}

TEST(HashHeaders, DependsOnNamesAndContents) {
  ScratchFolder folder;
  folder.write("a.h", "1");
  std::string before = hyc::hashHeaders({folder.path()});
  folder.write("b.txt", "not a header");
  EXPECT_EQ(hyc::hashHeaders({folder.path()}), before);
  folder.write("a.h", "2");
  EXPECT_NE(hyc::hashHeaders({folder.path()}), before);
}

} // namespace
