#!/usr/bin/env python3
"""Trains what torch's ONNX exporter writes as it is by default (dynamo=True, optimized): hyc's losses held to PyTorch's.

The exporter folds transposed weights, gives a tied one two names, merges tensors that are equal when it writes them, and drops
biases that are zero. Held are ten losses with SGD on one rank, over tp 2 × pp 2 × dp 2, and under ZeRO 3 (census_training.py says
how). What a file does not say is told apart: parameters that are frozen in PyTorch are frozen here (--freeze), and where the
exporter leaves only what the model computes of a parameter (Mamba's -exp(A_log)), PyTorch trains that, too; NAME-whole is the
model exported with optimize=False, which leaves everything. Made with torch 2.15.0, transformers 5.24.0 and onnxscript 0.5.

Usage: dynamo_onnx.py FOLDER --tools BUILD/bin [NAME ...]
"""
import argparse
import contextlib
import io
import logging
import pathlib
import re
import sys
import warnings

from census import BATCH, HERE, SEQUENCE, configure, inputs_of, rows_of
from census_training import Trainer, reference

NAMES = ["gemma", "gemma2", "gemma3", "opt", "bloom", "whisper", "mamba", "mamba-whole", "transformer", "encoder"]


class OnnxTrainer(Trainer):
    """Gradients stand under other names and turned round here: losses after nine updates tell of them."""

    def run(self, phase, *options, **others):
        frozen = [part for name in self.told["frozen"] for part in ("--freeze", f"^{re.escape(name)}$")]
        return super().run(phase, *options, *frozen, **others)

    def gradient_difference(self, file, tokens):
        return ("", 0.0), 1, 1


def transformer(torch):
    """torch.nn.Transformer over embeddings, as its tutorials have it."""

    class Translation(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(99, 32)
            self.transformer = torch.nn.Transformer(32, 4, 2, 2, 64, dropout=0.0, batch_first=True)
            self.head = torch.nn.Linear(32, 99)

        def forward(self, source, target):
            # Without a mask: torch looks at one's values to see whether it is causal, and cannot export that.
            return self.head(self.transformer(self.embed(source), self.embed(target)))

    def tokens():
        return torch.randint(3, 90, (BATCH, SEQUENCE))

    return Translation(), lambda: {"source": tokens(), "target": tokens()}, "TranslationForConditionalGeneration"


def encoder(torch):
    """torch.nn.TransformerEncoder, whose layers are copies of one: all that they hold is equal when it is exported."""

    class Labelling(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(99, 32)
            layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = torch.nn.Linear(32, 99)

        def forward(self, source):
            return self.head(self.encoder(self.embed(source)))

    return Labelling(), lambda: {"source": torch.randint(3, 90, (BATCH, SEQUENCE))}, "LabellingForMaskedLM"


def model_of(name, torch):
    if name in ("transformer", "encoder"):
        return (transformer if name == "transformer" else encoder)(torch)
    import transformers
    row = next(row for row in rows_of(HERE / "census.txt") if row["name"] == name)
    model_class, config = configure(row, transformers)
    return model_class(config), lambda: inputs_of(row["inputs"], config, torch), row["class"]


def train_computed(model, torch):
    """Has -exp(A_log) trained in place of A_log."""

    class Logarithm(torch.nn.Module):
        def forward(self, value):
            return torch.log(-value)

        def right_inverse(self, logarithm):
            return -torch.exp(logarithm)

    for module in list(model.modules()):
        if hasattr(module, "A_log"):
            torch.nn.utils.parametrize.register_parametrization(module, "A_log", Logarithm())


def export(name, path):
    """The model's file, and what PyTorch computes with it."""
    import torch
    torch.manual_seed(1)
    torch.set_num_threads(1)
    plain = name.removesuffix("-whole")
    model, make_inputs, model_class = model_of(plain, torch)
    model = model.eval()
    arguments = make_inputs()
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(model, (), str(path), kwargs=arguments, input_names=list(arguments), dynamo=True,
                          optimize=name == plain)
    if name == plain:
        train_computed(model, torch)
    return reference(model, model_class, make_inputs, path.with_suffix(".safetensors"), torch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="the folder of hyc-compile and hyc-interpret")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in arguments.names:
        try:
            told = export(name, arguments.folder / f"{name}.onnx")
            found = OnnxTrainer(arguments.folder, name, told, arguments.tools, ".onnx").compare()
        except Exception as why:  # whatever torch says
            found = {"trains": f"{type(why).__name__}: {str(why)[:200]}"}
        failed += [found.get(column) for column in ("trains", "spread", "zero")] != ["yes"] * 3
        print(name, found, flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
