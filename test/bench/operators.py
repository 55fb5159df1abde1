#!/usr/bin/env python3
"""How fast operators are that move memory more than they multiply: norms over groups, sorting, top-k, interpolation, pooling,
transposed convolution, scattering. Each is exported (torch.export) in a small model, trained by hyc and by PyTorch in turns, with
as many threads each, and set beside its bound.

Usage: operators.py BUILD_FOLDER SCRATCH_FOLDER [NAME ...] [--threads 2] [--rounds 3] [--compile=--keep-constants=false]

Needs torch. The model is loss(operator(x * w)). What the operator takes is, in hyc, the time of those calls of a step (--profile)
that the same model without it does not have; in PyTorch that of its forward and its gradients. Reading samples and the loss
are in neither. The bound is the longer of two: what forward and backward at least read and write (the
input, the output, and the gradients of both) at the rate of a triad over arrays of 64 MiB, measured just before; and the
operations of products, forward and both gradients, at the rate of a product of 1,024 x 1,024 x 1,024 in PyTorch. Of each call
and of PyTorch's two directions the least of all runs is taken, since other work on the machine only adds to it: of hyc that of
means over the steps after the first, of PyTorch that of single ones.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

STEPS = 4
RUNS = 4  # of hyc in a round, whose start takes less than that of Python


def operators():
    """By name: the shape of a batch's input, and what makes the operator's module."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Of(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x)

    def of(function):
        return lambda: Of(function)

    image, rows = (16, 64, 64, 64), (4096, 1024)
    picked = torch.randint(0, rows[1], rows, generator=torch.Generator().manual_seed(0))
    some = picked[0, :512]
    return {
        "group norm": (image, lambda: nn.GroupNorm(32, 64)),
        "instance norm": (image, lambda: nn.InstanceNorm2d(64, affine=True)),
        "interpolate nearest x2": ((16, 64, 32, 32), of(lambda x: F.interpolate(x, scale_factor=2.0))),
        "interpolate bilinear x2": ((16, 64, 32, 32), of(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"))),
        "interpolate bilinear /2": (image, of(lambda x: F.interpolate(x, size=(32, 32), mode="bilinear"))),
        "interpolate bicubic x2": ((16, 64, 32, 32), of(lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"))),
        "transposed convolution, 8 channels": ((16, 8, 64, 64), lambda: nn.ConvTranspose2d(8, 8, 4, 2, 1)),
        "transposed convolution, 64 channels": ((8, 64, 32, 32), lambda: nn.ConvTranspose2d(64, 64, 4, 2, 1)),
        "transposed convolution, by channel": (image, lambda: nn.ConvTranspose2d(64, 64, 2, 2, groups=64)),
        "max pool": (image, lambda: nn.MaxPool2d(2)),
        "average pool": (image, lambda: nn.AvgPool2d(2)),
        "top 64 of 1,024": (rows, of(lambda x: x.topk(64)[0])),
        "top 2 of 64": ((65536, 64), of(lambda x: x.topk(2)[0])),
        "sort of 1,024": (rows, of(lambda x: x.sort()[0])),
        "cumulative sum": (rows, of(lambda x: x.cumsum(1))),
        "gather": (rows, of(lambda x: x.gather(1, picked[: x.shape[0]]))),
        "index select": (rows, of(lambda x: x.index_select(1, some))),
        "scatter add": (rows, of(lambda x: torch.zeros_like(x).scatter_add(1, picked[: x.shape[0]], x))),
        "reflection pad": (image, lambda: nn.ReflectionPad2d(1)),
        "pixel shuffle": (image, lambda: nn.PixelShuffle(2)),
    }


def model_of(name):
    """The model with the operator; without it where `name` ends in " (without)"."""
    import torch
    shape, make = operators()[name.removesuffix(" (without)")]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(shape[1:]))
            self.operator = torch.nn.Identity() if name.endswith(" (without)") else make()

        def forward(self, x):
            return self.operator(x * self.w)

    torch.manual_seed(0)
    return Model(), torch.rand(shape)


def work_of(name):
    """Bytes that forward and backward at least move, and operations of products."""
    import torch
    model, x = model_of(name)
    y = model(x)
    weights = sum(each.numel() for each in model.operator.parameters() if each.dim() > 2)
    per_weight = x.numel() / x.shape[1] if weights else 0  # a transposed convolution multiplies each weight once a position
    return 4 * 2 * (x.numel() + y.numel()), 3 * 2 * weights * per_weight


def torchs_times(name, threads):
    """The least that the operator takes forward, and its gradients."""
    import torch
    torch.set_num_threads(threads)
    model, x = model_of(name)
    x.requires_grad_()
    wanted = [x, *model.operator.parameters()]
    gradient = torch.ones_like(model.operator(x))
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        y = model.operator(x)
        between = time.perf_counter()
        torch.autograd.grad(y, wanted, gradient)
        times.append((between - start, time.perf_counter() - between))
    return [min(each) for each in zip(*times[1:])]


def torchs_rates(threads):
    """Bytes a second of a triad, operations a second of a product."""
    import torch
    torch.set_num_threads(threads)
    a, b, c = (torch.rand(1 << 24) for _ in range(3))
    m, n = torch.rand(1024, 1024), torch.rand(1024, 1024)

    def best(work):
        times = []
        for _ in range(10):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return min(times)

    return 3 * 4 * a.numel() / best(lambda: torch.add(b, c, alpha=3, out=a)), 2 * 1024**3 / best(lambda: torch.mm(m, n))


def run(command):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Trained:
    """The model in hyc: compiled once, then timed."""

    def __init__(self, arguments, name):
        import torch
        from safetensors.torch import save_file
        self.arguments, self.name = arguments, name
        self.folder = arguments.scratch / "".join(each if each.isalnum() else "-" for each in name)
        self.folder.mkdir(parents=True, exist_ok=True)
        model, x = model_of(name)
        torch.export.save(torch.export.export(model, (x,), strict=False), self.folder / "model.pt2")
        self.samples = self.folder / "samples.safetensors"
        save_file({"x": x, "labels": torch.zeros_like(model(x))}, self.samples)
        run([arguments.build / "bin/hyc-compile", self.folder / "model.pt2", "--loss", "mse", "--optimizer", "sgd", "--lr",
             "1e-3", "--threads", arguments.threads, "-o", self.folder / "out", *arguments.compile.split()])

    def seconds(self):
        """Of a step's calls, by their op."""
        profile = self.folder / "profile.json"
        run([self.arguments.build / "bin/hyc-run", self.folder / "out", "--data", self.samples, "--steps", STEPS,
             "--threads", self.arguments.threads, "--profile", profile])
        rows = json.loads(profile.read_text())["stages"][0]["ops"]
        times = {}
        for row in rows:
            times[row["function"], row["op"]] = times.get((row["function"], row["op"]), 0) + row["seconds"]
        return times


def torchs_times_apart(arguments, name):
    """In a process of its own, as hyc's are."""
    return json.loads(run([sys.executable, sys.argv[0], arguments.build, arguments.scratch, name, "--threads",
                           arguments.threads, "--torchs-times"]))


def measure(arguments, name, rates):
    moved, operations = work_of(name)
    bound = max(moved / rates[0], operations / rates[1])
    operator, others = Trained(arguments, name), Trained(arguments, name + " (without)").seconds().keys()
    hyc, torch = [], []
    for _ in range(arguments.rounds):
        hyc += [operator.seconds() for _ in range(RUNS)]
        torch.append(torchs_times_apart(arguments, name))
    own = sum(min(each[op] for each in hyc) for op in hyc[0] if op not in others)
    theirs = sum(min(each) for each in zip(*torch))
    print(f"{name:36} {1e3 * bound:8.2f} {1e3 * own:8.2f} {1e3 * theirs:8.2f} {bound / own if own > 0 else math.inf:8.2f} "
          f"{theirs / own if own > 0 else math.inf:8.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of operators; all without any")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", default="", metavar="FLAGS", help="further flags of hyc-compile, as one word")
    parser.add_argument("--torchs-times", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torchs_times:
        print(torchs_times(arguments.names[0], arguments.threads))
        return
    unknown = set(arguments.names) - set(operators())
    if unknown:
        sys.exit(f"no operator '{sorted(unknown)[0]}'; there are: {', '.join(operators())}")
    rates = torchs_rates(arguments.threads)
    print(f"triad {rates[0] * 1e-9:.1f} GB/s, products {rates[1] * 1e-9:.0f} GFLOP/s, {arguments.threads} threads")
    print(f"{'':36} {'bound ms':>8} {'hyc':>8} {'PyTorch':>8} {'of bound':>8} {'over hyc':>8}")
    for name in arguments.names or operators():
        try:
            measure(arguments, name, rates)
        except RuntimeError as error:
            print(f"{name:36} {str(error).strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
