"""The rows that are clustered, and where clusters start."""

import os

import numpy as np

FOLDER = os.environ.get("DATA", "data/large")


def _stored(name):
    return np.ascontiguousarray(np.load(f"{FOLDER}/{name}.npy"),
                                dtype=np.float32)


def _mixture(n, d, seed):
    """Points around 300 centres of unequal weight, overlapping somewhat."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((300, d))
    weights = random.exponential(size=300)
    of = random.choice(300, size=n, p=weights / weights.sum())
    spread = 0.15 * random.standard_normal((n, d))
    return (centres[of] + spread).astype(np.float32)


SETS = {
    "fashion-70k": lambda: _stored("fashion-70k"),
    "glove-341k": lambda: _stored("glove-341k"),
    "made-2d": lambda: _mixture(1_000_000, 2, 21),
    "made-8d": lambda: _mixture(500_000, 8, 22),
}


def start_of(rows, k):
    """k distinct random rows."""
    chosen = np.random.default_rng(4).choice(len(rows), size=k, replace=False)
    return np.ascontiguousarray(rows[np.sort(chosen)])
