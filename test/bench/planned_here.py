#!/usr/bin/env python3
"""How well the planner predicts steps on this machine, and how good its choice is: compiles a model in many layouts of so
many ranks, trains each for a few steps, in turns, and compares medians with what hyc-compile had said by a machine file
that hyc-bench made just before.

Usage: planned_here.py BUILD_FOLDER SCRATCH_FOLDER [--model gpt2|llama] [--ranks 2] [--threads 1] [--layouts 20]
                       [--global-batch 8] [--sequence 64] [--rounds 5]

By hand, on a quiet machine: what else runs is part of what is measured. Prints the load before and after.
"""
import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys

CONFIGS = {
    "gpt2": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
             "vocab_size": 50257, "n_positions": 1024, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
             "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0},
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
              "intermediate_size": 1408, "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 8,
              "vocab_size": 32000, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "hidden_act": "silu",
              "tie_word_embeddings": False, "rope_theta": 10000.0},
}


def run(arguments):
    done = subprocess.run([str(each) for each in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def layouts(ranks, batch):
    """Every division of the ranks, its micro-batches, ZeRO stages and recomputation, as flags."""
    for tp, pp in itertools.product(range(1, ranks + 1), repeat=2):
        if ranks % (tp * pp):
            continue
        dp = ranks // (tp * pp)
        if batch % dp:
            continue
        for micro in (each for each in range(1, batch // dp + 1) if batch // dp % each == 0):
            for zero in (0, 1, 2, 3) if dp > 1 else (0,):
                for recompute in ("none", "layer"):
                    yield ["--tp", tp, "--pp", pp, "--dp", dp, "--micro-batch", micro, "--grad-accum",
                           batch // dp // micro, "--zero", zero, "--recompute", recompute]


def chosen(every, count):
    """So many, spread evenly over all."""
    every = list(every)
    return [every[index * len(every) // count] for index in range(count)] if count < len(every) else every


class Layout:
    def __init__(self, arguments, flags, name):
        self.flags, self.folder, self.times = flags, os.path.join(arguments.scratch, name), []
        said = run([arguments.tool("hyc-compile"), *arguments.model_flags, *flags, "-o", self.folder])
        self.predicted = float(re.search(r"step: about ([0-9.e+-]+) ms", said)[1])

    def measure(self, arguments):
        log = os.path.join(self.folder, "log.jsonl")
        if os.path.exists(log):
            os.remove(log)
        run([arguments.tool("hyc-run"), self.folder, "--data", arguments.data, "--steps", 3, "--log-file", log])
        with open(log) as lines:
            records = [json.loads(line) for line in lines]
        # The first step warms everything up.
        self.times += [record["ms"] for record in records if record.get("step", 0) > 1 and "ms" in record]

    @property
    def measured(self):
        return statistics.median(self.times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("scratch")
    parser.add_argument("--model", choices=CONFIGS, default="gpt2")
    for name, default in (("ranks", 2), ("threads", 1), ("layouts", 20), ("global-batch", 8), ("sequence", 64),
                          ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=default)
    arguments = parser.parse_args()
    arguments.tool = lambda name: os.path.join(arguments.build, "bin", name)
    os.makedirs(os.path.join(arguments.scratch, arguments.model), exist_ok=True)
    config = os.path.join(arguments.scratch, arguments.model, "config.json")
    with open(config, "w") as file:
        json.dump(CONFIGS[arguments.model], file)
    arguments.data = os.path.join(arguments.scratch, "text.bin")
    with open(arguments.data, "wb") as file:
        file.write(bytes(32 + (index * index + 7 * index) % 95 for index in range(1 << 18)))  # text
    machine = os.path.join(arguments.scratch, "machine.json")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    run([arguments.tool("hyc-bench"), "-o", machine, "--ranks", arguments.ranks, "--threads", arguments.threads])
    arguments.model_flags = [os.path.dirname(config), "--weights", "initialise", "--dim", f"seq={arguments.sequence}",
                             "--optimizer", "adamw", "--lr", "1e-4", "--entry", "train", "--threads",
                             arguments.threads, "--machine", machine]

    found = run([arguments.tool("hyc-compile"), *arguments.model_flags, "--ranks", arguments.ranks, "--global-batch",
                 arguments.global_batch, "--plan-only", "-o", os.path.join(arguments.scratch, "found")])
    flags = re.search(r"^found (.*)$", found, re.MULTILINE)[1].split()
    tried = [Layout(arguments, flags, "found-by-hyc")] if flags[0].startswith("--") else []
    every = chosen(layouts(arguments.ranks, arguments.global_batch), arguments.layouts)
    tried += [Layout(arguments, each, f"layout-{index}") for index, each in enumerate(every)]
    for _ in range(arguments.rounds):
        for layout in tried:
            layout.measure(arguments)

    errors = []
    for layout in sorted(tried, key=lambda each: each.measured):
        errors.append(abs(layout.predicted / layout.measured - 1))
        print(f"predicted {layout.predicted:9.1f} ms  measured {layout.measured:9.1f} ms  {100 * errors[-1]:5.1f} %  "
              f"{' '.join(map(str, layout.flags))}")
    best = min(each.measured for each in tried)
    print(f"{arguments.model}, {len(tried)} layouts of {arguments.ranks} ranks: error median "
          f"{100 * statistics.median(errors):.1f} %, most {100 * max(errors):.1f} %")
    if tried and tried[0].folder.endswith("found-by-hyc"):
        print(f"what hyc chose is {100 * (tried[0].measured / best - 1):.1f} % slower than the best")
    print(f"load {os.getloadavg()[0]:.1f}")


main()
