#!/usr/bin/env python3
"""Writes distinct search requests for ghz, one JSON array.

    queries.py VECTORS.npy COUNT K OUT.json
    queries.py VECTORS.npy COUNT K OUT.json FIRST_ID
    queries.py VECTORS.npy                    only prints the dimension

Each request is one query: a stored row moved by a small random step, so that
no two are alike and none is a stored point; with FIRST_ID, the stored point of
that id and those after it. Ids are strings: ghz passes JSON numbers through a
double.
"""

import array
import json
import random
import sys


def rows(path, most):
    """The first rows, at most so many."""
    with open(path, "rb") as f:
        assert f.read(6) == b"\x93NUMPY", path
        f.read(2)
        header = f.read(int.from_bytes(f.read(2), "little")).decode()
        shape = header.split("'shape': (")[1].split(")")[0].split(",")
        n, d = min(most, int(shape[0])), int(shape[1])
        values = array.array("f", f.read(4 * n * d))
    return [values[i * d:(i + 1) * d] for i in range(n)]


def main():
    if len(sys.argv) == 2:
        print(len(rows(sys.argv[1], 1)[0]))
        return
    path, count, k, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if len(sys.argv) > 5:
        first = int(sys.argv[5])
        queries = [{"id": str(first + i)} for i in range(count)]
    else:
        base = rows(path, count)
        draw = random.Random(1)
        queries = []
        for i in range(count):
            row = base[i % len(base)]
            moved = [round(x + draw.gauss(0, 0.05), 4) for x in row]
            queries.append({"vector": {"values": {"values": moved}}})
    requests = [{"collection": "words", "queries": [query], "k": k}
                for query in queries]
    with open(out, "w", encoding="ascii") as f:
        json.dump(requests, f)


if __name__ == "__main__":
    main()
