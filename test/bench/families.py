#!/usr/bin/env python3
"""Training steps of the usual families of models beside PyTorch's: each is exported (torch.export, in training mode), compiled
for one rank, and trained by AdamW in f32 by both in turns, with as many threads each.

Usage: families.py BUILD_FOLDER SCRATCH_FOLDER [NAME ...] [--threads 1] [--rounds 3] [--steps 5] [--compile=FLAGS] [--kernels 5]

Needs torch and transformers. Weights are random, and the models small, so that a step takes 50 to 800 ms on a thread; what they
are made of is what their large sisters are made of. Of each side the median over all rounds' steps is told, the first step of
each round left out, and PyTorch's over hyc's: above 1 hyc is faster. PyTorch computes eagerly, with its own fused attention. With
--kernels N follow the N kernels of hyc that a step spends most in (of a profiled run of its own). --threads 1 wants
OMP_NUM_THREADS unset or 1.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

WORDS, CLASSES = 8192, 100


class Family:
    """A model, the inputs of one step by name, and what it is trained to."""

    def __init__(self, model, inputs, labels, loss, output="logits"):
        self.model, self.inputs, self.labels, self.loss, self.output = model, inputs, labels, loss, output


def tokens(*shape):
    import torch
    return torch.randint(3, WORDS, shape)


def of_transformers(model_class, config_class, **settings):
    import transformers
    config = getattr(transformers, config_class)(use_cache=False, **settings)
    return getattr(transformers, model_class)(config)


def language_model(model, batch=4, sequence=256):
    return Family(model, {"input_ids": tokens(batch, sequence)}, tokens(batch, sequence), "causal_lm")


DECODER = dict(vocab_size=WORDS, hidden_size=256, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
               max_position_embeddings=512)


def gpt2():
    return language_model(of_transformers("GPT2LMHeadModel", "GPT2Config", vocab_size=WORDS, n_embd=256, n_layer=4, n_head=4,
                                          n_positions=256, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def llama():
    return language_model(of_transformers("LlamaForCausalLM", "LlamaConfig", intermediate_size=688, **DECODER))


def mixtral():
    return language_model(of_transformers("MixtralForCausalLM", "MixtralConfig", intermediate_size=512, num_local_experts=8,
                                          num_experts_per_tok=2, **dict(DECODER, num_hidden_layers=2)), 2)


def mamba():
    return language_model(of_transformers("MambaForCausalLM", "MambaConfig", vocab_size=WORDS, hidden_size=128,
                                          num_hidden_layers=2, state_size=16, use_mambapy=False), 2, 128)


def bert():
    model = of_transformers("BertForMaskedLM", "BertConfig", vocab_size=WORDS, hidden_size=256, num_hidden_layers=4,
                            num_attention_heads=4, intermediate_size=1024)
    return Family(model, {"input_ids": tokens(8, 128)}, tokens(8, 128), "cross_entropy")


def t5():
    model = of_transformers("T5ForConditionalGeneration", "T5Config", vocab_size=WORDS, d_model=256, d_kv=64, d_ff=1024,
                            num_layers=3, num_heads=4)
    return Family(model, {"input_ids": tokens(4, 128), "decoder_input_ids": tokens(4, 128)}, tokens(4, 128), "cross_entropy")


def image_classifier(model, batch, size):
    import torch
    return Family(model, {"pixel_values": torch.randn(batch, 3, size, size)}, torch.randint(0, CLASSES, (batch,)), "cross_entropy")


def vit():
    return image_classifier(of_transformers("ViTForImageClassification", "ViTConfig", hidden_size=256, num_hidden_layers=4,
                                            num_attention_heads=4, intermediate_size=1024, image_size=112, patch_size=8,
                                            num_labels=CLASSES), 4, 112)


def resnet18():
    return image_classifier(of_transformers("ResNetForImageClassification", "ResNetConfig", embedding_size=64, layer_type="basic",
                                            hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], num_labels=CLASSES), 8, 96)


def convnext():
    return image_classifier(of_transformers("ConvNextForImageClassification", "ConvNextConfig", hidden_sizes=[48, 96, 192, 384],
                                            depths=[2, 2, 4, 2], num_labels=CLASSES), 8, 96)


def mobilenet():
    return image_classifier(of_transformers("MobileNetV2ForImageClassification", "MobileNetV2Config", image_size=96,
                                            num_labels=CLASSES), 8, 96)


def whisper_encoder():
    """Two convolutions of sound, and a transformer that looks both ways."""
    import torch
    import transformers
    config = transformers.WhisperConfig(d_model=256, encoder_layers=4, encoder_attention_heads=4, encoder_ffn_dim=1024,
                                        decoder_layers=1, max_source_positions=500, use_cache=False)
    encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return Family(encoder, {"input_features": torch.randn(2, 80, 1000)}, torch.randn(2, 500, 256), "mse", "last_hidden_state")


def unet():
    import torch
    from torch import nn

    def block(inside, outside):
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(),
                             nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self, width):
            super().__init__()
            widths = [width, 2 * width, 4 * width, 8 * width]
            self.down = nn.ModuleList(block(a, b) for a, b in zip([3, *widths], widths))
            self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
            self.joined = nn.ModuleList(block(b, a) for a, b in zip(widths, widths[1:]))
            self.head = nn.Conv2d(width, 3, 1)

        def forward(self, pixel_values):
            x, kept = pixel_values, []
            for each in self.down:
                x = each(nn.functional.max_pool2d(x, 2) if kept else x)
                kept.append(x)
            for up, joined, beside in reversed(list(zip(self.up, self.joined, kept[:-1]))):
                x = joined(torch.cat([beside, up(x)], 1))
            return self.head(x)

    return Family(UNet(16), {"pixel_values": torch.randn(4, 3, 96, 96)}, torch.randn(4, 3, 96, 96), "mse", None)


def lstm():
    from torch import nn

    class Model(nn.Module):
        def __init__(self, width=256):
            super().__init__()
            self.embedding = nn.Embedding(WORDS, width)
            self.lstm = nn.LSTM(width, width, 2, batch_first=True)
            self.head = nn.Linear(width, WORDS)

        def forward(self, input_ids):
            return self.head(self.lstm(self.embedding(input_ids))[0])

    family = language_model(Model(), 16, 64)
    family.output = None
    return family


def recommender():
    """Bags of categories, and a perceptron over their products, as DLRM has it."""
    import torch
    from torch import nn

    class Recommender(nn.Module):
        def __init__(self, tables=8, rows=20000, width=32):
            super().__init__()
            self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
            self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
            pairs = (tables + 1) * tables // 2
            self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))
            self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)

        def forward(self, numbers, categories):
            dense = self.bottom(numbers)
            rows = torch.stack([dense, *(bag(categories[:, i]) for i, bag in enumerate(self.bags))], 1)
            products = torch.bmm(rows, rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(torch.cat([dense, products], 1))

    inputs = {"numbers": torch.randn(1024, 13), "categories": torch.randint(0, 20000, (1024, 8, 4))}
    return Family(Recommender(), inputs, torch.randint(0, 2, (1024, 1)).float(), "binary_cross_entropy", None)


FAMILIES = {
    "GPT-2": gpt2, "Llama": llama, "BERT, dropout": bert, "T5, dropout": t5, "ViT": vit, "ResNet-18": resnet18,
    "ConvNeXt": convnext, "MobileNet": mobilenet, "U-Net": unet, "Whisper's encoder": whisper_encoder, "Mixtral": mixtral,
    "Mamba": mamba, "LSTM": lstm, "recommender": recommender,
}


def run(command):
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def loss_of(family, output):
    from torch.nn import functional as F
    output, labels = output[family.output] if family.output else output, family.labels
    if family.loss == "mse":
        return F.mse_loss(output, labels)
    if family.loss == "binary_cross_entropy":
        return F.binary_cross_entropy_with_logits(output, labels)
    if family.loss == "causal_lm":
        output, labels = output[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return F.cross_entropy(output.flatten(0, -2), labels.flatten())


class Torchs:
    def __init__(self, family):
        import torch
        self.family = family
        self.optimizer = torch.optim.AdamW(family.model.parameters())

    def steps(self, count):
        """Milliseconds of each but the first."""
        times = []
        for _ in range(count + 1):
            start = time.perf_counter()
            loss = loss_of(self.family, self.family.model(**self.family.inputs))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            times.append((time.perf_counter() - start) * 1e3)
        return times[1:]


class Hycs:
    """Exported and compiled once."""

    def __init__(self, family, arguments, name):
        import torch
        from safetensors.torch import save_file
        self.arguments = arguments
        self.folder = arguments.scratch / "".join(each if each.isalnum() else "-" for each in name)
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.export.save(torch.export.export(family.model, (), family.inputs, strict=False), self.folder / "model.pt2")
        self.samples = self.folder / "samples.safetensors"
        labels = family.labels if family.labels.is_floating_point() else family.labels.int()
        save_file({**family.inputs, "labels": labels}, self.samples)
        batch = next(iter(family.inputs.values())).shape[0]
        named = ["--logits", family.output] if family.output else []
        run([arguments.build / "bin/hyc-compile", self.folder / "model.pt2", "--loss", family.loss, *named, "--optimizer", "adamw",
             "--weight-decay", "0.01", "--entry", "train", "--micro-batch", batch, "--threads", arguments.threads, "-o",
             self.folder / "out", *arguments.compile.split()])

    def run(self, count, *options):
        return run([self.arguments.build / "bin/hyc-run", self.folder / "out", "--data", self.samples, "--steps", count + 1,
                    "--threads", self.arguments.threads, *options])

    def steps(self, count):
        return [float(each) for each in re.findall(r"([0-9.]+) ms ", self.run(count))[1:]]

    def kernels(self, count):
        """Those that take most of a step: milliseconds, calls, name."""
        file = self.folder / "profile.json"
        self.run(self.arguments.steps, "--profile", file)
        rows = {}
        for row in json.loads(file.read_text())["stages"][0]["ops"]:
            seconds, calls = rows.get(row["kernel"], (0, 0))
            rows[row["kernel"]] = seconds + row["seconds"], calls + row["times"]
        most = sorted(rows.items(), key=lambda each: -each[1][0])[:count]
        return [f"    {1e3 * seconds:8.2f} ms {calls:6.0f} calls  {kernel}" for kernel, (seconds, calls) in most]


def measure(arguments, name):
    import torch
    torch.manual_seed(0)
    family = FAMILIES[name]()
    family.model.train()
    hycs, torchs = Hycs(family, arguments, name), Torchs(family)
    hyc, torch = [], []
    for _ in range(arguments.rounds):
        hyc += hycs.steps(arguments.steps)
        torch += torchs.steps(arguments.steps)
    ours, theirs = statistics.median(hyc), statistics.median(torch)
    print(f"{name:20} {ours:9.1f} {theirs:9.1f} {theirs / ours:8.2f} {min(torch) / min(hyc):8.2f}", flush=True)
    for line in hycs.kernels(arguments.kernels) if arguments.kernels else []:
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of families; all without any")
    for name, default in {"threads": 1, "rounds": 3, "steps": 5, "kernels": 0}.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--compile", default="", metavar="FLAGS", help="further flags of hyc-compile, as one word")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(FAMILIES)):
        sys.exit(f"no family '{unknown[0]}'; there are: {'; '.join(FAMILIES)}")
    import torch
    torch.set_num_threads(arguments.threads)
    print(f"{'milliseconds a step':20} {'hyc':>9} {'PyTorch':>9} {'ratio':>8} {'of least':>8}   {arguments.threads} threads, AdamW, f32")
    for name in arguments.names or FAMILIES:
        try:
            measure(arguments, name)
        except Exception as error:  # of one family, which is to leave the others measured
            print(f"{name:20} {(str(error).strip() or repr(error)).splitlines()[-1][:300]}", flush=True)


if __name__ == "__main__":
    main()
