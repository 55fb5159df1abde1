# A folder whose weights are a second name of a file elsewhere.
import os
import pathlib
import sys

import onnx_text

folder = pathlib.Path(sys.argv[1])
folder.mkdir()
text = "input x float[2, 4]\nvalue w float[4, 3] external location=w.bin\ny = MatMul(x, w)\noutput y\n"
(folder / "model.onnx").write_bytes(onnx_text.model(text))
elsewhere = folder.parent / "elsewhere"
elsewhere.write_bytes(bytes(48))
os.link(elsewhere, folder / "w.bin")
