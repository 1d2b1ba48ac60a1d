"""What a user would pick instead, on one thread in this process."""

import warnings

import faiss
import numpy as np
import sklearn
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

SCIKIT = f"scikit-learn {sklearn.__version__}"
FAISS = f"faiss-cpu {faiss.__version__}"

faiss.omp_set_num_threads(1)
warnings.filterwarnings("ignore")


def scikit(rows, start, iterations, tolerance, algorithm):
    """A fitted KMeans."""
    with threadpool_limits(1):
        return KMeans(len(start), init=start, n_init=1, max_iter=iterations,
                      tol=tolerance, algorithm=algorithm).fit(rows)


def scikit_batches(rows, start, batch_rows, seed):
    """A fitted MiniBatchKMeans with its own stopping rule."""
    with threadpool_limits(1):
        return MiniBatchKMeans(len(start), init=start, n_init=1,
                               batch_size=batch_rows, tol=0, random_state=seed,
                               compute_labels=False).fit(rows)


def faiss_fit(rows, start, iterations):
    """Centres after so many iterations, of all rows."""
    fit = faiss.Kmeans(rows.shape[1], len(start), niter=iterations, nredo=1,
                       max_points_per_centroid=len(rows),
                       min_points_per_centroid=1)
    fit.train(rows, init_centroids=start)
    return fit.centroids


def faiss_assign(rows, centres):
    """What Kmeans does with each iteration's centres."""
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(centres)
    return index.search(rows, 1)


def inertia(rows, centres, labels):
    """In double, from differences."""
    total = 0.0
    for i in range(0, len(rows), 4096):
        part = slice(i, i + 4096)
        off = rows[part].astype(np.float64) - centres[labels[part]]
        total += float(np.einsum("ij,ij->", off, off))
    return total
