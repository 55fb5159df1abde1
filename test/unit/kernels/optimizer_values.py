#!/usr/bin/env python3
"""Writes optimizer_values.inc: a small parameter after each of four updates, by every optimizer of hyc, in f64.

Adam, AdamW and SGD are torch.optim's. LAMB and Lion are written down here from their papers (You et al. 2020, algorithm
2, with DeepSpeed's bounds of the trust ratio; Chen et al. 2023), without a look at hyc's kernels. The committed file was
made with torch 2.15.0 and numpy 2.4.6 (pip install torch numpy). hyc itself never runs this script.

usage: optimizer_values.py > optimizer_values.inc
"""
import numpy
import torch

STEPS = 4
PARAM = [-1.25, 2.0, 0.375, 0.0, -0.5, 3.0]
# Of each step; what the optimizer sees is half of them (the scale of a clipped mean gradient).
GRADS = [
    [1.25, 1.0, 1.5, 0.0, -2.0, 0.125],
    [1.125, -1.75, -1.5, 0.0, 0.25, -0.5],
    [-0.75, 0.5, 0.0, 0.0, 1.0, 2.0],
    [2.0, 0.25, -0.125, 0.0, -0.5, -1.0],
]
SCALE = 0.5
LR = 0.01


def by_torch(make):
    param = torch.nn.Parameter(torch.tensor(PARAM, dtype=torch.float64))
    optimizer = make([param])
    for grad in GRADS:
        param.grad = SCALE * torch.tensor(grad, dtype=torch.float64)
        optimizer.step()
        yield param.detach().numpy().copy()


def by_lamb(beta1, beta2, eps, decay, least, most, corrects=True):
    w, m, v = numpy.array(PARAM), numpy.zeros(len(PARAM)), numpy.zeros(len(PARAM))
    for t, grad in enumerate(GRADS, start=1):
        g = SCALE * numpy.array(grad)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g ** 2
        m_hat = m / (1 - beta1 ** t) if corrects else m
        v_hat = v / (1 - beta2 ** t) if corrects else v
        direction = m_hat / (numpy.sqrt(v_hat) + eps) + decay * w
        ratio = numpy.clip(numpy.linalg.norm(w) / numpy.linalg.norm(direction), least, most)
        w = w - LR * ratio * direction
        yield w


def by_lion(beta1, beta2, decay):
    w, m = numpy.array(PARAM), numpy.zeros(len(PARAM))
    for grad in GRADS:
        g = SCALE * numpy.array(grad)
        update = numpy.sign(beta1 * m + (1 - beta1) * g)
        w = w - LR * (update + decay * w)
        m = beta2 * m + (1 - beta2) * g
        yield w


ADAM = dict(lr=LR, betas=(0.9, 0.99), eps=1e-6, foreach=False)
CASES = [
    ("adamw", "", by_torch(lambda p: torch.optim.AdamW(p, weight_decay=0.1, **ADAM))),
    ("adam", "", by_torch(lambda p: torch.optim.Adam(p, weight_decay=0.1, **ADAM))),
    ("sgd", "", by_torch(lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9, weight_decay=0.1, foreach=False))),
    ("lamb", "bounds 0.01 10", by_lamb(0.9, 0.99, 1e-6, 0.1, 0.01, 10)),
    ("lamb", "bounds 0.01 1.5", by_lamb(0.9, 0.99, 1e-6, 0.1, 0.01, 1.5)),
    ("lamb", "bounds 5 10", by_lamb(0.9, 0.99, 1e-6, 0.1, 5, 10)),
    ("lamb", "uncorrected", by_lamb(0.9, 0.99, 1e-6, 0.1, 0.01, 10, corrects=False)),
    ("lion", "", by_lion(0.9, 0.99, 0.1)),
]


def main():
    print("// Made by optimizer_values.py; not edited by hand.")
    for name, variant, steps in CASES:
        rows = ",\n  ".join("{" + ", ".join(repr(float(x)) for x in values) + "}" for values in steps)
        print(f'{{"{name}", "{variant}",\n {{{rows}}}}},')


main()
