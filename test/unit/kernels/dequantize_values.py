#!/usr/bin/env python3
"""Writes dequantize_values.inc: what bitsandbytes makes of numbers that dequantize_test.cpp makes itself.

The committed file was written with bitsandbytes 0.50.2 and torch 2.15.0, on the CPU.

Usage: dequantize_values.py > dequantize_values.inc
"""
import bitsandbytes.functional
import numpy
import torch

ROWS, COLUMNS = 300, 66  # blocks of 64 begin anywhere in a row, and there is more than one group of 256 of them


def weights():
    word, values = 1, []
    for i in range(ROWS * COLUMNS):
        word = (word * 1664525 + 1013904223) % 2**32
        # Rows of unequal size; every number is exact in f32.
        values.append((word // 2**8 / 2**24 - 0.5) * 2.0 ** (i // COLUMNS % 5 - 4))
    return torch.tensor(values, dtype=torch.float32).reshape(ROWS, COLUMNS)


def show(name, ctype, values):
    shown = [float(v).hex() + ("f" if ctype == "float" else "") if ctype == "float" else str(int(v)) for v in values]
    lines, line = [], "   "
    for text in shown:
        if len(line) + len(text) > 116:
            lines.append(line)
            line = "   "
        line += " " + text + ","
    print(f"constexpr {ctype} {name}[] = {{", *lines, line.rstrip(",") + "};\n", sep="\n")


def main():
    print("// Written by dequantize_values.py.\n")
    w = weights()
    codes, absmax, _ = bitsandbytes.functional.int8_vectorwise_quant(w.clone())
    meant = bitsandbytes.functional.int8_vectorwise_dequant(codes, absmax)
    show("kInt8Codes", "int", codes[:4].flatten())
    show("kInt8Absmax", "float", absmax[:4])
    show("kInt8Meant", "float", meant[:2].flatten())
    packed, state = bitsandbytes.functional.quantize_4bit(w, blocksize=64, compress_statistics=True, quant_type="nf4")
    meant = bitsandbytes.functional.dequantize_4bit(packed, state).flatten()
    show("kNf4Packed", "int", packed.flatten()[:32 * 12])
    show("kNf4Absmax", "int", state.absmax.flatten())
    show("kNf4Scales", "float", state.state2.absmax.flatten())
    show("kNf4Mean", "float", [state.offset])
    show("kNf4Meant", "float", torch.cat([meant[:128], meant[-128:]]))


if __name__ == "__main__":
    main()
