"""Cases for export_operators.py --edges: places at which a derivative jumps or has no value of its own, and what torch has there.

Zero rows and constant ones, ties, predictions that are certain, indices that repeat, quotients that round up, and tensors that
are written through what may be a view. Written as OTHERS in export_operators.py; ONNX_EDGES are single operators of ONNX beside
the same in torch, as (operator, attributes, numbers of further inputs, function, operands).
"""
import torch
from torch.nn import functional as F

inf = float("inf")


def learned(values):
    return torch.tensor(values, requires_grad=True)


def written_through_copies(x):
    """What PyTorch copies: writing into it leaves what it was made of alone, and the other way round."""
    y = x * 2.0
    turned = y.t()
    copies = turned.contiguous(), turned.reshape(-1), turned.flatten(), turned.ravel(), y.to(torch.float32, copy=True)
    for number, copy in enumerate(copies):
        copy.mul_(number + 2.0)
    before = [copy + 0.0 for copy in copies]
    y.add_(1.0)
    return y, *before, *(copy + 0.0 for copy in copies)


def written_through_views(x):
    """What PyTorch does not copy: each write reaches all."""
    y = x * 2.0
    views = (y.contiguous(), y.reshape(-1), y.flatten(), y.ravel(), y.to(torch.float32), y.type_as(x), y.reshape_as(x),
             y[:, :1].reshape(1, -1), F.dropout(y, 0.5, training=False), F.dropout(y, 0.0, training=True))
    for number, view in enumerate(views):
        view.reshape(-1)[0].mul_(number + 2.0)
    return y, *(view + 0.0 for view in views)


def parts_of_what_is_written(x):
    """Parts that are read after their whole was written."""
    y = x * 2.0
    first, second = y.split(1)
    left, right = y.chunk(2, dim=1)
    rows, diagonal, turned = y.unbind(0), y.diagonal(), y.movedim(0, 1)
    y.mul_(3.0)
    return first + 0.0, second + 1.0, left + 2.0, right + 3.0, rows[1] + 4.0, diagonal + 5.0, turned + 6.0


def written_diagonal(x):
    y = x * 2.0
    y.diagonal().mul_(3.0)
    return y + 1.0


def dropped_apart(x):
    """Dropout that draws gives a tensor of its own."""
    y = x * 2.0
    F.dropout(y, 0.5, training=True).mul_(0.0)
    return y + 1.0


ROWS = [[0.0, 0.0, 0.0], [1.0, 2.0, -2.0]]
EQUAL = [[2.0, 2.0, 2.0], [1.0, 2.0, -2.0]]
AT_ZERO = [0.0, -1.0, 2.0, 0.5]

EDGES = {
    "edge.certain_predictions": [
        (lambda x: F.binary_cross_entropy(x, torch.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none"),
         lambda: (learned([0.0, 1.0, 0.3, 0.9]),)),
        (lambda x: F.binary_cross_entropy(x, torch.tensor([0.0, 1.0, 0.25])), lambda: (learned([1.0, 0.0, 0.0]),)),
        (lambda x, t: F.binary_cross_entropy(x, t, torch.tensor([2.0, 0.5])), lambda: (learned([0.2, 0.9]), learned([0.3, 1.0])))],
    "edge.zero_rows": [
        (lambda x: F.normalize(x), lambda: (learned(ROWS),)),
        (lambda x: [torch.linalg.vector_norm(x, p, dim=1) for p in (2, 3, 1.5, 0.5, 1, inf)], lambda: (learned(ROWS),)),
        (lambda x: (torch.linalg.norm(x * 0.0), torch.linalg.matrix_norm(x[:1]), torch.linalg.norm(x[0]), x.norm(dim=1)),
         lambda: (learned(ROWS),)),
        (lambda x: torch.renorm(x, 2, 0, 1.0), lambda: (learned(ROWS),)),
        (lambda x, y: F.cosine_similarity(x, y), lambda: (learned(ROWS), learned([[1.0, 1.0, 2.0], [1.0, 0.0, 1.0]]))),
        (lambda x, y: torch.complex(x, y).abs(), lambda: (learned([0.0, 3.0]), learned([0.0, -4.0])))],
    "edge.constant_rows": [
        (lambda x: (x.std(dim=1), x.std(), x.std(dim=1, correction=0)), lambda: (learned([[2.0] * 4, [1.0, 2.0, -2.0, 3.0]]),)),
        (lambda x: torch.std_mean(x, dim=1), lambda: (learned([[2.0] * 4, [1.0, 2.0, -2.0, 3.0]]),))],
    "edge.equal_rows": [
        (lambda x, y, p=p: torch.cdist(x, y, p), lambda: (learned(EQUAL), learned([[2.0, 2.0, 2.0], [1.0, 0.0, -2.0]])))
        for p in (2.0, 3.0, 0.5)],
    "edge.whole_weight_norm": [(lambda v, g: torch._weight_norm(v, g, -1), lambda: (learned(EQUAL), learned(2.0)))],
    "edge.units_at_zero": [
        (lambda x: (F.elu(x), F.elu(x, 2.0), F.selu(x), F.celu(x, 1.5), F.leaky_relu(x, 0.1), F.silu(x), F.relu(x)),
         lambda: (learned(AT_ZERO),)),
        (lambda x, w: F.prelu(x, w), lambda: (learned([AT_ZERO]), learned([0.25]))),
        (lambda x: (F.hardswish(x), F.hardsigmoid(x), F.hardtanh(x), F.softplus(x), F.softshrink(x), F.hardshrink(x)),
         lambda: (learned([3.0, -3.0, 1.0, -1.0, 0.5, -0.5]),))],
    "edge.rests": [
        (lambda x: (torch.remainder(x, 0.1), x.detach() // 0.1, torch.div(x, 0.1, rounding_mode="floor")),
         lambda: (learned([1.0, -1.0, 0.3, -0.7, 5.5, 0.0]),)),
        (lambda x, y: (torch.remainder(x, y), x.detach() // y.detach(), torch.div(x, y, rounding_mode="floor")),
         lambda: (learned([1.0, -1.0, 6.0, -6.5, 2.0, 1.0, 0.7]), learned([inf, inf, -3.0, 2.0, -inf, 0.1, -0.1]))),
        (lambda x: (x // torch.zeros(3), torch.remainder(x, 0.0)), lambda: (torch.tensor([1.0, -1.0, 0.0]),)),
        (lambda x: (torch.remainder(x, -3), x // -3, torch.remainder(x, 3), x // 3), lambda: (torch.tensor([7, -7, 6, -6, 0]),))],
    "edge.counted": [
        (lambda x: (torch.arange(0, 0.3, 0.1) * x, torch.arange(1, 0.1, -0.3) * x, torch.arange(0.5, 3.5) * x,
                    torch.arange(3, dtype=torch.float32) * x), lambda: (learned([1.0, 2.0, 3.0]),))],
    "edge.repeated_indices": [
        (lambda x: (x.scatter(0, torch.tensor([1, 1, 2]), 5.0), x.index_fill(0, torch.tensor([0, 0, 3]), 2.0),
                    x.index_put((torch.tensor([2, 2, -2]),), torch.tensor(7.0))), lambda: (learned([1.0, 2.0, 3.0, 4.0]),)),
        (lambda x, ids: (x.scatter(1, ids, torch.tensor([[5.0, 6.0, 7.0], [8.0, 9.0, 1.0]])), x.scatter(1, ids, 3.0),
                         x.scatter(0, ids - 1, torch.tensor([[5.0, 6.0, 7.0], [8.0, 9.0, 1.0]]))),
         lambda: (learned([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]), torch.tensor([[1, 1, 2], [2, 1, 1]]))),
        (lambda x, ids: (x.index_put((ids,), torch.tensor([[5.0, 6.0], [7.0, 8.0], [9.0, 1.0]])),
                         x.index_put((ids, torch.tensor([1, 0, 1])), torch.tensor([3.0, 4.0, 5.0])),
                         x.index_copy(1, ids - 1, torch.tensor([[5.0, 6.0, 7.0]] * 3)),
                         x.index_put((torch.tensor([2, 0, 2]),), torch.tensor([[5.0, 6.0], [7.0, 8.0], [9.0, 1.0]]))),
         lambda: (learned([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.tensor([1, 2, 1]))),
        (lambda x, v, ids: (x.index_fill(0, ids, v), x.index_fill(0, torch.tensor([0, 2]), v)),
         lambda: (learned([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), learned(0.5), torch.tensor([1, 1]))),
        (lambda x, ids: (torch.zeros(2, 4, dtype=torch.bool).scatter(1, ids, True), x.scatter(1, ids, 9),
                         x.index_put((ids[0], ids[1]), torch.tensor([3, 4, 5]))),
         lambda: (torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), torch.tensor([[1, 1, 0], [2, 1, 2]]))),
        (lambda x: (torch.zeros(2, 4).scatter(1, x.topk(2).indices, x.topk(2).values),
                    torch.zeros(2, 4).scatter(1, x.argsort(), x), torch.zeros(4, 2).scatter(0, x.t().topk(2, 0).indices, x.t()[:2])),
         lambda: (learned([[1.0, 4.0, 3.0, 2.0], [5.0, 6.0, 8.0, 7.0]]),))],
    "edge.masked_attention": [
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.tensor([[True, False, True], [False] * 3])),
         lambda: tuple(torch.randn(2, length, 4, requires_grad=True) for length in (2, 3, 3))),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.tensor([[0.0, -inf, -1.0], [-inf] * 3])),
         lambda: tuple(torch.randn(1, 2, length, 4, requires_grad=True) for length in (2, 3, 3))),
        (lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask > 0),
         lambda: (*(torch.randn(1, 2, length, width, requires_grad=True) for length, width in ((2, 4), (3, 4), (3, 5))),
                  torch.tensor([[1, 0, 1], [0, 0, 0]]))),
        (lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask > 0),
         lambda: (*(torch.randn(2, length, 4, requires_grad=True) for length in (2, 3, 3)), torch.tensor([[1, 0, 1], [0, 0, 0]]))),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.tensor([[True, False, True], [False] * 3])),
         lambda: tuple(torch.randn(length, 4, requires_grad=True) for length in (2, 3, 3)))],
    "edge.negative_indices": [
        (lambda x, w: (x[(x[:, 0] > 0).long() - 2], w[(x[:, 1] > 0).long() - 3], w[(x > 0).long() - 2, :2], F.embedding((x[:, 0] > 0).long(), w)),
         lambda: (learned([[1.0, -2.0], [-3.0, 4.0]]), learned([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])))],
    "edge.scaled_by_frequency": [
        (lambda w: F.embedding(torch.tensor([1, 1, 2]), w, scale_grad_by_freq=True), lambda: (learned(ROWS + EQUAL),)),
        (lambda w: F.embedding_bag(torch.tensor([1, 1, 2]), w, torch.tensor([0, 2]), scale_grad_by_freq=True, mode="sum"),
         lambda: (learned(ROWS + EQUAL),))],
    "edge.sampled_outside": [
        (lambda x, grid, mode=mode: [F.grid_sample(x, grid, mode, padding, aligned) for padding in ("zeros", "border", "reflection")
                                     for aligned in (False, True)],
         lambda: (torch.randn(2, 3, 4, 5, requires_grad=True), (torch.rand(2, 3, 4, 2) * 4 - 2).requires_grad_()))
        for mode in ("bilinear", "nearest", "bicubic")],
    "edge.written": [
        (written_through_copies, lambda: (learned([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),)),
        (written_through_views, lambda: (learned([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),)),
        (parts_of_what_is_written, lambda: (torch.tensor([[1.0, 2.0], [3.0, 4.0]]),)),
        (written_diagonal, lambda: (learned([[1.0, 2.0], [3.0, 4.0]]),)),
        (dropped_apart, lambda: (learned([[1.0, 2.0], [3.0, 4.0]]),))],
}

ONNX_EDGES = {
    "edge.onnx_units": [
        ("LeakyRelu", {"alpha": 0.1}, [], lambda x: F.leaky_relu(x, 0.1), [AT_ZERO]),
        ("PRelu", {}, [], F.prelu, [[AT_ZERO], [0.25, 0.5, -1.0, 2.0]]),
        ("Elu", {"alpha": 2.0}, [], lambda x: F.elu(x, 2.0), [AT_ZERO]),
        ("Selu", {}, [], F.selu, [AT_ZERO]),
        ("Celu", {"alpha": 1.5}, [], lambda x: F.celu(x, 1.5), [AT_ZERO])],
    "edge.onnx_lengths": [
        ("ReduceL2", {"keepdims": 0}, [[1]], lambda x: x.norm(dim=1), [ROWS]),
        ("LpNormalization", {"p": 2, "axis": 1}, [], lambda x: x / torch.where((x == 0).all(1, True), 1.0, x.norm(dim=1, keepdim=True)),
         [ROWS])],
}


def onnx_model(operator, attributes, numbers, operands, result):
    """The operator over parameters, its result as `out0`, and as `loss` its sum weighted by the only input."""
    from onnx import TensorProto, helper, numpy_helper

    names = [f"operand{number}" for number in range(len(operands))]
    stored = [numpy_helper.from_array(operand.detach().numpy(), name) for name, operand in zip(names, operands)]
    further = [f"numbers{number}" for number in range(len(numbers))]
    stored += [helper.make_tensor(name, TensorProto.INT64, [len(values)], values) for name, values in zip(further, numbers)]
    nodes = [helper.make_node(operator, names + further, ["out0"], name="out0", **attributes),
             helper.make_node("Mul", ["out0", "weight"], ["weighted"], name="weighted"),
             helper.make_node("ReduceSum", ["weighted"], ["loss"], name="loss", keepdims=0)]
    weight = helper.make_tensor_value_info("weight", TensorProto.FLOAT, [1, *result.shape])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("loss", []), ("out0", result.shape))]
    graph = helper.make_graph(nodes, "case", [weight], outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def export_onnx(operator, attributes, numbers, function, values):
    """The model and what torch computes."""
    operands = [learned(each) for each in values]
    result = function(*operands)
    weight = torch.randn(1, *result.shape)
    (result * weight[0]).sum().backward()
    told = {"in.0": weight, "out.0": result.detach().contiguous()}
    told |= {f"grad.operand{number}": operand.grad for number, operand in enumerate(operands)}
    return onnx_model(operator, attributes, numbers, operands, result), told
