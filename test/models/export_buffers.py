#!/usr/bin/env python3
"""Exports a small model that writes its buffers in every way, and what PyTorch computes with it.

The committed files were made with torch 2.15.0, safetensors 0.8.0 and numpy 2.4.6, on the CPU, in one thread. hyc itself
never runs this script.

    buffers.pt2              torch.export as it comes: buffers and others are written in place
    buffers-functional.pt2   the same after run_decompositions({}): what is written is told by the signature

buffers.reference.safetensors holds
    pixel_values   f32 [steps, batch, 6], labels int32 [steps, batch]: called as those of the other fixtures
    losses.adamw   f32 [steps]: the loss before each update by AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay
                   0.01
    PARAMETER      f32: the gradient of the first loss
    buffers.NAME   f32 or int64: what is in each buffer after ten steps

Usage: export_buffers.py [-o FOLDER]
"""
import argparse
import pathlib
import warnings

import numpy
import safetensors.numpy
import torch

from exporting import save_archive, train

HERE = pathlib.Path(__file__).parent
BATCH, STEPS = 8, 11


class Buffers(torch.nn.Module):
    """Two layers with four buffers between them: an average, the largest value ever seen, what was there last, and a
    count. The old values of the average and of `last` have a part in the result, that of `last` also in the gradient,
    and of the count the new one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 5), torch.nn.Linear(5, 10)
        self.register_buffer("average", torch.zeros(5))
        self.register_buffer("largest", torch.full((5,), 0.5))
        self.register_buffer("last", torch.ones(5))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, pixel_values):
        hidden = self.first(pixel_values)
        self.calls += 1
        before = self.average.clone()
        self.average.mul_(0.75).add_(hidden.detach().mean(0), alpha=0.25)
        self.largest.copy_(torch.maximum(self.largest, hidden.detach().amax(0)))
        scaled = hidden * self.last.clone()  # backward multiplies by the old value, which by then is gone
        self.last.copy_(hidden.detach().abs().mean(0) + 0.5)
        scaled = scaled - before
        scaled += hidden / self.calls
        scaled.relu_()
        return {"logits": self.second(scaled)}


def build():
    torch.manual_seed(20)
    return Buffers().train()


def write_archive(path, decomposed):
    exported = torch.export.export(build(), (), {"pixel_values": torch.zeros(2, 6)},
                                   dynamic_shapes={"pixel_values": {0: torch.export.Dim("batch")}})
    if decomposed:
        exported = exported.run_decompositions({})
    save_archive(exported, path)


def reference():
    generator = numpy.random.default_rng(20)
    values = {"pixel_values": generator.standard_normal((STEPS, BATCH, 6), dtype=numpy.float32),
              "labels": generator.integers(0, 10, (STEPS, BATCH), dtype=numpy.int32)}
    model, buffers = build(), {}

    def keep(step):
        if step + 1 == STEPS - 1:
            buffers.update({"buffers." + name: buffer.numpy().copy() for name, buffer in model.named_buffers()})

    values["losses.adamw"], gradients = train(
        model, values, torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01), keep)
    values |= gradients | buffers
    return {name: numpy.array(value, order="C") for name, value in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="the folder to write into")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    write_archive(options.output / "buffers.pt2", decomposed=False)
    write_archive(options.output / "buffers-functional.pt2", decomposed=True)
    (options.output / "buffers.reference.safetensors").write_bytes(safetensors.numpy.save(reference()))


if __name__ == "__main__":
    main()
