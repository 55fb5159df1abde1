# 40 functions, each of which calls the next ten times; the last is empty.
import sys

import onnx_text

text = "opset d 1\ninput x float[2, 8]\nvalue w float[8, 8]\n= d::f0()\ny = MatMul(x, w)\noutput y float[2, 8]\n"
for i in range(40):
    text += f"function d f{i}() => ()\n" + (f"  = d::f{i + 1}()\n" * 10 if i < 39 else "")
sys.stdout.buffer.write(onnx_text.model(text))
