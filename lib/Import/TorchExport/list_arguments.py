#!/usr/bin/env python3
"""Writes ArgumentTable.inc from torch's schemas: the arguments of each operator that hyc imports.

    pip install torch
    build/bin/hyc-fuzz-archives --folder /tmp/none --archives 0 | lib/Import/TorchExport/list_arguments.py \\
        > lib/Import/TorchExport/ArgumentTable.inc
"""
import sys

import torch

print(f"// The arguments of the operators that hyc imports, by torch's schemas. By list_arguments.py from torch "
      f"{torch.__version__.split('+')[0]}.")


def arguments_of(domain, name, overload):
    packet = getattr(getattr(torch.ops, domain, None), name, None) if name else None
    if packet is None or overload not in packet.overloads():
        return None
    return " ".join(argument.name for argument in getattr(packet, overload)._schema.arguments)


for target in sorted(sys.stdin.read().replace("not reached:", "").split()):
    domain, _, rest = target.partition(".")
    name, _, overload = rest.rpartition(".")
    names = arguments_of(domain, name, overload)
    if names is None:
        continue
    print(f'ARGUMENTS("{target}", "{names}")')
    # Of one that writes into its first operand only where it calls its arguments otherwise.
    writing = arguments_of(domain, name + "_", overload)
    if writing and writing != names:
        print(f'ARGUMENTS("{domain}.{name}_.{overload}", "{writing}")')
