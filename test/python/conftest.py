"""What the package's tests share: a small language model whose head is tied, in plain torch, and its own training loop."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
MODELS = ROOT / "test" / "models"
SEQUENCE, VOCABULARY = 12, 61


def make_language_model(seed=0):
    """Embedding, a block of causal attention and a tied head; a buffer that no state of training is."""
    torch = pytest.importorskip("torch")
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width, bias=False)  # that of keys has no gradient
            self.out = nn.Linear(width, width)

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y.transpose(1, 2).flatten(-2))

    class LanguageModel(nn.Module):
        def __init__(self, width=32, heads=4):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, width)
            self.block = Block(width, heads)
            self.head = nn.Linear(width, VOCABULARY, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("positions", torch.linspace(0, 1, SEQUENCE)[:, None])

        def forward(self, input_ids):
            return self.head(self.block(self.embedding(input_ids) + self.positions))

    torch.manual_seed(seed)
    return LanguageModel()


def train_by_torch(model, optimizer, batches, loss_of):
    """PyTorch's own loop: the loss before each update."""
    losses = []
    for batch in batches:
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def causal_loss(model, tokens):
    """transformers' causal loss: each position against the token after it."""
    import torch

    logits = model(tokens)
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def processes_naming(text):
    """Processes whose command line has `text` in it."""
    found = []
    for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in line.read_bytes():
                found.append(line.parent.name)
        except OSError:
            pass
    return found


def run_python(code, *arguments, **options):
    """A Python of its own that has the package."""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, **options)
