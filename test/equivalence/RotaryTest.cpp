// Decoders' norms and rotary positions over meshes, at phase 4 and as programs of phase 5: queries and keys of a few
// groups of heads, turned by tables that are shared or of part of a head, between norms by the root mean square.
#include "Comparison.h"
#include "GraphText.h"

#include <gtest/gtest.h>
#include <random>

using namespace hyc::equivalence;

namespace {

struct Shapes {
  int64_t samples, sequence = 5, width = 8, heads = 4, groups = 2, size = 6, hidden = 10, vocabulary = 11;
};

GraphValue norm(GraphText &text, const std::string &name, const GraphValue &x, const Shapes &s) {
  GraphValue scale = text.read(text.parameter(name, {s.width}, 1, 0.2, false), {s.width});
  return text.applyMany("hyc.rms_norm", "$0, $1 epsilon 1.0e-2", {x, scale},
                        {{"", x.shape}, {"", {s.samples, s.sequence}}})[0];
}

GraphValue weight(GraphText &text, const std::string &name, const Shape &shape) {
  return text.read(text.parameter(name, shape, 0, 0.6, false), shape);
}

/// `pairs` of a head's elements are turned.
GraphValue layer(GraphText &text, const GraphValue &x, const Shapes &s, const std::vector<GraphValue> &tables) {
  GraphValue inside = norm(text, "norm.scale", x, s);
  GraphValue q = text.einsum("bsk,khd->bshd", inside, weight(text, "q", {s.width, s.heads, s.size}));
  GraphValue k = text.einsum("bsk,khd->bshd", inside, weight(text, "k", {s.width, s.groups, s.size}));
  GraphValue v = text.einsum("bsk,khd->bshd", inside, weight(text, "v", {s.width, s.groups, s.size}));
  q = text.apply("hyc.rope", "$0, $1, $2", {q, tables[0], tables[1]}, q.shape);
  k = text.apply("hyc.rope", "$0, $1, $2", {k, tables[0], tables[1]}, k.shape);
  GraphValue o = text.applyMany("hyc.attention", "causal $0, $1, $2 scale 5.0e-1", {q, k, v},
                                {{"", q.shape}, {"", {s.samples, s.heads, s.sequence}}})[0];
  GraphValue y =
      text.same("hyc.add", {x, text.einsum("bshd,hdk->bsk", o, weight(text, "o", {s.heads, s.size, s.width}))});
  inside = norm(text, "after.scale", y, s);
  GraphValue gate = text.einsum("bsk,kv->bsv", inside, weight(text, "gate", {s.width, s.hidden}));
  gate = text.same("hyc.mul", {gate, text.same("hyc.sigmoid", {gate})});
  GraphValue up = text.einsum("bsk,kv->bsv", inside, weight(text, "up", {s.width, s.hidden}));
  GraphValue hidden = text.same("hyc.mul", {gate, up});
  return text.same("hyc.add", {y, text.einsum("bsv,vk->bsk", hidden, weight(text, "down", {s.hidden, s.width}))});
}

RandomGraph decoder(uint64_t seed, const RandomGraphOptions &options) {
  Shapes s{options.samples};
  GraphText text;
  RandomGraph graph;
  GraphValue ids = text.argument("ids", {s.samples, s.sequence}, "i64");
  graph.inputs.push_back({"ids", ids.shape, s.vocabulary});
  graph.inputs.push_back({"labels", ids.shape, s.vocabulary, true});
  text.setScope("embed.");
  GraphValue x = text.apply("hyc.embedding", "$0, $1", {ids, weight(text, "table", {s.vocabulary, s.width})},
                            {s.samples, s.sequence, s.width});
  const int64_t pairs = seed % 2 ? s.size / 2 : s.size / 2 - 1; // of some heads a part is left as it is
  Shape table{s.sequence, pairs};
  std::vector<GraphValue> tables = text.applyMany(
      "hyc.rotary_table", pairs == 3 ? "[0.636619746, 0.025, 0.0025] factor 1.5" : "[1.0, 0.1] factor 1.0", {},
      {{"", table}, {"", table}});
  for (int64_t i = 0; i < 2; ++i) {
    text.setScope("layers." + std::to_string(i) + ".");
    x = layer(text, x, s, tables);
  }
  text.setScope("head.");
  GraphValue labels = text.argument("labels", {s.samples, s.sequence}, "i64");
  GraphValue logits =
      text.einsum("bsk,kv->bsv", norm(text, "scale", x, s), weight(text, "weight", {s.width, s.vocabulary}));
  std::vector<GraphValue> results =
      text.applyMany("hyc.cross_entropy", "$0, $1", {logits, labels}, {{"", {}}, {"", {}, "i64"}, {"", labels.shape}});
  graph.module = text.finish({results[0], results[1]});
  graph.parameters = {"embed.table", "head.scale", "head.weight"};
  for (const char *name : {"norm.scale", "q", "k", "v", "o", "after.scale", "gate", "up", "down"})
    for (const char *scope : {"layers.0.", "layers.1."})
      graph.parameters.push_back(std::string(scope) + name);
  return graph;
}

class Rotary : public testing::TestWithParam<uint64_t> {};

TEST_P(Rotary, ComputesWhatOneDeviceComputes) {
  static const int64_t kMeshes[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 1, 2}, {2, 1, 2}, {2, 2, 1}, {1, 2, 2}};
  const int64_t *mesh = kMeshes[GetParam() % std::size(kMeshes)];
  Comparison comparison(GetParam());
  Layout &layout = comparison.layout;
  layout.tp = mesh[0], layout.pp = mesh[1], layout.dp = mesh[2];
  layout.microBatch = 2;
  layout.optimizer = "optimizer=sgd";
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.makeGraph = decoder;
  comparison.run();
}

INSTANTIATE_TEST_SUITE_P(Decoders, Rotary, testing::Range<uint64_t>(0, 12));
} // namespace
