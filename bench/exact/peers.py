"""What a user would pick instead: each searches exactly in this process.

A peer has search(queries, k) -> ids, threads(t), and two names: of itself and,
for those that take queries one by one inside a call, how many of a large batch
are timed (`sample`; the time of a query does not depend on the others).
"""

import faiss
import numpy as np
import usearch.index
from threadpoolctl import threadpool_limits

# faiss goes query by query below this many queries x dimension, through BLAS
# from there on.
FAISS_BLAS_FROM = faiss.cvar.distance_compute_blas_threshold
SAMPLE = 64


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Faiss:
    """IndexFlat; path: None as faiss chooses, "loop" or "blas" by force."""

    def __init__(self, metric, rows):
        self.metric = metric
        if metric == "l2":
            self.index = faiss.IndexFlatL2(rows.shape[1])
            self.index.add(rows)
        else:
            self.index = faiss.IndexFlatIP(rows.shape[1])
            self.index.add(_unit(rows) if metric == "cosine" else rows)
        self.dimension = rows.shape[1]

    def loops(self, batch):
        return batch * self.dimension < FAISS_BLAS_FROM

    def search(self, queries, k, threads, path):
        faiss.omp_set_num_threads(threads)
        faiss.cvar.distance_compute_blas_threshold = {
            "loop": 1 << 30, "blas": 0}[path]
        with threadpool_limits(threads):
            q = _unit(queries) if self.metric == "cosine" else queries
            return self.index.search(q, k)[1]


class Usearch:
    """usearch.index.search(exact=True)."""

    def __init__(self, metric, rows):
        self.rows = rows
        self.metric = {"l2": "l2sq", "ip": "ip", "cosine": "cos"}[metric]

    def search(self, queries, k, threads):
        found = usearch.index.search(self.rows, queries, k, self.metric,
                                     exact=True, threads=threads)
        return np.asarray(found.keys).reshape(len(queries), k)


class Numpy:
    """A matrix product, norms, argpartition: as one writes it by hand."""

    def __init__(self, metric, rows):
        self.metric = metric
        self.rows = _unit(rows) if metric == "cosine" else rows
        self.norms = np.einsum("ij,ij->i", self.rows, self.rows)

    def search(self, queries, k, threads):
        with threadpool_limits(threads):
            ids = np.empty((len(queries), k), dtype=np.int64)
            for i in range(0, len(queries), 16):
                scores = queries[i:i + 16] @ self.rows.T
                scores *= -2 if self.metric == "l2" else -1
                if self.metric == "l2":
                    scores += self.norms
                near = np.argpartition(scores, k - 1, axis=1)[:, :k]
                order = np.argsort(np.take_along_axis(scores, near, 1), axis=1)
                ids[i:i + 16] = np.take_along_axis(near, order, 1)
            return ids
