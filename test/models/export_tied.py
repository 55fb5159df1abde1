#!/usr/bin/env python3
"""Exports a model whose modules share parameters of one value: a bias of zeros and a norm's weight of ones.

torch.export names each parameter by itself, so that what is one there was one in the model; an ONNX exporter writes what
is equal once, whether it was or not. The committed tied.pt2 was made with torch 2.15.0. hyc itself never runs this script.

Usage: export_tied.py [-o FOLDER]
"""
import argparse
import pathlib

import torch

from exporting import save_archive

HERE = pathlib.Path(__file__).parent


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
        self.norm, self.other = torch.nn.LayerNorm(6), torch.nn.LayerNorm(6)
        torch.nn.init.zeros_(self.first.bias)
        self.second.bias = self.first.bias
        self.other.weight = self.norm.weight

    def forward(self, pixel_values):
        return self.other(self.second(torch.relu(self.norm(self.first(pixel_values)))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    program = torch.export.export(Tied(), (torch.zeros(2, 6),), strict=False)
    save_archive(program, arguments.output / "tied.pt2")


if __name__ == "__main__":
    main()
