"""k-means over one shard (bench/kmeans/kmeans_library.cc), from Python."""

import ctypes

import numpy as np

ALGORITHMS = {"lloyd": 1, "hamerly": 2, "elkan": 3}
_FLOATS = ctypes.POINTER(ctypes.c_float)


class Library:
    """The shared library."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        handle = ctypes.c_void_p
        self.lib.kmeans_kernels.restype = ctypes.c_char_p
        self.lib.kmeans_begin.restype = handle
        self.lib.kmeans_begin.argtypes = [
            ctypes.c_int64, ctypes.c_int64, _FLOATS, ctypes.c_int64, _FLOATS,
            ctypes.c_int32, ctypes.c_int64, ctypes.c_double, ctypes.c_int64,
            ctypes.c_double]
        for name, kind in (("step", ctypes.c_int32),
                           ("reports", ctypes.c_int64),
                           ("bytes", ctypes.c_int64), ("end", None)):
            function = getattr(self.lib, "kmeans_" + name)
            function.restype = kind
            function.argtypes = [handle]
        for name in ("report", "centres", "labels", "inertia"):
            getattr(self.lib, "kmeans_" + name).restype = None
        self.lib.kmeans_report.argtypes = [
            handle, ctypes.POINTER(ctypes.c_double),
            ctypes.POINTER(ctypes.c_int64)]
        self.lib.kmeans_centres.argtypes = [handle, _FLOATS]
        self.lib.kmeans_labels.argtypes = [
            handle, ctypes.POINTER(ctypes.c_int32)]
        self.lib.kmeans_inertia.restype = ctypes.c_double
        self.lib.kmeans_inertia.argtypes = [
            handle, ctypes.POINTER(ctypes.c_int64)]

    def kernels(self):
        return self.lib.kmeans_kernels().decode()


def _floats(array):
    return array.ctypes.data_as(_FLOATS)


class Fit:
    """One job; `with` ends it."""

    def __init__(self, library, rows, start, algorithm="hamerly", batch_rows=0,
                 reassignment_ratio=0.01, max_iterations=300, tolerance=1e-4):
        self.lib = library.lib
        self.rows, self.shape = rows, start.shape
        self.handle = self.lib.kmeans_begin(
            *rows.shape, _floats(rows), len(start), _floats(start),
            ALGORITHMS[algorithm], batch_rows, reassignment_ratio,
            max_iterations, tolerance)
        if not self.handle:
            raise RuntimeError("no job")
        self.done = False

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.lib.kmeans_end(self.handle)
        self.handle = None

    def step(self):
        """One step; whether there is more to do."""
        state = self.lib.kmeans_step(self.handle)
        if state < 0:
            raise RuntimeError("the job failed")
        self.done = state == 0
        return not self.done

    def run(self):
        while self.step():
            pass
        return self

    def reports(self):
        return self.lib.kmeans_reports(self.handle)

    def report(self):
        """(inertia, moved, evaluated, skipped) of the last assignment."""
        inertia = ctypes.c_double()
        counts = (ctypes.c_int64 * 3)()
        self.lib.kmeans_report(self.handle, ctypes.byref(inertia), counts)
        return (inertia.value, *counts)

    def bytes(self):
        return self.lib.kmeans_bytes(self.handle)

    def centres(self):
        centres = np.empty(self.shape, dtype=np.float32)
        self.lib.kmeans_centres(self.handle, _floats(centres))
        return centres

    def labels(self):
        labels = np.empty(len(self.rows), dtype=np.int32)
        self.lib.kmeans_labels(
            self.handle, labels.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)))
        return labels

    def result(self):
        """(inertia, iterations) at the end."""
        iterations = ctypes.c_int64()
        inertia = self.lib.kmeans_inertia(self.handle, ctypes.byref(iterations))
        return inertia, iterations.value
