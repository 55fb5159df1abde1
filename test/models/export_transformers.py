#!/usr/bin/env python3
"""Exports the Llama, Qwen2, BERT, ViT and ResNet models that the tests use, and the values that PyTorch computes for them.

The committed files were made with torch 2.15.0, transformers 5.23.0, onnx 1.23.2, onnxscript 0.7.2, safetensors 0.8.0
and numpy 2.4.6, on the CPU, in one thread. hyc itself never runs this script.

Every model is transformers' own class with two layers of width 32 (ResNet: two stages, the last 32 wide) and random
weights, norm scales and biases included, exported as its users do it; stack traces and the like are dropped from the
files.

    llama   LlamaForCausalLM: 4 heads over 2 key heads, rope type llama3, head of its own
    qwen2   Qwen2ForCausalLM: 4 heads over 2 key heads, biases of q, k and v, tied head
    bert    BertForMaskedLM: learned positions, token types, post-norm, tied head, without a mask
    vit     ViTForImageClassification: 16 x 16 images in patches of 4, 10 labels
    resnet  ResNetForImageClassification: 16 x 16 images, 10 labels, a stage of one and a stage of two basic layers, its
            batch norm in training mode; the dynamo exporter knows none and writes that of evaluation

    NAME.pt2            torch.export
    NAME.onnx           torch.onnx.export(dynamo=True), opset 20
    NAME-legacy.onnx    torch.onnx.export(dynamo=False), opset 17
    NAME/               save_pretrained (llama and qwen2)

The vocabulary is 257, which holds every byte and is divided by no tp but 1. The batch is a dynamic dimension called
"batch".

NAME.reference.safetensors holds
    tokens         int32 [steps, batch, sequence + 1]: windows of text.bin. llama and qwen2 read all but the last, and so
                   do their labels, which the model shifts itself; bert's labels are all but the first
    pixel_values   f32 [steps, batch, 3, 16, 16], labels int32 [steps, batch]: vit and resnet, instead of tokens
    logits         f32 for the first two samples of step 0, at the initial weights
    loss           f32: over the batch of step 0, at the initial weights; llama's and qwen2's is transformers' own
    PARAMETER      f32: the gradient of that loss
    losses.adamw   f32 [steps]: the loss before each update by AdamW: lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay
                   0.01 on every parameter
and of resnet, whose logits are those of evaluation and of all samples of step 0,
    logits.train   f32: the logits of step 0 in training mode
    loss.evaluation  f32: of step 10's batch, in evaluation, after ten steps of training
    buffers.NAME   f32 or int64: what batch norm has of each buffer after ten steps
    population.NAME  f32: what it would have of each running variance if it averaged the batch's variance as ONNX does,
                   the mean of the squares, and not as PyTorch does, their sum over one less than their number

Usage: export_transformers.py [NAME ...] [-o FOLDER]
"""
import argparse
import contextlib
import copy
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
SEQUENCE, BATCH, STEPS = 16, 8, 11

LANGUAGE = dict(vocab_size=257, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                attn_implementation="sdpa", bos_token_id=0, eos_token_id=0)


class Llama:
    name, loss_is_own = "llama", True

    def model(self):
        rope = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                    original_max_position_embeddings=16)
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(
            **LANGUAGE, num_key_value_heads=2, max_position_embeddings=64, rope_parameters=rope, use_cache=False,
            tie_word_embeddings=False))


class Qwen2:
    name, loss_is_own = "qwen2", True

    def model(self):
        return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
            **LANGUAGE, num_key_value_heads=2, max_position_embeddings=64, use_cache=False, tie_word_embeddings=True))


class Bert:
    name, loss_is_own = "bert", False

    def model(self):
        return transformers.BertForMaskedLM(transformers.BertConfig(
            **LANGUAGE, max_position_embeddings=16, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            pad_token_id=None))


class Vit:
    name, loss_is_own = "vit", False

    def model(self):
        return transformers.ViTForImageClassification(transformers.ViTConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=16,
            patch_size=4, num_channels=3, num_labels=10, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            attn_implementation="sdpa"))


class Resnet:
    # With bottlenecks of this size, ten steps of PyTorch in f32 and in f64 part by 4e-4; with basic layers by 3e-7.
    name, loss_is_own = "resnet", False

    def model(self):
        return transformers.ResNetForImageClassification(transformers.ResNetConfig(
            num_channels=3, embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], layer_type="basic",
            num_labels=10))


FIXTURES = [Llama(), Qwen2(), Bert(), Vit(), Resnet()]
IMAGES = {"vit", "resnet"}


def trains_as_exported(fixture):
    return fixture.name == "resnet"


def build(fixture):
    torch.manual_seed(20)
    model = fixture.model().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 or not parameter.any():
                parameter.add_(0.05 * torch.randn_like(parameter))
    return model.train() if trains_as_exported(fixture) else model


def example(fixture):
    if fixture.name in IMAGES:
        return {"pixel_values": torch.zeros(2, 3, 16, 16)}
    return {"input_ids": torch.zeros(2, SEQUENCE, dtype=torch.int64)}


def write_archive(model, inputs, path):
    batch = torch.export.Dim("batch")
    save_archive(torch.export.export(model, (), inputs, dynamic_shapes={name: {0: batch} for name in inputs}), path)


def only_logits(model, masked):
    """What the legacy exporter wants: one output; and an explicit mask turns off the search for packed sequences, which it
    cannot export."""

    class OnlyLogits(type(model)):
        def forward(self, inputs):
            return super().forward(inputs, **({"attention_mask": torch.ones_like(inputs)} if masked else {})).logits

    result = copy.copy(model)
    result.__class__ = OnlyLogits
    return result


def restore_buffers(proto, buffers):
    """The legacy exporter runs the model, and writes the running averages after that."""
    for tensor in proto.graph.initializer:
        if tensor.name in buffers:
            tensor.CopyFrom(onnx.numpy_helper.from_array(buffers[tensor.name].numpy(), tensor.name))


def write_onnx(model, fixture, inputs, path, legacy):
    [name] = inputs
    names = dict(input_names=[name], output_names=["logits"])
    trains = trains_as_exported(fixture)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    # Left to itself, the legacy exporter turns a training model into one that is evaluated, and the dynamo exporter's
    # optimizer merges batch norm with the convolutions before it.
    legacy_mode = dict(training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False) if trains else {}
    dynamo_mode = dict(optimize=False) if trains else {}
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(sys.stderr):
        file = str(pathlib.Path(scratch) / "model.onnx")
        if legacy:
            torch.onnx.export(only_logits(model, fixture.loss_is_own), (inputs[name],), file, **names, dynamic_axes={name: {0: "batch"}}, dynamo=False,
                              opset_version=17, **legacy_mode)
        else:
            torch.onnx.export(model, (), file, kwargs=inputs, **names, dynamo=True, opset_version=20,
                              dynamic_shapes={name: {0: torch.export.Dim("batch")}}, external_data=False, **dynamo_mode)
        proto = onnx.load(file)
    if legacy and trains:
        restore_buffers(proto, buffers)
    drop_metadata(proto)
    path.write_bytes(proto.SerializeToString(deterministic=True))


def write_models(model, fixture, folder):
    inputs = example(fixture)
    write_archive(model, inputs, folder / f"{fixture.name}.pt2")
    write_onnx(model, fixture, inputs, folder / f"{fixture.name}.onnx", legacy=False)
    write_onnx(model, fixture, inputs, folder / f"{fixture.name}-legacy.onnx", legacy=True)
    if fixture.loss_is_own:
        model.save_pretrained(folder / fixture.name)
        (folder / fixture.name / "generation_config.json").unlink()


def batches(fixture):
    """Windows of bytes, a sequence apart, in the order of the file: what hyc-run reads unshuffled."""
    if fixture.name in IMAGES:
        generator = numpy.random.default_rng(20)
        return {"pixel_values": generator.standard_normal((STEPS, BATCH, 3, 16, 16), dtype=numpy.float32),
                "labels": generator.integers(0, 10, (STEPS, BATCH), dtype=numpy.int32)}
    text = numpy.frombuffer((HERE / "text.bin").read_bytes(), dtype=numpy.uint8)
    starts = numpy.arange(STEPS * BATCH).reshape(STEPS, BATCH) * SEQUENCE
    return {"tokens": text[starts[..., None] + numpy.arange(SEQUENCE + 1)].astype(numpy.int32)}


def logits_and_loss(model, fixture, data, step):
    if fixture.name in IMAGES:
        logits = model(torch.from_numpy(data["pixel_values"][step])).logits
        return logits, torch.nn.functional.cross_entropy(logits, torch.from_numpy(data["labels"][step]).long())
    tokens = torch.from_numpy(data["tokens"][step]).long()
    inputs, after = tokens[:, :-1], tokens[:, 1:]
    if fixture.loss_is_own:
        result = model(inputs, labels=inputs)
        return result.logits, result.loss
    logits = model(inputs).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), after.flatten())


def average_population_variances(model):
    """A dict that follows the training of `model`: running averages of the batches' variances, not corrected for bias."""
    averages = {}

    def follow(name, norm):
        averages[name] = norm.running_var.clone()

        def take(module, inputs, output):
            if not module.training:
                return
            variance = inputs[0].detach().var((0, 2, 3), unbiased=False)
            averages[name] = (1 - norm.momentum) * averages[name] + norm.momentum * variance

        norm.register_forward_hook(take)

    for path, module in model.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            follow(path + ".running_var", module)
    return averages


def training_losses(fixture, data):
    """The losses, and what is in buffers and their like after ten steps."""
    model = build(fixture)
    population, kept = average_population_variances(model), {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = logits_and_loss(model, fixture, data, step)[1]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step + 1 == STEPS - 1 and trains_as_exported(fixture):
            with torch.no_grad():
                kept = {"loss.evaluation": logits_and_loss(model.eval(), fixture, data, step + 1)[1].numpy()}
            model.train()
            kept |= {**{"buffers." + name: buffer.numpy().copy() for name, buffer in model.named_buffers()},
                    **{"population." + name: average.numpy().copy() for name, average in population.items()}}
    return numpy.array(losses, dtype=numpy.float32), kept


def write_reference(model, fixture, folder):
    data = batches(fixture)
    logits, loss = logits_and_loss(model, fixture, data, 0)
    loss.backward()
    values = {**data, "logits": logits[:2].detach().numpy(), "loss": loss.detach().numpy()}
    if trains_as_exported(fixture):
        with torch.no_grad():
            values["logits"] = logits_and_loss(build(fixture).eval(), fixture, data, 0)[0].numpy()
        values["logits.train"] = logits.detach().numpy()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            values[name] = parameter.grad.numpy()
    values["losses.adamw"], kept = training_losses(fixture, data)
    values.update(kept)
    values = {name: numpy.array(value, order="C") for name, value in values.items()}
    (folder / f"{fixture.name}.reference.safetensors").write_bytes(safetensors.numpy.save(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the models to write; all unless given")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE, help="the folder to write into")
    options = parser.parse_args()
    unknown = set(options.names) - {fixture.name for fixture in FIXTURES}
    if unknown:
        parser.error(f"no model is called {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for fixture in FIXTURES:
        if not options.names or fixture.name in options.names:
            model = build(fixture)
            write_models(model, fixture, options.output)
            write_reference(model, fixture, options.output)


if __name__ == "__main__":
    main()
