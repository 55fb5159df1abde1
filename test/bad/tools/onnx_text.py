"""Makes an ONNX model of a few readable lines. `#` begins a comment; what a line leaves out is sound, so that a file shows
only what is wrong with it:

    opset 18                                       of the standard operators (18 unless said); `opset d 1` of a domain
    input x float[2, n]                            float, double, half, bfloat16, int8 … uint64, bool, string, or a number
    value w float[4, 2] = 0.5                      repeated to the size; zeros without; `bytes 7` for raw data of that size
    value e float[8] external location=../e offset=-1
    o = Slice(x, , ends) axes=[0, 1] mode="edge"   a node; `name: …` names it, `d::f(x)` is of domain d
    output y float[]
    function d f(a) => (b)                         its nodes follow, indented

Names that are no word are written in quotes, with Python's escapes; `\\xff` is that byte.
"""
import math
import re
import struct

TYPES = {name: number for number, name in enumerate(
    "undefined float uint8 int8 uint16 int16 int32 int64 string bool half double uint32 uint64 complex64 complex128 bfloat16".split())}
SIZES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}
LETTERS = {1: "f", 2: "B", 3: "b", 4: "H", 5: "h", 6: "i", 7: "q", 9: "?", 10: "e", 11: "d", 12: "I", 13: "Q"}
TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|=>|::|-?[\w./*<>^+-]+|[=,()\[\]:])')


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def text(field, value):
    return block(field, value if isinstance(value, bytes) else value.encode("latin-1"))


def real(field, value):
    return varint(field << 3 | 5) + struct.pack("<f", value)


class Line:
    """The tokens of one line, taken one after the other."""

    def __init__(self, line):
        self.line, self.tokens, place = line, [], 0
        while line[place:].strip() and not line[place:].strip().startswith("#"):
            match = TOKEN.match(line, place)
            if not match:
                raise ValueError(f"cannot read {line!r} from {line[place:]!r} on")
            self.tokens.append(match[1])
            place = match.end()

    def peek(self, distance=0):
        return self.tokens[distance] if len(self.tokens) > distance else ""

    def take(self, expected=None):
        if not self.tokens or expected and self.tokens[0] != expected:
            raise ValueError(f"{self.line!r}: expected {expected or 'more'}, found {self.peek()!r}")
        return self.tokens.pop(0)

    def given(self, token):
        return self.peek() == token and bool(self.tokens.pop(0))

    def name(self):
        token = self.take()
        if not token.startswith('"'):
            return token
        return token[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1")

    def names(self, end):
        """Names separated by commas, none of them standing for "", up to `end`."""
        found = []
        while self.peek() != end:
            found.append("" if self.peek() == "," else self.name())
            if not self.given(","):
                break
            if self.peek() == end:
                found.append("")
        if end:
            self.take(end)
        return found


def parse_type(line):
    kind = line.take()
    kind = TYPES[kind] if kind in TYPES else int(kind)
    dims = line.names("]") if line.given("[") else None
    return kind, dims


def value_info(line):
    name = line.name()
    if not line.tokens:
        return text(1, name)
    kind, dims = parse_type(line)
    shape = b""
    for dim in dims or []:
        shape += block(1, number(1, int(dim)) if re.fullmatch(r"-?\d+", str(dim)) else text(2, dim))
    return text(1, name) + block(2, block(1, number(1, kind) + (block(2, shape) if dims is not None else b"")))


def raw_data(kind, count, values):
    if not 0 <= count <= 1 << 20:
        raise ValueError(f"{count} elements: say how many `bytes` there are")
    if not values:
        return bytes(SIZES.get(kind, 4) * count)
    repeated = [values[i % len(values)] for i in range(count)]
    return struct.pack(f"<{count}{LETTERS[kind]}", *(float(v) if LETTERS[kind] in "fed" else int(v) for v in repeated))


def tensor(line, name=None):
    kind, dims = parse_type(line)
    sizes = [int(d) for d in dims or []]
    out = b"".join(number(1, d) for d in sizes) + number(2, kind)
    if name is not None:
        out += text(8, name)
    if line.given("external"):
        while line.tokens:
            key = line.name()
            line.take("=")
            out += block(13, text(1, key) + text(2, line.name()))
        return out + number(14, 1)
    if line.given("bytes"):
        return out + block(9, bytes(int(line.take())))
    values = []
    if line.given("="):
        while line.tokens and re.match(r"[-\d.]", line.peek()):
            values.append(line.take())
    return out + block(9, raw_data(kind, math.prod(sizes), values))


def attribute(line):
    name = line.name()
    line.take("=")
    if line.given("["):
        items = line.names("]")
        if any("." in str(i) for i in items):
            body = b"".join(real(7, float(i)) for i in items) + number(20, 6)
        else:
            body = b"".join(number(8, int(i)) for i in items) + number(20, 7)
    elif line.peek().startswith('"'):
        body = text(4, line.name()) + number(20, 3)
    elif line.peek() in TYPES and line.peek(1) == "[":
        body = block(5, tensor(line)) + number(20, 4)
    elif re.fullmatch(r"-?\d+", line.peek()):
        body = number(3, int(line.take())) + number(20, 2)
    else:
        body = real(2, float(line.take())) + number(20, 1)
    return text(1, name) + body


def node(line):
    out = b""
    if line.peek(1) == ":":
        out += text(3, line.name())
        line.take(":")
    results = line.names("=")
    kind = line.name()
    if line.given("::"):
        out += text(7, kind)
        kind = line.name()
    line.take("(")
    for name in line.names(")"):
        out += text(1, name)
    out += b"".join(text(2, name) for name in results) + text(4, kind)
    while line.tokens:
        out += block(5, attribute(line))
    return out


def model(source):
    graph, functions, opsets, function = text(2, "g"), [], {"": 18}, None
    for raw in source.splitlines():
        line = Line(raw)
        if not line.tokens:
            continue
        if raw[0] == " ":
            functions[-1] += block(7, node(line))
        elif line.peek(1) in ("=", ",", ":"):
            graph += block(1, node(line))
        elif line.given("opset"):
            domain = line.name() if len(line.tokens) > 1 else ""
            opsets[domain] = int(line.take())
        elif line.given("input"):
            graph += block(11, value_info(line))
        elif line.given("output"):
            graph += block(12, value_info(line))
        elif line.given("value"):
            graph += block(5, (lambda name: tensor(line, name))(line.name()))
        elif line.given("function"):
            function = text(10, line.name()) + text(1, line.name())
            line.take("(")
            function += b"".join(text(4, name) for name in line.names(")"))
            line.take("=>")
            line.take("(")
            functions.append(function + b"".join(text(5, name) for name in line.names(")")))
        else:
            graph += block(1, node(line))
    imports = b"".join(block(8, text(1, domain) + number(2, version)) for domain, version in opsets.items())
    functions = [f + b"".join(block(9, text(1, d) + number(2, v)) for d, v in opsets.items()) for f in functions]
    return number(1, 8) + block(7, graph) + imports + b"".join(block(25, f) for f in functions)
