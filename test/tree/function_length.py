#!/usr/bin/env python3
"""No function is longer than a screen: prints every one that passes the limit, longest first.

Usage: function_length.py SOURCE_ROOT [--limit N] [--all]
  --limit N   most lines from a definition's first line to its closing brace (default 60)
  --all       print every function with its lines

Reads C++ and CUDA by their braces alone: comments, strings (raw ones too) and preprocessor lines are left out, and a
brace opens a function where the text before it, at the scope of a namespace or a class, ends a parameter list. Lambdas
and local classes count towards the function that they stand in.
"""
import argparse
import pathlib
import re
import sys

ROOMS = ["dialects", "include", "lib", "runtime", "kernels", "tools", "test"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

# What is no code; a replacement keeps the lines.
NO_CODE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
TYPE = re.compile(r"\b(class|struct|union|enum)\b")
PARAMETERS_END = re.compile(r"\)\s*(const|noexcept|override|final|&&?|mutable|try|->[^;{}]*|:[^;{}]*)*\s*$", re.DOTALL)


def without_text(source):
    return NO_CODE.sub(lambda match: "".join(c if c == "\n" else " " for c in match.group()), source)


def opens_function(before):
    """Whether the text between the last statement and a brace is the head of a function."""
    # Template parameters may hold `class`, default arguments may hold braces' text: neither is at the end.
    if re.search(r"\bnamespace\b", before) or re.search(r'\bextern\s*$', before):
        return False
    head = re.sub(r"\btemplate\s*<[^{;]*?>\s*(?=\w)", "", before)
    if TYPE.match(head.strip()) or re.search(r"=\s*$", head):
        return False
    return "(" in head and bool(PARAMETERS_END.search(head))


def functions(text):
    """Yields (first line, last line, head) of every function definition."""
    scopes = []  # what each open brace is: "function" or "other"
    begin = 0  # of the text since the last statement
    first = None
    depth = 0  # of parentheses: a brace among arguments is none of a body
    for at, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "{":
            head = text[begin:at]
            inside = "function" in scopes
            is_function = not inside and depth == 0 and opens_function(head)
            # `: member{value}` of a constructor: a brace that closes at once and goes on.
            if is_function and re.search(r":[^:{}]*\b\w+\s*$", head) and not head.rstrip().endswith(")"):
                is_function = False
            scopes.append("function" if is_function else "other")
            if is_function:
                start = begin + len(head) - len(head.lstrip())
                first = text.count("\n", 0, start) + 1
                name = " ".join(head.split())
            if not inside:
                begin = at + 1
        elif char == "}":
            if scopes and scopes.pop() == "function":
                yield first, text.count("\n", 0, at) + 1, name
            if "function" not in scopes:
                begin = at + 1
        elif char == ";" and depth == 0 and "function" not in scopes:
            begin = at + 1


def name_of(head):
    match = re.search(r"([\w:~]+|operator[^\s(]+)\s*\(", head)
    return match.group(1) if match else head[:60]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    found = []
    count = 0
    for room in ROOMS:
        for file in sorted((arguments.root / room).rglob("*")):
            if file.suffix not in SUFFIXES:
                continue
            for first, last, head in functions(without_text(file.read_text(encoding="utf-8"))):
                count += 1
                lines = last - first + 1
                if arguments.all or lines > arguments.limit:
                    found.append((lines, f"{file.relative_to(arguments.root)}:{first}: {name_of(head)}"))
    if count < 1000:
        sys.exit(f"only {count} functions were found below {arguments.root}, expected thousands: is this the source root?")
    for lines, where in sorted(found, reverse=True):
        print(f"{where} has {lines} lines, expected at most {arguments.limit}")
    print(f"{count} functions")
    return 1 if found and not arguments.all else 0


if __name__ == "__main__":
    sys.exit(main())
