#!/usr/bin/env python3
"""Exports torch's operators one by one, over torch's own samples of operands, and what torch computes with them.

The samples are those of torch's operator tests (OpInfo in torch.testing). The committed file was made with torch 2.15.0 and
safetensors 0.8.0 on the CPU, in one thread; hyc itself never runs this script. operators.zip holds, for each case

    NAME-N.pt2         torch.export of a module whose parameters are the operator's operands that have a gradient, and whose
                       buffers are the others. It gives every result, and as `loss` the sum of all results that are floats,
                       each weighted by an input
    NAME-N.safetensors the inputs (in.K), the results (out.K; int64 where they are no floats) and the loss's gradients
                       (grad.PARAMETER)

NAME is OpInfo's name with the variant's after a dot. What torch cannot export, or differentiate, is not there; it is listed.
edges.zip holds the cases of edge_cases.py in the same way, those of ONNX's operators as NAME-N.onnx.

Usage: export_operators.py [-o FILE] [--edges] [--only NAME]
       export_operators.py --add NAME...        makes these anew and keeps what else is in operators.zip
"""
import argparse
import copy
import io
import itertools
import pathlib
import re
import sys
import tempfile
import warnings
import zipfile

import safetensors.torch
import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "models"))
from edge_cases import EDGES, ONNX_EDGES, export_onnx  # noqa: E402
from exporting import save_archive  # noqa: E402

HERE = pathlib.Path(__file__).parent
CASES, MOST_ELEMENTS = 4, 200
DECOMPOSED = {"other.detach_decomposed", "other.no_grad_decomposed", "other.complex_written_decomposed"}  # into torch's own smaller operators
IN_DOUBLE = {"logcumsumexp"}  # whose gradients torch rounds to three digits in f32

# OpInfo's names, a dot and the variant where there is one. Grouped as the importer's files are.
OPERATORS = """
abs acos acosh add addcdiv addcmul asin asinh atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max
clamp_min cos cosh div.no_rounding_mode div.floor_rounding div.trunc_rounding eq erf exp exp2 expm1 floor floor_divide fmod
ge gt isfinite isinf isnan le lerp log log10 log1p log2 logical_and logical_not logical_or logical_xor lt masked_fill
max.binary maximum min.binary minimum mul nan_to_num ne neg pow reciprocal remainder round rsqrt rsub sigmoid sign sin sinh
sqrt square sub tan tanh trunc where __radd__ __rdiv__ __rmul__ __rpow__ __rsub__ true_divide
nn.functional.relu nn.functional.relu6 nn.functional.hardtanh nn.functional.leaky_relu nn.functional.elu nn.functional.selu
nn.functional.celu nn.functional.mish nn.functional.hardswish nn.functional.hardsigmoid nn.functional.softplus
nn.functional.logsigmoid nn.functional.glu nn.functional.threshold nn.functional.hardshrink nn.functional.softshrink
nn.functional.prelu nn.functional.silu nn.functional.gelu nn.functional.softsign nn.functional.tanhshrink log_softmax softmax
nn.functional.softmin
cat chunk diff expand expand_as fill flatten flip full full_like linspace meshgrid.variadic_tensors movedim narrow
new_full new_ones new_zeros ones ones_like permute repeat repeat_interleave reshape reshape_as roll select split
split_with_sizes squeeze stack t tile transpose tril triu unbind unflatten unsqueeze view view_as zeros zeros_like hstack
vstack column_stack fliplr flipud rot90 broadcast_tensors broadcast_to mT atleast_1d atleast_2d ravel
nn.functional.pad.constant nn.functional.pad.reflect nn.functional.pad.replicate nn.functional.pad.circular
gather index_select index_put nn.functional.embedding scatter scatter_add sort topk argsort take_along_dim masked_select
all any amax amin argmax argmin cumsum linalg.vector_norm logsumexp max.reduction_no_dim max.reduction_with_dim mean
min.reduction_no_dim min.reduction_with_dim norm prod std std_mean sum var var_mean
addbmm addmm addmv addr baddbmm bmm dot einsum inner matmul mm mv outer nn.functional.linear nn.functional.bilinear
nn.functional.scaled_dot_product_attention
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
nn.functional.conv_transpose3d nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d
nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.adaptive_avg_pool1d
nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
nn.functional.interpolate.nearest nn.functional.interpolate.nearest-exact nn.functional.interpolate.linear
nn.functional.interpolate.bilinear nn.functional.interpolate.bicubic nn.functional.interpolate.trilinear
nn.functional.upsample_nearest nn.functional.upsample_bilinear
nn.functional.layer_norm nn.functional.group_norm nn.functional.instance_norm nn.functional.rms_norm nn.functional.batch_norm
nn.functional.normalize nn.functional.cosine_similarity nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
nn.functional.unfold unfold dstack atleast_3d histc
index_add index_copy index_fill masked_scatter select_scatter slice_scatter scatter_reduce.sum scatter_reduce.mean
scatter_reduce.amax scatter_reduce.amin scatter_reduce.prod searchsorted bucketize
nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.kl_div
nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.cross_entropy
nn.functional.nll_loss
atan2 cdist nn.functional.pdist diagonal as_strided nn.functional.embedding_bag fft.irfft fft.irfft2 fft.irfftn
linalg.det
nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d
nn.functional.channel_shuffle nn.functional.triplet_margin_loss nn.functional.pairwise_distance
nn.functional.margin_ranking_loss nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
nn.functional.hinge_embedding_loss nn.functional.cosine_embedding_loss nn.functional.poisson_nll_loss
tensordot kron linalg.cross cross diag_embed trace take linalg.norm linalg.matrix_norm renorm
hypot logaddexp xlogy sinc lgamma digamma i0
nansum nanmean aminmax vdot linalg.multi_dot nn.functional.soft_margin_loss logcumsumexp cumprod cummax cummin median kthvalue mode quantile
bitwise_left_shift bitwise_right_shift copysign ldexp heaviside fmax fmin isclose float_power count_nonzero isin dist
logaddexp2 nanmedian linalg.vecdot linalg.diagonal diagonal_scatter unsafe_split
unsafe_chunk erfc logit special.entr special.i0e special.i1 special.i1e special.erfcx special.ndtr special.log_ndtr
special.xlog1py
""".split()


def operand(*shape):
    return torch.randn(*shape, requires_grad=True)


def checked(x):
    """Reads an operator that hyc does not know, for an assertion alone."""
    torch._assert_async((torch.special.bessel_j0(x) < 2).all())
    return x * 2


def without_gradients(x, y):
    """Of y * x the gradient reaches what is not computed in the region, and both on the other way."""
    with torch.no_grad():
        kept = (y * x).tanh()
        sizes = kept.reshape(-1)
    return kept * x + sizes.reshape(y.shape) * y


def recurrent(kind, layers, both, first, biases, projected=0):
    """The function of torch's module, whose parameters come one by one, and operands for it: states before and all weights."""
    def run(x, states, weights):
        states = tuple(states) if kind == "lstm" else states[0]
        return getattr(torch._VF, kind)(x, states, list(weights), biases, layers, 0.0, False, both, first)

    def make():
        names = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
        shared = {"num_layers": layers, "bias": biases, "batch_first": first, "bidirectional": both}
        if kind in names:
            module = names[kind](3, 4, **shared, **({"proj_size": projected} if projected else {}))
        else:
            module = torch.nn.RNN(3, 4, nonlinearity=kind[4:], **shared)
        entries = layers * (2 if both else 1)
        states = [operand(entries, 2, projected or 4)] + ([operand(entries, 2, 4)] if kind == "lstm" else [])
        return operand(*((2, 3, 3) if first else (3, 2, 3))), states, [operand(*weight.shape) for weight in module.parameters()]

    return run, make


def cell(kind, biases, states=1, gates=1):
    """One step of such a layer."""
    def run(x, states, weights):
        return getattr(torch._VF, kind + "_cell")(x, states if kind == "lstm" else states[0], *weights)

    def make():
        weights = [operand(gates * 4, 3), operand(gates * 4, 4)] + ([operand(gates * 4), operand(gates * 4)] if biases else [])
        return operand(2, 3), [operand(2, 4) for _ in range(states)], weights

    return run, make


def from_nothing(x, weights):
    """A layer whose states before are zeros that the model makes."""
    zeros = torch.zeros(2, 2, 4)
    return torch._VF.lstm(x, (zeros, zeros), list(weights), True, 1, 0.5, True, True, False)


def transformed_in_windows(x, window):
    """Of two signals, by windows of the size transformed and by shorter ones, one-sided and whole."""
    a = torch.stft(x, 6, hop_length=2, window=window, return_complex=True)
    b = torch.stft(x[0], 8, hop_length=3, win_length=6, window=window, center=False, normalized=True, onesided=False,
                   return_complex=True)
    return a.abs(), torch.view_as_real(a.permute(2, 0, 1)), torch.view_as_real(b)


def put(x, indices, values, adds=False):
    """By indices of which some are None, which Python's own index_put does not take."""
    return torch.ops.aten.index_put(x, list(indices), values, adds)


def windowed(x):
    """By windows that the model makes."""
    symmetric = torch.hann_window(5, periodic=False), torch.hamming_window(5, periodic=False), torch.blackman_window(5, False)
    periodic = torch.hann_window(5), torch.hamming_window(5), torch.blackman_window(5)
    return [x * window for window in (*symmetric, *periodic)]


def written(x):
    """Writes through views, and reads others of what they are views of."""
    y = x * 2
    rows, turned, last = y[:, 1:3], y.reshape(-1, 2, 2).transpose(1, 2), y[:, ::2]
    rows.mul_(3.0)
    y[:, 0] = 1.0
    y.select(0, 1).add_(x[0])
    turned.sub_(x.reshape(-1, 2, 2))
    last.mul_(x[:, ::2])
    return turned + 0.0, y + 0.0, rows + 1.0


def joined(x, y, z):
    """Of several types, which torch makes one."""
    both = torch.cat([x, y, z], dim=1), torch.hstack([z, x]), torch.vstack([y, x])
    return *both, torch.stack([y, z], dim=1), torch.stack([z, x], dim=-1), torch.column_stack([y[0], x[0]])


def written_to_nothing(x):
    """Through views of no elements, by other steps than one as well, beside one of some."""
    y, z = x * 2.0, x.clone()
    y[1, 1:1] = 5.0
    y[:, 3::2].mul_(7.0)
    y[..., 2::3] = x[:, 2:]
    z[3:] = 1.0
    return y + z


def grouped(x, weight):
    import transformers.integrations.moe  # noqa: F401 (declares the operator)
    return torch.ops.transformers.grouped_mm_fallback(x, weight, torch.tensor([2, 2, 5]))


def rotated(x, angle):
    """Positions by complex numbers, as DeepSeek and Llama 4 have them."""
    with torch.no_grad():
        turn = torch.polar(torch.ones_like(angle), angle) * 0.5
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn.unsqueeze(1)).flatten(3).type_as(x)


def complex_arithmetic(x, y, z):
    """Of pairs: sums with numbers and with others, products, conjugates, parts, lengths, and other shapes."""
    a, b = torch.complex(x, y), torch.view_as_complex(z)
    c = (a * b.conj() + a - 2 * b * x) / 3.0
    d = torch.cat([c.transpose(0, 1), (-a).reshape(3, 2)], dim=-1)[1:].unsqueeze(-1)
    return d.real, d.imag, c.abs(), torch.view_as_real(a.sub(b, alpha=2) + x)


def complex_products(x, y, stored):
    """Of matrices and others, quotients, sums, powers of e, and what a buffer of complex numbers has a part in."""
    a, b = torch.view_as_complex(x), torch.view_as_complex(y)
    products = a @ b + a / (b + 2) + 1 / (stored + 3j), torch.einsum("ij,jk,ik->i", a, b.conj(), a), torch.einsum("ij,ij->j", stored, b)
    others = (2j * a).exp() - stored * (1 - 2j), a.sum(0) + b.mean(dim=-1), torch.where(x[..., 0] > 0, a, b), (a.sum() / 2).reshape(1)
    return [torch.view_as_real(each) for each in (*products, *others)]


def complex_written(x, y):
    """Parts of complex zeros and of others, through slices, selections and transposed views."""
    a, b = torch.view_as_complex(x), torch.zeros(3, 4, dtype=torch.complex64)
    b[:, 1:3] = a[:, :2]
    b[:, ::3] += a[:, 1:3].conj()
    b[1] = y
    c = a.clone()
    c.transpose(0, 1)[1:].mul_(2j)
    c[::2] = torch.full((3,), 1 - 1j)
    padded = torch.nn.functional.pad(a, (1, 0, 0, 2)) + torch.full_like(b[0, 0], 2)
    return [torch.view_as_real(each) for each in (b, c, padded)]


def transformed_to_sizes(x):
    """Of what is cut or padded before it is transformed, and halves exchanged."""
    a, b, c = torch.fft.rfft(x, n=6), torch.fft.fft2(x, s=(4, 3)), torch.fft.rfft2(x, s=(3, 5))
    real = torch.fft.irfft(a, n=5), torch.fft.irfft2(b, s=(3, 6)), torch.fft.irfft2(c, s=(2, 5)), torch.fft.fftshift(x)
    pairs = a, torch.fft.ifft(b, n=2, dim=-2), torch.fft.fftshift(b, dim=(-2, -1)), torch.fft.ifftshift(c, dim=-1)
    return [*real, *(torch.view_as_real(each) for each in pairs)]


def transformed(x, y):
    """Over some dimensions and all, forth and back, of real numbers and complex ones."""
    a = torch.fft.fftn(x, dim=(1, 2))
    b = torch.fft.ifftn(torch.complex(x, y), norm="ortho")
    c = torch.fft.ifft(torch.fft.fft(y, norm="forward"), dim=-2)
    return a.real, torch.view_as_real(b), c.real, c.imag


def written_out(x, y):
    """Into tensors that are given, one of them a view, where no gradient is taken."""
    kept, wide = torch.zeros(2, 3), torch.ones(2, 4)
    with torch.no_grad():
        torch.div(x, y, out=kept)
        torch.add(kept, 1.0, out=kept)
        torch.atan2(x, kept, out=wide[:, 1:])
    return kept * x + wide[:, :3] * y


def of_largest_value(weight, u, v):
    """A matrix by its largest singular value, as torch's spectral_norm finds it."""
    u, v = u.clone(), v.clone()
    with torch.no_grad():
        for _ in range(2):
            u = torch.nn.functional.normalize(torch.mv(weight, v), dim=0, eps=1e-12, out=u)
            v = torch.nn.functional.normalize(torch.mv(weight.t(), u), dim=0, eps=1e-12, out=v)
        u, v = u.clone(), v.clone()
    return weight / torch.dot(u, torch.mv(weight, v)), u, v


def special_numbers(x):
    """What functions make of zeros of either sign, infinities and what is no number."""
    y = torch.tensor([0.0, -0.0, 1.0, torch.inf, -torch.inf, torch.nan])
    return (torch.copysign(x, y.nan_to_num(1.0)), torch.signbit(y), torch.fmax(y, x.detach()), torch.fmin(y, x.detach()),
            torch.special.entr(y), torch.special.erfcx(y), torch.erfc(y), torch.special.log_ndtr(y), torch.special.i0e(y),
            torch.special.i1e(y), torch.nanmedian(y), torch.heaviside(y, x.detach()), torch.isclose(y, y, equal_nan=True),
            torch.nanmedian(torch.stack([y, y.flip(0), x.detach()]), dim=0).values, torch.nanmedian(y[5:]))


def of_one_number(x):
    """Functions of which torch's own samples are large."""
    return (torch.frac(x), torch.deg2rad(x), torch.rad2deg(x), torch.sgn(x), torch.msort(x), torch.erfc(x), torch.signbit(x),
            torch.isposinf(x / 0.0), torch.isneginf(x / 0.0))


def bags(weight, share, offsets):
    """Rows added up by bags, of which some are empty, that begin where a buffer says."""
    ids = torch.tensor([1, 0, 3, 3, 2, 1])
    bag = torch.nn.functional.embedding_bag
    return (bag(ids, weight, offsets), bag(ids, weight, offsets, mode="max"),
            bag(ids, weight, torch.cat([offsets, offsets.new_tensor([6])]), mode="mean", include_last_offset=True),
            bag(ids, weight, offsets, mode="sum", per_sample_weights=share, padding_idx=3))


def branched(x, w, v):
    """Of two branches that both depend on parameters; the one that is not taken makes infinities, and has none of them as its
    gradient."""
    def positive(x, w, v):
        return torch.sqrt(x.abs() + w)

    def negative(x, w, v):
        return torch.log(w - w) * v + x

    return torch.cond(x.sum() > 0, positive, negative, (x, w, v))


def scanned(h, x, w):
    """A recurrence, whose states are collected as well."""
    def step(h, x):
        after = torch.tanh(h @ w + x)
        return after, after * 2

    last, every = scan(step, h, x, dim=0)
    return last, every


def looped(x, w):
    """A number of steps that constants count."""
    def goes_on(i, h):
        return i < 3

    def step(i, h):
        return i + 1, torch.tanh(h @ w)

    return while_loop(goes_on, step, (torch.tensor(0), x))[1]


# What OpInfo has no entry or no small sample for: a function and its operands, made when it is their turn.
OTHERS = {
    "other.type_as": [(torch.Tensor.type_as, lambda: (operand(2, 3), torch.ones(1))),
                      (torch.Tensor.type_as, lambda: (torch.tensor([1, 2, 3]), operand(2)))],
    "other.weight_norm": [(torch._weight_norm, lambda: (operand(4, 3, 2), operand(4, 1, 1), 0)),
                          (torch._weight_norm, lambda: (operand(4, 3, 2), operand(1, 1, 2), 2))],
    "other.eye": [(lambda x: torch.eye(3, 4) * x, lambda: (operand(4),))],
    "other.repeat": [(lambda x: x.repeat(2, 1, 3), lambda: (operand(2, 2),))],
    "other.checked": [(checked, lambda: (operand(2, 3),))],
    "other.conv_same": [
        (lambda x, w, b: torch.nn.functional.conv2d(x, w, b, padding="same"),
         lambda: (operand(2, 3, 5, 4), operand(2, 3, 3, 2), operand(2))),
        (lambda x, w: torch.nn.functional.conv1d(x, w, padding="same", dilation=2),
         lambda: (operand(2, 3, 7), operand(2, 3, 2)))],
    "other.safe_softmax": [
        (torch.ops.aten._safe_softmax, lambda: (operand(2, 3), -1)),
        (lambda x: torch.ops.aten._safe_softmax(x.masked_fill(torch.tensor([[True] * 3, [False, True, False]]), -torch.inf), -1),
         lambda: (operand(2, 3),))],
    "other.detach": [(lambda x, y: x.detach() * y + x, lambda: (operand(2, 3), operand(2, 3))),
                     (lambda x, y: (x * y).detach().exp() * y, lambda: (operand(3), operand(3)))],
    "other.detach_decomposed": [(lambda x, y: x.detach() * y + (x * y).detach().exp() * y + x, lambda: (operand(2, 3), operand(2, 3))),
                                (lambda x: x.round().sub(x).detach() + x * x, lambda: (operand(4),))],
    "other.no_grad_decomposed": [(without_gradients, lambda: (operand(2, 3), operand(2, 3)))],
    "other.written_views": [(written, lambda: (operand(3, 4),))],
    "other.frozen": [(lambda w, x: torch.tanh(x @ w) * w.detach(),
                      lambda: (torch.nn.Parameter(operand(3, 3).detach(), requires_grad=False), operand(3, 3)))],
    "other.written_to_nothing": [(written_to_nothing, lambda: (operand(3, 3),))],
    "other.joined": [(joined, lambda: (operand(2, 3), torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[True, False, True]] * 2)))],
    "other.no_grad": [(without_gradients, lambda: (operand(2, 3), operand(2, 3)))],
    "other.padding_idx": [
        (lambda w: torch.nn.functional.embedding(torch.tensor([[1, 0, 2], [1, 3, 1]]), w, padding_idx=1),
         lambda: (operand(4, 3),)),
        (lambda w: torch.nn.functional.embedding(torch.arange(4), w, padding_idx=-1), lambda: (operand(4, 3),)),
        (lambda w, ids: torch.nn.functional.embedding(ids.to(torch.int64), w, padding_idx=0),
         lambda: (operand(4, 3), torch.tensor([0, 2, 0], dtype=torch.int32)))],
    "other.at_bounds": [(bounded, lambda: (torch.tensor([0.0, 6.0, 3.0, -1.0, 7.0, 1.0], requires_grad=True),)) for bounded in (
        torch.nn.functional.relu6, torch.nn.functional.hardtanh, lambda x: torch.clamp(x, 0, 6),
        lambda x: torch.clamp_min(x, 0.0) + torch.clamp_max(x, 6.0), lambda x: torch.clamp(x, torch.zeros(6), torch.full((6,), 6.0)))],
    "other.grouped_mm": [(grouped, lambda: (operand(6, 3), operand(3, 3, 4)))],
    "other.recurrent": [
        recurrent("lstm", 2, True, True, True), recurrent("lstm", 1, False, False, False), recurrent("lstm", 2, False, False, True, 2),
        recurrent("gru", 2, True, False, True), recurrent("gru", 1, False, True, False), recurrent("rnn_tanh", 1, True, True, True)],
    "other.recurrent_more": [
        recurrent("rnn_relu", 2, False, False, True), recurrent("lstm", 1, True, True, False, 3),
        (from_nothing, lambda: recurrent("lstm", 1, True, False, True)[1]()[::2])],
    "other.recurrent_cells": [
        cell("lstm", True, states=2, gates=4), cell("lstm", False, states=2, gates=4), cell("gru", True, gates=3),
        cell("gru", False, gates=3), cell("rnn_tanh", True), cell("rnn_relu", False)],
    "other.smoothed": [
        (lambda x, w: torch.nn.functional.cross_entropy(x, torch.tensor([2, 0, -100]), weight=w.detach(), label_smoothing=0.2),
         lambda: (operand(3, 4), torch.rand(4))),
        (lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([[1, 3], [2, 2]]), ignore_index=2, label_smoothing=0.1),
         lambda: (operand(2, 4, 2),)),
        (lambda x: torch.nn.functional.cross_entropy(x, torch.tensor(1), label_smoothing=0.3, reduction="sum"),
         lambda: (operand(4),)),
        (lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([1, 3]), label_smoothing=0.3, reduction="none"),
         lambda: (operand(2, 4),)),
        (lambda x, y, w: torch.nn.functional.cross_entropy(x, y.softmax(1), weight=w, label_smoothing=0.1),
         lambda: (operand(2, 4, 3), operand(2, 4, 3), torch.rand(4))),
        (lambda x, y: torch.nn.functional.cross_entropy(x, y.softmax(-1), reduction="none"),
         lambda: (operand(2, 4), operand(2, 4)))],
    "other.stft": [(transformed_in_windows, lambda: (operand(2, 14), torch.rand(6, requires_grad=True)))],
    "other.windows": [(windowed, lambda: (operand(5),))],
    "other.fractional_max_pool": [
        (lambda x, s: torch.ops.aten.fractional_max_pool2d(x, [2, 3], [3, 2], s), lambda: (operand(2, 2, 6, 7), torch.rand(2, 2, 2))),
        (lambda x, s: torch.ops.aten.fractional_max_pool2d(x, [2, 2], [1, 3], s), lambda: (operand(2, 5, 5), torch.rand(1, 2, 2)))],
    "other.adaptive_max_pool": [
        (lambda x: torch.nn.functional.adaptive_max_pool1d(x, 3, return_indices=True), lambda: (operand(2, 2, 7),)),
        (lambda x: torch.nn.functional.adaptive_max_pool2d(x, (2, 3), return_indices=True), lambda: (operand(2, 2, 4, 6),)),
        (lambda x: torch.nn.functional.adaptive_max_pool2d(x, (3, 2), return_indices=True), lambda: (operand(2, 4, 5),)),
        (lambda x: torch.nn.functional.adaptive_max_pool3d(x, (2, 2, 1), return_indices=True), lambda: (operand(1, 2, 3, 3, 2),))],
    "other.avg_pool_divided": [
        (lambda x: torch.nn.functional.avg_pool2d(x, 3, 2, ceil_mode=True, divisor_override=5), lambda: (operand(1, 2, 6, 6),)),
        (lambda x: torch.nn.functional.avg_pool2d(x, (2, 3), (3, 2), (1, 1), True, True, 7), lambda: (operand(2, 5, 4),))],
    "other.affine_grid": [
        (lambda t, align=align: torch.nn.functional.affine_grid(t, (2, 1, 3, 4), align_corners=align), lambda: (operand(2, 2, 3),))
        for align in (False, True)] + [
        (lambda t: torch.nn.functional.affine_grid(t, (1, 1, 2, 1, 3), align_corners=True), lambda: (operand(1, 3, 4),))],
    "other.trilinear": [
        (lambda x, w, y: torch.ops.aten._trilinear(x, w, y, [1, 3], [0], [1, 2], [2, 3]),
         lambda: (operand(3, 2), operand(2, 2, 4), operand(3, 4)))],
    "other.index_put_between": [
        (lambda x, v: put(x, (None, torch.tensor([0, 2, 0]), torch.tensor([1, 0, 1])), v, True),
         lambda: (operand(2, 3, 2), operand(2, 3))),
        (lambda x, v: put(x, (torch.tensor([1, 0]), None, torch.tensor([0, 1])), v), lambda: (operand(2, 3, 2), operand(2, 3))),
        (lambda x, v: put(x, (None, torch.tensor([[0, 2], [1, 1]]), None, torch.tensor([1, 0])), v, True),
         lambda: (operand(2, 3, 2, 2), operand(2, 2, 2, 2)))],
    "other.slogdet": [(torch.linalg.slogdet, lambda: (operand(3, 3),)), (torch.slogdet, lambda: (operand(2, 2, 2),))],
    "other.histc_of_data": [(lambda x: torch.histc(x, bins=5), lambda: (torch.randn(9),)),
                            (lambda x: torch.histc(x, bins=3), lambda: (torch.full((4,), 2.0),))],
    "other.not_drawn": [
        (lambda x: torch.nn.functional.alpha_dropout(x, 1.0, training=True), lambda: (operand(2, 3),)),
        (lambda x: torch.nn.functional.feature_alpha_dropout(x, 0.3, training=False), lambda: (operand(2, 3),)),
        (lambda x: torch.nn.functional.rrelu(x, 0.1, 0.5), lambda: (operand(2, 3),))],
    "other.erfinv": [(torch.erfinv, lambda: (torch.linspace(-0.9995, 0.99, 7, requires_grad=True),))],
    "other.complex": [
        (rotated, lambda: (operand(2, 3, 2, 4), torch.linspace(0, 3, 8).reshape(2, 2, 2))),
        (complex_arithmetic, lambda: (operand(2, 3), operand(2, 3), operand(2, 3, 2))),
        (transformed, lambda: (operand(2, 3, 4), operand(2, 3, 4)))],
    "other.complex_products": [
        (complex_products, lambda: (operand(3, 3, 2), operand(3, 3, 2), torch.randn(3, 3, dtype=torch.complex64)))],
    "other.complex_written": [(complex_written, lambda: (operand(3, 3, 2), operand(4)))],
    "other.complex_written_decomposed": [(complex_written, lambda: (operand(3, 3, 2), operand(4)))],
    "other.transformed_to_sizes": [(transformed_to_sizes, lambda: (operand(2, 3, 4),))],
    "other.triangle_indices": [
        (lambda x: (x[tuple(torch.tril_indices(3, 4, 1))], x[tuple(torch.triu_indices(3, 4, -1))],
                    torch.tril_indices(3, 4, -1, dtype=torch.int32)), lambda: (operand(3, 4),))],
    "other.conjugate_transposes": [(lambda x: (x.adjoint().exp(), x.mH * 2, x[0].H + 1), lambda: (operand(2, 3, 4),))],
    "other.shifted_bits": [(lambda x: (x << 3, x >> 1, torch.bitwise_right_shift(x, 2)), lambda: (torch.tensor([5, -5, 0, 1 << 40]),))],
    "other.bitwise": [
        (lambda x, y: (x & y, x | y, x ^ y, ~x, x & 6, x | 9, x ^ 5), lambda: (torch.tensor([5, -5, 0, 1 << 40]), torch.tensor([3, 12, -1, 77]))),
        (lambda x, y: (x & y, x | y, x ^ y, ~x), lambda: (torch.tensor([5, -7], dtype=torch.int32), torch.tensor([3, -1], dtype=torch.int32)))],
    "other.shifted_by": [
        (lambda x, y: (x << y, x >> y), lambda: (torch.tensor([5, -5, 1, 3, -9, 7, -2]), torch.tensor([0, 3, 62, 63, 63, 64, -1]))),
        (lambda x, y: (x << y, x >> y),
         lambda: (torch.tensor([5, -5, 1, 3, -9], dtype=torch.int32), torch.tensor([4, 2, 30, 31, 32], dtype=torch.int32)))],
    "other.of_one_number": [(of_one_number, lambda: (operand(3, 4),)), (lambda x: (torch.signbit(x), torch.frac(x * 0.5), torch.sgn(x)), lambda: (torch.tensor([3, -2, 0]),))],
    "other.special_numbers": [(special_numbers, lambda: (torch.tensor([-2.0, 3.0, 0.5, 1.0, -1.0, 4.0], requires_grad=True),))],
    "other.far_out": [
        (lambda x: (torch.special.log_ndtr(x), torch.special.erfcx(x), torch.erfc(x), torch.special.ndtr(x), torch.special.i1(x)),
         lambda: (torch.tensor([-8.0, -2.5, -0.3, 0.0, 0.4, 1.5, 6.0], requires_grad=True),))],
    "other.bags": [(bags, lambda: (operand(4, 3), operand(6), torch.tensor([0, 2, 2, 5]))),
                   (bags, lambda: (operand(4, 3), operand(6), torch.tensor([0, 6, 6])))],
    "other.written_out": [(written_out, lambda: (operand(2, 3), operand(2, 3)))],
    "other.spectral_norm": [(of_largest_value, lambda: (operand(3, 4), torch.randn(3), torch.randn(4)))],
    "other.histc": [(lambda x: torch.histc(x, bins=4, min=0, max=3), lambda: (torch.tensor([0, 3, 3, 1, 2, 3, 5]),))],
    "other.fold": [
        (lambda x: torch.nn.functional.fold(x, (4, 5), (2, 3), padding=(1, 0), stride=(2, 1)), lambda: (operand(2, 12, 9),)),
        (lambda x: torch.nn.functional.fold(x, (5, 5), 2, dilation=2), lambda: (operand(4, 9),))],
    "other.one_hot": [(lambda x, y: torch.nn.functional.one_hot(x, 4) * y, lambda: (torch.tensor([[1, 3], [0, 0]]), operand(4)))],
    "other.grid_sample": [
        (lambda x, g, pad=pad, align=align: torch.nn.functional.grid_sample(x, g, padding_mode=pad, align_corners=align),
         lambda: (operand(2, 2, 4, 3), operand(2, 3, 2, 2))) for pad in ("zeros", "border") for align in (False, True)],
    "other.grid_sample_modes": [
        (lambda x, g, mode=mode, pad=pad, align=align: torch.nn.functional.grid_sample(x, g, mode, pad, align),
         lambda: (operand(1, 2, 4, 3), operand(1, 2, 2, 2)))
        for mode, pad, align in (("bicubic", "zeros", False), ("bicubic", "border", True), ("bicubic", "reflection", False),
                                 ("bilinear", "reflection", False), ("bilinear", "reflection", True))],
    "other.grid_sample_3d": [
        (lambda x, g: torch.nn.functional.grid_sample(x, g, align_corners=False),
         lambda: (operand(1, 2, 2, 3, 2), operand(1, 1, 2, 2, 3)))],
    "other.index_between": [
        (lambda x: x[:, torch.tensor([0, 2]), torch.tensor([[1], [0]])], lambda: (operand(2, 3, 2),)),
        (lambda x: x[torch.tensor([1, 0]), :, torch.tensor([0, 1])], lambda: (operand(2, 3, 2),)),
        (lambda x: x[:, torch.tensor([0, 2]), torch.tensor([1, 0]), :], lambda: (operand(2, 3, 2, 2),))],
    "other.cond": [(branched, lambda: (torch.rand(2, 3, requires_grad=True), torch.rand(3, requires_grad=True), operand(3))),
                   (branched, lambda: ((-torch.rand(2, 3)).requires_grad_(), torch.rand(3, requires_grad=True), operand(3)))],
    "other.scan": [(scanned, lambda: (operand(2, 3), operand(4, 2, 3), operand(3, 3)))],
    "other.while_loop": [(looped, lambda: (torch.randn(2, 3), torch.randn(3, 3)))],
    "other.real_transforms": [(lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=5) + x, lambda: (operand(2, 5),)),
                              (lambda x: torch.view_as_real(torch.fft.rfft2(x, norm="ortho")), lambda: (operand(3, 4),))],
    "other.strides": [(lambda x: torch.as_strided(x * 1.0, (2, 3), (5, 2), 1), lambda: (operand(3, 5),))],
    "other.index_put": [
        (lambda x, v: x.index_put((torch.tensor([[0, 2], [1, 0]]), torch.tensor([1, 3])), v, accumulate=True),
         lambda: (operand(3, 4, 2), operand(2, 2, 2))),
        (lambda x: x.index_put((torch.tensor([True, False, True]),), torch.tensor(7.0)), lambda: (operand(3, 2),))],
}


class Case(torch.nn.Module):
    """An operator with everything but its float operands, which are parameters, fixed."""

    def __init__(self, function, arguments):
        super().__init__()
        leaves, self.spec = pytree.tree_flatten(arguments)
        self.function, self.leaves = function, []
        for number, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor):
                self.leaves.append(lambda self, leaf=leaf: leaf)
                continue
            name = f"operand{number}"
            if isinstance(leaf, torch.nn.Parameter):
                self.register_parameter(name, leaf)
            elif leaf.dtype.is_floating_point and leaf.requires_grad:
                self.register_parameter(name, torch.nn.Parameter(leaf.detach().clone().contiguous()))
            else:
                self.register_buffer(name, leaf.detach().clone().contiguous())
            self.leaves.append(lambda self, name=name: getattr(self, name))

    def results(self):
        positional, named = pytree.tree_unflatten([leaf(self) for leaf in self.leaves], self.spec)
        return [leaf for leaf in pytree.tree_leaves(self.function(*positional, **named)) if isinstance(leaf, torch.Tensor)]

    def forward(self, *weights):
        results = self.results()
        floats = [result for result in results if result.dtype.is_floating_point]
        loss = sum(((result * weight[0]).sum() for result, weight in zip(floats, weights)), start=0 * weights[0].sum())
        return {"loss": loss, **{f"out{number}": result for number, result in enumerate(results)}}


def samples_of(info):
    """Small ones of several kinds: floats first, then what the operator takes besides."""
    taken = set()
    for dtype in (torch.float32, torch.int64, torch.bool):
        if dtype not in info.dtypes:
            continue
        differentiable = dtype == torch.float32 and info.supports_autograd
        count = 0
        for sample in info.sample_inputs("cpu", dtype, requires_grad=differentiable):
            arguments = ((sample.input, *sample.args), sample.kwargs)
            tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
            if sum(tensor.numel() for tensor in tensors) > MOST_ELEMENTS or any(tensor.numel() == 0 for tensor in tensors):
                continue
            if info.name == "kthvalue" and dtype == torch.int64:
                continue  # equal ones: which is meant is open
            if info.name == "nn.functional.layer_norm" and 1 in sample.args[0]:
                continue  # of one number: nothing but what is rounded
            shape = repr(([tuple(tensor.shape) for tensor in tensors],
                          [leaf for leaf in pytree.tree_leaves(arguments) if not isinstance(leaf, torch.Tensor)], dtype))
            if shape in taken:
                continue
            taken.add(shape)
            yield arguments
            count += 1
            if count == (CASES if dtype == torch.float32 else 1):
                break


def export(function, arguments, in_double=False):
    """The archive and what torch computes, or an exception. Gradients may be those of doubles."""
    module = Case(function, arguments).eval()
    results = module.results()
    floats = [result for result in results if result.dtype.is_floating_point]
    if not results or any(result.numel() == 0 for result in results):
        raise ValueError("has an empty result, or none")
    weights = [torch.randn(1, *result.shape) for result in floats] or [torch.zeros(1)]
    told = {f"in.{number}": weight for number, weight in enumerate(weights)}
    outputs = module(*weights)
    if any(isinstance(output, torch.Tensor) and output.dtype.is_complex for output in outputs.values()):
        raise ValueError("has complex results")
    exported = torch.export.export(module, tuple(weights), strict=False)
    for number, result in enumerate(results):
        values = result if result.dtype.is_floating_point else result.to(torch.int64)
        told[f"out.{number}"] = values.detach().clone().contiguous()
    if floats and isinstance(outputs["loss"], torch.Tensor) and outputs["loss"].requires_grad:
        if in_double:
            module = copy.deepcopy(module).double()
            outputs = module(*(weight.double() for weight in weights))
        outputs["loss"].backward()
        for name, parameter in module.named_parameters():
            gradient = parameter.grad if parameter.grad is None else parameter.grad.float()
            told[f"grad.{name}"] = torch.zeros(parameter.shape) if gradient is None else gradient.clone().contiguous()
    return exported, told


def kept_entries(path, but):
    """What is in the file of other operators than these."""
    bases = {re.sub(r"[^A-Za-z0-9_.]", "_", name) for name in but}
    with zipfile.ZipFile(path) as file:
        return [(entry, file.read(entry)) for entry in file.infolist()
                if re.sub(r"-[0-9]+\.(pt2|onnx|safetensors)$", "", entry.filename) not in bases]


def archive_of(exported):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "case.pt2"
        save_archive(exported, path)
        return path.read_bytes()


def cases_of(name, known):
    """For each: a function without arguments that makes the model's file and what torch computes, and the file's ending."""
    if name in ONNX_EDGES:
        yield from ((lambda row=row: export_onnx(*row), ".onnx") for row in ONNX_EDGES[name])
        return
    others = OTHERS | EDGES
    written = ((function, (make(), {})) for function, make in others.get(name, []))
    samples = written if name in others else ((known[name].op, each) for each in samples_of(known[name]))
    for function, sample in itertools.islice(samples, 6):
        def make(function=function, sample=sample):
            exported, told = export(function, sample, name in IN_DOUBLE)
            return archive_of(exported.run_decompositions() if name in DECOMPOSED else exported), told

        yield make, ".pt2"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", type=pathlib.Path)
    parser.add_argument("--edges", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--add", nargs="+", default=[])
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    known = {".".join(filter(None, (info.name, info.variant_test_name))): info for info in op_db}
    every = [*EDGES, *ONNX_EDGES] if arguments.edges else [*OPERATORS, *OTHERS]
    wanted = [arguments.only] if arguments.only else arguments.add or every
    file = arguments.o or HERE / ("edges.zip" if arguments.edges else "operators.zip")
    kept = kept_entries(file, wanted) if arguments.add else []
    made, left = 0, []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for entry, data in kept:
            out.writestr(entry, data)
        for name in wanted:
            if not any(name in names for names in (known, OTHERS, EDGES, ONNX_EDGES)):
                left.append((name, "is no operator of OpInfo"))
                continue
            torch.manual_seed(1)
            for number, (make, ending) in enumerate(cases_of(name, known)):
                try:
                    model, told = make()
                except Exception as error:  # whatever torch says
                    left.append((f"{name}-{number}", str(error).split("\n")[0][:120]))
                    continue
                base = re.sub(r"[^A-Za-z0-9_.]", "_", name) + f"-{number}"
                for suffix, data in ((ending, model), (".safetensors", safetensors.torch.save(told))):
                    entry = zipfile.ZipInfo(base + suffix, (1980, 1, 1, 0, 0, 0))
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    out.writestr(entry, data)
                made += 1
            print(f"\r{name:60}{made}", end="", file=sys.stderr)
    print(f"\n{made} cases", file=sys.stderr)
    for name, why in left:
        print(f"left out {name}: {why}")


if __name__ == "__main__":
    main()
