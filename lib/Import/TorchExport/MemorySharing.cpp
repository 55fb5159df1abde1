// Whether an operator's result lies in its first operand's memory. Most operators always give a view, or never do; for
// the others torch looks at how the operand lies there, which the archive tells by strides.
#include "Translator.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace hyc::torchexport;
using llvm::ArrayRef;
using llvm::StringRef;

StringRef hyc::torchexport::operatorOf(StringRef target) {
  target.consume_front("aten.");
  return target.split('.').first;
}

/// All as numbers, which may wrap around; nothing where one is not known.
static std::optional<std::vector<uint64_t>> known(ArrayRef<Size> sizes) {
  std::vector<uint64_t> numbers;
  for (const Size &size : sizes) {
    if (!size.value)
      return std::nullopt;
    numbers.push_back(static_cast<uint64_t>(*size.value));
  }
  return numbers;
}

/// Whether two tensors of one shape step alike through memory; along a dimension of one element nobody steps.
static Sharing ofEqualSteps(const TensorMeta &from, const TensorMeta &to) {
  if (from.strides.size() != from.sizes.size() || to.strides.size() != from.sizes.size())
    return Sharing::Unknown;
  Sharing sharing = Sharing::Always;
  for (size_t dim = 0; dim < from.sizes.size(); ++dim) {
    const Size &size = from.sizes[dim], &own = from.strides[dim], &other = to.strides[dim];
    if (size.value == 1 || own == other)
      continue;
    if (size.value && own.value && other.value)
      return Sharing::Never;
    sharing = Sharing::Unknown;
  }
  return sharing;
}

/// Whether steps can lead to the elements in their order under another shape as well (torch's computeStride): what lies
/// in one row there has to be whole dimensions of it.
static bool canBeShaped(ArrayRef<uint64_t> sizes, ArrayRef<uint64_t> strides, ArrayRef<uint64_t> wanted) {
  size_t left = wanted.size(), last = sizes.size() - 1;
  uint64_t row = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    row *= sizes[dim];
    if (dim > 0 && (sizes[dim - 1] == 1 || strides[dim - 1] == row * strides[last]))
      continue;
    uint64_t covered = 1;
    for (; left > 0 && (covered < row || wanted[left - 1] == 1); --left)
      covered *= wanted[left - 1];
    if (covered != row)
      return false;
    last = dim - 1;
    row = 1;
  }
  return left == 0;
}

static Sharing ofReshape(const TensorMeta &from, const TensorMeta &to) {
  if (from.sizes == to.sizes)
    return Sharing::Always;
  auto sizes = known(from.sizes), strides = known(from.strides), wanted = known(to.sizes);
  if (!sizes || !strides || !wanted || sizes->size() != strides->size())
    return Sharing::Unknown;
  if (sizes->empty() || llvm::is_contained(*sizes, 0))
    return Sharing::Always;
  return canBeShaped(*sizes, *strides, *wanted) ? Sharing::Always : Sharing::Never;
}

/// Whether a tensor lies row by row, without gaps.
static Sharing ofRows(const TensorMeta &from) {
  TensorMeta rows = from;
  rows.strides.resize(rows.sizes.size());
  std::optional<int64_t> step = 1;
  for (size_t dim = rows.sizes.size(); dim-- > 0;) {
    rows.strides[dim] = Size{step, ""};
    const std::optional<int64_t> size = rows.sizes[dim].value;
    int64_t next = 0;
    step = step && size && !llvm::MulOverflow(*step, *size, next) ? std::optional(next) : std::nullopt;
  }
  return ofEqualSteps(from, rows);
}

Sharing hyc::torchexport::sharingOf(NodeTranslation &node, StringRef target, const TensorMeta *from,
                                    const TensorMeta *to) {
  static const llvm::StringSet<> views = {
      "view", "_unsafe_view", "expand", "unsqueeze", "squeeze", "transpose", "t", "permute", "slice", "select", "alias",
      "detach", "split", "split_with_sizes", "chunk", "narrow", "unbind", "mT", "unflatten", "view_as",
      // Of these hyc does not know the other way.
      "expand_as", "broadcast_to", "movedim", "numpy_T", "mH", "matrix_H", "adjoint", "diagonal", "linalg_diagonal",
      "as_strided", "unfold", "real", "imag", "view_as_real", "view_as_complex", "unsafe_split",
      "unsafe_split_with_sizes", "unsafe_chunk"};
  static const llvm::StringSet<> drops = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"};
  const StringRef name = operatorOf(target);
  if (views.contains(name))
    return Sharing::Always;
  if (drops.contains(name))
    return node.boolean("train", false) && node.number("p", 0.5) != 0 ? Sharing::Never : Sharing::Always;
  const bool isShape = name == "reshape" || name == "reshape_as" || name == "flatten";
  const bool isSame = name == "contiguous" || name == "to" || name == "type_as";
  if (!isShape && !isSame && name != "ravel")
    return Sharing::Never;
  if (!from || !to)
    return Sharing::Unknown;
  if (from->type != to->type || (name == "to" && node.boolean("copy", false)))
    return Sharing::Never;
  return isShape ? ofReshape(*from, *to) : isSame ? ofEqualSteps(*from, *to) : ofRows(*from);
}
