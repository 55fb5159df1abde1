"""GPT-2 124M as PyTorch trains it: torch.compile, SDPA, bf16 by autocast over f32 weights, fused AdamW, gradients clipped.

What gpu_bench.sh compares hyc with. Prints one JSON object: the median milliseconds a step, and those of SDPA's forward and
backward of one layer. Without torch or a CUDA device: one line, and 69.
"""
import argparse
import json
import statistics
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    sys.exit(print(f"PyTorch is not measured: {missing}", file=sys.stderr) or 69)

LAYERS, WIDTH, HEADS, VOCABULARY, SEQUENCE = 12, 768, 12, 50257, 1024
PADDED = 50304  # a multiple of 64, which tensor cores want: PyTorch's side gets it, too


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.attn(self.ln_1(x)).split(WIDTH, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(PADDED, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, PADDED), labels.reshape(-1))


def milliseconds(call, count):
    """Of each of `count` calls, by events on the device."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in zip(marks, marks[1:])]


def step_ms(batch, steps):
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = GPT2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.999), weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    tokens = torch.randint(VOCABULARY, (batch, SEQUENCE + 1), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    milliseconds(step, 10)
    return statistics.median(milliseconds(step, steps))


def attention_ms(batch):
    """The best forward and the best backward: as kernels_gpu_bench takes hyc's."""
    shape = (batch, HEADS, SEQUENCE, WIDTH // HEADS)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    forward = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out = forward()
    backward = lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
    best = 0.0
    for call in (forward, backward):
        milliseconds(call, 10)
        best += min(statistics.mean(milliseconds(call, 20)) for _ in range(5))
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"PyTorch is not measured: torch {torch.__version__} sees no CUDA device", file=sys.stderr)
        return 69
    attention = attention_ms(arguments.micro_batch)
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name(),
                      "step_ms": step_ms(arguments.micro_batch, arguments.steps), "attention_ms": attention}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
