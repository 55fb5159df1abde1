#!/usr/bin/env python3
"""Writes AttributeTable.inc from the schemas of the onnx package: which attributes an operator has in which operator sets.

    pip install onnx
    lib/Import/ONNX/list_attributes.py > lib/Import/ONNX/AttributeTable.inc
"""
import collections

import onnx
from onnx import defs

DOMAINS = {"": "", "ai.onnx.preview.training": "ai.onnx.preview.training:"}


def spans_of(schemas):
    """By attribute and type, the operator sets [first, end) in which an operator has it that is not deprecated, or was so only for
    a while (GroupNormalization was taken up again); end 0 is none."""
    spans = collections.defaultdict(list)
    schemas = sorted(schemas, key=lambda schema: schema.since_version)
    for place, schema in enumerate(schemas):
        following = next(iter(schemas[place + 1:]), None)
        if all(later.deprecated for later in schemas[place:]):
            continue
        end = following.since_version if following else 0
        for name, attribute in schema.attributes.items():
            known = spans[name, attribute.type.name]
            if known and known[-1][1] == schema.since_version:
                known[-1] = (known[-1][0], end)
            else:
                known.append((schema.since_version, end))
    return spans


def main():
    history = collections.defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            history[DOMAINS[schema.domain] + schema.name].append(schema)
    print(f"// The attributes of ONNX's operators to operator set {defs.onnx_opset_version()}: operator, attribute, type, "
          "the first set that has it, and the first")
    print(f"// that has it no more, or 0. By list_attributes.py from onnx {onnx.__version__}.")
    for operator, schemas in sorted(history.items()):
        for (name, kind), spans in sorted(spans_of(schemas).items()):
            for first, end in spans:
                print(f'ATTRIBUTE("{operator}", "{name}", {kind.title()}, {first}, {end})')


if __name__ == "__main__":
    main()
