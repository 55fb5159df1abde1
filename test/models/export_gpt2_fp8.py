#!/usr/bin/env python3
"""Writes gpt2-tiny.fp8.safetensors: what PyTorch computes for gpt2-tiny where its linear layers multiply 8-bit floats.

The committed file was made as those of export_gpt2.py were, with the same versions. hyc itself never runs this script.

Linear layers are replaced by ones that are written here from NVIDIA's recipe (Micikevicius et al. 2022; delayed scaling of
Transformer Engine): activations and weights are rounded to torch.float8_e4m3fn, cotangents to torch.float8_e5m2, after
multiplication by a scale and clamping; the three products are of what is left, in f32. A scale is the greatest power of two
that keeps the greatest magnitude of the last 16 steps in range; it starts at 1. The head stays bf16, as everything else under
torch.autocast. The loss is differentiated as a sum over tokens, which matters to cotangents while scales are still 1.

    losses.adamw   f32 [20]: the loss before each update by AdamW, as in gpt2-tiny.reference.safetensors
    amax.LAYER     f32 [3]: greatest magnitudes of a layer's input, weight and cotangent in the first step
    scale.LAYER    f32 [3]: their scales after the fourth

Usage: export_gpt2_fp8.py [-o FOLDER]
"""
import argparse
import math
import pathlib

import numpy
import safetensors.numpy
import torch
import transformers

from export_gpt2 import FIXTURES, HERE, STEPS, build, token_batches

HISTORY = 16
SCALED_STEPS = 4


class Scaling:
    def __init__(self, dtype):
        self.dtype = dtype
        self.largest = torch.finfo(dtype).max
        self.scale, self.amax, self.history = 1.0, 0.0, []

    def rounded(self, x):
        """In f32, scaled back."""
        self.amax = max(self.amax, x.abs().max().item())
        scaled = (x.float() * self.scale).clamp(-self.largest, self.largest)
        return scaled.to(self.dtype).float() / self.scale

    def end_step(self):
        self.history = ([self.amax] + self.history)[:HISTORY]
        self.amax = 0.0
        if max(self.history) > 0:
            self.scale = 2.0 ** math.floor(math.log2(self.largest / max(self.history)))


class Product(torch.autograd.Function):
    """x · w, of the weight's bf16 copy; its gradient is not rounded."""

    @staticmethod
    def forward(context, x, w, layer):
        context.layer = layer
        rounded = layer.x.rounded(x), layer.w.rounded(w.to(torch.bfloat16))
        context.save_for_backward(*rounded)
        return (rounded[0] @ rounded[1]).to(torch.bfloat16)

    @staticmethod
    def backward(context, cotangent):
        x, w = context.saved_tensors
        g = context.layer.g.rounded(cotangent)
        dx = (g @ w.T).to(torch.bfloat16)
        return dx, x.flatten(0, -2).T @ g.flatten(0, -2), None


class Linear(torch.nn.Module):
    """In the place of transformers' Conv1D."""

    def __init__(self, conv):
        super().__init__()
        self.weight, self.bias = conv.weight, conv.bias
        self.x, self.w = Scaling(torch.float8_e4m3fn), Scaling(torch.float8_e4m3fn)
        self.g = Scaling(torch.float8_e5m2)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            y = Product.apply(x.to(torch.bfloat16), self.weight, self)
            return y + self.bias.to(torch.bfloat16)


def replace_layers(model):
    layers = {}
    for name, module in list(model.named_modules()):
        for child, inner in list(module.named_children()):
            if isinstance(inner, transformers.pytorch_utils.Conv1D):
                layers[f"{name}.{child}"] = linear = Linear(inner)
                setattr(module, child, linear)
    return layers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="folder to write into")
    options = parser.parse_args()
    torch.set_num_threads(1)
    fixture = next(fixture for fixture in FIXTURES if fixture.name == "gpt2-tiny")
    model = build(fixture)
    layers = replace_layers(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    values, losses = {}, []
    for step, batch in enumerate(token_batches(fixture, STEPS, 16)):
        tokens = torch.from_numpy(batch).long()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="sum")
        loss.backward()
        count = tokens[:, 1:].numel()
        for parameter in model.parameters():
            parameter.grad /= count
        optimizer.step()
        losses.append(loss.item() / count)
        for name, layer in layers.items():
            tensors = (layer.x, layer.w, layer.g)
            if step == 0:
                values[f"amax.{name}"] = numpy.array([tensor.amax for tensor in tensors], dtype=numpy.float32)
            for tensor in tensors:
                tensor.end_step()
            if step + 1 == SCALED_STEPS:
                values[f"scale.{name}"] = numpy.array([tensor.scale for tensor in tensors], dtype=numpy.float32)
    values["losses.adamw"] = numpy.array(losses, dtype=numpy.float32)
    (options.output / "gpt2-tiny.fp8.safetensors").write_bytes(safetensors.numpy.save(values))


if __name__ == "__main__":
    main()
