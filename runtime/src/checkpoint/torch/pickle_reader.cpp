// The stack machine, an operation a row of a table.
#include "checkpoint/torch/pickle_reader.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hycrt {
namespace {

// What a pickle may mention: tensors and their types, and the records of PyTorch's distributed checkpoint.
constexpr std::string_view kNames[] = {
    "collections OrderedDict",
    "pathlib PosixPath",
    "pathlib WindowsPath",
    "pathlib._local PosixPath",
    "pathlib._local WindowsPath",
    "torch BFloat16Storage",
    "torch BoolStorage",
    "torch ByteStorage",
    "torch CharStorage",
    "torch DoubleStorage",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch IntStorage",
    "torch LongStorage",
    "torch ShortStorage",
    "torch Size",
    "torch bfloat16",
    "torch bool",
    "torch float16",
    "torch float32",
    "torch float64",
    "torch int16",
    "torch int32",
    "torch int64",
    "torch int8",
    "torch uint8",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_tensor_v2",
    "torch.distributed.checkpoint.filesystem _StorageInfo",
    "torch.distributed.checkpoint.metadata BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata Metadata",
    "torch.distributed.checkpoint.metadata MetadataIndex",
    "torch.distributed.checkpoint.metadata StorageMeta",
    "torch.distributed.checkpoint.metadata TensorProperties",
    "torch.distributed.checkpoint.metadata TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING",
    "torch.serialization _get_layout",
    "deepspeed.checkpoint.universal_checkpoint SubparamShape",
};
constexpr std::string_view kOrderedDict = kNames[0];

// Two's complement of `count` bytes, at most eight, the lowest first.
int64_t signedOf(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  const int shift = static_cast<int>(64 - 8 * bytes.size());
  return bytes.empty() ? 0 : static_cast<int64_t>(value << shift) >> shift;
}

uint64_t unsignedOf(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

const std::vector<Pickle::Value> kNoItems;

}  // namespace

class PickleParser {
 public:
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;
  using Node = Pickle::Node;

  PickleParser(Pickle* pickle, const std::string& label)
      : pickle_(*pickle), label_(label), bytes_(pickle->bytes_), mostNodes_(bytes_.size() / 2 + 64) {}

  Status run() {
    none_ = make({Kind::kNone}), false_ = make({Kind::kBool, 0, 0}), true_ = make({Kind::kBool, 0, 1});
    noTuple_ = make({Kind::kTuple});
    while (!isOver_) {
      at_ = next_;
      if (next_ == bytes_.size()) return fail("it ends there without saying so");
      const Operation& operation = operationOf(static_cast<unsigned char>(bytes_[next_++]));
      if (!operation.act)
        return fail("operation " + std::to_string(static_cast<unsigned char>(bytes_[at_])) + noOther());
      HYCRT_RETURN_IF_ERROR((this->*operation.act)(operation.parameter));
      if (pickle_.nodes_.size() > mostNodes_) return fail("more values than so many bytes have room for");
    }
    return {};
  }

 private:
  struct Operation {
    Status (PickleParser::*act)(int) = nullptr;
    int parameter = 0;
  };

  static const Operation& operationOf(unsigned char code);

  static std::string noOther() { return ", which no pickle of tensors and their names needs, is not read"; }
  Status fail(const std::string& what) const {
    return dataError(label_ + ": pickle, byte " + std::to_string(at_) + ": " + what);
  }

  Value make(Node node) {
    pickle_.nodes_.push_back(node);
    return static_cast<Value>(pickle_.nodes_.size() - 1);
  }
  Value makeList(Kind kind, std::vector<Value> items, int64_t number = 0) {
    pickle_.lists_.push_back(std::move(items));
    return make({kind, static_cast<uint32_t>(pickle_.lists_.size() - 1), number});
  }
  Status push(Value value) {
    stack_.push_back(value);
    return {};
  }

  // --------------------------------------------------------------------------------------------------- what follows it

  Status take(size_t count, std::string_view* bytes) {
    if (count > bytes_.size() - next_) {
      return fail("claims " + std::to_string(count) + " bytes, but " + std::to_string(bytes_.size() - next_) +
                  " follow");
    }
    *bytes = bytes_.substr(next_, count);
    next_ += count;
    return {};
  }
  Status takeLine(std::string_view* line) {
    const size_t end = bytes_.find('\n', next_);
    if (end == bytes_.npos) return fail("a line without an end");
    *line = bytes_.substr(next_, end - next_);
    next_ = end + 1;
    return {};
  }
  Status takeCount(int bytes, uint64_t* count) {
    std::string_view text;
    HYCRT_RETURN_IF_ERROR(take(static_cast<size_t>(bytes), &text));
    *count = unsignedOf(text);
    return {};
  }

  // ------------------------------------------------------------------------------------------------------------- stack

  // Where the elements above the last mark begin, or the whole stack where there is none.
  size_t base() const { return marks_.empty() ? 0 : marks_.back(); }
  Status pop(size_t count, std::vector<Value>* values) {
    if (stack_.size() - base() < count) return fail("takes more from the stack than is there");
    values->assign(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return {};
  }
  Status popToMark(std::vector<Value>* values) {
    if (marks_.empty()) return fail("goes back to a mark that is not there");
    values->assign(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return {};
  }
  // Adds to the container on top.
  Status addToTop(Kind kind, const std::vector<Value>& values) {
    if (stack_.size() == base() || pickle_.nodes_[stack_.back()].kind != kind) {
      return fail(kind == Kind::kDict ? "sets items of what is no dict" : "appends to what is no list");
    }
    if (kind == Kind::kDict && values.size() % 2 != 0) return fail("a key without a value");
    Node& node = pickle_.nodes_[stack_.back()];
    if (node.list == 0) {
      pickle_.lists_.emplace_back();
      node.list = static_cast<uint32_t>(pickle_.lists_.size() - 1);
    }
    std::vector<Value>& items = pickle_.lists_[node.list];
    items.insert(items.end(), values.begin(), values.end());
    return {};
  }

  // -------------------------------------------------------------------------------------------------------- operations

  Status protocol(int) {
    uint64_t version = 0;
    HYCRT_RETURN_IF_ERROR(takeCount(1, &version));
    return version <= 5 ? Status() : fail("protocol " + std::to_string(version) + ", expected at most 5");
  }
  Status frame(int) {
    uint64_t bytes = 0;
    return takeCount(8, &bytes);
  }
  Status stop(int) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(pop(1, &values));
    if (!stack_.empty() || !marks_.empty()) return fail("ends with values that nothing has");
    if (next_ != bytes_.size()) return fail("ends, but " + std::to_string(bytes_.size() - next_) + " bytes follow");
    pickle_.root_ = values[0];
    isOver_ = true;
    return {};
  }
  Status mark(int) {
    marks_.push_back(stack_.size());
    return {};
  }
  Status constant(int which) { return push(which == 0 ? none_ : which == 1 ? true_ : which == 2 ? false_ : noTuple_); }
  // Of `bytes` bytes; of four with a sign.
  Status integer(int bytes) {
    std::string_view text;
    HYCRT_RETURN_IF_ERROR(take(static_cast<size_t>(bytes), &text));
    return push(make({Kind::kInteger, 0, bytes == 4 ? signedOf(text) : static_cast<int64_t>(unsignedOf(text))}));
  }
  Status longInteger(int) {
    uint64_t bytes = 0;
    std::string_view text;
    HYCRT_RETURN_IF_ERROR(takeCount(1, &bytes));
    if (bytes > 8) return fail("a number of " + std::to_string(bytes) + " bytes, expected at most 8");
    HYCRT_RETURN_IF_ERROR(take(bytes, &text));
    return push(make({Kind::kInteger, 0, signedOf(text)}));
  }
  Status real(int) {
    std::string_view text;
    HYCRT_RETURN_IF_ERROR(take(8, &text));
    const std::string reversed(text.rbegin(), text.rend());
    return push(make({Kind::kReal, 0, static_cast<int64_t>(unsignedOf(reversed))}));
  }
  // Its length has so many bytes.
  Status text(int lengthBytes) {
    uint64_t length = 0;
    std::string_view text;
    HYCRT_RETURN_IF_ERROR(takeCount(lengthBytes, &length));
    if (length > bytes_.size()) return fail("claims " + std::to_string(length) + " bytes of text");
    HYCRT_RETURN_IF_ERROR(take(length, &text));
    return push(make({Kind::kText, 0, text.data() - bytes_.data(), static_cast<uint32_t>(length)}));
  }
  Status tuple(int count) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(count > 0 ? pop(static_cast<size_t>(count), &values) : popToMark(&values));
    return push(makeList(Kind::kTuple, std::move(values)));
  }
  Status empty(int kind) { return push(make({static_cast<Kind>(kind)})); }
  Status append(int) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(pop(1, &values));
    return addToTop(Kind::kList, values);
  }
  Status setItem(int) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(pop(2, &values));
    return addToTop(Kind::kDict, values);
  }
  Status addAll(int kind) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(popToMark(&values));
    return addToTop(static_cast<Kind>(kind), values);
  }
  Status put(int indexBytes) {
    uint64_t index = memo_.size();
    if (indexBytes > 0) HYCRT_RETURN_IF_ERROR(takeCount(indexBytes, &index));
    if (stack_.size() == base()) return fail("remembers what is not there");
    if (index > memo_.size()) return fail("number " + std::to_string(index) + " of what is remembered is out of turn");
    if (index == memo_.size()) memo_.push_back(0);
    memo_[index] = stack_.back();
    return {};
  }
  Status get(int indexBytes) {
    uint64_t index = 0;
    HYCRT_RETURN_IF_ERROR(takeCount(indexBytes, &index));
    if (index >= memo_.size()) return fail("number " + std::to_string(index) + " of what is remembered is not there");
    return push(memo_[index]);
  }
  Status name(int) {
    std::string_view module, name;
    HYCRT_RETURN_IF_ERROR(takeLine(&module));
    HYCRT_RETURN_IF_ERROR(takeLine(&name));
    return pushName(module, name);
  }
  Status nameOnStack(int) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(pop(2, &values));
    const auto module = pickle_.textOf(values[0]), name = pickle_.textOf(values[1]);
    if (!module || !name) return fail("a name that is no text");
    return pushName(*module, *name);
  }
  Status pushName(std::string_view module, std::string_view name) {
    const std::string both = std::string(module) + " " + std::string(name);
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), both);
    if (found == std::end(kNames)) {
      return fail("mentions '" + std::string(module.substr(0, 100)) + "." + std::string(name.substr(0, 100)) +
                  "', which is none of the names of tensors and their metadata; nothing of it was run");
    }
    return push(make({Kind::kName, 0, found - std::begin(kNames)}));
  }
  // A call, and a new object of a class.
  Status call(int) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(pop(2, &values));
    const Node called = pickle_.nodes_[values[0]];
    if (called.kind != Kind::kName) return fail("calls what is no name");
    if (pickle_.nodes_[values[1]].kind != Kind::kTuple) return fail("calls with arguments that are no tuple");
    if (kNames[called.number] == kOrderedDict) {
      return pickle_.itemsOf(values[1]).empty() ? empty(static_cast<int>(Kind::kDict)) : fail("a dict with arguments");
    }
    return push(makeList(Kind::kRecord, {values[1]}, called.number));
  }
  // What a dict of a module's states has beside its items is of no use.
  Status setState(int) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(pop(1, &values));
    if (stack_.size() == base()) return fail("a state of nothing");
    const Node& node = pickle_.nodes_[stack_.back()];
    if (node.kind == Kind::kDict) return {};
    if (node.kind != Kind::kRecord) return fail("a state of what is no record");
    pickle_.lists_[node.list].resize(1);
    pickle_.lists_[node.list].push_back(values[0]);
    return {};
  }
  Status persistent(int) {
    std::vector<Value> values;
    HYCRT_RETURN_IF_ERROR(pop(1, &values));
    return push(makeList(Kind::kPersistent, std::move(values)));
  }

  Pickle& pickle_;
  const std::string& label_;
  std::string_view bytes_;
  size_t mostNodes_;
  size_t at_ = 0, next_ = 0;
  bool isOver_ = false;
  Value none_ = 0, true_ = 0, false_ = 0, noTuple_ = 0;
  std::vector<Value> stack_, memo_;
  std::vector<size_t> marks_;
};

const PickleParser::Operation& PickleParser::operationOf(unsigned char code) {
  using P = PickleParser;
  static const std::array<Operation, 256> table = [] {
    std::array<Operation, 256> rows{};
    const int list = static_cast<int>(Kind::kList), dict = static_cast<int>(Kind::kDict);
    rows[0x80] = {&P::protocol}, rows[0x95] = {&P::frame}, rows['.'] = {&P::stop}, rows['('] = {&P::mark};
    rows['N'] = {&P::constant, 0}, rows[0x88] = {&P::constant, 1}, rows[0x89] = {&P::constant, 2};
    rows[')'] = {&P::constant, 3};
    rows['K'] = {&P::integer, 1}, rows['M'] = {&P::integer, 2}, rows['J'] = {&P::integer, 4};
    rows[0x8a] = {&P::longInteger}, rows['G'] = {&P::real};
    rows[0x8c] = {&P::text, 1}, rows['X'] = {&P::text, 4}, rows[0x8d] = {&P::text, 8};
    rows[0x85] = {&P::tuple, 1}, rows[0x86] = {&P::tuple, 2}, rows[0x87] = {&P::tuple, 3}, rows['t'] = {&P::tuple, 0};
    rows[']'] = {&P::empty, list}, rows['}'] = {&P::empty, dict};
    rows['a'] = {&P::append}, rows['s'] = {&P::setItem};
    rows['e'] = {&P::addAll, list}, rows['u'] = {&P::addAll, dict};
    rows[0x94] = {&P::put, 0}, rows['q'] = {&P::put, 1}, rows['r'] = {&P::put, 4};
    rows['h'] = {&P::get, 1}, rows['j'] = {&P::get, 4};
    rows['c'] = {&P::name}, rows[0x93] = {&P::nameOnStack};
    rows['R'] = {&P::call}, rows[0x81] = {&P::call}, rows['b'] = {&P::setState}, rows['Q'] = {&P::persistent};
    return rows;
  }();
  return table[code];
}

Result<Pickle> Pickle::parse(std::string bytes, const std::string& label) {
  if (static_cast<int64_t>(bytes.size()) > kMaxPickleBytes) {
    return dataError(label + ": a pickle of " + std::to_string(bytes.size()) + " bytes, expected at most " +
                     std::to_string(kMaxPickleBytes));
  }
  Pickle pickle;
  pickle.bytes_ = std::move(bytes);
  HYCRT_RETURN_IF_ERROR(PickleParser(&pickle, label).run());
  return pickle;
}

std::optional<int64_t> Pickle::integerOf(Value value) const {
  if (nodes_[value].kind != Kind::kInteger) return std::nullopt;
  return nodes_[value].number;
}

std::optional<double> Pickle::realOf(Value value) const {
  const Node& node = nodes_[value];
  if (node.kind == Kind::kInteger) return static_cast<double>(node.number);
  if (node.kind != Kind::kReal) return std::nullopt;
  double real = 0;
  std::memcpy(&real, &node.number, sizeof real);
  return real;
}

std::optional<std::string_view> Pickle::textOf(Value value) const {
  const Node& node = nodes_[value];
  if (node.kind != Kind::kText) return std::nullopt;
  return std::string_view(bytes_).substr(static_cast<size_t>(node.number), node.length);
}

const std::vector<Pickle::Value>& Pickle::itemsOf(Value value) const {
  return nodes_[value].list == 0 ? kNoItems : lists_[nodes_[value].list];
}

std::string_view Pickle::nameOf(Value value) const {
  const Node& node = nodes_[value];
  return node.kind == Kind::kName || node.kind == Kind::kRecord ? kNames[node.number] : std::string_view();
}

std::optional<Pickle::Value> Pickle::find(Value dict, std::string_view key) const {
  std::optional<Value> from = dict;
  if (kindOf(dict) == Kind::kRecord) from = stateOf(dict);
  if (!from || kindOf(*from) != Kind::kDict) return std::nullopt;
  const std::vector<Value>& items = itemsOf(*from);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (textOf(items[i]) == key) return items[i + 1];
  }
  return std::nullopt;
}

std::optional<Pickle::Value> Pickle::argumentOf(Value record, std::string_view name, size_t index) const {
  if (kindOf(record) != Kind::kRecord || nameOf(record) != name) return std::nullopt;
  const std::vector<Value>& arguments = itemsOf(itemsOf(record)[0]);
  if (index >= arguments.size()) return std::nullopt;
  return arguments[index];
}

std::optional<Pickle::Value> Pickle::stateOf(Value record) const {
  if (kindOf(record) != Kind::kRecord || itemsOf(record).size() < 2) return std::nullopt;
  return itemsOf(record)[1];
}

}  // namespace hycrt
