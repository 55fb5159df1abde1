// What every exchange between ranks says of itself: its kind, its group, how it combines. All that is asked of a kind alone,
// whichever phase its op is in, stands in ExchangeKinds.h; the kinds themselves in DistOps.td, beside their ops.

#ifndef DIST_EXCHANGE_INTERFACE_TD
#define DIST_EXCHANGE_INTERFACE_TD

include "dialects/Dist/DistDialect.td"

def Dist_ExchangeOpInterface : OpInterface<"ExchangeOpInterface"> {
  let description = [{
    Implemented by the ops that start an exchange (phase 4). They have the attributes `group`, `cause` and `why`, one
    operand, and one result, which is pending. Whoever treats kinds differently switches over `getExchange()`, without a
    default, so that the compiler names the places of a new kind (docs/adding-an-exchange.md).
  }];
  let cppNamespace = "::hyc::dist";
  let methods = [
    InterfaceMethod<"What the members do.", "::hyc::dist::ExchangeKind", "getExchange">,
    InterfaceMethod<"How terms are combined; nothing where none are.", "::std::optional<::hyc::dist::ReduceKind>",
                    "getReduction">
  ];
  let extraSharedClassDeclaration = [{
    ::hyc::dist::GroupAttr getExchangeGroup() { return $_op->template getAttrOfType<::hyc::dist::GroupAttr>("group"); }
    ::mlir::RankedTensorType getOperandType() {
      return ::llvm::cast<::mlir::RankedTensorType>($_op->getOperand(0).getType());
    }
    ::mlir::RankedTensorType getResultType() {
      return ::llvm::cast<::hyc::dist::PendingType>($_op->getResult(0).getType()).getTensor();
    }
    /// The op that asked for it, and because of which sharding; empty where nobody said.
    ::llvm::StringRef getCauseText() { return getText("cause"); }
    ::llvm::StringRef getWhyText() { return getText("why"); }
    ::llvm::StringRef getText(::llvm::StringRef name) {
      auto text = $_op->template getAttrOfType<::mlir::StringAttr>(name);
      return text ? text.getValue() : ::llvm::StringRef();
    }
    /// The tensor as one rank has it whole: bytes of the greater side.
    int64_t getWholeBytes() {
      auto bytes = [](::mlir::RankedTensorType type) {
        return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
      };
      return ::std::max<int64_t>(bytes(getOperandType()), bytes(getResultType()));
    }
  }];
}

#endif // DIST_EXCHANGE_INTERFACE_TD
