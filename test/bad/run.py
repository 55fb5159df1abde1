#!/usr/bin/env python3
"""Runs the library of bad inputs: each has to give its exit status and its lines, word for word, and leave nothing behind.

Usage: run.py TOOLS_FOLDER [--show] [CLASS…]     runs all, or these; --show prints what is said instead, as a table has it
       run.py --page PAGE                        holds the page's table of classes to the folders

A folder here is a class. Its `expected` says what each of its inputs must give:

    = what the class is                     the heading, as the page has it
    base PATH                               of what `.edit` files are edits; $MODELS is test/models
    beside NAME                             a file of the class that lies beside each input
    setup COMMAND                           run once, where the inputs of the class are made, called $CLASS
    run COMMAND                             what is run over an input, called FILE
    name.onnx                               an input; 65 unless another status follows
      $ COMMAND                             its own commands instead, of which all but the last succeed
      | error: …                            all that standard error has, line by line
      ~ error: …                            or a part of it, where ranks speak in any order

How inputs are stored is told in tools/made.py. Each command gets 4 GB of address space, 20 s and half a gigabyte of memory, of
which none needs a tenth. Two are run at a time.
"""
import concurrent.futures
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "tools"))
sys.dont_write_bytecode = True
import made  # noqa: E402

SECONDS, ADDRESS_SPACE, RESIDENT_KIB = 20, 4 << 30, 512 << 10
MODELS = HERE.parent / "models"


class Case:
    def __init__(self, name, status):
        self.name, self.status, self.commands, self.lines, self.parts = name, status, [], [], []


class Class:
    """A folder of inputs and its table."""

    def __init__(self, folder):
        self.folder, self.name, self.heading, self.base = folder, folder.name, "", None
        self.beside, self.setup, self.run, self.cases = [], [], None, []
        for number, line in enumerate((folder / "expected").read_text().splitlines(), 1):
            try:
                self.read(line)
            except (IndexError, KeyError, ValueError) as error:
                sys.exit(f"{folder}/expected:{number}: cannot be read: {error}")

    def read(self, line):
        word, _, rest = line.strip().partition(" ")
        if line.startswith("  "):
            case = self.cases[-1]
            {"|": case.lines, "~": case.parts, "$": case.commands}[word].append(rest)
        elif word == "=":
            self.heading = rest
        elif word == "base":
            self.base = rest
        elif word == "beside":
            self.beside.append(rest)
        elif word == "setup":
            self.setup.append(rest)
        elif word == "run":
            self.run = rest
        elif word and word != "#":
            match = re.fullmatch(r"(.*?)(?:  +(\d+))?", line)
            self.cases.append(Case(match[1], int(match[2] or 65)))

    def sources(self):
        """The files of the library by the names of the inputs that they stand for."""
        return {made.made_name(p): p for p in self.folder.iterdir() if p.name not in ("expected", "__pycache__")}

    def faults(self, show):
        """What does not fit between the table and the folder."""
        named, stored = {case.name for case in self.cases}, self.sources()
        yield from (f"{self.name}/{n} is not in `expected`" for n in sorted(stored.keys() - named) if n not in self.helpers())
        for case in self.cases:
            if case.name not in stored and not case.commands:
                yield f"{self.name}: {case.name} is neither a file nor has a command of its own"
            if not case.lines + case.parts and not show:
                yield f"{self.name}: {case.name} has no line that it must give"
        if len(named) != len(self.cases):
            yield f"{self.name}: an input is named twice"

    def base_path(self, scratch):
        place = {"$MODELS": str(MODELS), "$CLASS": str(scratch / "class" / self.name)}
        return self.base and (self.folder / re.sub(r"\$[A-Z]+", lambda m: place[m[0]], self.base)).resolve()

    def helpers(self):
        """Files that commands name and that are no input by themselves."""
        used = " ".join(self.setup + [c for case in self.cases for c in case.commands] + [self.run or ""])
        return set(self.beside) | {n for n in self.sources() if f"$CLASS/{n}" in used or n == self.base}


def listing(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def execute(command, folder, names, status):
    """What is wrong with how the command ends ("" if nothing), and what it says."""
    words = [re.sub(r"\$(MODELS|CLASS)", lambda m: names[m[1]], w)
             for w in shlex.split(command)]
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                                   preexec_fn=limit, start_new_session=True)
        late = threading.Timer(SECONDS, lambda: os.killpg(process.pid, 9))
        late.start()
        _, code, used = os.wait4(process.pid, 0)
        late.cancel()
        process.returncode = code = os.waitstatus_to_exitcode(code)
        said.seek(0)
        lines = said.read(1 << 20).decode("utf-8", "backslashreplace")
    for key, value in names.items():
        lines = lines.replace(value, f"${key}")
    wrong = ""
    if code != status:
        wrong = f"ended with {code}, expected {status}"
    elif used.ru_maxrss > RESIDENT_KIB:
        wrong = f"took {used.ru_maxrss} KiB of memory, expected at most {RESIDENT_KIB}"
    return wrong, [line.rstrip() for line in lines.splitlines()]


def run_case(group, case, scratch, show):
    folder = scratch / "case" / group.name / re.sub(r"\W", "-", case.name)
    folder.mkdir(parents=True)
    source = group.sources().get(case.name)
    for name in group.beside + ([case.name] if source else []):
        made.make(group.sources()[name], folder / name, group.base_path(scratch))
    names = {"CLASS": str(scratch / "class" / group.name), "MODELS": str(MODELS), "HERE": str(folder)}
    commands = [c.replace("FILE", shlex.quote(case.name)) for c in case.commands or [group.run]]
    for command in commands[:-1]:
        wrong, lines = execute(command, folder, names, 0)
        if wrong:
            return f"{case.name}: {command}: {wrong}\n" + "\n".join(lines)
    before = listing(folder)
    wrong, lines = execute(commands[-1], folder, names, case.status)
    left = sorted(set(listing(folder)) ^ set(before))
    shutil.rmtree(folder)
    if show:
        status = re.search(r"ended with (-?\d+)", wrong)
        status = int(status[1]) if status else case.status
        return "\n".join([case.name + ("" if status == 65 else f"  {status}")] + [f"  $ {c}" for c in case.commands] +
                         [f"  | {line}" for line in lines] + ([f"  LEFT {left}"] if left else []))
    if not wrong and left and case.status:
        wrong = f"left behind or took away: {', '.join(left)}"
    missing = [part for part in case.parts if not any(part in line for line in lines)]
    if not wrong and (missing if case.parts else lines != case.lines):
        wrong = "said something else"
    if not wrong:
        return ""
    return (f"{group.name}/{case.name}: {wrong}\n  {commands[-1]}\n" +
            "".join(f"  expected | {line}\n" for line in case.lines + missing) + "".join(f"  found    | {line}\n" for line in lines[:20]))


def set_up(group, scratch):
    folder = scratch / "class" / group.name
    folder.mkdir(parents=True)
    for name in group.helpers():
        made.make(group.sources()[name], folder / name, group.base_path(scratch))
    for command in group.setup:
        wrong, lines = execute(command, folder, {"CLASS": str(folder), "MODELS": str(MODELS)}, 0)
        if wrong:
            return f"{group.name}: {command}: {wrong}\n" + "\n".join(lines)
    return ""


def classes(wanted):
    groups = [Class(p.parent) for p in sorted(HERE.glob("*/expected"))]
    return [g for g in groups if not wanted or g.name in wanted]


def rows(groups):
    yield from (f"| `{g.name}` | {len(g.cases)} | {g.heading} |" for g in groups)
    yield f"| {len(groups)} classes | {sum(len(g.cases) for g in groups)} | |"


def check_page(page):
    text = pathlib.Path(page).read_text().splitlines()
    found = [line for line in text if re.match(r"\| (`[\w.-]+`|\d+ classes) \| \d+ \|", line)]
    expected = list(rows(classes([])))
    if found != expected:
        print(f"{page} does not have the classes as they are; its rows have to be:", *expected, sep="\n")
    return found != expected


def main():
    if sys.argv[1:2] == ["--page"]:
        return check_page(sys.argv[2])
    show = "--show" in sys.argv
    tools, *wanted = [a for a in sys.argv[1:] if a != "--show"]
    os.environ["PATH"] = f"{pathlib.Path(tools).resolve()}:{os.environ['PATH']}"
    os.environ["TERM"], os.environ["LC_ALL"] = "dumb", "C.UTF-8"
    groups, faults = classes(wanted), []
    if missing := set(wanted) - {g.name for g in groups}:
        sys.exit(f"no such class: {', '.join(sorted(missing))}")
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(2) as pool:
        scratch = pathlib.Path(scratch)
        faults += [fault for g in groups for fault in g.faults(show)]
        faults += [fault for fault in pool.map(lambda g: set_up(g, scratch), groups) if fault]
        if not faults or show:
            cases = [(g, c) for g in groups for c in g.cases]
            results = pool.map(lambda pair: run_case(*pair, scratch, show), cases)
            faults += [fault for fault in results if fault]
    print(*faults, sep="\n")
    if not faults:
        print(f"{sum(len(g.cases) for g in groups)} inputs of {len(groups)} classes were refused as expected")
    return bool(faults) and not show


if __name__ == "__main__":
    sys.exit(main())
