#!/usr/bin/env python3
"""Which of torch's core operators (those tagged torch.Tag.core) hyc reads, and which it refuses by name.

The committed test/conformance/torch/core-aten.txt was written with torch 2.15.0. core_aten_tests holds hyc's tables to it without
torch: an operator of the list that is neither read nor refused fails there.

    build/bin/hyc-fuzz-archives --folder /tmp/none --archives 0 | test/models/core_aten.py > test/conformance/torch/core-aten.txt

Standard input names what hyc reads, as lib/Import/TorchExport/list_arguments.py takes it.
"""
import sys

import torch


def core_operators():
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        if space != "aten":
            continue
        operator, _, overload = rest.partition(".")
        overload = overload or "default"
        if torch.Tag.core in getattr(getattr(torch.ops.aten, operator), overload).tags:
            yield f"aten.{operator}.{overload}"


def is_read(name, read):
    """Whether hyc reads it, or what it computes where it writes that into a tensor that is given."""
    operator, _, overload = name.rpartition(".")
    return name in read or (overload == "out" and not read.isdisjoint({f"{operator}.default", f"{operator}.Tensor"}))


def main():
    read = set(sys.stdin.read().replace("not reached:", "").split())
    verdicts = {name: "row" if is_read(name, read) else "refused" for name in core_operators()}
    rows = sum(verdict == "row" for verdict in verdicts.values())
    print(f"# The {len(verdicts)} overloads that torch {torch.__version__.split('+')[0]} tags as core: {rows} are read, "
          f"{len(verdicts) - rows} refused by name. By test/models/core_aten.py.")
    for name in sorted(verdicts):
        print(verdicts[name], name)


if __name__ == "__main__":
    main()
