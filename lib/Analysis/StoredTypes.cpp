// One key a place: "FILE:OFFSET".
#include "hyc/Analysis/StoredTypes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;

static constexpr StringLiteral kStoredTypes = "hyc.stored_types";

static StringAttr keyOf(FileAttr file) {
  return StringAttr::get(file.getContext(), file.getPath() + ":" + Twine(file.getOffset()));
}

bool hyc::canStartFrom(Type type, Type stored) {
  const bool isRounded = type.isF32() || type.isF16() || type.isBF16();
  return type == stored || (isRounded && (stored.isF64() || stored.isF32() || stored.isF16() || stored.isBF16()));
}

void hyc::setStoredTypes(ModuleOp module, ArrayRef<std::pair<FileAttr, Type>> types) {
  NamedAttrList list(module->getAttrOfType<DictionaryAttr>(kStoredTypes));
  for (auto [file, type] : types)
    list.set(keyOf(file), TypeAttr::get(type));
  if (!list.empty())
    module->setAttr(kStoredTypes, list.getDictionary(module.getContext()));
}

Type hyc::getStoredType(Operation *op, FileAttr file, Type otherwise) {
  auto module = op->getParentOfType<ModuleOp>();
  auto list = module ? module->getAttrOfType<DictionaryAttr>(kStoredTypes) : DictionaryAttr();
  auto type = list ? dyn_cast_or_null<TypeAttr>(list.get(keyOf(file))) : TypeAttr();
  return type ? type.getValue() : otherwise;
}
