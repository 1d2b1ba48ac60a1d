"""Are two exact answers the same, given that the peer computes in float32?"""

import numpy as np

# Rounding of a float32 product of this many terms, generously, against the
# norms of what is multiplied.
FLOAT32_ERROR = 2e-5


def distances(metric, query, rows):
    """Of one query to rows, in float64."""
    q = query.astype(np.float64)
    x = rows.astype(np.float64)
    if metric == "l2":
        return ((x - q) ** 2).sum(axis=1)
    products = x @ q
    if metric == "ip":
        return -products
    return 1 - products / np.sqrt((q @ q) * (x * x).sum(axis=1))


def _scale(metric, query, rows):
    if metric == "cosine":
        return 1.0
    q = query.astype(np.float64)
    x = rows.astype(np.float64)
    return q @ q + (x * x).sum(axis=1)


def same(metric, rows, queries, ours, ours_distances, peer):
    """Whether ids agree, position by position, but for ties within float32.

    Where they differ, ours must not be farther and the peer's row must lie
    within the peer's own rounding of it.
    """
    peer = peer.astype(np.uint64)
    for i in np.flatnonzero((ours != peer).any(axis=1)):
        at = np.flatnonzero(ours[i] != peer[i])
        theirs = rows[peer[i, at].astype(np.int64)]
        true = distances(metric, queries[i], theirs)
        slack = FLOAT32_ERROR * _scale(metric, queries[i], theirs)
        if len(set(peer[i])) != peer.shape[1]:
            return False
        # Theirs in true order, as rounding may have swapped neighbours.
        true = np.sort(true)
        if (ours_distances[i, at] > true * (1 + 1e-9) + 1e-9 * slack).any():
            return False
        if (true > ours_distances[i, at] + slack).any():
            return False
    return True
