// The library kernels that rank.call names, by the kernels' plain references; sizes follow from the operand types.
#include "Initializers.h"
#include "LibraryNorms.h"
#include "LoadedCall.h"
#include "kernels/adamw/reference.h"
#include "kernels/attention/reference.h"
#include "kernels/cross_entropy/reference.h"
#include "kernels/embedding/reference.h"
#include "kernels/fp8_scale/reference.h"
#include "kernels/lamb/reference.h"
#include "kernels/layer_norm/reference.h"
#include "kernels/lion/reference.h"
#include "kernels/loss_scale/reference.h"
#include "kernels/sum_of_squares/reference.h"
#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
namespace reference = hyc::kernels::reference;

//===----------------------------------------------------------------------===//
// Norms, attention, embedding
//===----------------------------------------------------------------------===//

static kernels::LayerNormDesc normDesc(const Tensor &x) {
  kernels::LayerNormDesc desc;
  desc.cols = x.getShape().back();
  desc.rows = desc.cols ? x.getNumElements() / desc.cols : 0;
  return desc;
}

static LogicalResult layerNorm(Loaded &c) {
  kernels::LayerNormDesc desc = normDesc(c.ins[0]);
  desc.epsilon = c.real("epsilon");
  Tensor y = c.makeOut(0), mean = c.makeOut(1), rstd = c.makeOut(2);
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::layerNormForward(desc, c.ins[0].data<T>(), c.ins[1].data<T>(), c.ins[2].data<T>(), y.mutableData<T>(),
                                mean.mutableData<T>(), rstd.mutableData<T>());
  });
  return all({c.store(0, y), c.store(1, mean), c.store(2, rstd)});
}

static LogicalResult layerNormGrad(Loaded &c) {
  kernels::LayerNormDesc desc = normDesc(c.ins[0]);
  Tensor dx = c.makeOut(0), dscale = c.makeOut(1), dbias = c.makeOut(2);
  dispatchFloat(dx.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::layerNormBackward(desc, c.ins[0].data<T>(), c.ins[1].data<T>(), c.ins[2].data<T>(), c.ins[3].data<T>(),
                                 c.ins[4].data<T>(), dx.mutableData<T>(), dscale.mutableData<T>(),
                                 dbias.mutableData<T>(), kernels::WriteMode::kOverwrite);
  });
  return all({c.store(0, dx), c.storeAs(1, dscale, c.mode()), c.storeAs(2, dbias, c.mode())});
}

static LogicalResult rmsNorm(Loaded &c) {
  Tensor y = c.makeOut(0), rstd = c.makeOut(1);
  computeRmsNorm(c.real("epsilon"), c.ins[0], c.ins[1], y, rstd);
  return all({c.store(0, y), c.store(1, rstd)});
}

static LogicalResult rmsNormGrad(Loaded &c) {
  Tensor dx = c.makeOut(0), dscale = c.makeOut(1);
  computeRmsNormGrad(c.ins[0], c.ins[1], c.ins[2], c.ins[3], dx, dscale);
  return all({c.store(0, dx), c.storeAs(1, dscale, c.mode())});
}

static LogicalResult rotaryTable(Loaded &c) {
  Tensor cos = c.makeOut(0), sin = c.makeOut(1);
  auto frequencies = llvm::to_vector(c.op->getAttrOfType<DenseElementsAttr>("frequencies").getValues<float>());
  computeRotaryTable(frequencies, c.real("factor"), cos, sin);
  return all({c.store(0, cos), c.store(1, sin)});
}

static LogicalResult rope(Loaded &c) {
  Tensor y = c.makeOut(0);
  computeRope(c.op->hasAttr("inverse"), c.ins[0], c.ins[1], c.ins[2], y);
  return c.store(0, y);
}

/// With dropout, `ins` has a key a sample from `random` on, then maybe the place of the heads.
static kernels::AttentionDesc attentionDesc(Loaded &c, size_t random) {
  const Tensor &q = c.ins[0], &k = c.ins[1];
  kernels::AttentionDesc desc;
  desc.batch = q.getDim(0), desc.queryLength = q.getDim(1), desc.heads = q.getDim(2), desc.headDim = q.getDim(3);
  desc.keyLength = k.getDim(1), desc.kvHeads = k.getDim(2);
  desc.causal = c.op->hasAttr("causal");
  desc.scale = c.real("scale");
  desc.dropout.rate = c.real("dropout");
  if (c.ins.size() > random)
    desc.dropout.keys = c.ins[random].data<int64_t>();
  if (c.ins.size() > random + 1)
    desc.dropout.place = c.ins[random + 1].getInteger();
  desc.q = desc.o = desc.dq = desc.dO = kernels::denseHeadStrides(desc.queryLength, desc.heads, desc.headDim);
  desc.k = desc.v = desc.dk = desc.dv = kernels::denseHeadStrides(desc.keyLength, desc.kvHeads, desc.headDim);
  return desc;
}

static LogicalResult attention(Loaded &c) {
  Tensor o = c.makeOut(0), lse = c.makeOut(1);
  dispatchFloat(o.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::attentionForward(attentionDesc(c, 3), c.ins[0].data<T>(), c.ins[1].data<T>(), c.ins[2].data<T>(),
                                o.mutableData<T>(), lse.mutableData<T>());
  });
  return all({c.store(0, o), c.store(1, lse)});
}

static LogicalResult attentionGrad(Loaded &c) {
  Tensor dq = c.makeOut(0), dk = c.makeOut(1), dv = c.makeOut(2);
  dispatchFloat(dq.getKind(), [&](auto zero) {
    using T = decltype(zero);
    auto in = [&](unsigned index) { return c.ins[index].data<T>(); };
    reference::attentionBackward(attentionDesc(c, 6), in(0), in(1), in(2), in(3), in(4), in(5), dq.mutableData<T>(),
                                 dk.mutableData<T>(), dv.mutableData<T>());
  });
  return all({c.store(0, dq), c.store(1, dk), c.store(2, dv)});
}

static kernels::EmbeddingDesc embeddingDesc(const Loaded &c, ArrayRef<int64_t> table) {
  kernels::EmbeddingDesc desc;
  desc.tokens = c.ins[0].getNumElements();
  desc.rows = table[0];
  desc.width = table[1];
  desc.start = c.ins.size() > 2 ? c.ins[2].getInteger() : 0;
  return desc;
}

static LogicalResult embedding(Loaded &c) {
  Tensor y = c.makeOut(0);
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::embedding(embeddingDesc(c, c.ins[1].getShape()), c.ins[0].data<int64_t>(), c.ins[1].data<T>(),
                         y.mutableData<T>());
  });
  return c.store(0, y);
}

static LogicalResult embeddingGrad(Loaded &c) {
  Tensor dtable = c.makeOut(0);
  dispatchFloat(dtable.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::embeddingGrad(embeddingDesc(c, c.outShape(0)), c.ins[0].data<int64_t>(), c.ins[1].data<T>(),
                             dtable.mutableData<T>(), kernels::WriteMode::kOverwrite);
  });
  return c.storeAs(0, dtable, c.mode());
}

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// Logits of which the columns from `first`, where given, are part of a larger vocabulary.
static kernels::CrossEntropyDesc lossDesc(const Loaded &c, const Tensor &logits, const Tensor *first) {
  kernels::CrossEntropyDesc desc;
  desc.ld = logits.getShape().back();
  desc.tokens = desc.ld ? logits.getNumElements() / desc.ld : 0;
  desc.vocabStart = first ? first->getInteger() : 0;
  int64_t vocabulary = first ? c.integer("vocabulary", desc.vocabStart + desc.ld) : desc.ld;
  desc.localVocab = std::max<int64_t>(0, std::min(desc.ld, vocabulary - desc.vocabStart));
  desc.ignoreIndex = c.integer("ignore_index", -100);
  return desc;
}

static LogicalResult crossEntropy(Loaded &c) {
  kernels::CrossEntropyDesc desc = lossDesc(c, c.ins[0], nullptr);
  Tensor loss = c.makeOut(0), count = c.makeOut(1), lse = c.makeOut(2);
  dispatchFloat(loss.getKind(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> max(desc.tokens), sumExp(desc.tokens), picked(desc.tokens);
    const int64_t *labels = c.ins[1].data<int64_t>();
    reference::crossEntropyRowMax(desc, c.ins[0].data<T>(), max.data());
    reference::crossEntropySumExp(desc, c.ins[0].data<T>(), labels, max.data(), sumExp.data(), picked.data());
    reference::crossEntropyCombine(desc, labels, max.data(), sumExp.data(), picked.data(), lse.mutableData<T>(),
                                   loss.mutableData<T>(), count.mutableData<int64_t>());
  });
  return all({c.store(0, loss), c.store(1, count), c.store(2, lse)});
}

static LogicalResult crossEntropyGrad(Loaded &c) {
  kernels::CrossEntropyDesc desc = lossDesc(c, c.ins[1], c.ins.size() > 4 ? &c.ins[4] : nullptr);
  Tensor dlogits = c.makeOut(0);
  dispatchFloat(dlogits.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropyGrad(desc, c.ins[1].data<T>(), c.ins[2].data<int64_t>(), c.ins[3].data<T>(),
                                static_cast<T>(c.ins[0].getDouble()), dlogits.mutableData<T>());
  });
  return c.store(0, dlogits);
}

static LogicalResult vocabMax(Loaded &c) {
  Tensor max = c.makeOut(0);
  dispatchFloat(max.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropyRowMax(lossDesc(c, c.ins[0], &c.ins[1]), c.ins[0].data<T>(), max.mutableData<T>());
  });
  return c.store(0, max);
}

static LogicalResult vocabSumExp(Loaded &c) {
  Tensor sumExp = c.makeOut(0), picked = c.makeOut(1);
  dispatchFloat(sumExp.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropySumExp(lossDesc(c, c.ins[0], &c.ins[3]), c.ins[0].data<T>(), c.ins[2].data<int64_t>(),
                                  c.ins[1].data<T>(), sumExp.mutableData<T>(), picked.mutableData<T>());
  });
  return all({c.store(0, sumExp), c.store(1, picked)});
}

static LogicalResult vocabLoss(Loaded &c) {
  kernels::CrossEntropyDesc desc;
  desc.tokens = c.ins[0].getNumElements();
  desc.ignoreIndex = c.integer("ignore_index", -100);
  Tensor loss = c.makeOut(0), count = c.makeOut(1), lse = c.makeOut(2);
  dispatchFloat(loss.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropyCombine(desc, c.ins[3].data<int64_t>(), c.ins[0].data<T>(), c.ins[1].data<T>(),
                                   c.ins[2].data<T>(), lse.mutableData<T>(), loss.mutableData<T>(),
                                   count.mutableData<int64_t>());
  });
  return all({c.store(0, loss), c.store(1, count), c.store(2, lse)});
}

//===----------------------------------------------------------------------===//
// Moves and sums
//===----------------------------------------------------------------------===//

static LogicalResult stridedCopy(Loaded &c) { return c.store(0, c.ins[0].reshaped(c.outShape(0))); }

/// As many elements as both have: a state that is stored flat is padded, a slice of a whole is not.
static LogicalResult storeCommon(Loaded &c, const Tensor &in, rank::WriteMode mode) {
  auto isShard = [](Value buffer) { return cast<rank::BufferType>(buffer.getType()).isShard(); };
  if (!isShard(c.out(0)) && !isShard(c.op.getIns()[0]))
    return c.storeAs(0, in.reshaped(c.outShape(0)), mode);
  Extent target = c.call.regionOf(c.out(0));
  target.shape[0] = std::min(target.shape[0], in.getNumElements());
  Tensor value = in.reshaped({in.getNumElements()}).window(0, 0, target.shape[0]);
  return c.call.store(c.op, target, value, mode);
}

static LogicalResult accumulate(Loaded &c) {
  return storeCommon(c, c.ins[0].converted(c.call.kindOf(c.out(0))), c.mode());
}

static LogicalResult round(Loaded &c) {
  return storeCommon(c, c.ins[0].converted(c.call.kindOf(c.out(0))), rank::WriteMode::overwrite);
}

static LogicalResult fill(Loaded &c) {
  Attribute value = c.op->getAttr("value");
  double number = 0;
  if (auto real = dyn_cast_or_null<FloatAttr>(value))
    number = real.getValueAsDouble();
  else if (auto integer = dyn_cast_or_null<IntegerAttr>(value))
    number = static_cast<double>(integer.getType().isInteger(1) ? integer.getValue().getZExtValue()
                                                                : integer.getValue().getSExtValue());
  return c.store(0, Tensor::splat(c.call.kindOf(c.out(0)), c.outShape(0), number));
}

static LogicalResult constant(Loaded &c) {
  FailureOr<Tensor> values = denseValue(c.op, c.op->getAttr("values"), c.call.arithmetic);
  return failed(values) ? failure() : c.store(0, values->reshaped(c.outShape(0)));
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

static LogicalResult sumOfSquares(Loaded &c) {
  Tensor exact = c.makeOut(0);
  dispatchFloat(c.ins[0].getKind(), [&](auto zero) {
    reference::addSumOfSquares(c.ins[0].data<decltype(zero)>(), c.ins[0].getNumElements(),
                               exact.mutableData<int64_t>());
  });
  return c.storeAs(0, exact, c.mode());
}

static LogicalResult roundSum(Loaded &c) {
  double value = reference::roundExactSum(c.ins[0].data<int64_t>());
  return c.store(0, Tensor::splat(c.call.kindOf(c.out(0)), c.outShape(0), value));
}

static LogicalResult gradientScale(Loaded &c) {
  double count = c.ins[1].getDouble();
  if (c.ins.size() > 2)
    count *= c.ins[2].getDouble() / c.real("normalizer", 1);
  double norm = count == 0 ? 0 : std::sqrt(c.ins[0].getDouble()) / count, clip = 1;
  if (c.op->hasAttr("max_norm"))
    clip = std::min(1.0, c.real("max_norm") / (norm + 1e-6));
  return all({c.store(0, Tensor::splat(c.call.kindOf(c.out(0)), c.outShape(0), count == 0 ? 0 : clip / count)),
              c.store(1, Tensor::splat(c.call.kindOf(c.out(1)), c.outShape(1), norm))});
}

static LogicalResult increment(Loaded &c) {
  FailureOr<Tensor> counter = c.call.load(c.op, c.out(0));
  if (failed(counter))
    return failure();
  int64_t next = counter->getInteger() + (c.ins.empty() || c.ins[0].getInteger() != 0);
  return c.store(0, Tensor::fromIntegers(counter->getKind(), counter->getShape(), {next}));
}

/// Whether an update happens: it has no predicate, which would be input `index`, or a true one.
static bool happens(const Loaded &c, size_t index) { return c.ins.size() <= index || c.ins[index].getInteger() != 0; }

/// The present values of what an update changes.
static LogicalResult loadOuts(Loaded &c, SmallVectorImpl<Tensor> &values) {
  for (Value out : c.op.getOuts()) {
    FailureOr<Tensor> value = c.call.load(c.op, out);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  return success();
}

/// Elements that an update works on: of shards those that every operand has.
static int64_t updatedElements(Loaded &c, ArrayRef<Tensor> outs) {
  int64_t count = c.ins[0].getNumElements();
  for (const Tensor &out : outs)
    count = std::min(count, out.getNumElements());
  return count;
}

/// Inputs of an update before those that may be left out: the momentum, where it cycles, then the predicate.
static bool updateHappens(const Loaded &c, size_t required) { return happens(c, required + c.op->hasAttr("cycles")); }

/// The decay of the first moment: input `required`, where it cycles, else the attribute.
static double firstDecay(const Loaded &c, size_t required) {
  return c.op->hasAttr("cycles") ? c.ins[required].getDouble() : c.real("beta1");
}

template <kernels::DecayKind decay> static LogicalResult adam(Loaded &c) {
  if (!updateHappens(c, 4))
    return success();
  SmallVector<Tensor> outs;
  if (failed(loadOuts(c, outs)))
    return failure();
  kernels::AdamWParams params;
  params.lr = c.ins[1].getDouble();
  params.step = c.ins[2].getInteger();
  params.gradScale = c.ins[3].getDouble();
  params.beta1 = firstDecay(c, 4), params.beta2 = c.real("beta2");
  params.epsilon = c.real("epsilon"), params.weightDecay = c.real("weight_decay");
  params.decay = decay;
  params.correctsBias = !c.op->hasAttr("uncorrected");
  dispatchFloat(outs[0].getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::adamw(params, updatedElements(c, outs), outs[0].mutableData<T>(), c.ins[0].data<T>(),
                     outs[1].mutableData<T>(), outs[2].mutableData<T>());
  });
  return all({c.store(0, outs[0]), c.store(1, outs[1]), c.store(2, outs[2])});
}

static LogicalResult lion(Loaded &c) {
  if (!updateHappens(c, 3))
    return success();
  SmallVector<Tensor> outs;
  if (failed(loadOuts(c, outs)))
    return failure();
  kernels::LionParams params;
  params.lr = c.ins[1].getDouble();
  params.gradScale = c.ins[2].getDouble();
  params.beta1 = firstDecay(c, 3), params.beta2 = c.real("beta2");
  params.weightDecay = c.real("weight_decay");
  dispatchFloat(outs[0].getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::lion(params, updatedElements(c, outs), outs[0].mutableData<T>(), c.ins[0].data<T>(),
                    outs[1].mutableData<T>());
  });
  return all({c.store(0, outs[0]), c.store(1, outs[1])});
}

static LogicalResult lambDirection(Loaded &c) {
  if (!updateHappens(c, 3))
    return success();
  SmallVector<Tensor> outs;
  if (failed(loadOuts(c, outs)))
    return failure();
  kernels::LambParams params;
  params.step = c.ins[1].getInteger();
  params.gradScale = c.ins[2].getDouble();
  params.beta1 = firstDecay(c, 3), params.beta2 = c.real("beta2");
  params.epsilon = c.real("epsilon"), params.weightDecay = c.real("weight_decay");
  params.correctsBias = !c.op->hasAttr("uncorrected");
  dispatchFloat(outs[0].getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::lambDirection(params, updatedElements(c, outs), c.ins[0].data<T>(), outs[0].mutableData<T>(),
                             outs[1].mutableData<T>(), outs[2].mutableData<T>());
  });
  return all({c.store(0, outs[0]), c.store(1, outs[1]), c.store(2, outs[2])});
}

static LogicalResult trustRatio(Loaded &c) {
  double ratio = kernels::trustRatio({c.real("least"), c.real("most")}, c.ins[0].getDouble(), c.ins[1].getDouble());
  return c.store(0, Tensor::splat(c.call.kindOf(c.out(0)), c.outShape(0), ratio));
}

static LogicalResult lamb(Loaded &c) {
  if (!happens(c, 3))
    return success();
  SmallVector<Tensor> outs;
  if (failed(loadOuts(c, outs)))
    return failure();
  double rate = c.ins[1].getDouble() * c.ins[2].getDouble();
  dispatchFloat(outs[0].getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::lambUpdate(rate, updatedElements(c, outs), outs[0].mutableData<T>(), c.ins[0].data<T>());
  });
  return c.store(0, outs[0]);
}

static LogicalResult sgd(Loaded &c) {
  if (!happens(c, 3))
    return success();
  SmallVector<Tensor> outs;
  if (failed(loadOuts(c, outs)))
    return failure();
  dispatchFloat(outs[0].getKind(), [&](auto zero) {
    using T = decltype(zero);
    const T lr = static_cast<T>(c.ins[1].getDouble()), scale = static_cast<T>(c.ins[2].getDouble());
    const T decay = static_cast<T>(c.real("weight_decay")), momentum = static_cast<T>(c.real("momentum"));
    T *param = outs[0].mutableData<T>(), *velocity = outs.size() > 1 ? outs[1].mutableData<T>() : nullptr;
    const T *gradient = c.ins[0].data<T>();
    for (int64_t i = 0, e = updatedElements(c, outs); i < e; ++i) {
      T g = scale * gradient[i] + decay * param[i];
      if (velocity)
        g = velocity[i] = momentum * velocity[i] + g;
      param[i] -= lr * g;
    }
  });
  return all({c.store(0, outs[0]), outs.size() > 1 ? c.store(1, outs[1]) : success()});
}

static LogicalResult updateLossScale(Loaded &c) {
  SmallVector<Tensor> outs;
  if (failed(loadOuts(c, outs)))
    return failure();
  kernels::LossScaleRules rules{c.integer("window"), c.integer("hysteresis"), c.real("min_scale"),
                                c.op->hasAttr("consecutive_hysteresis")};
  kernels::LossScaleState next = reference::nextLossScale(
      rules, {outs[0].getDouble(), outs[1].getInteger(), outs[2].getInteger()}, c.ins[0].getInteger() != 0);
  outs[0].set(0, next.scale);
  outs[1].set(0, static_cast<double>(next.goodSteps));
  outs[2].set(0, static_cast<double>(next.hysteresisLeft));
  return all({c.store(0, outs[0]), c.store(1, outs[1]), c.store(2, outs[2])});
}

static LogicalResult accumulateMax(Loaded &c) {
  if (c.mode() == rank::WriteMode::overwrite || (c.mode() == rank::WriteMode::first && c.call.isFirst))
    return c.store(0, c.ins[0]);
  FailureOr<Tensor> old = c.call.load(c.op, c.out(0));
  if (failed(old))
    return failure();
  double now = old->getDouble(), value = c.ins[0].getDouble();
  old->set(0, now >= value || std::isnan(now) ? now : value);
  return c.store(0, *old);
}

static LogicalResult updateFp8Scale(Loaded &c) {
  SmallVector<Tensor> outs;
  if (failed(loadOuts(c, outs)))
    return failure();
  std::vector<double> history = outs[2].toDoubles();
  double scale = reference::nextFp8Scale(outs[0].getDouble(), c.ins[0].getDouble(), c.real("largest"), history);
  outs[0].set(0, scale);
  outs[1].set(0, 1 / scale);
  for (auto [i, amax] : llvm::enumerate(history))
    outs[2].set(static_cast<int64_t>(i), amax);
  return all({c.store(0, outs[0]), c.store(1, outs[1]), c.store(2, outs[2])});
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

static int64_t coordinate(Loaded &c) {
  int64_t linear = 0;
  if (auto axes = c.op->getAttrOfType<dist::AxisListAttr>("axes"))
    for (StringAttr axis : axes.getAxes()) {
      AxisPosition position = c.call.axes.lookup(axis.getValue());
      linear = linear * position.size + position.coordinate;
    }
  return linear;
}

static LogicalResult shardOffset(Loaded &c) {
  return c.store(
      0, Tensor::splat(c.call.kindOf(c.out(0)), c.outShape(0), static_cast<double>(coordinate(c) * c.integer("size"))));
}

static LogicalResult sliceShard(Loaded &c) {
  int64_t dim = c.integer("dim"), size = c.outShape(0)[dim];
  return c.store(0, c.ins[0].window(dim, coordinate(c) * size, size));
}

/// The whole buffer; a poisoned byte is one that nothing has written.
static LogicalResult poison(Loaded &c) {
  Address address = c.call.addresses.lookup(c.out(0));
  int64_t bytes = cast<rank::BufferType>(c.out(0).getType()).getBytes();
  c.call.memory.poison(*address.arena, address.offset, address.offset + bytes);
  return success();
}

static Executor findExecutor(StringRef kernel) {
  if (Executor executor = findIndexedKernel(kernel))
    return executor;
  static const llvm::StringMap<Executor> executors = {{"layer_norm", layerNorm},
                                                      {"layer_norm_grad", layerNormGrad},
                                                      {"rms_norm", rmsNorm},
                                                      {"rms_norm_grad", rmsNormGrad},
                                                      {"rotary_table", rotaryTable},
                                                      {"rope", rope},
                                                      {"attention", attention},
                                                      {"attention_grad", attentionGrad},
                                                      {"embedding", embedding},
                                                      {"embedding_grad", embeddingGrad},
                                                      {"cross_entropy", crossEntropy},
                                                      {"cross_entropy_grad", crossEntropyGrad},
                                                      {"vocab_max", vocabMax},
                                                      {"vocab_sum_exp", vocabSumExp},
                                                      {"vocab_loss", vocabLoss},
                                                      {"strided_copy", stridedCopy},
                                                      {"accumulate", accumulate},
                                                      {"round", round},
                                                      {"fill", fill},
                                                      {"constant", constant},
                                                      {"poison", poison},
                                                      {"sum_of_squares", sumOfSquares},
                                                      {"round_sum", roundSum},
                                                      {"gradient_scale", gradientScale},
                                                      {"increment", increment},
                                                      {"adamw", adam<kernels::DecayKind::kDecoupled>},
                                                      {"adam", adam<kernels::DecayKind::kAddedToGradient>},
                                                      {"lion", lion},
                                                      {"lamb_direction", lambDirection},
                                                      {"trust_ratio", trustRatio},
                                                      {"lamb", lamb},
                                                      {"sgd", sgd},
                                                      {"sgd_momentum", sgd},
                                                      {"update_loss_scale", updateLossScale},
                                                      {"accumulate_max", accumulateMax},
                                                      {"update_fp8_scale", updateFp8Scale},
                                                      {"shard_offset", shardOffset},
                                                      {"slice_shard", sliceShard}};
  return executors.lookup(kernel);
}

LogicalResult hyc::interpreter::executeLibraryKernel(RankCall &call, rank::CallOp op) {
  Executor executor = findExecutor(op.getKernel());
  if (!executor)
    return op.emitError("the interpreter knows no kernel \"") << op.getKernel() << "\"";
  Loaded loaded{call, op, {}};
  for (Value in : op.getIns()) {
    FailureOr<Tensor> value = call.load(op, in);
    if (failed(value))
      return failure();
    loaded.ins.push_back(*value);
  }
  return executor(loaded);
}
