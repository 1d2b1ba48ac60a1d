#!/usr/bin/env python3
"""No JSON that we ship has a whole number that a double cannot hold.

ghz passes every JSON number through a double, as many tools do: an id above
2^53 arrives as another one, unless it is written as a string. Looks through
the files named on the command line, and what bench/ghz/queries.py writes.
"""

import json
import re
import subprocess
import sys
import tempfile

MOST = 1 << 53

# A whole number where JSON has a value, not in quotes.
NUMBER = re.compile(r"[:\[,]\s*(-?\d+)(?=\s*(?:[,\]}]|$))", re.MULTILINE)


def unsafe(text):
    """(line, number) of each that is too large."""
    return [(text.count("\n", 0, found.start(1)) + 1, found.group(1))
            for found in NUMBER.finditer(text)
            if abs(int(found.group(1))) > MOST]


def check_checker():
    for text in ['{"id": 9007199254740993}', '{"ids":[1,9007199254740993]}',
                 '"id":\n 18446744073709551615,', '[-9007199254740993]']:
        assert unsafe(text), f"not noticed: {text}"
    for text in ['{"id": "9007199254740993"}', '{"id": 9007199254740992}',
                 '{"x": 9007199254740993.5}', '2^53 is 9007199254740992, +1 '
                 'is 9007199254740993; say so']:
        assert not unsafe(text), f"noticed without need: {text}"


def check_generator():
    """Ids are strings, digit for digit."""
    first = MOST + 1
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([sys.executable, "bench/ghz/queries.py",
                        "data/words-10k.npy", "3", "5", out.name, str(first)],
                       check=True)
        text = out.read().decode()
    assert not unsafe(text), text
    ids = [request["queries"][0]["id"] for request in json.loads(text)]
    assert ids == [str(first + i) for i in range(3)], ids


def main():
    check_checker()
    check_generator()
    files = sys.argv[1:]
    assert len(files) > 20, f"only {len(files)} files to look through"
    faults = []
    for path in files:
        with open(path, encoding="utf-8") as f:
            for line, number in unsafe(f.read()):
                faults.append(f"{path}:{line}: {number} is above 2^53; "
                              "write it as a string")
    print("\n".join(faults) or f"{len(files)} files hold no such number")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
