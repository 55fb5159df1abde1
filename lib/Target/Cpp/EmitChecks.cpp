// Checks for values that are not finite.
#include "FunctionEmitter.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

static std::string list(ArrayRef<int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "{" + text + "}";
}

std::string FunctionEmitter::checkedValues(Value buffer) {
  auto type = cast<rank::BufferType>(buffer.getType());
  std::string text = "{" + pointer(buffer) + ", " + dtype(type.getElementType()) + ", " + count({buffer});
  if (!type.isDense())
    text += ", " + list(type.getShape()) + ", " + list(type.getStrides());
  return text + "}";
}

std::string FunctionEmitter::checkedList(ValueRange buffers) {
  std::string text;
  for (Value buffer : buffers)
    text += (text.empty() ? "" : ", ") + checkedValues(buffer);
  return "{" + text + "}";
}

void FunctionEmitter::emitCheck(rank::CheckOp op) {
  SmallVector<std::string> arguments{"ctx", "call", "kSites[" + row(op.getSite()) + "]", checkedList(op.getOuts()),
                                     checkedList(op.getIns())};
  if (op.getInfinite())
    arguments.push_back("hycrt::Infinities::kAllowed");
  callLine("hycrt::checkFinite", arguments);
}
