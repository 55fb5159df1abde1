// One direction of a recurrent layer, as steps that repeat: what ONNX's RNN, GRU and LSTM and torch's have in common.
#ifndef HYC_IMPORT_ONNX_RECURRENCE_H
#define HYC_IMPORT_ONNX_RECURRENCE_H

#include "Expansion.h"

#include <array>

namespace hyc::onnx {

/// G gates of H units each, a state of S numbers (H, or what a projection makes of them), I inputs, B samples, T steps.
struct Recurrence {
  enum class Kind { Plain, GRU, LSTM };

  /// What a gate is, by its place in `gateAt`.
  enum GruGate { kUpdate, kReset, kCandidate };
  enum LstmGate { kInput, kForget, kCell, kOutput };

  Kind kind = Kind::Plain;
  int64_t hidden = 0;              ///< H
  std::array<int64_t, 4> gateAt{}; ///< where each gate's rows are among those of the weights, in gates
  std::array<std::string, 3>
      activations;                  ///< ONNX's names: of the gates (of a plain one, the only), the cell, the result
  bool resetsProduct = true;        ///< GRU: the reset gate is applied behind the product with the state, not before
  bool isReverse = false;           ///< from the last step to the first
  int64_t timeDim = 0;              ///< of x: 0, 1, or -1 where x (B,I) is one step
  Binding x;                        ///< (T,B,I), (B,T,I) or (B,I)
  Binding inputWeight, stateWeight; ///< (G·H, I), (G·H, S)
  Binding inputBias, stateBias;     ///< (G·H) each; absent for none
  Binding peepholes;                ///< LSTM: (3·H) of the gates input, output, forget; absent for none
  Binding projection;               ///< (S, H), of what the LSTM gives; absent for none
  Binding h, c;                     ///< (B,S), (B,H) before the first step; absent for zeros

  int64_t gateCount() const { return kind == Kind::Plain ? 1 : kind == Kind::GRU ? 3 : 4; }
};

/// What a recurrence gives: the states behind each step, in the order of the sequence and as x has them, and the last
/// ones; (B,S), and the LSTM's cell (B,H).
struct RecurrentStates {
  Binding states, h, c;
};

/// The recurrence. The input's product is one over all steps; a step takes its part of that, and multiplies the state
/// alone. A few steps are written out, more are one op that repeats them. Shapes that do not fit one another and
/// activations that hyc does not have are reported.
mlir::FailureOr<RecurrentStates> importSteps(NodeImport &node, Expansion &e, Recurrence layer);

} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_RECURRENCE_H
