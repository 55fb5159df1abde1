#!/usr/bin/env python3
"""Writes the seeds of one fuzz target from the fixtures of test/models and the text tests.

Usage: make_seeds.py FORMAT SOURCE_ROOT FOLDER

Whole models are slow to mutate: of an archive of torch.export each seed is a few of its nodes with the parameters that they
read, what they take from other nodes being inputs; texts are cut at `// -----`; ONNX's node tests are small as they are.
"""
import io
import json
import pathlib
import struct
import sys
import zipfile

NODES = 6
LARGEST_MODEL = 160_000
NODE_TESTS = pathlib.Path("/usr/share/libonnx-testdata/data")


def onnx_seeds(root):
    for path in sorted(NODE_TESTS.glob("*/*/model.onnx")):
        if path.stat().st_size < 4096:
            yield path.parent.name, path.read_bytes()
    for path in sorted((root / "test/models").glob("*.onnx")):
        if path.stat().st_size < LARGEST_MODEL:
            yield path.stem, path.read_bytes()


def text_seeds(root):
    for path in sorted((root / "test").rglob("*.mlir")):
        if "build" not in path.parts:
            for number, part in enumerate(path.read_text().split("// -----")):
                yield f"{path.stem}.{number}", part.encode()


def safetensors_file(tensors):
    header, begin = {"__metadata__": {"format": "pt"}}, 0
    for name, kind, shape, size in tensors:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(begin)


def safetensors_seeds(root):
    yield "empty", safetensors_file([])
    yield "types", safetensors_file([("a", "F32", [2, 3], 24), ("b", "BF16", [4], 8), ("c", "I64", [], 8), ("d", "U8", [3], 3)])
    yield "no-elements", safetensors_file([("none", "F16", [0, 7], 0), ("one", "F64", [1], 8)])
    for path in sorted((root / "test/models").rglob("*.safetensors")):
        if path.stat().st_size < LARGEST_MODEL:
            yield path.parent.name + "." + path.stem, path.read_bytes()


def names_in(value):
    """Every `name` of a tensor below `value`, in order."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        for inner in value.values():
            yield from names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)


def cut_model(model, weights, begin):
    """The model of nodes [begin, begin + NODES), and its part of the weights' directory."""
    model = json.loads(json.dumps(model))
    module = model["graph_module"]
    graph, signature = module["graph"], module["signature"]
    nodes = graph["nodes"][begin:begin + NODES]
    specs = dict(zip((next(names_in(i), "") for i in graph["inputs"]), signature["input_specs"]))
    made = {name for node in nodes for name in names_in(node["outputs"])}
    asked = [name for node in nodes for i in node["inputs"] for name in names_in(i["arg"])]
    free = [name for name in dict.fromkeys(asked) if name in graph["tensor_values"] and name not in made]
    tensor = lambda name: {"as_tensor": {"name": name}}
    graph["nodes"] = nodes
    graph["inputs"] = [tensor(name) for name in free]
    signature["input_specs"] = [specs.get(name, {"user_input": {"arg": tensor(name)}}) for name in free]
    result = [name for node in nodes for name in names_in(node["outputs"])][-1]
    graph["outputs"] = [tensor(result)]
    signature["output_specs"] = [{"user_output": {"arg": tensor(result)}}]
    graph["tensor_values"] = {n: v for n, v in graph["tensor_values"].items() if n in made or n in free}
    for node in nodes:
        node["metadata"] = {k: v for k, v in node["metadata"].items() if k == "nn_module_stack"}
    module.pop("module_call_graph", None)
    kept = {spec["parameter"]["parameter_name"] for spec in signature["input_specs"] if "parameter" in spec}
    kept |= {spec["buffer"]["buffer_name"] for spec in signature["input_specs"] if "buffer" in spec}
    return model, {"config": {n: v for n, v in weights["config"].items() if n in kept}}


def torch_export_seeds(root):
    for path in sorted((root / "test/models").glob("*.pt2")):
        with zipfile.ZipFile(path) as archive:
            records = {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}
        model = json.loads(records["models/model.json"])
        weights = json.loads(records["data/weights/model_weights_config.json"])
        for begin in range(0, len(model["graph_module"]["graph"]["nodes"]), NODES):
            cut, directory = cut_model(model, weights, begin)
            used = {"data/weights/" + value["path_name"] for value in directory["config"].values()}
            small = {name: data for name, data in records.items()
                     if not name.startswith("data/sample_inputs/") and
                     (not name.startswith("data/weights/weight_") or name in used)}
            small["models/model.json"] = json.dumps(cut).encode()
            small["data/weights/model_weights_config.json"] = json.dumps(directory).encode()
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
                for name, data in small.items():
                    archive.writestr(zipfile.ZipInfo("m/" + name), data)
            yield f"{path.stem}.{begin}", buffer.getvalue()


def run_files_seeds(root):
    for path in sorted((root / "test/fuzz/run_files").glob("*.json")):
        text = path.read_bytes()
        yield path.stem, text
        if path.stem == "checkpoint":  # what a rank tells is a part of it
            whole = json.loads(text)
            yield "part", json.dumps({key: whole[key] for key in ("tensors", "files")}).encode()


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    kind, root, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    seeds = {"onnx": onnx_seeds, "text": text_seeds, "safetensors": safetensors_seeds, "torch_export": torch_export_seeds,
             "run_files": run_files_seeds}
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds[kind](root):
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
