// Pickle: what a pickle says, without doing any of it.
//
// A pickle is a program for a stack machine that can call whatever Python can import. This reader knows the stack
// machine and no Python: a name that a pickle mentions is one of a short list or refused with its place, and a call of
// it becomes a record of the name and what it would have been called with. Nothing but numbers, text, tuples, lists,
// dicts, names of the list and such records can come of it. Whoever reads a Pickle follows structures that it expects,
// to a depth that it knows; what refers to itself is therefore harmless.
//
// What is read takes memory in proportion to the pickle: as many values as half its bytes, which no pickle that Python
// writes passes.
#ifndef HYCRT_SRC_CHECKPOINT_TORCH_PICKLE_READER_H_
#define HYCRT_SRC_CHECKPOINT_TORCH_PICKLE_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

inline constexpr int64_t kMaxPickleBytes = int64_t{64} << 20;

class Pickle {
 public:
  // Of `bytes`, which the Pickle keeps. `label` begins errors.
  static Result<Pickle> parse(std::string bytes, const std::string& label);

  enum class Kind : uint8_t { kNone, kBool, kInteger, kReal, kText, kTuple, kList, kDict, kName, kRecord, kPersistent };
  using Value = uint32_t;  // index of a node

  Value root() const { return root_; }
  Kind kindOf(Value value) const { return nodes_[value].kind; }
  std::optional<int64_t> integerOf(Value value) const;
  std::optional<double> realOf(Value value) const;  // of an integer, too
  std::optional<std::string_view> textOf(Value value) const;
  // Elements of a tuple or list; of a dict a key and its value, one after the other; of a record its arguments (a
  // tuple), and behind it its state where it has one; of a persistent id what it is. Of anything else none.
  const std::vector<Value>& itemsOf(Value value) const;
  // "module name" of a name, or of what a record would have called; otherwise empty.
  std::string_view nameOf(Value value) const;

  // The value of a dict's key, or of an attribute of a record that has a dict for its state.
  std::optional<Value> find(Value dict, std::string_view key) const;
  // Argument `index` of a record that would have called `name`.
  std::optional<Value> argumentOf(Value record, std::string_view name, size_t index) const;
  std::optional<Value> stateOf(Value record) const;

 private:
  friend class PickleParser;
  struct Node {
    Kind kind = Kind::kNone;
    uint32_t list = 0;   // index into lists_; 0: none
    int64_t number = 0;  // a bool, an integer, a real's bits; of text where it begins; of a name its row
    uint32_t length = 0;
  };
  std::string bytes_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Value>> lists_{1};
  Value root_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_TORCH_PICKLE_READER_H_
