"""Writes folders of a small Mixtral with a tensor for each expert, as transformers saves it, and what differs."""
import json
import pathlib
import shutil
import struct

SOUND = pathlib.Path(__file__).resolve().parents[2] / "models" / "families" / "mixtral-apart"
EXPERTS = "model.layers.1.block_sparse_moe.experts."


def shapes():
    """Of all tensors, by their names."""
    result = {}
    for path in sorted(SOUND.glob("*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        result |= {name: entry["shape"] for name, entry in json.loads(data[8:8 + length]).items() if name != "__metadata__"}
    return result


def write(folder, change, dtype={}):
    """`change` takes the shapes and changes them; `dtype` names tensors that are of integers."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    shutil.copy(SOUND / "config.json", folder)
    tensors = shapes()
    change(tensors)
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": dtype.get(name, "F32"), "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
