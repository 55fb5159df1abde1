// The cache of objects: keys, hits, pruning, and the headers that an object depends on.
#include "Build/ObjectCache.h"
#include "Build/ReachedHeaders.h"
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

/// What a source sees in two folders, its own and one of headers.
struct ReachedHeadersTest : testing::Test {
  ReachedHeadersTest() {
    source("a.cpp", "#include <vector>\n  #  include \"near.h\"\n#include \"far/one.h\"\n");
    source("near.h", "// near");
    header("far/one.h", "#include \"two.h\"\n#include \"../root.h\"\n#include \"nowhere.h\"\n");
    header("far/two.h", "#include \"far/one.h\" // and back");
    header("root.h", "");
    header("unseen.h", "");
  }
  void source(const std::string &name, const std::string &text) { sources.write(name, text); }
  void header(const std::string &name, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(headers.path(name)).parent_path());
    headers.write(name, text);
  }
  std::string hash() const {
    return hyc::ReachedHeaders({sources.path(), headers.path()}).hashOf({std::string("a.cpp")});
  }

  ScratchFolder sources, headers;
};

TEST_F(ReachedHeadersTest, AreAllThatIsIncludedOnTheWay) {
  const std::string before = hash();
  EXPECT_EQ(before.size(), 64u);
  EXPECT_EQ(hash(), before);
  header("unseen.h", "changed");
  EXPECT_EQ(hash(), before);
  std::string last = before;
  for (const char *seen : {"far/two.h", "root.h"}) {
    header(seen, "changed");
    EXPECT_NE(hash(), last) << seen;
    last = hash();
  }
  source("near.h", "changed");
  EXPECT_NE(hash(), last);
}

/// One that is found sooner takes the place of another, whatever it says.
TEST_F(ReachedHeadersTest, AreTheFirstOfTheirName) {
  header("near.h", "other");
  const std::string before = hash();
  header("near.h", "changed");
  EXPECT_EQ(hash(), before);
  header("far/nowhere.h", "");
  EXPECT_NE(hash(), before);
}

} // namespace
