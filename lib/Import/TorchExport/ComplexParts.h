// The real and the imaginary parts of tensors that stand for complex numbers: pairs along a last dimension more.
#ifndef HYC_LIB_IMPORT_TORCHEXPORT_COMPLEXPARTS_H
#define HYC_LIB_IMPORT_TORCHEXPORT_COMPLEXPARTS_H

#include "Translator.h"

namespace hyc::torchexport {

struct Parts {
  Name real, imaginary; ///< each with a last dimension of 1
};

Parts split(NodeTranslation &node, const Name &pairs);
Name join(NodeTranslation &node, const Parts &parts);
/// A tensor or a number, real or not, as a pair.
Parts partsOf(NodeTranslation &node, const char *argument);

Name withLast(NodeTranslation &node, const Name &value);
Name withoutLast(NodeTranslation &node, const Name &value);

/// Products, quotients and functions of complex numbers, and tensors of them that are filled or written.
void addComplexProducts(TranslationTable &table);

} // namespace hyc::torchexport

#endif // HYC_LIB_IMPORT_TORCHEXPORT_COMPLEXPARTS_H
