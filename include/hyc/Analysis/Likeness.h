// What makes two ops alike to a pass that looks for repeats: equal lists of what it asks for. Operation names, types
// and attributes are there once in a context, so that an address tells which.
#ifndef HYC_ANALYSIS_LIKENESS_H
#define HYC_ANALYSIS_LIKENESS_H

#include "dialects/Hyc/OpId.h"

#include <vector>

namespace hyc {

class Likeness {
public:
  /// The op's name, and its discardable attributes but its id, of which each op has another.
  explicit Likeness(mlir::Operation *op) : all{op->getName().getAsOpaquePointer()} {
    for (mlir::NamedAttribute attribute : op->getDiscardableAttrs())
      if (attribute.getName() != kId) {
        add(attribute.getName());
        add(attribute.getValue());
      }
    endList();
  }

  /// A type, an attribute, a name.
  template <typename Unique> void add(Unique what) { all.push_back(what.getAsOpaquePointer()); }
  void addNumber(int64_t number) { all.push_back(reinterpret_cast<const void *>(number)); }
  template <typename Types> void addTypes(Types types) {
    for (mlir::Type type : types)
      add(type);
    endList();
  }
  void addProperties(mlir::Operation *op) {
    if (op->getPropertiesStorage())
      add(op->getPropertiesAsAttribute());
  }

  bool operator<(const Likeness &other) const { return all < other.all; }

private:
  /// Lists of any length follow one another.
  void endList() { all.push_back(nullptr); }

  std::vector<const void *> all;
};

} // namespace hyc

#endif // HYC_ANALYSIS_LIKENESS_H
