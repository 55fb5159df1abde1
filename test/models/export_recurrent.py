#!/usr/bin/env python3
"""Exports small models of recurrent layers, which torch.export leaves whole, and what PyTorch computes with them.

The committed files were made with torch 2.15.0, safetensors 0.8.0 and numpy 2.4.6, on the CPU, in one thread. hyc itself
never runs this script.

    recurrent.pt2            torch.export as it comes: two layers of LSTM in both directions, and a GRU over what they give
    recurrent_long.pt2       the same, the LSTM with projections, and a plain layer behind it, over sequences of twenty
    recurrent_decomposed.pt2 a plain layer in both directions and an LSTM over sequences of eighteen, after run_decompositions,
                             which writes each step out

NAME.reference.safetensors holds
    pixel_values   f32 [steps, batch, 6, 5]: sequences of six, twenty or eighteen, called as those of the other fixtures; labels int32 [steps, batch]
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

from exporting import save_archive, train

HERE = pathlib.Path(__file__).parent
BATCH, STEPS = 8, 11


class Recurrent(torch.nn.Module):
    """All that the layers give has a part in the result: what they say of each step, the last states and the last cells."""

    LENGTH = 6

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(5, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(16, 8, batch_first=True)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, pixel_values):
        each, (hidden, cells) = self.lstm(pixel_values)
        again, last = self.gru(each)
        return {"logits": self.head(torch.cat([again.mean(1) + last[0], hidden[3] - cells[2]], dim=-1))}


class RecurrentLong(torch.nn.Module):
    LENGTH = 20

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(5, 8, num_layers=2, batch_first=True, bidirectional=True, proj_size=4)
        self.gru = torch.nn.GRU(8, 8, batch_first=True)
        self.plain = torch.nn.RNN(8, 6, nonlinearity="relu", bias=False)
        self.head = torch.nn.Linear(14, 10)

    def forward(self, pixel_values):
        each, (hidden, cells) = self.lstm(pixel_values)
        again, last = self.gru(each)
        steps, _ = self.plain(again.transpose(0, 1))
        own = again.mean(1) + last[0] + torch.cat([hidden[3], hidden[0]], dim=-1) - cells[2]
        return {"logits": self.head(torch.cat([own, steps.mean(0)], dim=-1))}


class RecurrentDecomposed(torch.nn.Module):
    LENGTH = 18

    def __init__(self):
        super().__init__()
        self.plain = torch.nn.RNN(5, 4, batch_first=True, bidirectional=True)
        self.lstm = torch.nn.LSTM(8, 6, batch_first=True)
        self.head = torch.nn.Linear(6, 10)

    def forward(self, pixel_values):
        each, _ = self.plain(pixel_values)
        states, (hidden, cells) = self.lstm(each)
        return {"logits": self.head(states.mean(1) + hidden[0] - cells[0])}


def build(module):
    torch.manual_seed(30)
    return module().train()


def data(module):
    generator = numpy.random.default_rng(30)
    shape = (STEPS, BATCH, module.LENGTH, 5)
    return {"pixel_values": generator.standard_normal(shape, dtype=numpy.float32),
            "labels": generator.integers(0, 10, (STEPS, BATCH), dtype=numpy.int32)}


def losses_by(module, values, make_optimizer):
    model = build(module)
    return train(model, values, make_optimizer(model.parameters()))


def reference(module):
    values = data(module)
    with torch.no_grad():
        logits = build(module)(torch.from_numpy(values["pixel_values"][0][:2]))["logits"].numpy()
    adamw, gradients = losses_by(module, values, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01))
    sgd, _ = losses_by(module, values, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    values |= gradients | {"logits": logits, "losses.adamw": adamw, "losses.sgd": sgd}
    return {name: numpy.array(value, order="C") for name, value in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="the folder to write into")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for name, module in {"recurrent": Recurrent, "recurrent_long": RecurrentLong,
                         "recurrent_decomposed": RecurrentDecomposed}.items():
        exported = torch.export.export(build(module), (), {"pixel_values": torch.zeros(2, module.LENGTH, 5)},
                                       dynamic_shapes={"pixel_values": {0: torch.export.Dim("batch")}})
        if module is RecurrentDecomposed:
            exported = exported.run_decompositions()
            for node in exported.graph_module.graph.nodes:
                node.meta.pop("from_node", None)
        save_archive(exported, options.output / f"{name}.pt2")
        (options.output / f"{name}.reference.safetensors").write_bytes(safetensors.numpy.save(reference(module)))


if __name__ == "__main__":
    main()
