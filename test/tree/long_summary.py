#!/usr/bin/env python3
"""From CTest's JUnit report of long tests to a page that can be committed.

Usage: long_summary.py REPORT.xml COMMIT ALL.txt PAGE
  ALL.txt   names of all long tests, a line each
  PAGE      is written anew: of tests that the report does not have it keeps what it had
"""
import datetime
import os
import pathlib
import sys
import xml.etree.ElementTree as xml

TOP = """# Long tests: when each last ran, and how

Written by `scripts/test --long`, which runs what every change cannot wait for; with options of ctest it runs some, and the rows of the
others stay. A commit is the one that was built and run, with nothing changed beside it.

| test | result | seconds | commit | when | where |
|---|---|---:|---|---|---|
"""
COLUMNS = 6


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "an unknown processor"


def rows_of(page):
    """By test, what a page says of it."""
    rows = {}
    for line in page.read_text(encoding="utf-8").splitlines() if page.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == COLUMNS and cells[0] != "test":
            rows[cells[0]] = cells[1:]
    return rows


def main():
    report, commit, everything, page = sys.argv[1:]
    page = pathlib.Path(page)
    cases = xml.parse(report).getroot().findall("testcase")
    if not cases:
        sys.exit(f"{report} holds no test")
    words = {"run": "passed", "fail": "**failed**", "notrun": "skipped", "disabled": "disabled"}
    known, rows = rows_of(page), {}
    for name in pathlib.Path(everything).read_text(encoding="utf-8").split():
        rows[name] = known.get(name, ["not run", "", "", "", ""])
    where = f"{os.cpu_count()} cores of {processor()}"
    for case in cases:
        result = words.get(case.get("status"), case.get("status"))
        rows[case.get("name")] = [result, f"{float(case.get('time')):.0f}", commit, datetime.date.today().isoformat(), where]
    page.write_text(TOP + "".join(f"| {name} | {' | '.join(cells)} |\n" for name, cells in sorted(rows.items())), encoding="utf-8")


if __name__ == "__main__":
    main()
