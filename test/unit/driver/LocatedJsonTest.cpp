// JSON with places: what is accepted, and where each error points.
#include "hyc/Support/LocatedJson.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace {

std::string errorOf(llvm::StringRef text) {
  auto value = hyc::parseJson(text, "f");
  return value ? "" : llvm::toString(value.takeError());
}

hyc::JsonValue parsed(llvm::StringRef text) {
  auto value = hyc::parseJson(text, "f");
  EXPECT_TRUE(bool(value)) << llvm::toString(value.takeError());
  return value ? std::move(*value) : hyc::JsonValue();
}

TEST(LocatedJson, KeepsThePlaceOfEveryKeyAndValue) {
  hyc::JsonValue root = parsed("{\n  \"a\": [1,\n        {\"é\": true}]\n}");
  const auto &member = (*root.getObject())[0];
  EXPECT_EQ(member.key, "a");
  EXPECT_EQ(member.keyAt.line, 2u);
  EXPECT_EQ(member.keyAt.column, 3u);
  const hyc::JsonValue &object = (*member.value.getArray())[1];
  EXPECT_EQ(object.getPosition().line, 3u);
  EXPECT_EQ(object.getPosition().column, 9u);
  EXPECT_EQ(object.get("é")->getBool(), true);
  EXPECT_EQ(object.get("é")->getPosition().column, 16u); // é is two bytes
}

TEST(LocatedJson, ReadsIntegersHoweverTheyAreWritten) {
  EXPECT_EQ(parsed("5e8").getInteger(), 500000000);
  EXPECT_EQ(parsed("-3.0").getInteger(), -3);
  EXPECT_EQ(parsed("9223372036854775807").getInteger(), INT64_MAX);
  EXPECT_EQ(parsed("9223372036854775808").getInteger(), std::nullopt);
  EXPECT_EQ(parsed("1.5").getInteger(), std::nullopt);
  EXPECT_EQ(parsed("\"1\"").getInteger(), std::nullopt);
  EXPECT_EQ(parsed("1e999").getNumber(), std::nullopt); // infinity
  EXPECT_EQ(parsed("0.1").getNumber(), 0.1);
}

TEST(LocatedJson, ReadsEscapes) {
  EXPECT_EQ(parsed(R"("\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00")").getString(), "\"\\/\b\f\n\r\té\xF0\x9F\x98\x80");
  EXPECT_EQ(errorOf(R"("\ud83d")"), "f:1:2: half of a surrogate pair in a string");
  EXPECT_EQ(errorOf(R"("\ud83dA")"), "f:1:2: half of a surrogate pair in a string");
  EXPECT_EQ(errorOf(R"("\u00")"), "f:1:4: expected four hexadecimal digits after \\u");
  EXPECT_EQ(errorOf(R"("\x")"), "f:1:2: unknown escape in a string");
  EXPECT_EQ(errorOf(R"("\u0000")"), "f:1:2: NUL character in a string");
}

TEST(LocatedJson, PointsAtWhatIsNotJson) {
  EXPECT_EQ(errorOf(""), "f:1:1: expected a value, found the end of the file");
  EXPECT_EQ(errorOf("{\"a\": 1,\n}"), "f:2:1: expected a key in quotes, found '}'");
  EXPECT_EQ(errorOf("[1 2]"), "f:1:4: expected ',' or ']', found '2'");
  EXPECT_EQ(errorOf("{\"a\" 1}"), "f:1:6: expected ':' after the key, found '1'");
  EXPECT_EQ(errorOf("{\n// note\n}"), "f:2:1: expected a key in quotes, found a comment, which JSON does not have");
  EXPECT_EQ(errorOf("1 1"), "f:1:3: found '1' after the end of the value");
  EXPECT_EQ(errorOf("True"), "f:1:1: expected a value, found 'True'");
  EXPECT_EQ(errorOf("\"a\nb\""), "f:1:1: a string that does not end on its line");
  EXPECT_EQ(errorOf("\"a"), "f:1:1: a string that does not end");
  for (const char *number : {"01", "1.", "1e", "-", "1.e3", "0x10"})
    EXPECT_EQ(errorOf(number).substr(0, 20), "f:1:1: not a number:") << number;
}

TEST(LocatedJson, NamesBothPlacesOfAKeyThatIsGivenTwice) {
  EXPECT_EQ(errorOf("{\"a\": 1,\n \"b\": {\"a\": 2},\n \"a\": 3}"),
            "f:3:2: key \"a\" is given twice, first at line 1, column 2");
}

TEST(LocatedJson, RefusesDepthBeforeTheStackFeelsIt) {
  EXPECT_EQ(errorOf(std::string(32, '[') + std::string(32, ']')), "");
  EXPECT_EQ(errorOf(std::string(100000, '[')), "f:1:33: nested deeper than 32 brackets");
  std::string objects;
  for (int i = 0; i < 40; ++i)
    objects += "{\"a\":";
  EXPECT_EQ(errorOf(objects), "f:1:161: nested deeper than 32 brackets");
}

/// A header of tensors as real ones are: what the values take is at most ten times the text.
TEST(LocatedJson, TakesAtMostTenTimesTheTextInMemory) {
  std::string text = "{\"format\":{}";
  for (int i = 0; i < 20000; ++i)
    text += ",\"model.layers." + std::to_string(i) +
            ".self_attn.q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[" + std::to_string(4 * i) +
            "," + std::to_string(4 * i + 4) + "]}";
  text += "}";
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  llvm::Expected<hyc::JsonValue> value = hyc::parseJson(text, "f");
  ASSERT_TRUE(static_cast<bool>(value));
  const size_t taken = mallinfo2().uordblks + mallinfo2().hblkhd - before;
  EXPECT_LT(taken, 10 * text.size());
  EXPECT_EQ(value->getObject()->size(), 20001u);
}

TEST(LocatedJson, RefusesWhatWouldTakeMore) {
  std::string text = "[[]";
  for (int i = 0; i < 3000000; ++i)
    text += ",[]";
  EXPECT_NE(errorOf(text + "]").find("take more than 10 times the size of the whole text in memory"),
            std::string::npos);
}

TEST(LocatedJson, RefusesBytesThatAreNoText) {
  EXPECT_EQ(errorOf("{\n\"\xff\": 1}"), "f:2:2: not valid UTF-8");
  EXPECT_EQ(errorOf(llvm::StringRef("[1,\0]", 5)), "f:1:4: NUL character in text");
}

TEST(LocatedJson, EveryPrefixOfATextIsRefusedOrAValue) {
  const std::string text = R"({"a": [1, -2.5e-3, "x\u00e9", true, null], "b": {"c": {}}})";
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(errorOf(llvm::StringRef(text).take_front(length)), "") << length;
  EXPECT_EQ(errorOf(text), "");
}

} // namespace
