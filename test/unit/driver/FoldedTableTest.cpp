// Rows that are alike but for the number of a layer or stage.
#include "Report/FoldedTable.h"

#include "gtest/gtest.h"

namespace {

using hyc::describeNumbers;
using hyc::FoldedTable;
using hyc::NumberedName;

TEST(NumberedName, FindsTheFirstPartThatIsANumberAlone) {
  auto split = [](const char *name) {
    NumberedName parts = NumberedName::of(name);
    return parts.before + "|" + std::to_string(parts.number) + "|" + parts.after;
  };
  EXPECT_EQ(split("h.3.attn.c_attn"), "h.|3|.attn.c_attn");
  EXPECT_EQ(split("gemm model.layers.12.mlp.2"), "gemm model.layers.|12|.mlp.2");
  EXPECT_EQ(split("4x128xf32"), "4x128xf32|-1|");
  EXPECT_EQ(split("conv2d.fp8.x"), "conv2d.fp8.x|-1|");
  EXPECT_EQ(split("conv_1.bn1.7"), "conv_1.bn1.|7|");
  EXPECT_EQ(split("layers.99999999999999999999.w"), "layers.99999999999999999999.w|-1|");
  EXPECT_EQ(split(""), "|-1|");
}

TEST(DescribeNumbers, GivesRangesAndCountsWhereThereAreMany) {
  EXPECT_EQ(describeNumbers({3}), "3");
  EXPECT_EQ(describeNumbers({0, 1, 2, 5}), "0 to 2, 5");
  EXPECT_EQ(describeNumbers({0, 2, 4, 6, 8}), "5 of 0 to 8");
}

TEST(ShortenNumbers, WritesRangesForLists) {
  EXPECT_EQ(hyc::shortenNumbers("{dp} stages [0, 1, 2, 3]"), "{dp} stages [0 to 3]");
  EXPECT_EQ(hyc::shortenNumbers("{} stages [0, 7]"), "{} stages [0, 7]");
  EXPECT_EQ(hyc::shortenNumbers("[{tp}, {}]"), "[{tp}, {}]");
  EXPECT_EQ(hyc::shortenNumbers("{tp}"), "{tp}");
}

TEST(FoldedTable, FoldsRowsThatDifferInTheLayerAlone) {
  FoldedTable table({"*op", "bytes>", "+count>"});
  table.add({"wte", "9", "1"});
  for (int layer = 0; layer < 100; ++layer) {
    table.add({"h." + std::to_string(layer) + ".attn", "5", "1"});
    table.add({"h." + std::to_string(layer) + ".mlp", layer == 7 ? "6" : "5", "1"});
  }
  EXPECT_EQ(table.str(), "op        bytes  count\n"
                         "wte           9      1\n"
                         "h.*.attn      5    100\n"
                         "h.*.mlp       5     99\n"
                         "h.7.mlp       6      1\n");
  EXPECT_NE(table.str(/*general=*/true).find("h.*.mlp       6      1\n"), std::string::npos);
}

TEST(FoldedTable, ListsTheNumbersOfStages) {
  FoldedTable table({"#from", "#to", "*value"});
  for (int stage = 0; stage < 4; ++stage)
    table.add({"stage " + std::to_string(stage), "stage " + std::to_string(stage + 1),
               "h." + std::to_string(stage) + ".add"});
  EXPECT_EQ(table.str(), "from          to            value\n"
                         "stage 0 to 3  stage 1 to 4  h.*.add\n");
}

TEST(FoldedTable, CondensesAGroupToItsEndsItsMostAndTheRest) {
  FoldedTable table({"#stage", "arena", "bytes>", "*peak"});
  for (int stage = 0; stage < 1000; ++stage) {
    table.add({std::to_string(stage), "activations", std::to_string(stage == 500 ? 9000 : 5000 - stage),
               stage % 2 ? "gemm h." + std::to_string(stage) : "gelu"});
    table.add({std::to_string(stage), "parameters", "7", "at all times"});
  }
  table.condense(/*group=*/1, /*by=*/2);
  EXPECT_EQ(table.str(), "stage                 arena               bytes  peak\n"
                         "0                     activations          5000  gelu\n"
                         "0 to 999              parameters              7  at all times\n"
                         "1 to 499, 501 to 998  activations  4002 to 4999\n"
                         "500                   activations          9000  gelu\n"
                         "999                   activations          4001  gemm h.999\n");
}

TEST(FoldedTable, ShowsWhatIsMostFirst) {
  FoldedTable table({"*op", "+bytes>"});
  table.add({"a.0", "5"});
  table.add({"b.0", "4"});
  table.add({"b.1", "4"});
  table.add({"c", "1"});
  table.sortBy(1);
  EXPECT_EQ(table.truncate(2, 1), 1);
  EXPECT_EQ(table.str(), "op   bytes\n"
                         "b.*      8\n"
                         "a.0      5\n");
}

} // namespace
