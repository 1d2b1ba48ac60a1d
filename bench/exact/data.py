"""The sets that are searched: rows and held-out queries.

Each is made on demand, as they take gigabytes together.
"""

import os

import numpy as np

QUERIES = 4000
FOLDER = os.environ.get("DATA", "data/large")


def _held_out(name):
    """Rows and queries: random rows, held out, are the queries."""
    rows = np.load(f"{FOLDER}/{name}.npy")
    order = np.random.default_rng(7).permutation(len(rows))
    queries = np.ascontiguousarray(rows[order[:QUERIES]], dtype=np.float32)
    return np.ascontiguousarray(rows[np.sort(order[QUERIES:])],
                                dtype=np.float32), queries


def glove():
    return _held_out("glove-341k")


def fashion():
    return _held_out("fashion-70k")


def glove_jittered():
    """Eight copies of GloVe, each row moved by a tenth of the usual distance
    to its neighbours: 1.08 GB, beyond any cache, as real in its structure."""
    rows, queries = glove()
    random = np.random.default_rng(8)
    step = 0.1 * np.std(rows)
    copies = np.tile(rows, (8, 1))
    for i in range(len(rows), len(copies), len(rows)):
        copies[i:i + len(rows)] += step * random.standard_normal(
            rows.shape, dtype=np.float32)
    return copies, queries


def gauss():
    """Independent normal deviates, d = 1536: nothing to prune by."""
    random = np.random.default_rng(9)
    values = random.standard_normal((90_000 + QUERIES, 1536), dtype=np.float32)
    return values[QUERIES:], np.ascontiguousarray(values[:QUERIES])


def outlier():
    """The same with one huge coordinate a row, each time another: codes then
    say nothing of the others."""
    rows, queries = gauss()
    for values in (rows, queries):
        at = np.random.default_rng(10).integers(0, rows.shape[1], len(values))
        values[np.arange(len(values)), at] = 1e4
    return rows, queries


SETS = {
    "glove-341k": glove,
    "fashion-70k": fashion,
    "glove-2.7M": glove_jittered,
    "gauss-1536": gauss,
    "outlier-1536": outlier,
}
