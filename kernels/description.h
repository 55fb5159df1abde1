// What programs know of the kernels that they call, one row a kernel: operands and what happens to them, attributes and
// the fields of the C++ struct that they fill, the function for CPUs and for GPUs, scratch memory, work, and what a
// result may be written over.
//
// The rows stand in kernels/<op>/description.h, which descriptions.h collects. They are data: the printers of programs,
// the plan of scratch memory, the time estimate, the reuse of buffers and the interpreter read them, and none of those
// knows a kernel by its name. What is no kernel but a statement of generated code (a fill, a sum of two numbers) has a
// row without functions; the printers spell those themselves.
//
// The text of a function is a C++ call of which some words are replaced:
//   x                 an operand: its address; nullptr where it was left out
//   @name             an attribute, as a number; of a list of numbers the name of a constant array that holds them
//   @name|other       the same, or `other` where the call has no such attribute
//   #desc             the struct: "{.rows = 4, .cols = 64}"
//   #mode             the write mode of the operands that have one
//   #count(x, y)      how many elements the call works on: those of its operands that exist
//   #elements(x) #bytes(x) #last(x)    elements of an operand, bytes of an element, size of the last dimension
//   #coordinate       where this rank is along the attribute `axes`
//   #workspace        scratch memory of the arena of that name
//   #table            of a TableFunction alone: the table, and how many rows it has
//   [, x]             left out where an operand in it was left out, or where no scratch memory is planned
#ifndef HYC_KERNELS_DESCRIPTION_H_
#define HYC_KERNELS_DESCRIPTION_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hyc::kernels {

// Elements that lie elsewhere, one after the other. (The compiler is written in C++17, which has no std::span.)
template <typename T>
class View {
 public:
  constexpr View() = default;
  constexpr View(const T *data, size_t size) : first_(data), size_(size) {}
  template <size_t kSize>
  constexpr View(const T (&array)[kSize]) : View(array, kSize) {}
  constexpr const T *begin() const { return first_; }
  constexpr const T *end() const { return first_ + size_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T &operator[](size_t i) const { return first_[i]; }
  constexpr const T &back() const { return first_[size_ - 1]; }
  constexpr View first(size_t count) const { return {first_, count}; }
  constexpr View from(size_t begin) const { return {first_ + begin, size_ - begin}; }

 private:
  const T *first_ = nullptr;
  size_t size_ = 0;
};
using Numbers = View<int64_t>;

enum class ElementType { kF64, kF32, kBf16, kF16, kF8, kInteger };

namespace described {
constexpr int64_t product(Numbers sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}
}  // namespace described

// An operand of one call.
struct Extents {
  Numbers shape, strides;  // strides in elements
  ElementType type = ElementType::kF32;
  int64_t elementBytes = 4;

  constexpr int64_t elements() const { return described::product(shape); }
  constexpr int64_t last() const { return shape.empty() ? 1 : shape.back(); }
  // Of the last dimension; elements where it is the only one.
  constexpr int64_t rows() const { return last() ? elements() / last() : 0; }
};

// One call, as whoever reads a description sees it. Operands are named as the description names them.
class Call {
 public:
  virtual ~Call() = default;
  virtual bool has(std::string_view operand) const = 0;  // not where it was left out, or the kernel has none
  virtual Extents operand(std::string_view name) const = 0;
  virtual int64_t integer(std::string_view attribute, int64_t otherwise = 0) const = 0;
  virtual double real(std::string_view attribute) const = 0;
  virtual bool flag(std::string_view attribute) const = 0;
  virtual Numbers list(std::string_view attribute) const = 0;
  virtual std::string_view text(std::string_view attribute) const = 0;
  virtual bool onGpu() const = 0;
};

// A call whose operands have values: of the interpreter. Tensors are dense here.
class ExecutedCall : public Call {
 public:
  virtual const void *data(std::string_view in) const = 0;
  virtual void *result(std::string_view out) const = 0;
  virtual double value(std::string_view in) const = 0;
  virtual int64_t integerValue(std::string_view in) const = 0;
  virtual std::vector<float> reals(std::string_view attribute) const = 0;
  virtual int64_t coordinate() const = 0;
  virtual void fill(void *desc) const = 0;

  template <typename T>
  const T *in(std::string_view name) const {
    return static_cast<const T *>(data(name));
  }
  template <typename T>
  T *out(std::string_view name) const {
    return static_cast<T *>(result(name));
  }
  // Elements that all of these operands have: of shards those that exist.
  int64_t count(std::initializer_list<std::string_view> operands) const {
    int64_t least = INT64_MAX;
    for (std::string_view name : operands)
      if (const int64_t elements = operand(name).elements(); elements < least) least = elements;
    return least;
  }
  // The struct, as the description's fields fill it.
  template <typename Desc>
  Desc desc() const {
    Desc filled;
    fill(&filled);
    return filled;
  }
};

//===-- Operands ------------------------------------------------------------------------------------------------===//

enum class Role {
  kPlain,     // a result is written whole, an input read
  kByMode,    // a result that is overwritten or added to, as the call's write mode says
  kUpdated,   // a result that is read, too
  kScratch,   // a result that nobody reads
  kOptional,  // an input that may be left out; they stand last
};

struct OperandRow {
  const char *name = nullptr;
  Role role = Role::kPlain;
  const char *presentWith = nullptr;  // an optional input that is there if the call has this attribute
  // Another operand, whose elements it has at most as many of touched: an input of which rows are picked, a result to
  // whose rows is added.
  const char *touchedAs = nullptr;
};

// A result that may take the place of an input of equal type.
struct Reuse {
  const char *out = nullptr, *in = nullptr;
};

// Where an update has this input and it is 0, nothing happens.
constexpr std::string_view kPredicate = "predicate";

//===-- Fields of the struct ------------------------------------------------------------------------------------===//

// A few sizes: of windows, or strides.
struct Sizes {
  int64_t at[6] = {};
  int count = 0;
};

namespace described {
// Up to three numbers as the last of three.
constexpr Sizes three(Numbers values, int64_t otherwise) {
  Sizes all = {{otherwise, otherwise, otherwise}, 3};
  for (size_t i = 0; i < values.size(); ++i) all.at[3 - values.size() + i] = values[i];
  return all;
}
// Spatial dimensions of a tensor that has two others before them.
inline Sizes spatial(const Call &c, const char *operand) { return three(c.operand(operand).shape.from(2), 1); }
// Steps of windows, and what lies before them: attributes.
inline Sizes steps(const Call &c, const char *attribute) { return three(c.list(attribute), 1); }
inline Sizes margins(const Call &c, const char *attribute) { return three(c.list(attribute), 0); }
}  // namespace described

enum class FieldKind {
  kSize,      // a number that follows from shapes and attributes
  kSizes,     // several
  kReal,      // an attribute
  kFlag,      // whether there is such an attribute
  kConstant,  // always the same
  kScalar,    // an input's value, or an attribute where there is no such input
  kAddress,   // an input's address
};

struct Field {
  const char *name = nullptr;  // "rows", or "dropout.rate" of a struct in the struct
  FieldKind kind = FieldKind::kSize;
  const char *attribute = nullptr, *operand = nullptr;
  int64_t (*size)(const Call &) = nullptr;
  Sizes (*sizes)(const Call &, const char *of) = nullptr;
  const char *of = nullptr;  // what `sizes` are those of
  // Of a constant; of a size the C++ expression where `operand` decides it while a step runs, in which #size is the
  // size without it.
  const char *text = nullptr;
  bool (*isLeftOut)(const Call &) = nullptr;
  int64_t (*executed)(const ExecutedCall &) = nullptr;  // the value of such an expression
  void (*fill)(void *desc, const ExecutedCall &call, const Field &field) = nullptr;
};

namespace field_detail {
template <typename>
struct ClassOf;
template <typename Member, typename Class>
struct ClassOf<Member Class::*> {
  using Type = Class;
};
template <auto First, auto... Rest>
constexpr auto &at(void *desc) {
  auto &member = static_cast<typename ClassOf<decltype(First)>::Type *>(desc)->*First;
  return (member.*....*Rest);
}
template <auto... Path, typename Value>
constexpr void set(void *desc, Value value) {
  auto &member = at<Path...>(desc);
  member = static_cast<std::remove_reference_t<decltype(member)>>(value);
}
}  // namespace field_detail

namespace described {

// Each names a member of the struct, or of a struct in it, and what fills it. A field that is left out keeps the value
// that the struct gives it.
template <auto... Path>
constexpr Field size(const char *name, int64_t (*size)(const Call &), bool (*isLeftOut)(const Call &) = nullptr) {
  return {.name = name,
          .kind = FieldKind::kSize,
          .size = size,
          .isLeftOut = isLeftOut,
          .fill = [](void *desc, const ExecutedCall &call, const Field &field) {
            field_detail::set<Path...>(desc, field.size(call));
          }};
}
// A size that an operand (null: the rank's coordinate) decides while a step runs: as `text` says where the operand is
// there. GPUs' functions get the operand's address instead.
template <auto... Path>
constexpr Field sizeInStep(const char *name, const char *operand, const char *text,
                           int64_t (*executed)(const ExecutedCall &), int64_t (*size)(const Call &)) {
  return {.name = name,
          .kind = FieldKind::kSize,
          .operand = operand,
          .size = size,
          .text = text,
          .executed = executed,
          .fill = [](void *desc, const ExecutedCall &call, const Field &field) {
            field_detail::set<Path...>(desc, field.executed(call));
          }};
}
template <auto... Path>
constexpr Field sizes(const char *name, Sizes (*sizes)(const Call &, const char *of), const char *of) {
  return {.name = name,
          .kind = FieldKind::kSizes,
          .sizes = sizes,
          .of = of,
          .fill = [](void *desc, const ExecutedCall &call, const Field &field) {
            const Sizes values = field.sizes(call, field.of);
            auto &member = field_detail::at<Path...>(desc);
            if constexpr (std::is_array_v<std::remove_reference_t<decltype(member)>>)
              for (int i = 0; i < values.count; ++i) member[i] = values.at[i];
            else
              member = {values.at[0], values.at[1], values.at[2]};
          }};
}
template <auto... Path>
constexpr Field real(const char *name, const char *attribute, bool (*isLeftOut)(const Call &) = nullptr) {
  return {.name = name,
          .kind = FieldKind::kReal,
          .attribute = attribute,
          .isLeftOut = isLeftOut,
          .fill = [](void *desc, const ExecutedCall &call, const Field &field) {
            field_detail::set<Path...>(desc, call.real(field.attribute));
          }};
}
template <auto... Path>
constexpr Field flag(const char *name, const char *attribute, bool (*isLeftOut)(const Call &) = nullptr) {
  return {.name = name,
          .kind = FieldKind::kFlag,
          .attribute = attribute,
          .isLeftOut = isLeftOut,
          .fill = [](void *desc, const ExecutedCall &call, const Field &field) {
            field_detail::set<Path...>(desc, call.flag(field.attribute));
          }};
}
template <auto kValue, auto... Path>
constexpr Field constant(const char *name, const char *text, bool (*isLeftOut)(const Call &) = nullptr) {
  return {.name = name,
          .kind = FieldKind::kConstant,
          .text = text,
          .isLeftOut = isLeftOut,
          .fill = [](void *desc, const ExecutedCall &, const Field &) { field_detail::set<Path...>(desc, kValue); }};
}
// The value of `operand`, or of `attribute` where that was left out; with neither the field is left out. GPUs'
// functions get the operand's address instead.
template <auto... Path>
constexpr Field scalar(const char *name, const char *operand, const char *attribute = nullptr) {
  return {.name = name,
          .kind = FieldKind::kScalar,
          .attribute = attribute,
          .operand = operand,
          .fill = [](void *desc, const ExecutedCall &call, const Field &field) {
            using Member = std::remove_reference_t<decltype(field_detail::at<Path...>(desc))>;
            if (!call.has(field.operand)) {
              if (field.attribute) field_detail::set<Path...>(desc, call.real(field.attribute));
            } else if constexpr (std::is_integral_v<Member>) {
              field_detail::set<Path...>(desc, call.integerValue(field.operand));
            } else {
              field_detail::set<Path...>(desc, call.value(field.operand));
            }
          }};
}
// Left out with the operand.
template <auto... Path>
constexpr Field address(const char *name, const char *operand) {
  return {.name = name,
          .kind = FieldKind::kAddress,
          .operand = operand,
          .fill = [](void *desc, const ExecutedCall &call, const Field &field) {
            if (!call.has(field.operand)) return;
            auto &member = field_detail::at<Path...>(desc);
            member = static_cast<std::remove_reference_t<decltype(member)>>(call.data(field.operand));
          }};
}

}  // namespace described

//===-- The description -----------------------------------------------------------------------------------------===//

struct Function {
  const char *header = nullptr;  // null: nothing of kernels/ is included
  const char *text = nullptr;    // null: the printer spells the statement
};

// A function for GPUs that does at once what calls that stand one after the other ask for, each of tensors of its own:
// those are the rows of a table. Calls have one table where the text is the same for all of them, and where a mode in
// it is to add from the second call on.
struct TableFunction {
  const char *text = nullptr;     // null: there is none; #table is the table and the number of its rows
  const char *rowType = nullptr;  // a template of what `element` is
  const char *row = nullptr;      // the text of what a row holds
  const char *element = nullptr;  // an operand, by whose elements rowType is chosen
  const char *shown = nullptr;    // an operand, whose shape stands above the row
  // A result that the function rounds on the way, if a call follows that is to round all of it: the row ends with where
  // to, and rowType has the type as another argument. null: it rounds none.
  const char *rounded = nullptr;
  const char *roundedCount = nullptr;  // the text of how many elements of `rounded` there are
};

struct KernelDescription {
  const char *name = nullptr;
  OperandRow outs[4] = {}, ins[9] = {};
  const char *comment = nullptr;  // what stands above the call: words in braces are the shapes of operands
  Field fields[24] = {};
  Function cpu = {}, cuda = {};
  TableFunction cudaTable = {};  // of the header of `cuda`, which has no other text then
  // Bytes of the arena of that name that a call wants, on up to `threads` threads; null: none.
  int64_t (*workspace)(const Call &, int64_t threads) = nullptr;
  int64_t (*cudaWorkspace)(const Call &) = nullptr;
  // Of floating-point numbers; null: so few that memory decides. Bytes follow from the operands, each touched once, or
  // as far as `touchedAs` says.
  double (*operations)(const Call &) = nullptr;
  Reuse reuses[2] = {};
  // Element i of each result follows from element i of what has as many elements and from the rest: calls may be cut.
  bool isByElement = false;
  // What frameworks start no kernel for: they pass a view of the operand on, or a number that the host knows.
  bool isViewInFrameworks = false;
  // Products with a softmax between them, for which machines have a rate of their own.
  bool isAttention = false;

  constexpr int outCount() const { return countOf(outs); }
  constexpr int inCount() const { return countOf(ins); }
  constexpr int optionalCount() const {
    int count = 0;
    for (const OperandRow &in : ins) count += in.name && in.role == Role::kOptional;
    return count;
  }
  // Position of a result or an input of this name; -1: there is none.
  constexpr int findOut(std::string_view operand) const { return find(outs, operand); }
  constexpr int findIn(std::string_view operand) const { return find(ins, operand); }

 private:
  template <typename Row, int kMost>
  static constexpr int countOf(const Row (&rows)[kMost]) {
    int count = 0;
    while (count < kMost && rows[count].name) ++count;
    return count;
  }
  template <int kMost>
  static constexpr int find(const OperandRow (&rows)[kMost], std::string_view operand) {
    for (int i = 0; i < countOf(rows); ++i)
      if (operand == rows[i].name) return i;
    return -1;
  }
};

// Fills the struct of a kernel, which `desc` is.
inline void fillDesc(const KernelDescription &kernel, const ExecutedCall &call, void *desc) {
  for (const Field &field : kernel.fields)
    if (field.name && !(field.isLeftOut && field.isLeftOut(call))) field.fill(desc, call, field);
}

//===-- Calls of references -------------------------------------------------------------------------------------===//

// How the interpreter executes a kernel: by its plain reference, in the type in which it keeps the call's numbers.
struct ReferenceRow {
  const char *kernel = nullptr;
  void (*inFloat)(float, const ExecutedCall &) = nullptr;
  void (*inDouble)(double, const ExecutedCall &) = nullptr;
  void (*inIntegers)(int64_t, const ExecutedCall &) = nullptr;  // null: of floating-point numbers only
};

// body(zero of the type, call).
template <typename Body>
constexpr ReferenceRow referenceOfFloats(const char *kernel, Body body) {
  return {kernel, body, body};
}
template <typename Body>
constexpr ReferenceRow referenceOfAnyType(const char *kernel, Body body) {
  return {kernel, body, body, body};
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_DESCRIPTION_H_
