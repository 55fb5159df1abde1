# A folder whose weights are cut off at byte 5.
import pathlib
import shutil
import sys

folder, model = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parents[2] / "models/llama"
folder.mkdir()
shutil.copy(model / "config.json", folder)
(folder / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:5])
