#!/usr/bin/env python3
"""scikit-learn's Lloyd iteration on the sets of bench/kmeans_assign_bench.

    OPENBLAS_CORETYPE=SkylakeX peer.py FILE.npy [K]

One thread, CPU seconds of an iteration: a fit of five less a fit of one. Same
start as kmeans_assign_bench: rows 0, n/k, 2 n/k, ... Set the core type that is
fastest here; OpenBLAS guesses badly on recent CPUs. Needs scikit-learn.
"""

import os
import sys
import time
import warnings

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
from sklearn.cluster import KMeans


def main():
    rows = np.ascontiguousarray(np.load(sys.argv[1]), dtype=np.float32)
    k = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    init = rows[:: len(rows) // k][:k].copy()
    warnings.filterwarnings("ignore")
    seconds = {}
    for iterations in (1, 5):
        start = time.process_time()
        fit = KMeans(k, init=init, n_init=1, max_iter=iterations, tol=0,
                     algorithm="lloyd").fit(rows)
        seconds[iterations] = time.process_time() - start
    print('{"bench":"kmeans","case":"%s/k=%d/assign/scikit-learn",'
          '"peer":%.4f,"inertia":%.10g}' % (
              sys.argv[1], k, (seconds[5] - seconds[1]) / 4, fit.inertia_))


if __name__ == "__main__":
    main()
