"""Writes folders as peft saves adapters: a sound one of rank 2 beside h.fc of the class's linear.mlir, and what differs."""
import json
import pathlib
import struct

SOUND = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "use_dora": False, "use_rslora": False,
         "target_modules": ["fc"], "modules_to_save": None, "rank_pattern": {}, "alpha_pattern": {}}
SHAPES = {"base_model.model.h.fc.lora_A.weight": [2, 16], "base_model.model.h.fc.lora_B.weight": [8, 2]}


def write(folder, config={}, shapes=SHAPES, dtype="F32"):
    folder = pathlib.Path(folder)
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({**SOUND, **config}, indent=2) + "\n")
    header, end = {}, 0
    for name, shape in shapes.items():
        size = {"F32": 4, "I64": 8}[dtype]
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
