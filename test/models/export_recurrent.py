#!/usr/bin/env python3
"""Exports a small model of recurrent layers, which torch.export leaves whole, and what PyTorch computes with it.

The committed files were made with torch 2.15.0, safetensors 0.8.0 and numpy 2.4.6, on the CPU, in one thread. hyc itself
never runs this script.

    recurrent.pt2            torch.export as it comes: two layers of LSTM in both directions, and a GRU over what they give

recurrent.reference.safetensors holds
    pixel_values   f32 [steps, batch, 6, 5]: sequences of six, called as those of the other fixtures; labels int32 [steps, batch]
    logits         f32 [2, 10]: of the first two samples
    losses.adamw   f32 [steps]: the loss before each update by AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay
                   0.01
    losses.sgd     f32 [steps]: by SGD, lr 0.1
    PARAMETER      f32: the gradient of the first loss

Usage: export_recurrent.py [-o FOLDER]
"""
import argparse
import pathlib
import warnings

import numpy
import safetensors.numpy
import torch

from exporting import save_archive

HERE = pathlib.Path(__file__).parent
BATCH, STEPS, LENGTH = 8, 11, 6


class Recurrent(torch.nn.Module):
    """All that the layers give has a part in the result: what they say of each step, the last states and the last cells."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(5, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(16, 8, batch_first=True)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, pixel_values):
        each, (hidden, cells) = self.lstm(pixel_values)
        again, last = self.gru(each)
        return {"logits": self.head(torch.cat([again.mean(1) + last[0], hidden[3] - cells[2]], dim=-1))}


def build():
    torch.manual_seed(30)
    return Recurrent().train()


def data():
    generator = numpy.random.default_rng(30)
    return {"pixel_values": generator.standard_normal((STEPS, BATCH, LENGTH, 5), dtype=numpy.float32),
            "labels": generator.integers(0, 10, (STEPS, BATCH), dtype=numpy.int32)}


def train(values, make_optimizer):
    """Losses, and the gradients of the first."""
    model, losses, gradients = build(), [], {}
    optimizer = make_optimizer(model.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        logits = model(torch.from_numpy(values["pixel_values"][step]))["logits"]
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(values["labels"][step]).long())
        loss.backward()
        if step == 0:
            gradients = {name: parameter.grad.numpy().copy() for name, parameter in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return numpy.array(losses, dtype=numpy.float32), gradients


def reference():
    values = data()
    with torch.no_grad():
        logits = build()(torch.from_numpy(values["pixel_values"][0][:2]))["logits"].numpy()
    adamw, gradients = train(values, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01))
    sgd, _ = train(values, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    values |= gradients | {"logits": logits, "losses.adamw": adamw, "losses.sgd": sgd}
    return {name: numpy.array(value, order="C") for name, value in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="the folder to write into")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    exported = torch.export.export(build(), (), {"pixel_values": torch.zeros(2, LENGTH, 5)},
                                   dynamic_shapes={"pixel_values": {0: torch.export.Dim("batch")}})
    save_archive(exported, options.output / "recurrent.pt2")
    (options.output / "recurrent.reference.safetensors").write_bytes(safetensors.numpy.save(reference()))


if __name__ == "__main__":
    main()
