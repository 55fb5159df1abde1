#!/usr/bin/env python3
"""Writes attention_values.inc: what PyTorch makes of attention with a mask, and its gradients.

Two samples, four query heads over two key heads, documents of 3 and 4 tokens in the first sample and one padded token in the
second: masks of [2, 1, 7, 7], without a triangle and with one. The committed file was written with torch 2.15.0, in f64.

Usage: attention_values.py > attention_values.inc
"""
import torch

BATCH, LENGTH, HEADS, KEY_HEADS, SIZE = 2, 7, 4, 2, 4


def numbers(seed, *shape):
    """Made by attention_test.cpp as well: every one is exact in f32."""
    word, values = seed, []
    for _ in range(torch.Size(shape).numel()):
        word = (word * 1664525 + 1013904223) % 2**32
        values.append(word // 2**8 / 2**24 * 2 - 1)
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def mask_of():
    mask = torch.zeros(BATCH, 1, LENGTH, LENGTH, dtype=torch.bool)
    mask[0, 0, :3, :3] = mask[0, 0, 3:, 3:] = True
    mask[1, 0, :, :6] = True
    return mask


def show(name, values):
    lines, line = [], "   "
    for text in (f"{v:.9g}" for v in values.flatten().tolist()):
        if len(line) + len(text) > 116:
            lines.append(line)
            line = "   "
        line += " " + text + ","
    print(f"constexpr double {name}[] = {{", *lines, line.rstrip(",") + "};\n", sep="\n")


def main():
    print("// Written by attention_values.py.\n")
    heads = {"q": HEADS, "k": KEY_HEADS, "v": KEY_HEADS}
    for name, triangle in (("Open", False), ("Causal", True)):
        given = {x: numbers(seed, BATCH, LENGTH, heads[x], SIZE).requires_grad_() for seed, x in enumerate("qkv", 1)}
        mask = mask_of()
        if triangle:
            mask = mask & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        q, k, v = (given[x].transpose(1, 2) for x in "qkv")
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)
        o.backward(numbers(4, *o.shape))
        show(f"k{name}O", o.detach())
        for x in "qkv":
            show(f"k{name}D{x}", given[x].grad)


if __name__ == "__main__":
    main()
