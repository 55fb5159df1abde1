"""What the tests of the documentation, and scripts/docs, read of its pages: code blocks, links, headings."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def pages():
    """README.md first, then docs/ in its reading order, then what it leads to."""
    index = ROOT / "docs" / "README.md"
    ordered = [ROOT / "README.md", index]
    for target in re.findall(r"\]\(([^)#]+\.md)", index.read_text()):
        page = (index.parent / target).resolve()
        if page not in ordered and page.exists():
            ordered.append(page)
    rest = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "dialects").glob("*/RATIONALE.md"))]
    return ordered + [page for page in rest if page not in ordered]


class Block:
    """A code block: fenced, or indented by four spaces and no part of a list."""

    def __init__(self, page, line, language, text):
        self.page = page.relative_to(ROOT).as_posix()
        self.line = line
        self.language = language
        self.text = text

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks(page):
    """The code blocks of a page, in order."""
    found, lines, at = [], page.read_text().splitlines(), 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("```"):
            end = lines.index("```", at + 1)
            found.append(Block(page, at + 1, line[3:].strip() or "text", "\n".join(lines[at + 1 : end])))
            at = end + 1
            continue
        follows_text = at > 0 and lines[at - 1].strip()
        if line.startswith("    ") and not follows_text:
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            text = "\n".join(each[4:] for each in lines[at:end]).rstrip()
            found.append(Block(page, at + 1, "indented", text))
            at = end
            continue
        at += 1
    return found


def prose(page):
    """The page without its code blocks, line by line with numbers."""
    inside = set()
    for block in blocks(page):
        height = block.text.count("\n") + 1 + (0 if block.language == "indented" else 2)
        inside.update(range(block.line, block.line + height))
    return [(number, line) for number, line in enumerate(page.read_text().splitlines(), 1) if number not in inside]


def links(page):
    """(line, target) of every link."""
    for number, line in prose(page):
        without_code = re.sub(r"`[^`]*`", "", line)
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code):
            yield number, target


def anchors(page):
    """What links may name behind a #, as GitHub and MkDocs make it of headings."""
    found = set()
    for _, line in prose(page):
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            text = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading.group(1)).strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found
