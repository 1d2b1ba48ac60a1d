"""Our indexes, as libraries that Python loads; and nanoflann, likewise."""

import ctypes
import time

import numpy as np

METRICS = {"l2": 0, "ip": 1, "cosine": 2}
EXACT, CERTIFIED, TREE, LSH, FAISS = range(5)


def floats(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


class Ours:
    """A segment with a tree and, if asked for, LSH tables and FAISS indexes."""

    def __init__(self, metric, rows, tables=0, factories=()):
        self.lib = ctypes.CDLL("bazel-bin/bench/approx/libcoterie_approx.so")
        self.lib.coterie_approx_open.restype = ctypes.c_void_p
        self.lib.coterie_approx_close.argtypes = [ctypes.c_void_p]
        self.lib.coterie_approx_predict.restype = ctypes.c_double
        self.counts = np.zeros(6)
        start = time.perf_counter()
        self.handle = ctypes.c_void_p(self.lib.coterie_approx_open(
            METRICS[metric], ctypes.c_int64(rows.shape[0]),
            ctypes.c_int64(rows.shape[1]), floats(rows), ctypes.c_int64(tables)))
        self.build_seconds = {"tree and lsh": time.perf_counter() - start}
        for factory in factories:
            start = time.perf_counter()
            if not self.lib.coterie_approx_add_faiss(self.handle,
                                                     factory.encode()):
                raise ValueError(f"FAISS refuses {factory}")
            self.build_seconds[factory] = time.perf_counter() - start

    def search(self, kind, queries, k, target=1.0, effort=0, batch=1):
        """Ids; what was read, evaluated and exact is in counts, summed up."""
        ids = np.empty((len(queries), k), dtype=np.uint64)
        distances = np.empty((len(queries), k))
        pointer = lambda a, t: a.ctypes.data_as(ctypes.POINTER(t))
        self.lib.coterie_approx_search(
            self.handle, kind, ctypes.c_double(target), ctypes.c_int64(effort),
            ctypes.c_int64(batch), ctypes.c_int64(len(queries)), floats(queries), ctypes.c_int64(k),
            pointer(ids, ctypes.c_uint64), pointer(distances, ctypes.c_double),
            pointer(self.counts, ctypes.c_double))
        return ids, distances

    def delete(self, deleted):
        """Rows where `deleted` is true live no more."""
        flags = np.ascontiguousarray(deleted, dtype=np.uint8)
        self.lib.coterie_approx_delete(
            self.handle, flags.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)))

    def predict(self, kind, k, target):
        """Seconds that the planner expects a query to take."""
        return self.lib.coterie_approx_predict(
            self.handle, kind, ctypes.c_double(target), ctypes.c_int64(k))

    def counts_of(self, kind, queries, k):
        """What a search reads, evaluates and answers exactly, summed up."""
        self.search(kind, queries, k)
        return self.counts

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

    def search(self, queries, k):
        ids = np.empty((len(queries), k), dtype=np.uint32)
        self.lib.nanoflann_search(
            self.handle, ctypes.c_int64(len(queries)),
            ctypes.c_int64(queries.shape[1]), floats(queries),
            ctypes.c_int64(k),
            ids.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32)))
        return ids

    def close(self):
        self.lib.nanoflann_close(self.handle)
