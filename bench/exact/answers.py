"""Are two exact answers the same, given that the peer computes in float32?

And are ours what they should be: sorted, each id once, at the distance that
float64 says, and the same bits whatever the batch and the threads.
"""

import numpy as np

# Rounding of a float32 product of this many terms, generously, against the
# norms of what is multiplied.
FLOAT32_ERROR = 2e-5
# The same of float64, where the order of sums is another than ours.
FLOAT64_ERROR = 1e-12


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


def compare(metric, rows, queries, ours, ours_distances, peer):
    """(whether the answers are the same, queries whose lists are not equal).

    Where lists differ, ours must not be farther and the peer's row must lie
    within the peer's own rounding of it.
    """
    peer = peer.astype(np.uint64)
    differ = np.flatnonzero((ours != peer).any(axis=1))
    for i in differ:
        at = np.flatnonzero(ours[i] != peer[i])
        theirs = rows[peer[i, at].astype(np.int64)]
        true = distances(metric, queries[i], theirs)
        slack = FLOAT32_ERROR * _scale(metric, queries[i], theirs)
        if len(set(peer[i])) != peer.shape[1]:
            return False, len(differ)
        # Theirs in true order, as rounding may have swapped neighbours.
        true = np.sort(true)
        if (ours_distances[i, at] > true * (1 + 1e-9) + 1e-9 * slack).any():
            return False, len(differ)
        if (true > ours_distances[i, at] + slack).any():
            return False, len(differ)
    return True, len(differ)


class OurAnswers:
    """Our first answer to each query of one set, metric and k.

    Distances are computed anew in float64 for lists below `VERIFY_BELOW` and
    for the first queries of longer ones.
    """

    VERIFY_BELOW = 1000
    VERIFY_FIRST = 1000

    def __init__(self, metric, rows, queries, k):
        self.metric, self.rows, self.queries, self.k = metric, rows, queries, k
        self.ids = np.zeros((len(queries), k), dtype=np.uint64)
        self.distances = np.full((len(queries), k), np.nan)
        self.known = np.zeros(len(queries), dtype=bool)

    def agree(self, part, ids, found):
        """Whether these of queries[part] are right and as they were before."""
        known = self.known[part]
        if (self.ids[part][known] != ids[known]).any() or \
                (self.distances[part][known] != found[known]).any():
            return False
        for i in np.flatnonzero(~known):
            if not self._right(part.start + i, ids[i], found[i]):
                return False
        self.ids[part], self.distances[part] = ids, found
        self.known[part] = True
        return True

    def _right(self, query, ids, found):
        if len(np.unique(ids)) != self.k or (np.diff(found) < 0).any():
            return False
        if self.k >= self.VERIFY_BELOW and query >= self.VERIFY_FIRST:
            return True
        near = self.rows[ids.astype(np.int64)]
        error = FLOAT64_ERROR * _scale(self.metric, self.queries[query], near)
        true = distances(self.metric, self.queries[query], near)
        return bool((np.abs(true - found) <= error).all())
