#!/usr/bin/env python3
"""Writes fp8_values.inc: the 8-bit floats of torch, code by code, and what it rounds numbers to: beside and at the middle of
any two neighbours, at the end of the range and beyond.

The committed file was made with torch 2.15.0 (pip install torch). hyc itself never runs this script.

usage: fp8_values.py > fp8_values.inc
"""
import torch

INFINITY = float("inf")


def bits(values):
    return values.view(torch.int32).tolist()


def values_of(dtype):
    return torch.arange(256, dtype=torch.uint8).view(dtype).float()


def inputs_of(dtype):
    finite = [value for value in values_of(dtype)[:128].tolist() if value == value and value != INFINITY]
    inputs = []
    for low, high in zip(finite, finite[1:]):
        middle = torch.tensor((low + high) / 2)
        inputs += [torch.nextafter(middle, torch.tensor(0.0)), middle, torch.nextafter(middle, torch.tensor(INFINITY))]
    step = finite[-1] - finite[-2]
    for factor in (0.25, 0.5, 0.75, 1.0, 1.5, 1e6):  # beyond the greatest number
        inputs.append(torch.tensor(finite[-1] + factor * step))
        inputs.append(torch.nextafter(inputs[-1], torch.tensor(INFINITY)))
    inputs += [torch.tensor(value) for value in (1e-45, 1e-30, 3.0e38, INFINITY, float("nan"))]
    positive = torch.stack(inputs)
    if dtype == torch.float8_e4m3fn:  # beyond the middle of 448 and 480 torch saturates, where hyc gives NaN
        positive = positive[~(positive > 464)]
    return torch.cat([positive, -positive])


def rows(name, kind, numbers, form):
    print(f"constexpr {kind} {name}[] = {{")
    for start in range(0, len(numbers), 8):
        print("    " + " ".join(form.format(number & 0xFFFFFFFF) + "," for number in numbers[start : start + 8]))
    print("};")


print("// Made by fp8_values.py; see there.")
for name, dtype in (("E4m3", torch.float8_e4m3fn), ("E5m2", torch.float8_e5m2)):
    inputs = inputs_of(dtype)
    rows(f"k{name}Values", "uint32_t", bits(values_of(dtype)), "0x{:08x}")
    rows(f"k{name}Inputs", "uint32_t", bits(inputs), "0x{:08x}")
    rows(f"k{name}Codes", "uint8_t", inputs.to(dtype).view(torch.uint8).tolist(), "0x{:02x}")
