"""Recall and speed of tree and LSH beside their peers, one thread.

See bench/approx/run.sh. CASES=REGEX runs the cases whose name it matches.
"""

import ctypes
import os
import re
import sys
import time

# pylint: disable=wrong-import-position
sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..")]
from harness import measure
from harness.results import Results

import hnswlib
import numpy as np
import sklearn
from sklearn.neighbors import KDTree

CASES = re.compile(os.environ.get("CASES", ""))
METRICS = {"l2": 0, "ip": 1, "cosine": 2}
KINDS = {"exact scan": 0, "certified scan": 1, "tree": 2, "lsh": 3}
TARGETS = (0.9, 0.95, 0.99)
K = 10
RUNS = 2 if measure.QUICK else 5


def floats(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


class Ours:
    """A segment with a tree and LSH tables."""

    def __init__(self, metric, rows, tables):
        self.lib = ctypes.CDLL("bazel-bin/bench/approx/libcoterie_approx.so")
        self.lib.coterie_approx_open.restype = ctypes.c_void_p
        self.lib.coterie_approx_close.argtypes = [ctypes.c_void_p]
        self.counts = np.zeros(5)
        start = time.perf_counter()
        self.handle = self.lib.coterie_approx_open(
            METRICS[metric], ctypes.c_int64(rows.shape[0]),
            ctypes.c_int64(rows.shape[1]), floats(rows), ctypes.c_int64(tables))
        self.build_seconds = time.perf_counter() - start

    def search(self, kind, target, queries):
        ids = np.empty((len(queries), K), dtype=np.uint64)
        distances = np.empty((len(queries), K))
        pointer = lambda a, t: a.ctypes.data_as(ctypes.POINTER(t))
        self.lib.coterie_approx_search(
            ctypes.c_void_p(self.handle), KINDS[kind], ctypes.c_double(target),
            ctypes.c_int64(len(queries)), floats(queries), ctypes.c_int64(K),
            pointer(ids, ctypes.c_uint64), pointer(distances, ctypes.c_double),
            pointer(self.counts, ctypes.c_double))
        return ids, distances

    def close(self):
        self.lib.coterie_approx_close(self.handle)


class Nanoflann:
    """The k-d tree of nanoflann, d = 2, 3, 8."""

    def __init__(self, rows):
        self.lib = ctypes.CDLL("bazel-bin/bench/approx/libnanoflann.so")
        self.lib.nanoflann_open.restype = ctypes.c_void_p
        self.rows = rows
        self.handle = ctypes.c_void_p(self.lib.nanoflann_open(
            ctypes.c_int64(rows.shape[0]), ctypes.c_int64(rows.shape[1]),
            floats(rows)))

    def search(self, queries):
        ids = np.empty((len(queries), K), dtype=np.uint32)
        self.lib.nanoflann_search(
            self.handle, ctypes.c_int64(len(queries)),
            ctypes.c_int64(queries.shape[1]), floats(queries),
            ctypes.c_int64(K),
            ids.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32)))
        return ids


def recall(found, truth):
    hits = sum(len(np.intersect1d(f, t)) for f, t in zip(found, truth))
    return hits / truth.size


def squared(rows, queries, ids):
    """Squared distances of what a peer found, in double."""
    gaps = rows[ids.astype(np.int64)].astype(np.float64) - queries[:, None]
    return np.sort((gaps ** 2).sum(axis=2), axis=1)


def low_dimension(results, d, n, m):
    """Exact answers: tree against the peers and our own scan."""
    name = f"gauss-{n // 1000}k-d{d}/l2/batch={m}/k={K}/threads=1"
    if not CASES.search(name):
        return
    random = np.random.default_rng(d)
    rows = random.standard_normal((n, d), dtype=np.float32)
    queries = random.standard_normal((m, d), dtype=np.float32)
    ours = Ours("l2", rows, 0)
    nanoflann = Nanoflann(rows)
    kd_tree = KDTree(rows, leaf_size=40)
    few = queries[:max(10, m // 100)]
    found = {}
    sides = {
        "ours": lambda _: found.update(ours=ours.search("tree", 1, queries)),
        "nanoflann": lambda _: found.update(nano=nanoflann.search(queries)),
        "sklearn": lambda _: found.update(
            sk=kd_tree.query(queries, k=K, return_distance=False)),
        "scan": lambda _: found.update(
            scan=ours.search("certified scan", 1, few)),
    }
    seconds = measure.alternate(sides, RUNS)
    ids, distances = found["ours"]
    tree = seconds["ours"] / m
    # The rounding of float32 may choose another of two rows as near.
    same = lambda peer: np.allclose(squared(rows, queries, peer), distances,
                                    rtol=1e-5, atol=1e-12)
    add = lambda peer, peer_seconds, checked: results.add(
        name, "time per query", "us", tree * 1e6, peer_seconds * 1e6, peer,
        checked, RUNS, build_seconds=round(ours.build_seconds, 2))
    add("nanoflann KDTreeSingleIndexAdaptor", seconds["nanoflann"] / m,
        same(found["nano"]))
    add(f"scikit-learn {sklearn.__version__} KDTree", seconds["sklearn"] / m,
        same(found["sk"]))
    add("our certified scan", seconds["scan"] / len(few),
        bool((found["scan"][0] == ids[:len(few)]).all()))
    ours.close()


def hnsw_at(index, queries, truth, target):
    """The least ef that reaches the target on these queries."""
    for ef in (10, 15, 20, 30, 40, 60, 80, 120, 160, 200, 240, 280, 320, 400, 480,
               560, 640, 800, 960):
        index.set_ef(ef)
        if recall(index.knn_query(queries, k=K)[0], truth) >= target:
            return ef
    return None


def words(results, metric):
    """GloVe word vectors: recall against speed."""
    name = f"glove-341k/{metric}/batch=1/k={K}/threads=1"
    if not CASES.search(name):
        return
    folder = os.environ.get("DATA", "data/large")
    rows = np.load(f"{folder}/glove-341k.npy").astype(np.float32)
    order = np.random.default_rng(7).permutation(len(rows))
    queries = np.ascontiguousarray(rows[order[:1000]])
    rows = np.ascontiguousarray(rows[np.sort(order[1000:])])
    ours = Ours(metric, rows, 32)
    truth = ours.search("certified scan", 1, queries)[0]
    hnsw = hnswlib.Index(space=metric, dim=rows.shape[1])
    hnsw.init_index(len(rows), M=16, ef_construction=200)
    start = time.perf_counter()
    hnsw.add_items(rows, num_threads=1)
    hnsw_build = time.perf_counter() - start
    hnsw.set_num_threads(1)
    print(f"{name}: ours {ours.build_seconds:.1f} s to build, tree "
          f"{ours.counts[3] / len(rows):.1f} and LSH {ours.counts[4] / len(rows):.1f} "
          f"bytes a row; hnswlib {hnsw_build:.1f} s")
    for kind in ("tree", "lsh"):
        for target in (1,) + TARGETS if kind == "tree" else TARGETS:
            compare(results, name, ours, kind, target, hnsw, queries, truth)
    ours.close()


def compare(results, name, ours, kind, target, hnsw, queries, truth):
    """One kind and target beside the scan, and hnswlib at as much recall."""
    ids = ours.search(kind, target, queries)[0]
    read, evaluated, exact = ours.counts[:3] / len(queries)
    reached = recall(ids, truth)
    few = queries[:100]
    sides = {"ours": lambda _: ours.search(kind, target, queries),
             "scan": lambda _: ours.search("certified scan", 1, few)}
    ef = hnsw_at(hnsw, queries, truth, target) if target < 1 else None
    if ef is not None:
        hnsw.set_ef(ef)
        hnsw_recall = recall(hnsw.knn_query(queries, k=K)[0], truth)
        sides["hnsw"] = lambda _: hnsw.knn_query(queries, k=K, num_threads=1)
    seconds = measure.alternate(sides, RUNS)
    mine = seconds["ours"] / len(queries)
    case = f"{name}/{kind}/target={target}/recall={reached:.4f}"
    more = {"read": round(read, 1), "evaluated": round(evaluated, 1),
            "exact_answers": round(exact, 3)}
    results.add(case, "time per query", "us", mine * 1e6,
                seconds["scan"] / len(few) * 1e6, "our certified scan",
                True, RUNS, **more)
    if ef is not None:
        results.add(case, "time per query", "us", mine * 1e6,
                    seconds["hnsw"] / len(queries) * 1e6,
                    f"hnswlib 0.8.0 M=16 ef={ef} recall={hnsw_recall:.4f}",
                    True, RUNS, **more)


def main():
    results = Results("approx")
    Results.print_head()
    n = 200_000 if measure.QUICK else 1_000_000
    for d, m in ((2, 20_000), (3, 20_000), (8, 2_000)):
        low_dimension(results, d, n, m)
    for metric in ("l2", "cosine"):
        words(results, metric)
    results.plot_ratios("tree and LSH, one thread")


main()
