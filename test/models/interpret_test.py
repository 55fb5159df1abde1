#!/usr/bin/env python3
"""hyc-interpret: the tiny Llama's ten losses with AdamW are PyTorch's, on one rank and on eight, under ZeRO 3 bit for bit.

Also the part of census.py that compares, on findings made up here. Usage: interpret_test.py TOOLS
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from census import cells_of  # noqa: E402
from census_training import STEPS, difference_of, losses_of  # noqa: E402

MODELS = pathlib.Path(__file__).parent
TOOLS = pathlib.Path(sys.argv[1])


def read(path):
    """Type, shape and bytes of each tensor of a safetensors file."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return {name: (entry["dtype"], entry["shape"], content[8 + length:][slice(*entry["data_offsets"])])
            for name, entry in json.loads(content[8:8 + length]).items() if name != "__metadata__"}


def write(path, tokens, samples, window):
    header = json.dumps({name: {"dtype": "I64", "shape": [samples, window], "data_offsets": [place, place + len(tokens)]}
                         for place, name in ((0, "input_ids"), (len(tokens), "labels"))}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + tokens * 2)


def run(folder, phase, *options, status=0):
    text = folder / "model.mlir"
    subprocess.run([TOOLS / "hyc-compile", MODELS / "llama.pt2", "--loss", "causal_lm", "--optimizer", "adamw", "--weight-decay", "0.01",
                    "--entry", "train", f"--emit={phase}", "-o", text, *options], check=True, capture_output=True)
    done = subprocess.run([TOOLS / "hyc-interpret", text, "--data", folder / "samples.safetensors", "--steps", str(STEPS), "--micro-batches", "2",
                           "--parameters", folder / "parameters.safetensors", "--gradients", folder / "gradients.safetensors"],
                          capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout.splitlines() if status == 0 else done.stderr


def check_judgement():
    assert difference_of([1.0, 2.0], [1.0, 2.0], "") == "yes"
    assert difference_of([1.0, 2.00001], [1.0, 2.0], "") == "yes"
    assert difference_of([1.0, 2.0001], [1.0, 2.0], "X's") == "losses differ from X's by 5.0e-05 at step 2"
    assert difference_of([float("nan"), 2.0], [1.0, 2.0], "X's") == "losses differ from X's by inf at step 1"
    assert difference_of([1.0, 2.0], [1.0, 2.0], "X's", 0) == "parameters' bits differ from X's"
    told = {"exported": True, "imported": True, "trains": "yes", "spread": "no axis"}
    assert cells_of(told) == (["yes", "yes", "yes", "no", ""], "no axis")
    assert cells_of({"exported": True, "refusal": "no row"}) == (["yes", "no", "", "", ""], "no row")


def check_training(folder):
    reference = read(MODELS / "llama.reference.safetensors")
    _, (steps, samples, window), tokens = reference["tokens"]
    numbers = struct.unpack(f"<{steps * samples * window}i", tokens)
    rows = [struct.pack(f"<{window - 1}q", *numbers[row * window:][:window - 1]) for row in range(STEPS * samples)]
    write(folder / "samples.safetensors", b"".join(rows), STEPS * samples, window - 1)
    expected = struct.unpack(f"<{steps}f", reference["losses.adamw"][2])[:STEPS]
    half = str(samples // 2)
    one = run(folder, "train", "--micro-batch", half, "--grad-accum", "2")
    assert difference_of(losses_of(one), expected, "PyTorch's") == "yes", one
    told = json.loads(one[0])["tokens"]
    for name, (_, _, actual) in read(folder / "gradients.safetensors").items():
        wanted = struct.unpack(f"<{len(actual) // 4}f", reference[name][2])
        largest = max(map(abs, wanted))
        assert all(abs(a / told - b) <= 1e-4 * largest for a, b in zip(struct.unpack(f"<{len(actual) // 4}f", actual), wanted)), name
    mesh = ["--tp", "2", "--pp", "2", "--dp", "2", "--micro-batch", str(samples // 4), "--grad-accum", "2", "--gradient-reduction", "micro_batch"]
    spread = run(folder, "local", *mesh)
    assert difference_of(losses_of(spread), losses_of(one), "one rank's") == "yes", spread
    parameters = (folder / "parameters.safetensors").read_bytes()
    zero = run(folder, "local", *mesh, "--zero", "3", "--stage3-param-persistence-threshold", "0")
    assert zero == spread and parameters == (folder / "parameters.safetensors").read_bytes()
    assert run(folder, "rank", *mesh) == spread and parameters == (folder / "parameters.safetensors").read_bytes()
    write(folder / "samples.safetensors", b"".join(rows[:15]), 15, window - 1)
    said = run(folder, "train", "--micro-batch", half, status=65)
    assert 'has 15 samples of "input_ids", expected a multiple of 10 (--steps); give as many, or another --steps' in said, said
    write(folder / "samples.safetensors", b"".join(rows[:30]), 30, window - 1)
    said = run(folder, "train", "--micro-batch", half, status=65)
    assert 'a step has 3 samples of "input_ids", expected a multiple of 2 (--micro-batches)' in said, said
    write(folder / "samples.safetensors", b"".join(rows[:20]), 20, window - 1)
    said = run(folder, "train", "--micro-batch", half, status=65)
    assert 'a micro-batch has 1 samples of "input_ids", expected 4: give --data 80 samples, for 10 steps (--steps) of 2 micro-batches' in said, said
    said = run(folder, "rank", *mesh, status=65)
    assert 'expected the 8 samples of a step: 2 micro-batches of 2 on each of 2 shares; give it as many' in said, said
    (folder / "samples.safetensors").write_bytes(b"\xff" * 20)
    assert "header" in run(folder, "train", "--micro-batch", half, status=65)


check_judgement()
with tempfile.TemporaryDirectory() as made:
    check_training(pathlib.Path(made))
