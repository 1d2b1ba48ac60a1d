#!/usr/bin/env python3
"""Limits of size and habits, held by a ratchet.

Functions over 60 lines and files over 500 are refused, unless listed in
tools/style_ratchet.txt with the size they may not exceed. Also refused: a
test file without a target, a header that nothing includes, a sleep or a
skipped test, words that promise later work, paths of one machine.

    tools/check_style.py            check
    tools/check_style.py --update   lower the ratchet to what is there now
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATCHET = ROOT / "tools" / "style_ratchet.txt"
MAX_FUNCTION = 60
MAX_FILE = 500
PROMISES = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b|\b(GTEST_" r"SKIP|DISABLED_)")
SLEEPS = re.compile(r"\b(sleep_for|SleepFor|usleep|time\.sleep)\b")
MACHINE = re.compile(r"(^|[\s\"'=(])/(work|farm|root|home/\w+)/")


def tracked():
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [p for p in out.splitlines() if (ROOT / p).is_file()]


def functions(lines):
    """(name, length) of definitions that start at column 0 and end with ^}."""
    start = None
    for i, line in enumerate(lines):
        if start is None:
            opens = line.rstrip().endswith("{") and not re.match(
                r"(namespace|class|struct|enum|union|extern|\}|#|//)", line)
            if line[:1].strip() and opens and "(" in "".join(
                    lines[max(0, i - 6):i + 1]):
                start = i
        elif line.startswith("}"):
            name = re.search(r"([\w:~]+)\s*\(", lines[start])
            first = start
            while first > 0 and not name:
                first -= 1
                name = re.search(r"([\w:~]+)\s*\(", lines[first])
            yield (name.group(1) if name else "?"), i - first + 1
            start = None


def sizes(paths):
    found = {}
    for p in paths:
        if not p.endswith((".cc", ".h", ".py", ".sh", ".bzl")):
            continue
        lines = (ROOT / p).read_text(errors="replace").splitlines()
        if len(lines) > MAX_FILE:
            found[p] = len(lines)
        if p.endswith((".cc", ".h")):
            for name, length in functions(lines):
                if length > MAX_FUNCTION and "_test" not in p:
                    found[f"{p}:{name}"] = length
    return found


def habits(paths):
    problems = []
    sources = [p for p in paths if p.endswith((".cc", ".h", ".py", ".sh", ".proto"))]
    text = {p: (ROOT / p).read_text(errors="replace") for p in sources}
    builds = {p: (ROOT / p).read_text() for p in paths
              if p.endswith("BUILD") or p.endswith(".BUILD")}
    included = set(re.findall(r'#include "([^"]+)"', "\n".join(text.values())))
    for p, body in text.items():
        if p == "tools/check_style.py":
            continue
        for n, line in enumerate(body.splitlines(), 1):
            if PROMISES.search(line):
                problems.append(f"{p}:{n}: promises later work: {line.strip()}")
            if MACHINE.search(line):
                problems.append(f"{p}:{n}: a path of one machine: {line.strip()}")
            if SLEEPS.search(line) and ("_test." in p or p.startswith("tests/")):
                problems.append(f"{p}:{n}: a sleep in a test: wait for a condition")
        if p.endswith(".h") and p not in included:
            problems.append(f"{p}: nothing includes this header")
        if p.endswith("_test.cc"):
            folder, name = p.rsplit("/", 1)
            # By file name, or by target name where a comprehension adds ".cc".
            build = builds.get(folder + "/BUILD", "")
            stem = name[:-len(".cc")]
            if not re.search(rf'"{stem}(_test)?(\.cc)?"', build) and \
                    not re.search(rf'"{stem[:-len("_test")]}"', build):
                problems.append(f"{p}: no target builds this test")
    return problems


def main():
    paths = tracked()
    found = sizes(paths)
    if "--update" in sys.argv:
        RATCHET.write_text("".join(f"{v} {k}\n" for k, v in sorted(found.items())))
    allowed = {}
    if RATCHET.exists():
        for line in RATCHET.read_text().splitlines():
            size, name = line.split(" ", 1)
            allowed[name] = int(size)
    problems = [f"{k}: {v} lines (limit {allowed.get(k) or (MAX_FUNCTION if ':' in k else MAX_FILE)})"
                for k, v in sorted(found.items()) if v > allowed.get(k, 0)]
    problems += habits(paths)
    for problem in problems:
        print("style:", problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"style: ok ({len(paths)} files)")


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
    else:
        main()
