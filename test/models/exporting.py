"""What the scripts that export the tests' models share: files without what names the machine that they were made on."""
import numpy
import torch

DROPPED_METADATA = {"pkg.torch.onnx.stack_trace", "pkg.torch.onnx.fx_node", "pkg.torch.onnx.class_hierarchy",
                    "namespace"}  # says what pkg.torch.onnx.name_scopes says


def drop_metadata(proto):
    """Leaves of an ONNX model's metadata what tells parameters and module paths."""

    def keep_the_rest(holder):
        kept = [entry for entry in holder.metadata_props if entry.key not in DROPPED_METADATA]
        del holder.metadata_props[:]
        holder.metadata_props.extend(kept)

    for node in proto.graph.node:
        keep_the_rest(node)
        node.doc_string = ""
    for value in [*proto.graph.value_info, *proto.graph.input, *proto.graph.output]:
        keep_the_rest(value)


def save_archive(exported, path):
    """torch.export.save's file, its stack traces left out: they are most of it, and name this machine's folders."""
    for module in exported.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else []:
            node.meta.pop("stack_trace", None)
    torch.export.save(exported, str(path))


def train(model, values, optimizer, after=lambda step: None):
    """Losses before each update by `values`' batches, and the gradients of the first; `after` is told of each update."""
    losses, gradients = [], {}
    for step, (pixels, labels) in enumerate(zip(values["pixel_values"], values["labels"])):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.from_numpy(pixels))["logits"], torch.from_numpy(labels).long())
        loss.backward()
        if step == 0:
            gradients = {name: parameter.grad.numpy().copy() for name, parameter in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
        after(step)
    return numpy.array(losses, dtype=numpy.float32), gradients
