// The hyc dialect: one model on one device, over whole static tensors, then its training step (phases 1 to 3), and
// after partitioning the part of it that one rank computes (phase 4). RATIONALE.md tells why it is cut this way.

#ifndef HYC_BASE_TD
#define HYC_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Hyc_Dialect : Dialect {
  let name = "hyc";
  let cppNamespace = "::hyc";
  let summary = "Models and training steps over whole tensors";
  let description = [{
    Values are ranked tensors with static shapes. Parameters and optimizer state are module-level symbols that ops
    read, accumulate into and update by name. Composite operations of the field (attention, layer_norm, gelu,
    cross_entropy, embedding) are single ops, so that partitioning and kernels see them whole.

    Every op may carry `id = "…"`, a stable name made of the model's module path; gradients, saved values and plan
    entries derive theirs from it.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

class Hyc_Attr<string name, string attrMnemonic, list<Trait> traits = []> : AttrDef<Hyc_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class Hyc_Op<string mnemonic, list<Trait> traits = []> : Op<Hyc_Dialect, mnemonic, traits>;

#endif // HYC_BASE_TD
