#!/usr/bin/env python3
"""Import streams: hyc-compile's peak memory does not grow with what the weights weigh.

Usage: import_memory.py HYC_COMPILE FOLDER

One model in three formats, twice: with weights of a few KB and with weights of 4 GiB and more, which are holes in sparse files.
Compiling the large one may take MARGIN more than the small one. Exit 77 where the file system has no sparse files.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

MARGIN = 8 << 20
SMALL, LARGE = (64, 32), (32768, 16384)  # rows and columns; two tensors of f32: 16 KiB, 4 GiB
LAYERS = 3


# ----- ONNX, by the field numbers of its format -----

def varint(number):
    text = b""
    while number > 127:
        text, number = text + bytes([number & 127 | 128]), number >> 7
    return text + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_value(name, shape):
    dims = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def onnx_node(kind, inputs, output, *attributes):
    named = b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, output) + field(4, kind)
    return named + b"".join(field(5, field(1, name) + field(3, value) + field(20, 2)) for name, value in attributes)


def onnx_weight(name, shape, file, offset):
    place = {"location": file, "offset": str(offset), "length": str(4 * shape[0] * shape[1])}
    return (b"".join(field(1, size) for size in shape) + field(2, 1) + field(8, name) + field(14, 1) +
            b"".join(field(13, field(1, key) + field(2, value)) for key, value in place.items()))


def make_onnx(folder, rows, columns):
    nodes = [onnx_node("MatMul", ["x", "fc1"], "h"), onnx_node("Relu", ["h"], "a"), onnx_node("MatMul", ["a", "fc2"], "y"),
             onnx_node("ReduceMean", ["y"], "loss", ("keepdims", 0))]
    weights = [onnx_weight("fc1", (columns, rows), "weights.bin", 0),
               onnx_weight("fc2", (rows, columns), "weights.bin", 4 * rows * columns)]
    graph = (b"".join(field(1, node) for node in nodes) + field(2, "g") + b"".join(field(5, weight) for weight in weights) +
             field(11, onnx_value("x", (4, columns))) + field(12, onnx_value("loss", ())))
    (folder / "model.onnx").write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    with open(folder / "weights.bin", "wb") as file:
        file.truncate(8 * rows * columns)
    return folder / "model.onnx", ["--loss", "loss", "--micro-batch", "4"]


# ----- a torch.export archive, its large records left out as holes -----

def tensor(name):
    return {"as_tensor": {"name": name}}


def meta(shape, is_trained=False):
    strides = [0] * len(shape)
    for i in reversed(range(len(shape))):
        strides[i] = strides[i + 1] * shape[i + 1] if i + 1 < len(shape) else 1
    return {"dtype": 7, "sizes": [{"as_int": size} for size in shape], "requires_grad": is_trained,
            "device": {"type": "cpu", "index": None}, "strides": [{"as_int": stride} for stride in strides],
            "storage_offset": {"as_int": 0}, "layout": 7}


def torch_node(target, inputs, output):
    arguments = [{"name": name, "arg": arg, "kind": 1} for name, arg in inputs]
    return {"target": f"torch.ops.aten.{target}", "inputs": arguments, "outputs": [tensor(output)], "name": output,
            "metadata": {}, "is_hop_single_tensor_return": None}


def torch_texts(rows, columns):
    shapes = {"p_fc1": (rows, columns), "p_fc2": (columns, rows), "x": (4, columns), "h": (4, rows), "a": (4, rows),
              "y": (4, columns), "loss": ()}
    nodes = [torch_node("linear.default", [("input", tensor("x")), ("weight", tensor("p_fc1"))], "h"),
             torch_node("relu.default", [("self", tensor("h"))], "a"),
             torch_node("linear.default", [("input", tensor("a")), ("weight", tensor("p_fc2"))], "y"),
             torch_node("mean.default", [("self", tensor("y"))], "loss")]
    graph = {"inputs": [tensor(name) for name in ("p_fc1", "p_fc2", "x")], "outputs": [tensor("loss")], "nodes": nodes,
             "tensor_values": {name: meta(shape) for name, shape in shapes.items()}}
    parameters = [{"parameter": {"arg": {"name": f"p_{n}"}, "parameter_name": f"{n}.weight"}} for n in ("fc1", "fc2")]
    signature = {"input_specs": parameters + [{"user_input": {"arg": tensor("x")}}],
                 "output_specs": [{"user_output": {"arg": tensor("loss")}}]}
    model = {"graph_module": {"graph": graph, "signature": signature}, "schema_version": {"major": 8, "minor": 20},
             "opset_version": {"aten": 10}, "range_constraints": {}}
    weights = {f"{n}.weight": {"path_name": f"weight_{i}", "is_param": True, "use_pickle": False,
                               "tensor_meta": meta(shapes[f"p_{n}"], is_trained=True)} for i, n in enumerate(("fc1", "fc2"))}
    return {"archive_format": "pt2", "archive_version": "0", "byteorder": "little", "models/model.json": json.dumps(model),
            "data/weights/model_weights_config.json": json.dumps({"config": weights}),
            "data/constants/model_constants_config.json": json.dumps({"config": {}})}


def write_archive(path, texts, holes):
    """Stored records; those of `holes`, by name and size, hold nothing but zeros that are never written."""
    import zlib
    directory = b""
    with open(path, "wb") as file:
        for name, text in [*texts.items(), *holes.items()]:
            size = text if isinstance(text, int) else len(text)
            checksum = 0 if isinstance(text, int) else zlib.crc32(text.encode())
            begin, name = file.tell(), ("model/" + name).encode()
            common = struct.pack("<HHIIIIHH", 0, 0, 0, checksum, size, size, len(name), 0)
            file.write(b"PK\3\4" + struct.pack("<H", 20) + common + name)
            file.seek(size, 1) if isinstance(text, int) else file.write(text.encode())
            wide = struct.pack("<HHQ", 1, 8, begin)  # zip64: the place of the record
            directory += (b"PK\1\2" + struct.pack("<HH", 45, 45) + common[:-2] + struct.pack("<H", len(wide)) +
                          struct.pack("<HHHII", 0, 0, 0, 0, 0xFFFFFFFF) + name + wide)
        begin, count = file.tell(), len(texts) + len(holes)
        file.write(directory)
        end = file.tell()
        file.write(b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(directory), begin))
        file.write(b"PK\6\7" + struct.pack("<IQI", 0, end, 1))
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


def make_torch_export(folder, rows, columns):
    size = 4 * rows * columns
    write_archive(folder / "model.pt2", torch_texts(rows, columns),
                  {"data/weights/weight_0": size, "data/weights/weight_1": size})
    return folder / "model.pt2", ["--loss", "loss", "--micro-batch", "4"]


# ----- a Hugging Face folder -----

def make_folder(folder, rows, columns):
    width, inner = columns // 4, rows // 2
    heads = max(2, width // 64)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "intermediate_size": inner,
              "num_hidden_layers": LAYERS, "num_attention_heads": heads, "num_key_value_heads": heads, "rms_norm_eps": 1e-5,
              "vocab_size": rows, "max_position_embeddings": 64, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}
    shapes = {"lm_head.weight": [rows, width], "model.embed_tokens.weight": [rows, width], "model.norm.weight": [width]}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        shapes.update({f"{name}self_attn.{part}_proj.weight": [width, width] for part in "qkvo"})
        shapes.update({f"{name}mlp.{part}_proj.weight": [inner, width] for part in ("gate", "up")})
        shapes.update({f"{name}mlp.down_proj.weight": [width, inner], f"{name}input_layernorm.weight": [width],
                       f"{name}post_attention_layernorm.weight": [width]})
    header, begin = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    text = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps(config))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + begin)
    return folder, ["--micro-batch", "1", "--dim", "seq=32"]


# ----- measuring -----

def peak_bytes(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {status}\n{message}")
    return usage.ru_maxrss * 1024


def stored_and_seen(folder):
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum(s.st_blocks * 512 for s in stats), sum(s.st_size for s in stats)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    hyc_compile, root = sys.argv[1], pathlib.Path(sys.argv[2])
    failed = False
    for make in (make_onnx, make_torch_export, make_folder):
        peaks = {}
        for size in (SMALL, LARGE):
            folder = root / make.__name__ / str(size[0])
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            model, options = make(folder, *size)
            stored, seen = stored_and_seen(folder)
            if stored > 64 << 20:
                shutil.rmtree(root)
                print("skipped: the file system of the build folder has no sparse files")
                sys.exit(77)
            assert size == SMALL or seen >= 4 << 30, seen
            out = root / "out"
            for stop in (["--emit=model", "-o", folder / "text.mlir"], ["--plan-only", "-o", out]):
                shutil.rmtree(out, ignore_errors=True)
                peaks[size, stop[0]] = peak_bytes([hyc_compile, model, *options, *stop])
        for stop in ("--emit=model", "--plan-only"):
            small, large = peaks[SMALL, stop], peaks[LARGE, stop]
            good = large <= small + MARGIN
            failed |= not good
            print(f"{make.__name__} {stop}: weights of {seen / 2**30:.1f} GiB at {large / 2**20:.1f} MiB, "
                  f"the same model without at {small / 2**20:.1f} MiB{'' if good else ': FAILED'}")
    shutil.rmtree(root)
    sys.exit(failed)


if __name__ == "__main__":
    main()
