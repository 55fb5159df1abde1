"""A GPT-2 as PyTorch trains it, with the names of transformers, for tests that continue one system's training in the other.

    torch_gpt2.py continue EXPORTED DOCS STEPS MODELS   after STEPS steps, from an export of hyc-checkpoint's, by what DOCS shows
    torch_gpt2.py save FOLDER STEPS MODELS              from the initial weights, and saves with torch.distributed.checkpoint
    torch_gpt2.py deepspeed-continue|deepspeed-save …   the same by DeepSpeed: a universal checkpoint FOLDER/tag, and its own

Prints "loss NUMBER" for each step. MODELS is the folder test/models; the data is what export_gpt2.py trained on.
"""
import os
import re
import socket
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict

WIDTH, HEADS, LAYERS, LENGTH, VOCABULARY = 32, 4, 2, 16, 257


class Affine(nn.Module):
    """transformers' Conv1D: its weight has inputs by outputs."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = Affine(WIDTH, 3 * WIDTH), Affine(WIDTH, WIDTH)

    def forward(self, x):
        heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, -1)]
        return self.c_proj(nn.functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = Affine(WIDTH, 4 * WIDTH), Affine(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(nn.functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(VOCABULARY, WIDTH), "wpe": nn.Embedding(LENGTH, WIDTH),
            "h": nn.ModuleList(Block() for _ in range(LAYERS)), "ln_f": nn.LayerNorm(WIDTH)})

    def forward(self, tokens):
        x = self.transformer.wte(tokens) + self.transformer.wpe(torch.arange(tokens.shape[1]))
        for block in self.transformer.h:
            x = block(x)
        return self.transformer.ln_f(x) @ self.transformer.wte.weight.T


def loss_of(model, tokens):
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def train(model, optimizer, batches):
    for tokens in batches:
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        print("loss", loss.item())


def train_by_deepspeed(model, optimizer, command, folder, tokens, steps):
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", DS_ACCELERATOR="cpu")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    import deepspeed
    goes_on = command == "deepspeed-continue"
    config = {"train_batch_size": 16, "gradient_clipping": 0.0, "zero_optimization": {"stage": 1},
              "zero_allow_untested_optimizer": True, "checkpoint": {"load_universal": goes_on}}
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]
    if goes_on:
        engine.load_checkpoint(folder, tag="tag")
    for batch in tokens[steps:2 * steps] if goes_on else tokens[:steps]:
        loss = loss_of(engine, batch)
        engine.backward(loss)
        engine.step()
        print("loss", loss.item())
    if not goes_on:
        engine.save_checkpoint(folder, tag="tag")


def main():
    command, folder, models = sys.argv[1], sys.argv[2], sys.argv[-1]
    steps = int(sys.argv[-2])
    tokens = load_file(models + "/gpt2-formats.reference.safetensors")["tokens"].long()
    model = Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    if command in ("save", "deepspeed-save"):
        model.load_state_dict(load_file(models + "/gpt2-formats/model.safetensors"))
    if command.startswith("deepspeed"):
        train_by_deepspeed(model, optimizer, command, folder, tokens, steps)
        return
    if command == "save":
        train(model, optimizer, tokens[:steps])
        weights, states = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder)
        return
    snippets = re.findall("```python\n(.*?)```", open(sys.argv[3]).read(), re.DOTALL)
    snippet = next(text for text in snippets if "set_state_dict" in text)
    assert '"exported"' in snippet
    exec(snippet.replace('"exported"', repr(folder)), {"model": model, "optimizer": optimizer})
    train(model, optimizer, tokens[steps:2 * steps])


main()
