"""A shard's exact search (bench/exact/search_library.cc), called from Python."""

import ctypes

import numpy as np

METRICS = {"l2": 0, "ip": 1, "cosine": 2}


def _pointer(array, kind):
    return array.ctypes.data_as(ctypes.POINTER(kind))


class Library:
    """The shared library, and what it measures of the machine."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        floats = ctypes.POINTER(ctypes.c_float)
        self.lib.coterie_open.restype = ctypes.c_void_p
        self.lib.coterie_open.argtypes = [
            ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, floats]
        self.lib.coterie_close.argtypes = [ctypes.c_void_p]
        self.lib.coterie_search.restype = ctypes.c_int64
        self.lib.coterie_search.argtypes = [
            ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, floats,
            ctypes.c_int64, ctypes.c_int32, ctypes.POINTER(ctypes.c_uint64),
            ctypes.POINTER(ctypes.c_double)]
        self.lib.coterie_kernels.restype = ctypes.c_char_p
        self.lib.coterie_read_rate.restype = ctypes.c_double
        self.lib.coterie_read_rate.argtypes = [
            ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32]
        self.lib.coterie_multiply_rate.restype = ctypes.c_double
        self.lib.coterie_multiply_rate.argtypes = [ctypes.c_int32]

    def kernels(self):
        return self.lib.coterie_kernels().decode()

    def read_rate(self, array, threads):
        """Bytes per second, the best of three passes over the array."""
        start = -array.ctypes.data % 64
        return max(
            self.lib.coterie_read_rate(
                array.ctypes.data + start, (array.nbytes - start) // 64 * 64,
                threads) for _ in range(3))

    def multiply_rate(self, threads):
        """Products of bytes per second, the best of three."""
        return max(self.lib.coterie_multiply_rate(threads) for _ in range(3))


class Ours:
    """A collection, filled and sealed."""

    def __init__(self, library, metric, rows):
        self.library = library
        self.rows = rows.shape[0]
        self.dimension = rows.shape[1]
        self.handle = library.lib.coterie_open(
            METRICS[metric], rows.shape[0], rows.shape[1],
            _pointer(rows, ctypes.c_float))
        self.rescored = 0

    def close(self):
        self.library.lib.coterie_close(self.handle)
        self.handle = None

    def search(self, queries, k, threads):
        """(ids, distances), one row a query."""
        ids = np.empty((len(queries), k), dtype=np.uint64)
        distances = np.empty((len(queries), k), dtype=np.float64)
        self.rescored = self.library.lib.coterie_search(
            self.handle, len(queries), self.dimension,
            _pointer(queries, ctypes.c_float), k, threads,
            _pointer(ids, ctypes.c_uint64),
            _pointer(distances, ctypes.c_double))
        if self.rescored < 0:
            raise RuntimeError("the search failed")
        return ids, distances
