#!/usr/bin/env python3
"""Exports the GPT-2 models that the tests use, and the values that PyTorch computes for them.

The committed files were made with torch 2.15.0, transformers 5.23.0, onnx 1.23.2, onnxscript 0.7.2, safetensors 0.8.0
and numpy 2.4.6, on the CPU, in one thread. hyc itself never runs this script.

Every model is transformers' GPT2LMHeadModel with tied embeddings and without dropout, exported as its users do it. Its
weights are random, and so are its biases and norm scales: where they all start at 0 or 1, a forgotten bias would go
unnoticed, and the exporter merges equal tensors into one. Stack traces and the like are dropped from the files.

    gpt2-tiny          8 layers of width 64, 8 heads, sequence 64; torch.onnx.export(dynamo=True) as it comes
    gpt2-5layer        5 layers of width 32, 4 heads, sequence 16: layers that no even number of stages divides
    gpt2-3heads        2 layers of width 48, 3 heads, sequence 16: heads that tp 2 does not divide
    gpt2-plain         1 layer of width 32, 4 heads, sequence 16; dynamo=True without the exporter's optimizer
    gpt2-tiny-legacy   2 layers of width 64, 8 heads, sequence 64; dynamo=False, opset 14, attention written out: norms
                       come in pieces, and constant folding leaves a transposed copy of the tied weight
    gpt2-formats       2 layers of width 32, 4 heads, sequence 16, in every format that hyc reads: a Hugging Face folder
                       (gpt2-formats/), torch.export (gpt2-formats.pt2), and ONNX by both exporters, opset 20
                       (gpt2-formats.onnx) and 14 (gpt2-formats-legacy.onnx)
    gpt2-124m          the published GPT-2's graph, 12 layers (--layers) of width 768, sequence 1,024, without weights:
                       its initializers refer to an external file that is not there

The vocabulary is 257, which holds every byte and is divided by no tp but 1; gpt2-124m has the 50,257 tokens of GPT-2.
The batch is a dynamic dimension called "batch".

NAME.reference.safetensors holds, for a model NAME:
    tokens         int32 [steps, batch, sequence + 1]: what each training step reads, the first windows of text.bin in
                   order; inputs are all tokens but the last, labels all but the first
    logits         f32 [samples, sequence, vocabulary] for the first samples of step 0, at the initial weights
    loss           f32: mean cross-entropy over the batch of step 0, at the initial weights
and for gpt2-tiny and gpt2-formats also
    PARAMETER      f32: the gradient of that loss, under the parameter's name in the ONNX file (gpt2-formats: in the
                   model). The exporter stores the position embedding under another name, as [1, 64, 64]; here it is
                   transformer.wpe.weight [64, 64]
    grad_norm      f32: the norm of all these gradients together
    losses.adamw   f32 [20]: the loss before each update by AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay
                   0.01 on every parameter
    losses.sgd     f32 [20]: the same with SGD: lr 0.1, no momentum, no decay
    losses.adam    f32 [20]: the same with Adam: as AdamW, but the decay is added to the gradient
    losses.lamb    f32 [20]: the same with LAMB: lr 0.02, betas, eps and decay of AdamW, trust ratio from 0.01 to 10
    losses.lion    f32 [20]: the same with Lion: lr 2e-4, betas 0.9 and 0.99, decay 0.1

gpt2-tiny.bf16.safetensors holds what the same AdamW gives where the model computes in bf16 beside f32 weights
(torch.autocast):
    losses.adamw   f32 [20]

Usage: export_gpt2.py [NAME ...] [--layers N] [--only-bf16] [-o FOLDER]
"""
import argparse
import contextlib
import dataclasses
import pathlib
import sys
import tempfile
import warnings

import numpy
import onnx
import safetensors.numpy
import torch
import transformers

from exporting import drop_metadata, save_archive

HERE = pathlib.Path(__file__).parent
STEPS = 20


@dataclasses.dataclass
class Fixture:
    name: str
    layers: int
    width: int
    heads: int
    sequence: int
    vocabulary: int = 257
    attention: str = "sdpa"
    exporter: str = "dynamo"  # or "unoptimised", "legacy" or "all"
    weights: bool = True
    trains: bool = False


FIXTURES = [
    Fixture("gpt2-tiny", layers=8, width=64, heads=8, sequence=64, trains=True),
    Fixture("gpt2-5layer", layers=5, width=32, heads=4, sequence=16),
    Fixture("gpt2-3heads", layers=2, width=48, heads=3, sequence=16),
    Fixture("gpt2-plain", layers=1, width=32, heads=4, sequence=16, exporter="unoptimised"),
    Fixture("gpt2-tiny-legacy", layers=2, width=64, heads=8, sequence=64, attention="eager", exporter="legacy"),
    Fixture("gpt2-formats", layers=2, width=32, heads=4, sequence=16, exporter="all", trains=True),
    Fixture("gpt2-124m", layers=12, width=768, heads=12, sequence=1024, vocabulary=50257, weights=False),
]


class WithMask(transformers.GPT2LMHeadModel):
    """The legacy exporter cannot export the search for packed sequences, which an explicit mask turns off."""

    def forward(self, input_ids):
        return super().forward(input_ids, attention_mask=torch.ones_like(input_ids)).logits


def build(fixture):
    torch.manual_seed(20)
    config = transformers.GPT2Config(
        vocab_size=fixture.vocabulary, n_positions=fixture.sequence, n_embd=fixture.width, n_layer=fixture.layers,
        n_head=fixture.heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        bos_token_id=0, eos_token_id=0, tie_word_embeddings=True, attn_implementation=fixture.attention)
    model = (WithMask if fixture.exporter == "legacy" else transformers.GPT2LMHeadModel)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def export(model, fixture, path):
    ids = torch.zeros(2, fixture.sequence, dtype=torch.int64)
    names = dict(input_names=["input_ids"], output_names=["logits"])
    if fixture.exporter == "legacy":
        torch.onnx.export(model, (ids,), path, **names, dynamic_axes={"input_ids": {0: "batch"}}, dynamo=False,
                          opset_version=14)
    else:
        torch.onnx.export(model, (), path, kwargs={"input_ids": ids}, **names,
                          dynamic_shapes={"input_ids": {0: torch.export.Dim("batch")}}, dynamo=True,
                          opset_version=20 if fixture.exporter == "opset 20" else None,
                          optimize=fixture.exporter != "unoptimised", external_data=not fixture.weights)


def keep_integers(proto, folder):
    """Position ids and the like stay in the model; floats become references to a file that is left behind."""
    for tensor in proto.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT and tensor.data_location == onnx.TensorProto.EXTERNAL:
            onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT


def write_model(model, fixture, folder):
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / f"{fixture.name}.onnx"
        with contextlib.redirect_stdout(sys.stderr):
            export(model, fixture, str(path))
        proto = onnx.load(str(path), load_external_data=fixture.weights)
        if not fixture.weights:
            keep_integers(proto, scratch)
        drop_metadata(proto)
        (folder / path.name).write_bytes(proto.SerializeToString(deterministic=True))
    return {tensor.name for tensor in proto.graph.initializer}


def write_archive(model, fixture, path):
    exported = torch.export.export(model, (), {"input_ids": torch.zeros(2, fixture.sequence, dtype=torch.int64)},
                                   dynamic_shapes={"input_ids": {0: torch.export.Dim("batch")}})
    save_archive(exported, path)


def write_every_format(model, fixture, folder):
    """The same weights in each; the legacy exporter wants a model that is given its mask."""
    model.save_pretrained(folder / fixture.name)
    (folder / fixture.name / "generation_config.json").unlink()
    write_archive(model, fixture, folder / f"{fixture.name}.pt2")
    write_model(model, dataclasses.replace(fixture, exporter="opset 20"), folder)
    legacy = dataclasses.replace(fixture, name=f"{fixture.name}-legacy", exporter="legacy", attention="eager")
    write_model(build(legacy), legacy, folder)
    return {name for name, _ in model.named_parameters()}


def token_batches(fixture, steps, batch):
    """Windows of sequence + 1 bytes, sequence bytes apart, in the order of the file: what hyc-run reads unshuffled."""
    text = numpy.frombuffer((HERE / "text.bin").read_bytes(), dtype=numpy.uint8)
    starts = numpy.arange(steps * batch).reshape(steps, batch) * fixture.sequence
    return text[starts[..., None] + numpy.arange(fixture.sequence + 1)].astype(numpy.int32)


def logits_and_loss(model, tokens):
    tokens = torch.from_numpy(tokens).long()
    result = model(tokens[:, :-1])
    logits = result if isinstance(result, torch.Tensor) else result.logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2, with DeepSpeed's bounds of the trust ratio; torch has none."""

    def __init__(self, parameters, lr, weight_decay, betas=(0.9, 0.999), eps=1e-8, bounds=(0.01, 10.0)):
        super().__init__(parameters, dict(lr=lr, weight_decay=weight_decay, betas=betas, eps=eps, bounds=bounds))
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for w in group["params"]:
                state = self.state[w]
                m = state["m"] = beta1 * state.get("m", torch.zeros_like(w)) + (1 - beta1) * w.grad
                v = state["v"] = beta2 * state.get("v", torch.zeros_like(w)) + (1 - beta2) * w.grad ** 2
                corrected = m / (1 - beta1 ** self.steps), v / (1 - beta2 ** self.steps)
                direction = corrected[0] / (corrected[1].sqrt() + group["eps"]) + group["weight_decay"] * w
                norms = w.double().norm().item(), direction.double().norm().item()
                least, most = group["bounds"]
                ratio = min(max(norms[0] / norms[1], least), most) if all(norms) else 1.0
                w.sub_(group["lr"] * ratio * direction)


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023; torch has none."""

    def __init__(self, parameters, lr, weight_decay, betas=(0.9, 0.99)):
        super().__init__(parameters, dict(lr=lr, weight_decay=weight_decay, betas=betas))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for w in group["params"]:
                m = self.state[w].get("m", torch.zeros_like(w))
                update = torch.sign(beta1 * m + (1 - beta1) * w.grad)
                w.sub_(group["lr"] * (update + group["weight_decay"] * w))
                self.state[w]["m"] = beta2 * m + (1 - beta2) * w.grad


def training_losses(fixture, tokens, make_optimizer, dtype=None):
    model = build(fixture)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for batch in tokens:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = logits_and_loss(model, batch)[1]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return numpy.array(losses, dtype=numpy.float32)


def gradients(model, initializers):
    """Under the names of the ONNX file: of a tied weight's names it keeps one, of a folded one none."""
    found = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name in initializers or name == "transformer.wpe.weight":
            found[name] = parameter.grad.numpy()
    assert len(found) == len(list(model.parameters()))
    return found


def write_reference(model, fixture, initializers, folder):
    tokens = token_batches(fixture, STEPS, 16) if fixture.trains else token_batches(fixture, 1, 2)
    logits, loss = logits_and_loss(model, tokens[0])
    values = {"tokens": tokens, "logits": logits[:2].detach().numpy(), "loss": loss.detach().numpy()}
    if fixture.trains:
        loss.backward()
        values.update(gradients(model, initializers))
        values["grad_norm"] = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).numpy()
        values["losses.adamw"] = training_losses(
            fixture, tokens, lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01))
        values["losses.sgd"] = training_losses(
            fixture, tokens, lambda parameters: torch.optim.SGD(parameters, lr=0.1))
        values["losses.adam"] = training_losses(
            fixture, tokens, lambda parameters: torch.optim.Adam(parameters, lr=1e-3, weight_decay=0.01))
        values["losses.lamb"] = training_losses(
            fixture, tokens, lambda parameters: Lamb(parameters, lr=0.02, weight_decay=0.01))
        values["losses.lion"] = training_losses(
            fixture, tokens, lambda parameters: Lion(parameters, lr=2e-4, weight_decay=0.1))
    values = {name: numpy.array(value, order="C") for name, value in values.items()}
    (folder / f"{fixture.name}.reference.safetensors").write_bytes(safetensors.numpy.save(values))


def write_bf16_reference(fixture, folder):
    losses = training_losses(fixture, token_batches(fixture, STEPS, 16),
                             lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01),
                             torch.bfloat16)
    (folder / f"{fixture.name}.bf16.safetensors").write_bytes(safetensors.numpy.save({"losses.adamw": losses}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the models to write; all unless given")
    parser.add_argument("--layers", type=int, help="number of layers instead of the model's own")
    parser.add_argument("--only-bf16", action="store_true", help="write the values in bf16 alone")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="folder to write into")
    options = parser.parse_args()
    unknown = set(options.names) - {fixture.name for fixture in FIXTURES}
    if unknown:
        parser.error(f"no model is called {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for fixture in FIXTURES:
        if options.names and fixture.name not in options.names:
            continue
        if options.layers:
            fixture.layers = options.layers
        if fixture.name == "gpt2-tiny":
            write_bf16_reference(fixture, options.output)
        if options.only_bf16:
            continue
        model = build(fixture)
        write = write_every_format if fixture.exporter == "all" else write_model
        initializers = write(model, fixture, options.output)
        if fixture.weights:
            write_reference(model, fixture, initializers, options.output)


if __name__ == "__main__":
    main()
