# A node's name of a megabyte in a function that is called 2^16 times.
import sys

import onnx_text

text = "opset d 1\ninput x float[2, 8]\nvalue w float[8, 8]\ny = MatMul(x, w)\nz = d::f0(x)\noutput y float[2, 8]\n"
for i in range(16):
    text += f"function d f{i}(a) => (b)\n  b = d::f{i + 1}(a)\n  c = d::f{i + 1}(a)\n"
text += "function d f16(a) => (b)\n  " + "n" * (1 << 20) + ": b = Relu(a)\n"
sys.stdout.buffer.write(onnx_text.model(text))
