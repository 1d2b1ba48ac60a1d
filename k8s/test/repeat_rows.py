#!/usr/bin/env python3
"""Writes a file of the float32 rows of another, again and again.

    repeat_rows.py IN.npy TIMES OUT.npy
"""

import re
import sys


def main():
    path, times, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(path, "rb") as f:
        lead = f.read(8)
        assert lead == b"\x93NUMPY\x01\x00", path
        size = int.from_bytes(f.read(2), "little")
        header = f.read(size).decode()
        data = f.read()
    rows, dimension = map(int, re.search(r"\((\d+), *(\d+)\)", header).groups())
    assert len(data) == 4 * rows * dimension, path
    header = header.rstrip().replace("(%d," % rows, "(%d," % (rows * times))
    with open(out, "wb") as f:
        f.write(lead + size.to_bytes(2, "little"))
        f.write((header.ljust(size - 1) + "\n").encode())
        for _ in range(times):
            f.write(data)


if __name__ == "__main__":
    main()
