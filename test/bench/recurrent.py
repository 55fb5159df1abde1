#!/usr/bin/env python3
"""Training of an LSTM beside PyTorch's: exports one (torch.export, as it comes or decomposed), compiles it for one rank, and
times steps of both in turns, with as many threads each.

Usage: recurrent.py BUILD_FOLDER SCRATCH_FOLDER [--width 64] [--layers 2] [--batch 2] [--steps 512] [--threads 2] [--rounds 5]
                    [--decomposed]

Needs torch. Prints medians over the rounds of each round's best step, their ratio, planned memory, and what compiling took.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

VOCABULARY = 100


def model_of(arguments):
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(VOCABULARY, arguments.width)
            self.lstm = torch.nn.LSTM(arguments.width, arguments.width, arguments.layers, batch_first=True)
            self.head = torch.nn.Linear(arguments.width, VOCABULARY)

        def forward(self, ids):
            return self.head(self.lstm(self.embedding(ids))[0])

    torch.manual_seed(0)
    return Model()


def torchs_step(arguments):
    """The best of five steps in milliseconds, the first left out. Run in a process of its own, as hyc's."""
    import torch
    torch.set_num_threads(arguments.threads)
    model = model_of(arguments)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, VOCABULARY, (arguments.batch, arguments.steps))
    times = []
    for _ in range(6):
        start = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(ids)[:, :-1].reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - start) * 1e3)
    return min(times[1:])


def run(command):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def prepare(arguments):
    """Exports, compiles, and returns the seconds that compiling took."""
    import torch
    scratch = arguments.scratch
    scratch.mkdir(parents=True, exist_ok=True)
    example = torch.zeros(arguments.batch, arguments.steps, dtype=torch.long)
    program = torch.export.export(model_of(arguments), (example,), strict=False)
    if arguments.decomposed:
        program = program.run_decompositions()
    torch.export.save(program, scratch / "lstm.pt2")
    tokens = torch.randint(0, VOCABULARY, (20 * arguments.batch * (arguments.steps + 1),), dtype=torch.int32)
    (scratch / "tokens.bin").write_bytes(tokens.numpy().astype("uint16").tobytes())
    start = time.perf_counter()
    run([arguments.build / "bin/hyc-compile", scratch / "lstm.pt2", "--micro-batch", arguments.batch, "--threads",
         arguments.threads, "-o", scratch / "out"])
    return time.perf_counter() - start


def hycs_step(arguments):
    out = run([arguments.build / "bin/hyc-run", arguments.scratch / "out", "--data", arguments.scratch / "tokens.bin",
               "--data-format", "uint16", "--steps", 6, "--threads", arguments.threads])
    return min(float(each) for each in re.findall(r"([0-9.]+) ms ", out)[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("scratch", type=pathlib.Path)
    for name, default in {"width": 64, "layers": 2, "batch": 2, "steps": 512, "threads": 2, "rounds": 5}.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--decomposed", action="store_true", help="each step written out by torch.export")
    parser.add_argument("--torchs-step", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torchs_step:
        print(torchs_step(arguments))
        return
    compiled = prepare(arguments)
    hyc, torch = [], []
    for _ in range(arguments.rounds):
        hyc.append(hycs_step(arguments))
        torch.append(float(run([sys.executable, *sys.argv, "--torchs-step"])))
    planned = json.loads((arguments.scratch / "out/memory.json").read_text())
    peak = max(stage["total_bytes"] - stage["fixed_bytes"] for stage in planned["stages"])
    print(f"LSTM of {arguments.layers} x {arguments.width}, {arguments.batch} x {arguments.steps} tokens, "
          f"{arguments.threads} threads: compiled in {compiled:.1f} s, arenas of {peak / 2**20:.1f} MiB")
    print(f"hyc {statistics.median(hyc):.1f} ms, PyTorch {statistics.median(torch):.1f} ms a step, "
          f"PyTorch's over hyc's {statistics.median(torch) / statistics.median(hyc):.2f}")


if __name__ == "__main__":
    main()
