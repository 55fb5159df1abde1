#!/usr/bin/env python3
"""From CTest's JUnit report of the long tests to a page that can be committed.

Usage: long_summary.py REPORT.xml COMMIT ALL.txt
  ALL.txt   names of all long tests, a line each: those that the report does not have were not run
"""
import datetime
import os
import pathlib
import sys
import xml.etree.ElementTree as xml


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "an unknown processor"


def main():
    report, commit, everything = sys.argv[1:]
    cases = xml.parse(report).getroot().findall("testcase")
    if not cases:
        sys.exit(f"{report} holds no test")
    print("# Long tests: when they last ran, and how")
    print()
    print("Written by `scripts/test --long`, which runs what every change cannot wait for.")
    print()
    print(f"Commit {commit}, {datetime.date.today().isoformat()}, {os.cpu_count()} cores of {processor()}.")
    print()
    print("| test | result | seconds |")
    print("|---|---|---:|")
    words = {"run": "passed", "fail": "**failed**", "notrun": "skipped", "disabled": "disabled"}
    rows = {name: ("not run", "") for name in pathlib.Path(everything).read_text(encoding="utf-8").split()}
    for case in cases:
        result = words.get(case.get("status"), case.get("status"))
        rows[case.get("name")] = (result, f"{float(case.get('time')):.0f}")
    for name, (result, seconds) in sorted(rows.items()):
        print(f"| {name} | {result} | {seconds} |")


if __name__ == "__main__":
    main()
