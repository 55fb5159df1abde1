#!/usr/bin/env python3
"""Makes adapters of the tests' Hugging Face folders with peft, and what peft's own training of them computes.

The committed files were made with peft 0.21.2, torch 2.15.0, transformers 5.23.0 and safetensors 0.8.0, on the CPU, in
one thread. hyc itself never runs this script. The base models are the folders beside this file (export_transformers.py,
export_gpt2.py makes gpt2-formats).

    qwen2    rank 4, alpha 8, of q_proj and v_proj
    llama    rank-stabilised, rank 4, alpha 6, of all linear layers; norm (the last one) is trained whole
    gpt2     rank 2, alpha 4, of c_attn, one weight for queries, keys and values, stored [in, out]
    llama-dora, gpt2-dora   with a magnitude for each output (DoRA), rank 4 and 2, of layers with split and joined heads

adapters/NAME/ is save_pretrained, adapter_model.safetensors with random numbers in A and B both, so that the first step
tells both of them. adapters/NAME.reference.safetensors holds
    logits         f32 for the first two samples of step 0, with the adapter
    losses.adamw   f32 [20]: the loss before each update by AdamW: lr 5e-3, betas 0.9 and 0.999, eps 1e-8, no decay;
                   step k reads windows 8 k to 8 k + 7 of text.bin, 16 bytes each and 16 apart, transformers' own loss
    PARAMETER      f32: the gradient of the first of these losses, by the names in adapter_model.safetensors without the
                   prefix base_model.model.
    trained.logits f32: as logits, after the last step
adapters/NAME.KIND.safetensors, KIND being int8 or nf4, holds losses.adamw, and the gradients, over a base whose linear
layers have been quantised and dequantised by bitsandbytes 0.50.2 (its own functions on the CPU, its formulas for the
double quantisation of nf4, in blocks of 64, and for what its codes mean; Conv1D transposed, as transformers does it), all but the one that makes the output;
of DoRA start.PARAMETER, too: the magnitudes that peft begins with over that base.

Usage: export_adapters.py [NAME ...] [-o FOLDER]: all adapters, or these
       export_adapters.py --quantized [NAME ...] [-o FOLDER]: the losses over quantised weights alone, of the adapters in FOLDER
       export_adapters.py --logits BASE [ADAPTER] [-o FILE]: what a folder, with an adapter that peft loads, makes of the
                   same two samples, as FILE.safetensors with one tensor "logits"
"""
import argparse
import pathlib
import warnings

import numpy
import peft
import safetensors.numpy
import safetensors.torch
import torch
import transformers

HERE = pathlib.Path(__file__).parent
SEQUENCE, BATCH, STEPS = 16, 8, 20
PREFIX = "base_model.model."

CONFIGS = {
    "qwen2": ("qwen2", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "llama": ("llama", dict(r=4, lora_alpha=6, target_modules="all-linear", use_rslora=True,
                            modules_to_save=["model.norm"])),
    "gpt2": ("gpt2-formats", dict(r=2, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True)),
    "llama-dora": ("llama", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"], use_dora=True)),
    "gpt2-dora": ("gpt2-formats", dict(r=2, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True, use_dora=True)),
}


# Linear layers with biases and split heads, and a fused one stored [in, out].
QUANTIZED = [("llama", "int8"), ("llama", "nf4"), ("qwen2", "nf4"), ("gpt2", "int8"), ("gpt2", "nf4"),
             ("llama-dora", "int8"), ("llama-dora", "nf4"), ("gpt2-dora", "nf4")]


def base_model(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)


def batch_of(step):
    text = numpy.frombuffer((HERE / "text.bin").read_bytes(), dtype=numpy.uint8)
    starts = (numpy.arange(BATCH) + step * BATCH) * SEQUENCE
    return torch.from_numpy(text[starts[:, None] + numpy.arange(SEQUENCE)].astype(numpy.int64))


def logits_of(model):
    with torch.no_grad():
        return model.eval()(batch_of(0)[:2]).logits.numpy()


def dequantized(weight, kind):
    """Of a matrix [out, in]."""
    import bitsandbytes  # only these need it
    if kind == "int8":
        codes, absmax, _ = bitsandbytes.functional.int8_vectorwise_quant(weight.clone())
        return bitsandbytes.functional.int8_vectorwise_dequant(codes, absmax)
    codes, state = bitsandbytes.functional.quantize_4bit(weight.contiguous(), blocksize=64, quant_type="nf4")
    # What compress_statistics=True does, by its formulas: bitsandbytes' own on a CPU looks codes up in a coarse table, which
    # takes the second nearest near a middle, and torch's mean in f32 has a last bit of the device's.
    offset = state.absmax.double().mean().float()
    values = bitsandbytes.functional.create_dynamic_map()
    absmax = []
    for group in (state.absmax - offset).split(256):
        greatest = group.abs().max()
        nearest = (group[:, None] / greatest - values).abs().argmin(1)
        absmax.append(values[nearest] * greatest + offset)
    # Likewise what codes mean: dequantize_4bit of some CPUs takes a row of fewer than 64 for a block.
    halves = torch.stack([codes.flatten() >> 4, codes.flatten() & 15], 1).flatten().long()
    table = bitsandbytes.functional.get_4bit_type("nf4", device="cpu")
    blocks = torch.cat(absmax).repeat_interleave(64)[: halves.numel()]
    return (table[halves] * blocks)[: weight.numel()].view(weight.shape)


def quantize_linear_layers(model, kind):
    for name, module in model.named_modules():
        if module is model.get_output_embeddings():
            continue
        if isinstance(module, torch.nn.Linear):
            module.weight.data = dequantized(module.weight.data, kind)
        elif isinstance(module, transformers.pytorch_utils.Conv1D):
            module.weight.data = dequantized(module.weight.data.T.contiguous(), kind).T.contiguous()


def train(model, values):
    """Adds the losses, and the gradients of the first."""
    stored = {parameter: saved_name for saved_name, parameter in saved_parameters(model).items()}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        tokens = batch_of(step)
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        if step == 0:
            values |= {stored[p]: p.grad.numpy().copy() for p in model.parameters() if p.requires_grad}
        optimizer.step()
        losses.append(loss.item())
    values["losses.adamw"] = numpy.array(losses, dtype=numpy.float32)
    return values


def write(values, path):
    path.write_bytes(safetensors.numpy.save({key: numpy.array(value, order="C") for key, value in values.items()}))


def make_quantized(name, kind, folder):
    """Over the adapter that is there."""
    def quantized():
        base = base_model(HERE / CONFIGS[name][0])
        quantize_linear_layers(base, kind)
        return base

    base, options = quantized(), CONFIGS[name][1]
    begun = peft.get_peft_model(quantized(), peft.LoraConfig(task_type="CAUSAL_LM", **options))
    start = {f"start.{key}": value.detach().numpy().copy() for key, value in saved_parameters(begun).items() if "magnitude" in key}
    model = peft.PeftModel.from_pretrained(base, folder / name, is_trainable=True).eval()
    write(train(model, start), folder / f"{name}.{kind}.safetensors")


def make(name, folder):
    base, options = CONFIGS[name]
    torch.manual_seed(20)
    model = peft.get_peft_model(base_model(HERE / base), peft.LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                parameter.copy_(0.05 * torch.randn_like(parameter))
    model.peft_config["default"].base_model_name_or_path = base
    model.peft_config["default"].inference_mode = True
    model.eval()
    model.save_pretrained(folder / name)
    (folder / name / "README.md").unlink(missing_ok=True)
    values = {"logits": logits_of(model)}
    values = train(model, values)
    values["trained.logits"] = logits_of(model)
    write(values, folder / f"{name}.reference.safetensors")


def saved_parameters(model):
    """By the names that peft saves, without its prefix."""
    return {name.removeprefix(PREFIX).replace(".default", "").replace(".modules_to_save", "").replace(
        "magnitude_vector.weight", "magnitude_vector"): parameter
            for name, parameter in model.named_parameters() if parameter.requires_grad}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="adapters to make; all of them by default")
    parser.add_argument("--logits", nargs="+", type=pathlib.Path, metavar="FOLDER", help="of a folder, with an adapter")
    parser.add_argument("--quantized", action="store_true", help="only the losses over quantised weights")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE / "adapters")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    if options.logits:
        model = base_model(options.logits[0])
        for adapter in options.logits[1:]:
            model = peft.PeftModel.from_pretrained(model, adapter)
        safetensors.numpy.save_file({"logits": logits_of(model)}, options.output)
        return
    if options.quantized:
        for name, kind in (each for each in QUANTIZED if not options.names or each[0] in options.names):
            make_quantized(name, kind, options.output)
        return
    for name in options.names or CONFIGS:
        make(name, options.output)


if __name__ == "__main__":
    main()
