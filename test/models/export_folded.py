#!/usr/bin/env python3
"""Exports two small models of whose parameters PyTorch's ONNX exporters leave others than the program had, and what PyTorch computes
with them.

The committed files were made with torch 2.15.0, onnxscript 0.7.2, safetensors 0.8.0 and numpy 2.4.6, on the CPU, in one thread. hyc
itself never runs this script.

    cut.onnx               by dynamo: a table that is added to the first three places and to all five, and a weight of which products
                           take two rows and all four; the shorter ones are computed when exporting
    generated-legacy.onnx  by the legacy exporter: an LSTM and the slope of a PReLU, which are folded and get names that it makes up,
                           and parameters of one element

cut.reference.safetensors and generated.reference.safetensors hold
    pixel_values   f32 [steps, batch, 5, 4], labels int32 [steps, batch]: called as those of the other fixtures
    losses.adamw   f32 [steps]: the loss before each update by AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay 0.01
    PARAMETER      f32: the gradient of the first loss

Usage: export_folded.py [-o FOLDER]
"""
import argparse
import contextlib
import io
import pathlib
import warnings

import numpy
import onnx
import safetensors.numpy
import torch

from exporting import drop_metadata, train

HERE = pathlib.Path(__file__).parent
BATCH, STEPS = 8, 11


class Body(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = torch.nn.Parameter(torch.randn(1, 5, 4))
        self.weight = torch.nn.Parameter(torch.randn(4, 4))
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        few = self.inner(x[:, :3] + self.positions[:, :3]).mean(1)
        many = self.inner(x + self.positions).mean(1)
        two = torch.nn.functional.linear(x.mean(1), self.weight[:2])
        four = torch.nn.functional.linear(x.mean(1), self.weight)
        return torch.cat([few, many, two, four], -1)


class Cut(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = Body(), torch.nn.Linear(14, 10)

    def forward(self, pixel_values):
        return {"logits": self.head(self.body(pixel_values))}


class Generated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.act = torch.nn.LSTM(4, 6, batch_first=True), torch.nn.PReLU()
        self.gate, self.head = torch.nn.Linear(6, 1), torch.nn.Linear(6, 10)
        self.gate.register_parameter("scale", torch.nn.Parameter(torch.tensor(0.5)))

    def forward(self, pixel_values):
        hidden = self.act(self.lstm(pixel_values)[0])
        gates = torch.sigmoid(self.gate(hidden)) * self.gate.scale.exp()
        return {"logits": self.head((hidden * gates).sum(1))}


def build(model):
    torch.manual_seed(21)
    return model()


def export(model, path, **options):
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(build(model).eval(), (torch.zeros(BATCH, 5, 4),), str(path), input_names=["pixel_values"],
                          output_names=["logits"], external_data=False, **options)
    proto = onnx.load(path)
    drop_metadata(proto)
    onnx.save(proto, path)


def reference(model_class):
    generator = numpy.random.default_rng(21)
    values = {"pixel_values": generator.standard_normal((STEPS, BATCH, 5, 4), dtype=numpy.float32),
              "labels": generator.integers(0, 10, (STEPS, BATCH), dtype=numpy.int32)}
    model = build(model_class)
    values["losses.adamw"], gradients = train(
        model, values, torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01))
    values |= gradients
    return {name: numpy.array(value, order="C") for name, value in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="the folder to write into")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    export(Cut, options.output / "cut.onnx", dynamo=True)
    export(Generated, options.output / "generated-legacy.onnx", dynamo=False)
    for name, model in ("cut", Cut), ("generated", Generated):
        (options.output / f"{name}.reference.safetensors").write_bytes(safetensors.numpy.save(reference(model)))


if __name__ == "__main__":
    main()
