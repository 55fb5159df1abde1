"""Makes the bad inputs of which the library stores something more readable than the input itself.

    NAME.onnx.txt        an ONNX model as text (onnx_text.py)
    NAME.safetensors.txt `length N` (that of the header unless given), `data N` (bytes of zeros), then the header
    NAME.hex             bytes as pairs of digits, `#` comments, `"words"`, `00*64` repeated
    NAME.edit            JSON: what is different from the class's base, a JSON file or the folder of a .pt2 archive; of keys
                         with their path, `a/0/b`. null removes; what begins with @ is the text of that place
    NAME.py              prints the input, or makes the path that it is given (FIFOs, folders, links)
"""
import json
import pathlib
import struct
import subprocess
import sys
import zipfile

import onnx_text


def safetensors(source):
    length, data, lines = None, 0, source.splitlines()
    while lines and lines[0].split(" ")[0] in ("length", "data"):
        word, value = lines.pop(0).split()
        length, data = (int(value), data) if word == "length" else (length, int(value))
    header = "\n".join(lines).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(data)


def hexadecimal(source):
    out = b""
    for line in source.splitlines():
        for word in ([line.strip()[1:-1]] if line.startswith('"') else line.split("#")[0].split()):
            if line.startswith('"'):
                out += word.encode("latin-1").decode("unicode_escape").encode("latin-1")
            else:
                pair, _, count = word.partition("*")
                out += bytes.fromhex(pair) * int(count or 1)
    return out


def edited(value, edits):
    """`value` with the edits of JSON paths made in it."""
    for path, new in edits.items():
        at, keys = value, path.split("/")
        for key in keys[:-1]:
            at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
        key = int(keys[-1]) if isinstance(at, list) else keys[-1]
        if new is None:
            del at[key]
        elif isinstance(at, list) and key == len(at):
            at.append(new)
        else:
            at[key] = new
    return value


def write_archive(path, records, root="model"):
    """An archive as torch writes them: stored, below one folder, each record at a multiple of 64 bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in records.items():
            entry = zipfile.ZipInfo(f"{root}/{name}" if root else name)
            entry.extra = b"FB" + struct.pack("<H", (-(archive.fp.tell() + 30 + len(entry.filename) + 4)) % 64)
            entry.extra += b"Z" * (struct.unpack("<H", entry.extra[2:])[0])
            archive.writestr(entry, data)


def read_records(folder):
    files = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    return {str(p.relative_to(folder)).removesuffix(".hex"):
            hexadecimal(p.read_text()) if p.suffix == ".hex" else p.read_bytes() for p in files}


def linear_records():
    """Those of a sound archive: y = linear(x)."""
    return read_records(pathlib.Path(__file__).parent / "linear.pt2")


def edited_archive(base, edits, path):
    records = read_records(base)
    for name, change in edits.items():
        if change is None:
            del records[name]
        elif isinstance(change, dict):
            records[name] = json.dumps(edited(json.loads(records[name]), change)).encode()
        else:
            records[name] = change.encode("latin-1")
    write_archive(path, records)


def make(source, target, base):
    """Makes the input that the library's file `source` stands for as `target`."""
    if source.is_dir():
        subprocess.run(["cp", "-r", source, target], check=True)
    elif source.name.endswith(".onnx.txt"):
        target.write_bytes(onnx_text.model(source.read_text()))
    elif source.name.endswith(".safetensors.txt"):
        target.write_bytes(safetensors(source.read_text()))
    elif source.suffix == ".hex":
        target.write_bytes(hexadecimal(source.read_text()))
    elif source.suffix == ".edit" and base.is_dir():
        edited_archive(base, json.loads(source.read_text()), target)
    elif source.suffix == ".edit":
        text = json.dumps(edited(json.loads(base.read_text()), json.loads(source.read_text())), indent=2)
        target.write_text(text + "\n")
    elif source.suffix == ".py":
        here = pathlib.Path(__file__).parent
        said = subprocess.run([sys.executable, source.resolve(), target], stdout=subprocess.PIPE, check=True,
                              env={"PYTHONPATH": str(here), "PYTHONDONTWRITEBYTECODE": "1"})
        if said.stdout:
            target.write_bytes(said.stdout)
    else:
        target.write_bytes(source.read_bytes())


MADE = (".onnx.txt", ".safetensors.txt", ".hex", ".edit", ".py")


def made_name(source):
    """What the input is called that `source` stands for."""
    for suffix in MADE:
        if source.name.endswith(suffix) and not source.is_dir():
            kept = ".txt" if suffix.endswith(".txt") else suffix
            return source.name[:-len(kept)]
    return source.name
