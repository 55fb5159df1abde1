#!/usr/bin/env python3
"""Writes deepspeed_schedules.inc: the rates and momenta that DeepSpeed's own schedulers give, step by step.

The committed file was made with deepspeed 0.19.8 and torch 2.15.0 (pip install torch deepspeed; DS_ACCELERATOR=cpu).
hyc itself never runs this script. An engine steps its scheduler after its optimizer, so step k is taken with what the
parameter group holds after k steps of the scheduler.

usage: deepspeed_schedules.py > deepspeed_schedules.inc
"""
import torch
from deepspeed.runtime import lr_schedules
from deepspeed.utils import logger

STEPS = 48
BASE = 3e-3  # the optimizer's own rate

CASES = [
    ("WarmupLR", dict(warmup_min_lr=1e-4, warmup_max_lr=2e-3, warmup_num_steps=10)),
    ("WarmupLR", dict(warmup_min_lr=0.0, warmup_max_lr=1e-3, warmup_num_steps=7, warmup_type="linear")),
    ("WarmupLR", dict(warmup_num_steps=1)),
    ("WarmupDecayLR", dict(total_num_steps=40, warmup_min_lr=1e-4, warmup_max_lr=2e-3, warmup_num_steps=10)),
    ("WarmupDecayLR", dict(total_num_steps=30, warmup_num_steps=12, warmup_type="linear")),
    ("WarmupDecayLR", dict(total_num_steps=5, warmup_num_steps=12, warmup_type="linear")),
    ("WarmupCosineLR", dict(total_num_steps=40, warmup_num_steps=10)),
    ("WarmupCosineLR", dict(total_num_steps=32, warmup_min_ratio=0.125, warmup_num_steps=6, cos_min_ratio=0.25,
                            warmup_type="linear")),
    ("WarmupCosineLR", dict(total_num_steps=6, warmup_num_steps=9)),
    ("OneCycle", dict(cycle_min_lr=1e-4, cycle_max_lr=1e-3, cycle_first_step_size=11)),
    ("OneCycle", dict(cycle_min_lr=1e-4, cycle_max_lr=1e-3, cycle_first_step_size=7, cycle_second_step_size=13,
                      decay_step_size=3, decay_lr_rate=0.5)),
    ("OneCycle", dict(cycle_min_lr=2e-4, cycle_max_lr=1e-3, cycle_first_step_size=12, cycle_second_step_size=9,
                      cycle_first_stair_count=4, cycle_second_stair_count=3, decay_step_size=1, decay_lr_rate=0.01)),
    ("OneCycle", dict(cycle_min_lr=2e-4, cycle_max_lr=1e-3, cycle_first_step_size=10, cycle_first_stair_count=5)),
    ("OneCycle", dict(cycle_min_lr=2e-4, cycle_max_lr=1e-3, cycle_first_step_size=10, cycle_momentum=False)),
    ("OneCycle", dict(cycle_min_lr=1e-4, cycle_max_lr=1e-3, cycle_first_step_size=7, cycle_second_step_size=13,
                      cycle_min_mom=0.75, cycle_max_mom=0.875, decay_step_size=3, decay_mom_rate=0.005)),
]

DEFAULTS = {
    "WarmupLR": dict(warmup_min_lr=0.0, warmup_max_lr=BASE, warmup_type="log"),
    "WarmupDecayLR": dict(warmup_min_lr=0.0, warmup_max_lr=1e-3, warmup_type="log"),
    "WarmupCosineLR": dict(base=BASE, warmup_min_ratio=0.0, cos_min_ratio=1e-4, warmup_type="log"),
    "OneCycle": dict(decay_lr_rate=0.0, cycle_first_stair_count=0, decay_step_size=0, cycle_momentum=True,
                     cycle_min_mom=0.8, cycle_max_mom=0.9, decay_mom_rate=0.0),
}


def manifest(rule, given):
    """The rule as a manifest spells it: every parameter, defaults filled in."""
    values = {"rule": rule, **DEFAULTS[rule], **given}
    if rule == "OneCycle":
        values.setdefault("cycle_second_step_size", values["cycle_first_step_size"])
        values.setdefault("cycle_second_stair_count", values["cycle_first_stair_count"])
    import json
    return json.dumps(values)


def rates(rule, given):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    scheduler = getattr(lr_schedules, rule)(optimizer, **given)
    for _ in range(STEPS):
        yield optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"]
        scheduler.step()


def table(numbers):
    values = [repr(float(number)) for number in numbers]
    return "{" + ",\n  ".join(", ".join(values[i:i + 6]) for i in range(0, len(values), 6)) + "}"


def main():
    logger.disabled = True
    print("// Made by deepspeed_schedules.py from DeepSpeed's own schedulers; not edited by hand.")
    for rule, given in CASES:
        print(f"{{R\"({manifest(rule, given)})\",")
        steps = list(rates(rule, given))
        cycles = manifest(rule, given).find('"cycle_momentum": true') >= 0
        # The second beta is constant under a cycle: hyc knows it when compiling.
        assert not cycles or all(betas[1] == 0.99 for _, betas in steps)
        print(" " + table([rate for rate, _ in steps]) + ",")
        print(" " + (table([betas[0] for _, betas in steps]) if cycles else "{}") + "},")


main()
