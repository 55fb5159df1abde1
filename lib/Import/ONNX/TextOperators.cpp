// Texts as numbers: how often sequences of a pool stand in a row of integers.
#include "Expansion.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
/// The pool's sequences of one length, and the columns of the result that count them.
struct Grams {
  int64_t length = 0;
  llvm::SmallVector<int64_t> tokens, columns; ///< sequence by sequence
};

struct Pool {
  llvm::SmallVector<Grams> grams;
  int64_t columns = 0;
};

/// The pool as the attributes have it: all sequences of one token, then of two, …; reports where they do not agree.
std::optional<Pool> readPool(NodeImport &node) {
  std::optional<llvm::SmallVector<int64_t>> tokens = node.getInts("pool_int64s"), starts = node.getInts("ngram_counts"),
                                            columns = node.getInts("ngram_indexes");
  if (!tokens || !starts || !columns) {
    if (!node.failed())
      node.error() << "has no pool of integers (pool_int64s, ngram_counts and ngram_indexes); hyc reads no strings";
    return std::nullopt;
  }
  constexpr int64_t kMostColumns = int64_t(1) << 20;
  Pool pool;
  size_t next = 0;
  bool isSound = true;
  for (size_t i = 0; isSound && i < starts->size(); ++i) {
    auto size = static_cast<int64_t>(tokens->size());
    int64_t begin = (*starts)[i], end = i + 1 < starts->size() ? (*starts)[i + 1] : size;
    auto length = static_cast<int64_t>(i) + 1;
    isSound = begin >= 0 && begin <= end && end <= size && (end - begin) % length == 0;
    if (!isSound || begin == end)
      continue;
    Grams grams{length, {}, {}};
    grams.tokens.assign(tokens->begin() + begin, tokens->begin() + end);
    for (int64_t each = 0; each < (end - begin) / length && isSound; ++each) {
      isSound = next < columns->size() && (*columns)[next] >= 0 && (*columns)[next] < kMostColumns;
      if (isSound)
        grams.columns.push_back((*columns)[next++]);
    }
    pool.grams.push_back(std::move(grams));
  }
  for (int64_t column : *columns)
    pool.columns = std::max(pool.columns, column + 1);
  if (isSound && next == columns->size() && pool.columns > 0)
    return pool;
  node.error() << "has a pool of " << tokens->size() << " tokens in " << columns->size()
               << " sequences that ngram_counts and ngram_indexes do not divide";
  return std::nullopt;
}

/// How often each sequence stands in a row, its tokens `apart` from one another: (rows, sequences), f32.
Binding countApart(Expansion &e, NodeImport &node, const Binding &rows, const Grams &grams, int64_t apart) {
  const auto sequences = static_cast<int64_t>(grams.columns.size());
  const int64_t places = rows.type.getDimSize(1) - (grams.length - 1) * apart;
  Binding all;
  for (int64_t i = 0; i < grams.length && e.ok(); ++i) {
    Binding whole = rows;
    Binding own =
        e.reshape(*node.importer().slice(whole, 1, i * apart, places, 1), {rows.type.getDimSize(0), places, 1});
    Binding wanted = e.integers(sequences, [&](int64_t n) { return grams.tokens[n * grams.length + i]; });
    Binding isSame = e("Equal", {own, wanted});
    all = all.type ? e("And", {all, isSame}) : isSame;
  }
  return e.reduce("ReduceSum", e.cast(all, node.importer().getBuilder().getF32Type()), {1}, false);
}

/// Counts as `mode` has them: whether there are any, in place of how many, and by weights that stand in the pool's
/// order.
Binding weighted(Expansion &e, NodeImport &node, const Binding &counts, const Pool &pool, llvm::StringRef mode) {
  if (mode == "TF" || !e.ok())
    return counts;
  Binding result = counts;
  if (mode == "IDF")
    result = e.cast(e("Greater", {counts, e.number(counts, 0)}), counts.type.getElementType());
  const onnxfile::Attribute *weights = node.find("weights");
  if (!weights)
    return result;
  std::vector<double> byColumn(pool.columns, 0);
  int next = 0;
  for (const Grams &grams : pool.grams)
    for (int64_t column : grams.columns)
      byColumn[column] = next < weights->floats_size() ? weights->floats(next++) : 0;
  return e.mul(result, e.reals({pool.columns}, [&](int64_t i) { return byColumn[i]; }));
}

LogicalResult importTfIdfVectorizer(NodeImport &node) {
  Expansion e(node);
  std::optional<Pool> pool = readPool(node);
  const int64_t least = node.getInt("min_gram_length", 1), most = node.getInt("max_gram_length", 1),
                skips = node.getInt("max_skip_count", 0);
  std::string mode = node.getString("mode", "TF");
  constexpr int64_t kMostSkips = 256, kMostLength = 256;
  if (!pool)
    return failure();
  if (least < 1 || most < least || most > kMostLength || skips < 0 || skips > kMostSkips ||
      (mode != "TF" && mode != "IDF" && mode != "TFIDF"))
    return node.error() << "counts sequences of " << least << " to " << most << " tokens with up to " << skips
                        << " skipped in mode '" << mode << "', expected some, at most " << kMostLength
                        << ", and TF, IDF or TFIDF";
  RankedTensorType type = node.input(0).type;
  const bool isOneRow = type.getRank() == 1;
  Binding rows = e.cast(e.reshape(node.input(0), {isOneRow ? 1 : type.getDimSize(0), type.getShape().back()}),
                        node.importer().getBuilder().getI64Type());
  llvm::SmallVector<Binding> counts{e.reals({rows.type.getDimSize(0), 1}, [](int64_t) { return 0.0; })};
  llvm::SmallVector<int64_t> place(pool->columns, 0); // among all counts; the first is none
  int64_t counted = 1;
  for (const Grams &grams : pool->grams) {
    if (grams.length < least || grams.length > most)
      continue;
    Binding sum;
    for (int64_t apart = 1; apart <= (grams.length == 1 ? 1 : skips + 1) && e.ok(); ++apart)
      if ((grams.length - 1) * apart < rows.type.getDimSize(1)) {
        Binding own = countApart(e, node, rows, grams, apart);
        sum = sum.type ? e.add(sum, own) : own;
      }
    if (!sum.type)
      continue;
    counts.push_back(sum);
    for (int64_t column : grams.columns)
      place[column] = counted++;
  }
  Binding joined = e("Concat", counts, {{"axis", int64_t(1)}});
  Binding result = e("Gather", {joined, e.integers(place)}, {{"axis", int64_t(1)}});
  return e.finish(weighted(e, node, isOneRow ? e.reshape(result, {pool->columns}) : result, *pool, mode));
}
} // namespace

void hyc::onnx::addTextOperators(OperatorTable &table) {
  table["TfIdfVectorizer"] = {importTfIdfVectorizer, {tensor("X").integer().ranks(1, 2)}};
}
