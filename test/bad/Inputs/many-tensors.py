# Usage: many-tensors.py ARCHIVE NEW COUNT   A copy of a torch.export archive that stores COUNT more tensors of one
# element, each in a place of its own.
import json
import sys
import zipfile

source, target, count = zipfile.ZipFile(sys.argv[1]), sys.argv[2], int(sys.argv[3])
names = source.namelist()
with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
    for name in names:
        data = source.read(name)
        if name.endswith("data/weights/model_weights_config.json"):
            table = json.loads(data)
            pattern = json.dumps(next(iter(table["config"].values())))
            for i in range(count):
                entry = json.loads(pattern)
                entry["path_name"] = "extra"
                entry["tensor_meta"].update(sizes=[{"as_int": 1}], strides=[{"as_int": 1}], storage_offset={"as_int": i})
                table["config"][f"extra.{i}"] = entry
            data = json.dumps(table).encode()
        archive.writestr(zipfile.ZipInfo(name), data)
    archive.writestr(zipfile.ZipInfo(names[0].split("/")[0] + "/data/weights/extra"), bytes(4 * count))
