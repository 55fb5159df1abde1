"""Runs the code of README.md and docs/ as snippets.py says. A block without a row there, and a row without a block, are errors.

Usage: run_snippets.py --part quick|slow --build BUILD_FOLDER --scratch FOLDER [--python PYTHON] [--page PAGE]
  --python   for blocks that need torch and the like, which are skipped by name where it lacks what they need
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import snippets
from markdown import ROOT, blocks, pages

MODELS = ROOT / "test" / "models"
CONFIG = {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}


def commands(text):
    """Command lines of a block, without the remarks behind them: three spaces and more, or two before a #."""
    joined = re.sub(r" *\\\n *", " ", text)
    for line in joined.splitlines():
        line = re.sub(r"^\$ ", "", line)
        command = re.split(r" {3,}|  +#", line.strip())[0].strip()
        if command:
            yield command


def write_samples(path):
    """input_ids and labels of a few samples."""
    count, length = 8, 16
    values = [index % 50 for index in range(count * length)]
    raw = struct.pack(f"<{count * length}q", *values)
    head = {
        name: {"dtype": "I64", "shape": [count, length], "data_offsets": [at * len(raw), (at + 1) * len(raw)]}
        for at, name in enumerate(("input_ids", "labels"))
    }
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw * 2)


def write_gpt2(folder, layers, width, heads):
    """The config.json of a GPT-2 of that size."""
    folder.mkdir()
    config = json.loads((MODELS / "gpt2-formats" / "config.json").read_text())
    config |= {"n_layer": int(layers), "n_embd": int(width), "n_head": int(heads), "vocab_size": 50257, "n_positions": 2048}
    (folder / "config.json").write_text(json.dumps(config))


class Page:
    """A page's folder, and what is run in it."""

    def __init__(self, options, name):
        self.options = options
        self.name = name
        self.folder = options.scratch / name.replace("/", "-")
        self.failures = []

    def prepare(self, needs_out):
        self.folder.mkdir(parents=True)
        for link, target in {
            "build": self.options.build, "test": ROOT / "test", "share": ROOT / "share",
        }.items():  # fmt: skip
            (self.folder / link).symlink_to(target)
        # Copies: a page may well write a model.onnx of its own.
        for name, model in {"model.onnx": "gpt2-tiny.onnx", "model.pt2": "gpt2-formats.pt2", "text.bin": "text.bin"}.items():
            shutil.copyfile(MODELS / model, self.folder / name)
        shutil.copytree(MODELS / "llama", self.folder / "llama")
        (self.folder / "ds_config.json").write_text(json.dumps(CONFIG))
        bin_folder = self.folder / "commands"
        bin_folder.mkdir()
        (bin_folder / "hyc").write_text(
            f'#!/bin/sh\nexec {self.options.python} -c "import sys; from hyc.command import main; sys.exit(main())" "$@"\n'
        )
        (bin_folder / "hyc").chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{bin_folder}:{self.options.build / 'bin'}:{os.environ['PATH']}",
            "HYC_TOOLS": str(self.options.build / "bin"), "PYTHONPATH": str(ROOT / "python" / "src"),
        }  # fmt: skip
        if needs_out:
            self.shell(f"hyc-compile model.onnx {snippets.SMALL} -o out", "what the page takes for granted")

    def call(self, command, what, **more):
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=600, **more)  # fmt: skip
        if done.returncode != 0:
            shown = command if isinstance(command, str) else command[-1]
            self.failures.append(f"{what}: ended with {done.returncode}: {shown}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
        return done.returncode == 0

    def shell(self, command, what):
        words = command.split()
        if words[0] == "make-samples":
            return write_samples(self.folder / words[1])
        if words[0] == "make-gpt2":
            return write_gpt2(self.folder / words[1], *words[2:])
        if words[0] == "make-folder":
            script = pathlib.Path(__file__).with_name("make_folder.py")
            return self.call([self.options.python, str(script), str(MODELS / "gpt2-formats"), *words[1:]], what)
        tool = shutil.which(words[0], path=self.environment["PATH"]) or (self.folder / words[0]).exists()
        if not tool and words[0].startswith("build/bin/"):
            return print(f"{what}: skipped, since {words[0]} is not built")
        return self.call(command, what, shell=True, executable="/bin/bash")

    def run(self, block, row):
        if row.needs:
            return self.run_python(block, row)
        text = block.text
        for line in row.before:
            self.shell(line, block.place)
        for command in commands(replaced(text, row)):
            reason = next((why for word, why in row.skip.items() if word in command), None)
            if reason:
                print(f"{block.place}: not run, since it {reason}: {command}")
            elif self.shell(command, block.place) is False:
                break

    def run_python(self, block, row):
        check = "".join(f"import {name}\n" for name in row.needs)
        if subprocess.run([self.options.python, "-c", check], capture_output=True, check=False).returncode != 0:
            return print(f"{block.place}: skipped, since {self.options.python} lacks one of {', '.join(row.needs)}")
        program = self.folder / "snippet.py"
        program.write_text("\n".join(row.before) + "\n" + replaced(block.text, row) + "\n")
        self.call([self.options.python, str(program)], block.place)


def replaced(text, row):
    text = re.sub(r" *\\\n *", " ", text)
    for old, new in row.replace.items():
        text = text.replace(old, new)
    return text


def check_rows(found):
    """Each block has its row."""
    wrong = [f"snippets.py: {name} has rows, and no block" for name in snippets.SNIPPETS if not found.get(name)]
    for name, list_of_blocks in found.items():
        rows = snippets.SNIPPETS.get(name, [])
        for index, block in enumerate(list_of_blocks):
            if index >= len(rows) or not block.text.lstrip("\n").startswith(rows[index][0]):
                expected = f"the row begins with '{rows[index][0]}'" if index < len(rows) else "there is no row"
                wrong.append(f"{block.place}: a block begins with '{block.text.splitlines()[0]}', but {expected} (test/docs/snippets.py)")
                break
        if len(rows) > len(list_of_blocks):
            wrong.append(f"snippets.py: {name} has {len(rows)} rows, and {len(list_of_blocks)} blocks")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("quick", "slow"), required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--page")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.python = shutil.which(options.python) or options.python
    found = {page.relative_to(ROOT).as_posix(): blocks(page) for page in pages() if "RATIONALE" not in page.name}
    found = {name: each for name, each in found.items() if each}
    failures = check_rows(found)
    if not failures:
        shutil.rmtree(options.scratch, ignore_errors=True)
        for name, list_of_blocks in found.items():
            if options.page and options.page != name:
                continue
            todo = [(block, row) for block, (_, row) in zip(list_of_blocks, snippets.SNIPPETS[name])
                    if isinstance(row, snippets.Run) and row.part == options.part]  # fmt: skip
            if todo:
                page = Page(options, name)
                page.prepare(any(row.uses_out for _, row in todo))
                for block, row in todo:
                    page.run(block, row)
                failures += page.failures
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
