"""How each block of code in README.md and docs/ is run by a test, or why it is not: a row a block, in the order of the page.

A row is (how the block begins, what is done with it). Blocks of a page are run one after the other in one folder, which holds
what pages take for granted: model.onnx, model.pt2, llama, text.bin, ds_config.json, and `out`, compiled of model.onnx for one rank,
where the page makes none itself. Numbers that would take long are replaced by small ones, and what a page leaves out ("…").
"""

from dataclasses import dataclass, field


@dataclass
class Shown:
    """Not run; and why."""

    why: str


@dataclass
class Run:
    """Commands, or with `needs` a program in Python that needs these modules."""

    part: str = "slow"  # quick: compiles no programs and trains nothing
    replace: dict = field(default_factory=dict)
    before: list = field(default_factory=list)  # commands, or lines of the program
    skip: dict = field(default_factory=dict)  # commands that have these words are not run, and why
    needs: tuple = ()
    uses_out: bool = False  # programs in `out` that no command of the page makes


PLAN = {"…": "--plan-only --micro-batch 1", " -o out": " --plan-only -o planned"}
SMALL = "--loss cross_entropy --logits logits --labels labels --micro-batch 1 --entry train"
FEW = {"--steps 10000": "--steps 6", "--steps 1000": "--steps 3", "--steps 100": "--steps 3", "text.bin": "text.bin"}
TORCH = """
import sys, torch
sys.path.insert(0, "test/python")
from conftest import make_language_model, SEQUENCE, VOCABULARY
model = make_language_model()
sample_inputs = {"input_ids": torch.zeros(1, SEQUENCE, dtype=torch.int64)}
dataset = {"input_ids": torch.randint(0, VOCABULARY, (64, SEQUENCE))}
import hyc
"""
PICTURE, PRINTED = Shown("a picture"), Shown("what a command prints")
PART_OF_PLAN = Shown("a part of plan.json, which the text tests edit")
GPU = Shown("needs a GPU; e2e/cuda-programs runs the same where there is one")
HOSTS = Shown("needs several hosts; e2e/hosts makes them of network namespaces")
EXAMPLE = Shown("the file in examples/ that a test runs does this")

SNIPPETS = {
    "README.md": [
        ("model.onnx ──import──▶", PICTURE),
        ('%h = hyc.einsum "bk,kn->bn"', Shown("written and partitioned text side by side; test/Local has whole functions")),
        ("scripts/demo", Shown("builds the tree from nothing")),
        ("  step    1", PRINTED),
        ("pip install", Shown("python/bare-wheel does it on a bare machine")),
        ("job = hyc.compile", Run(needs=("torch", "safetensors"), before=[TORCH], replace={"steps=1000": "steps=2"})),
        ("hyc-compile test/models", Run(replace={**FEW, "…        any": "--dim batch=2 > /dev/null   any", "--grad-accum 4": "--grad-accum 2"})),
        ("dialects/", Shown("the tree, which tree/ tests look at")),
    ],
    "docs/architecture.md": [
        ("hyc-compile model.pt2", Run(replace={"--steps 10": "--steps 4", "hyc-interpret": "build/bin/hyc-interpret"},
                                      before=["make-samples samples.safetensors"])),
        ('%h = hyc.einsum "bk,kn->bn" %x, %w1 {id', Shown("a few ops; test/Plan has whole functions")),
        ("%h {dist.shardings", Shown("attributes alone")),
        ('%h = hyc.einsum "bk,kn->bn" %x, %w1 :', Shown("a few ops; test/Local has whole functions")),
    ],
    "docs/bad-input.md": [
        ("error: waited", PRINTED),
        ("ctest --test-dir", Shown("fuzz targets, which tests named fuzz/ run")),
        ("build/bin/hyc-fuzz-graphs --folder /tmp/graphs --graphs", Shown("runs for hours; equivalence and fuzz/ tests run parts of it")),
        ("build/bin/hyc-fuzz-graphs --folder /tmp/graphs --minimise", Shown("needs a graph that was found to fail")),
        ("build/bin/hyc-fuzz-archives", Shown("runs for hours; fuzz/ tests run parts of it")),
        ("build/bin/hyc-fuzz-graphs --folder /tmp/graphs --graphs 1600", Shown("runs for hours; fuzz/ tests run parts of it")),
    ],
    "docs/checkpoints.md": [
        ("hyc-run out --data", Run(uses_out=True, replace={**FEW, "-every 200": "-every 2", "step-4000": "step-4"})),
        ("hyc-run out --data", Run(replace={**FEW, "-every 200": "-every 2", "runs/a": "runs/restarts"})),
        ("hyc-run out --data text.bin --steps 10000 --hostfile", HOSTS),
        ("hyc-compile model.onnx --ranks 8,6,4,2", Shown("four compilations; e2e/sizes does it with smaller ones")),
        ('{"event":"resume"', PRINTED),
        ("time: 95.3 s", PRINTED),
        ("hyc-run out --data", Run(replace={**FEW, "-every 200": "-every 2", "--verify-states 50": "--verify-states 1",
                                            "runs/a": "runs/verified"})),
        ("error: after step 50", PRINTED),
        ("import torch, torch.distributed", Run(needs=("torch", "safetensors"), replace={"step-4000": "step-4", "transformer.wte.weight": "lm_head.weight"})),
        ("hyc-checkpoint list", Run(replace={
            "[/step-4000]": "", "step-4000": "step-4", "--config config.json": "--config llama/config.json",
            "exported --format deepspeed": "universal --format deepspeed", "import saved runs/b": "import exported runs/b --weights-prefix model."})),
        ("import torch.distributed.checkpoint as dcp", Shown("test/e2e/InterchangeTest.cpp does it with FSDP's own state dicts")),
        ("hyc-checkpoint import", Run(replace={"saved runs/b": "exported runs/c", "runs/b": "runs/c", "…": "--data text.bin --steps 8"})),
        ("test/e2e/faults.sh", Shown("takes 90 minutes; e2e/faults runs less of it")),
        ("test/e2e/faults.sh", Shown("takes minutes and namespaces; e2e/copies runs it")),
    ],
    "docs/cuda.md": [("hyc-compile model.onnx", GPU), ("out/build.sh", Shown("needs a CUDA toolkit; e2e/cuda-bundle runs it"))],
    "docs/deepspeed-config.md": [
        ("hyc-compile model.onnx", Run("quick", replace={" -o out": " --plan-only -o planned"})),
        ("key ", PRINTED),
    ],
    "docs/dropout.md": [("key  =", Shown("formulas; unit tests of Philox and e2e/DropoutTest hold them")), ('"lifetimes"', PART_OF_PLAN), ('"forms"', PART_OF_PLAN)],
    "docs/formats.md": [
        ("hyc-compile path/to/llama", Run(uses_out=True, replace={
            "path/to/llama": "llama", "seq=512": "seq=16", "MODEL": "llama", "--weights model": "--weights llama/model",
            "hyc-run out …": "hyc-run out --data text.bin --steps 2", "llama …": "llama --dim seq=16 --plan-only -o planned",
            "model.onnx …": "model.onnx --labels labels --plan-only -o planned", "…": "--plan-only -o planned"})),
        ("hyc-run out --data images", Shown("the commands of EvaluationTest and BatchNormTest, with a ResNet's images")),
    ],
    "docs/getting-started.md": [
        ("scripts/build", Shown("builds the tree")),
        ("build/bin/hyc-compile test/models", Run(replace={"--grad-accum 4": "--grad-accum 2"})),
        ("build/bin/hyc-run out", Run(replace=FEW)),
        ("build/bin/hyc-compile MODEL", Run(replace={
            "MODEL …": "model.onnx --labels labels --micro-batch 2", "train.bin": "text.bin", "held-out.bin": "text.bin",
            "--evaluate-every 100": "--evaluate-every 2 --steps 3 --evaluate-batches 2 --save-weights trained.safetensors"})),
        ("build/bin/hyc-run out --data held-out", Run(replace={"held-out.bin": "text.bin", "--evaluate": "--evaluate --steps 2"})),
        ("build/bin/hyc-compile MODEL --weights", Run(replace={
            "MODEL": "model.onnx", "…": "--labels labels --micro-batch 2", "held-out.bin": "text.bin --steps 2"})),
        ("find_package(hyc", EXAMPLE),
        ('#include "hycrt/options.h"', EXAMPLE),
    ],
    "docs/hosts.md": [
        ("$ cat hosts.txt", HOSTS),
        ("hyc-check --hostfile", HOSTS),
        ("openssl rand", Run("quick")),
        ("kill -USR1", Shown("asks a run that goes on; runtime/ tests send the signal")),
        ("exchanges: of 12.4 ms", Shown("what a run on several hosts says; hosts_test has it said")),
    ],
    "docs/data.md": [
        ("hyc data corpus", Shown("test/python/test_data.py makes each kind of file; data_test reads them")),
    ],
    "docs/sizes.md": [
        ("hyc-compile llama", Run(replace={
            "seq=128,256,512": "seq=8,16", "--micro-batch 4": "--micro-batch 2 --entry train", "samples.safetensors": "text.bin", **FEW})),
    ],
    "docs/experts.md": [
        ("hyc-compile mixtral.pt2", Shown("needs an archive of transformers; test/equivalence trains a small one")),
        ("%y = hyc.expert_matmul", Shown("one op; test/Model/raise-experts.mlir has whole functions")),
    ],
    "docs/importing-onnx.md": [
        ("torch.onnx.export", Run(needs=("torch", "onnxscript", "transformers"), before=[
            "import torch, transformers",
            "model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=50, use_cache=False)).eval()",
            "ids = torch.zeros(2, 8, dtype=torch.int64)"])),
        ("/// x tanh", Shown("a function of lib/Import/ONNX, which conformance tests run")),
    ],
    "docs/instruments.md": [
        ("hyc-run out --data", Run(uses_out=True, replace=FEW)),
        ('{"event":"exchanges_of_host"', Shown("a line of a log; runtime tests read such ones")),
        ("hyc-run out --data", Run(replace={"100000": "2", "--prometheus 9400": "--prometheus 0", "/var/lib/node_exporter/": ""})),
        ("scrape_configs:", Shown("a test puts each query to a Prometheus of this configuration (Scraped)")),
        ("time() -", Shown("a query; those of the dashboard are put to a Prometheus (Scraped)")),
        ("hyc-run out --data", Run(replace={"--steps 20": "--steps 3"})),
        ('{"format_version"', Shown("the form of a file, which profile_test holds")),
    ],
    "docs/lora.md": [
        ("hyc-compile llama --lora", Run(replace={
            "…                                           goes": "--dim seq=16 --micro-batch 1 --plan-only -o planned   goes",
            "…      -o out": "--dim seq=16 --micro-batch 1 -o out", "--dp 4": "--dp 2", **FEW})),
        ("hyc-compile llama --lora", Run("quick", replace={"…": "--dim seq=16 --micro-batch 1 --plan-only -o planned"})),
    ],
    "docs/memory-account.md": [
        ("hyc-compile gpt3-175b", Run("quick", before=["make-gpt2 gpt3-175b 96 12288 96"], replace={
            "--grad-accum 192": "--grad-accum 32", "-o out": "-o planned"})),
        ("hyc-compile model.onnx --keep-constants=false", Run("quick", replace={
            "…": "--labels labels --micro-batch 1 --plan-only -o planned"})),
        ("hyc-compile gpt2-7b", Shown("a refusal; Driver/device-memory.test has such ones")),
        ("hyc-run out", Run(uses_out=True)),
        ('{"format_version"', Shown("the form of a file; Driver/memory-account.test holds it")),
    ],
    "docs/offload.md": [
        ("hyc-compile model.onnx", Run("quick", replace={
            "…": "--labels labels --micro-batch 1", "/mnt/disk": "/tmp", "-o out": "--plan-only -o planned"})),
        ('{"match"', PART_OF_PLAN),
        ("offload to", PRINTED),
    ],
    "docs/planning.md": [
        ("hyc-compile llama-7b", Run("quick", replace={
            "llama-7b": "llama", "seq=4096": "seq=64", "hyc-compile …": "hyc-compile model.onnx --labels labels --global-batch 8 --plan-only -o planned",
            "model.onnx --ranks": "model.onnx --labels labels --global-batch 8 --ranks", "--zero 1 …": "--zero 1",
            "--plan-candidates 10": "--ranks 8 --plan-candidates 10", "--plan-seconds 2": "--ranks 8 --plan-seconds 1",
            "-o out": "--plan-only -o planned"})),
        ('"kinds"', Shown("part of a machine's file; Driver/layouts.test and machine.test have such")),
        ("  hyc-run out", Shown("e2e/Uneven trains with such shares")),
        ("hyc-run out", Shown("Driver/profile.test measures a run and plans by it")),
        ("hyc-run out", Shown("e2e/Replan does all of it")),
        ("hyc-compile --compare", Run("quick", before=[
            "hyc-compile model.onnx --labels labels --micro-batch 1 --plan-only -o a",
            "hyc-compile model.onnx --labels labels --micro-batch 1 --dp 2 --plan-only -o b"])),
        ("ninja -C build", Run("quick", replace={"ninja -C build planner_accuracy && ": "",
                                       "test/bench/published": "test/bench/published megatron-bridge"})),
        ("test/bench/planned_here.py", Shown("takes minutes, and a quiet machine")),
        ("hyc-bench -o", Run(replace={"[--ranks N] [--threads N] [--nvme-path DIR]": "--ranks 2 --threads 1 --mib 1 --seconds 0.05", "--ranks N": "--ranks 2",
                                      "hyc-compile …": "hyc-compile model.onnx --labels labels --global-batch 8 --plan-only -o planned"},
                             skip={"--hostfile": "needs several hosts", "--target cuda": "needs a GPU"})),
    ],
    "docs/precision.md": [("hyc-compile model.onnx", Run("quick", replace={"…": "--labels labels --micro-batch 1 --plan-only -o planned"}))],
    "docs/python.md": [
        ("pip install", Shown("python/bare-wheel does it on a bare machine")),
        ("import hyc", Run(needs=("torch", "safetensors"), before=[TORCH], replace={"steps=1000": "steps=2"})),
        ("from hyc import Trainer", EXAMPLE),
        ("engine, optimizer", Run(needs=("torch", "safetensors"), before=[TORCH, "training = torch.utils.data.TensorDataset(dataset['input_ids'])",
            "data = [{'input_ids': row} for row in dataset['input_ids'][:16]]"],
            replace={'config="ds_config.json"': "config={'train_micro_batch_size_per_gpu': 2, 'optimizer': {'type': 'AdamW'}}"})),
        ("hyc train MODEL_FOLDER", Run(needs=(), replace={
            "MODEL_FOLDER": "folder", "--steps 1000": "--steps 2 --sequence 16 --micro-batch 1", '"*.jsonl"': '"corpus/*.jsonl"'}, before=["make-folder folder corpus"])),
    ],
    "docs/zero.md": [('"zero"', PART_OF_PLAN)],
}
