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
for target in sorted(sys.stdin.read().replace("not reached:", "").split()):
    domain, _, rest = target.partition(".")
    name, _, overload = rest.rpartition(".")
    packet = getattr(getattr(torch.ops, domain, None), name, None) if name else None
    if packet is None or overload not in packet.overloads():
        continue
    schema = getattr(packet, overload)._schema
    print(f'ARGUMENTS("{target}", "{" ".join(argument.name for argument in schema.arguments)}")')
