"""Filtered search against no filter and against faiss with a bitmap.

See bench/filtered/run.sh for what the environment chooses.
"""

import ctypes
import os
import sys

# pylint: disable=wrong-import-position
sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..")]
from harness import blas, measure

blas.run_with_best_core_type()

import faiss
import numpy as np
from harness.results import Results

LIBRARY = "bazel-bin/bench/filtered/libcoterie_filtered.so"
DATA = os.environ.get("GLOVE", "data/large/glove-341k.npy")
K = 10
HELD_OUT = 1000
KINDS = {"all": 0, "range": 1, "match": 2}
FAISS = f"faiss-cpu {faiss.__version__} IndexFlatL2, IDSelectorBitmap"


def pointer(array, kind):
    return array.ctypes.data_as(ctypes.POINTER(kind))


class Ours:
    """The collection, filled and sealed."""

    def __init__(self, rows, thousandths):
        self.lib = ctypes.CDLL(LIBRARY)
        self.lib.filtered_open.restype = ctypes.c_void_p
        self.lib.filtered_attribute_bytes.restype = ctypes.c_int64
        self.lib.filtered_search.restype = ctypes.c_bool
        self.handle = ctypes.c_void_p(self.lib.filtered_open(
            ctypes.c_int64(rows.shape[0]), ctypes.c_int64(rows.shape[1]),
            pointer(rows, ctypes.c_float),
            pointer(thousandths, ctypes.c_int32)))

    def attribute_bytes(self):
        return self.lib.filtered_attribute_bytes(self.handle)

    def search(self, queries, kind, below):
        """The ids, one row a query."""
        ids = np.empty((len(queries), K), dtype=np.uint64)
        if not self.lib.filtered_search(
                self.handle, ctypes.c_int64(queries.shape[0]),
                ctypes.c_int64(queries.shape[1]),
                pointer(queries, ctypes.c_float), ctypes.c_int64(K),
                ctypes.c_int32(KINDS[kind]), ctypes.c_int32(below),
                pointer(ids, ctypes.c_uint64)):
            raise RuntimeError("the search failed")
        return ids


def main():
    data = np.ascontiguousarray(np.load(DATA), dtype=np.float32)
    random = np.random.default_rng(7)
    order = random.permutation(len(data))
    queries = np.ascontiguousarray(data[order[:HELD_OUT]])
    rows = np.ascontiguousarray(data[order[HELD_OUT:]])
    thousandths = random.integers(0, 1000, len(rows), dtype=np.int32)
    ours = Ours(rows, thousandths)
    print(f"attributes: {ours.attribute_bytes() / len(rows):.1f} bytes a row")
    faiss.omp_set_num_threads(1)
    peer = faiss.IndexFlatL2(rows.shape[1])
    peer.add(rows)
    results = Results("filtered")
    results.print_head()
    for below in (1, 10, 100, 500):
        mask = np.packbits(thousandths < below, bitorder="little")
        selector = faiss.IDSelectorBitmap(mask)
        parameters = faiss.SearchParameters(sel=selector)
        for kind in ("match", "range"):
            for batch in (1, 16):
                compare(results, ours, peer, queries, parameters, kind, below,
                        batch)


def compare(results, ours, peer, queries, parameters, kind, below, batch):
    """One selectivity, by turns: filtered, unfiltered, the peer."""
    calls = (2 if measure.QUICK else 8) if batch == 1 else 2
    runs = 5 if measure.QUICK else 25 if batch == 1 else 9

    def blocks(run):
        for call in range(calls):
            at = (run * calls + call) * batch % (HELD_OUT - batch + 1)
            yield queries[at:at + batch]

    def run_ours(run, how=kind):
        for block in blocks(run):
            ours.search(block, how, below)

    def run_peer(run):
        for block in blocks(run):
            peer.search(block, K, params=parameters)

    sides = {"ours": run_ours, "all": lambda run: run_ours(run, "all"),
             "peer": run_peer}
    for side in sides.values():
        side(0)
    seconds = measure.alternate(sides, runs)
    checked = queries[:40]
    _, expected = peer.search(checked, K, params=parameters)
    same = bool(np.array_equal(ours.search(checked, kind, below),
                               expected.astype(np.uint64)))
    case = f"glove-341k/l2/batch={batch}/k={K}/threads=1/{kind} {below / 10}%"
    each = 1000 / (calls * batch)
    for name, title in (("all", "the same search, no filter"), ("peer", FAISS)):
        results.add(case, "time per query", "ms", seconds["ours"] * each,
                    seconds[name] * each, title, same, runs)


if __name__ == "__main__":
    main()
