"""Exact search against exact peers, in one process, by turns.

See bench/exact/run.sh. CASES=REGEX runs the cases whose name it matches.
"""

import os
import re
import sys

# pylint: disable=wrong-import-position
sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..")]
from harness import blas, measure

CORE_TYPE = blas.run_with_best_core_type()

import answers
import data
import faiss
import library
import numpy as np
import peers
import usearch
from harness.results import Results

CASES = re.compile(os.environ.get("CASES", ""))
FAISS = f"faiss-cpu {faiss.__version__} IndexFlat"
# Calls of a run, when a call has few queries: the first finds cold caches.
CALLS_A_RUN = 10
PLAN = (
    # set, metric, (batch, k, threads, ...)
    ("glove-341k", ("l2", "cosine"), "full"),
    ("fashion-70k", ("l2", "cosine"), "full"),
    ("glove-2.7M", ("l2",), "large"),
    ("gauss-1536", ("l2",), "stream"),
    ("outlier-1536", ("l2",), "stream"),
)
SHAPES = {
    "full": [(b, 10, t) for t in (1, 2) for b in (1, 16, 1000, 4000)] +
            [(b, k, 1) for k in (1, 100, 1000) for b in (1, 16, 1000)],
    "large": [(1, 10, 1), (1, 10, 2), (1, 100, 1), (16, 10, 1)],
    "stream": [(1, 10, 1)],
}


def runs_of(batch):
    """How often, and how many queries each time."""
    if batch == 1:
        return (8, CALLS_A_RUN) if measure.QUICK else (100, CALLS_A_RUN)
    if batch == 16:
        return (3, 2 * batch) if measure.QUICK else (15, 4 * batch)
    return (1, batch) if measure.QUICK else (3, batch)


class Case:
    """One comparison of ours with several peers on the same calls."""

    def __init__(self, ours, metric, queries, batch, k, threads):
        self.ours, self.metric, self.queries = ours, metric, queries
        self.batch, self.k, self.threads = batch, k, threads
        self.runs, self.per_run = runs_of(batch)
        self.sides = {"ours": self.side("ours", ours.search, self.per_run)}
        self.timed = {}
        self.answers = {}

    def of_run(self, run, count):
        at = run * self.per_run % max(1, len(self.queries) - self.per_run + 1)
        return slice(at, at + count)

    def side(self, name, search, count):
        """`search` called for the queries of a run, `batch` at a time."""
        def one_run(run):
            part = self.of_run(run, count)
            found = [search(self.queries[i:i + self.batch], self.k,
                            self.threads)
                     for i in range(part.start, part.stop, self.batch)]
            self.answers[name, run] = found
        return one_run

    def add_peer(self, name, search, sample=None):
        count = min(self.per_run, sample or self.per_run)
        if count < self.per_run and count < self.batch:
            name += f" ({count} of {self.batch} timed)"
            def one_run(run):
                part = self.of_run(run, count)
                self.answers[name, run] = [
                    search(self.queries[part], self.k, self.threads)]
            self.sides[name] = one_run
        else:
            self.sides[name] = self.side(name, search, count)
        self.timed[name] = count

    def measure(self):
        seconds = measure.alternate(self.sides, self.runs)
        ours = seconds["ours"] / self.per_run
        return ours, {n: seconds[n] / c for n, c in self.timed.items()}

    def checked(self, name, rows):
        """Whether the peer said the same wherever it was asked."""
        for run in range(self.runs):
            mine = self.answers["ours", run]
            ids = np.concatenate([a[0] for a in mine])
            distances = np.concatenate([a[1] for a in mine])
            theirs = np.concatenate(self.answers[name, run])
            n = len(theirs)
            part = self.of_run(run, n)
            if not answers.same(self.metric, rows, self.queries[part],
                                ids[:n], distances[:n], theirs):
                return False
        return True


class Bench:
    """All cases."""

    def __init__(self):
        self.library = library.Library(
            "bazel-bin/bench/exact/libcoterie_exact.so")
        self.results = Results("exact")
        self.results.machine += "; " + self.library.kernels()
        self.limits = {}
        self.measure_limits()

    def measure_limits(self):
        block = np.ones(1 << 27, dtype=np.float32)
        for threads in (1, 2):
            self.limits[threads] = (self.library.read_rate(block, threads),
                                    self.library.multiply_rate(threads))
            print("%d thread(s): reads %.1f GB/s, multiplies %.0f G bytes/s"
                  % (threads, *(x / 1e9 for x in self.limits[threads])))

    def run(self):
        print(f"peers: {FAISS} (OPENBLAS_CORETYPE {CORE_TYPE}), usearch "
              f"{usearch.__version__}, numpy {np.__version__}")
        Results.print_head()
        for name, metrics, plan in PLAN:
            names = {(m, s): f"{name}/{m}/batch={s[0]}/k={s[1]}/threads={s[2]}"
                     for m in metrics for s in SHAPES[plan]}
            if not any(CASES.search(n) for n in names.values()):
                continue
            rows, queries = data.SETS[name]()
            for metric in metrics:
                cases = {s: n for (m, s), n in names.items()
                         if m == metric and CASES.search(n)}
                if cases:
                    self.run_set(metric, rows, queries, plan, cases)
        self.results.plot_ratios(
            "exact search, one machine", lambda line: "faiss" in
            line["peer_name"] and "forced" not in line["peer_name"])

    def run_set(self, metric, rows, queries, plan, cases):
        ours = library.Ours(self.library, metric, rows)
        if plan == "stream":
            self.run_stream(ours, rows, queries, cases)
        else:
            others = {"faiss": peers.Faiss(metric, rows)}
            if plan == "full":
                others["usearch"] = peers.Usearch(metric, rows)
                others["numpy"] = peers.Numpy(metric, rows)
            for shape, case in cases.items():
                self.run_case(ours, metric, rows, queries, others, shape, case)
        ours.close()

    def run_case(self, ours, metric, rows, queries, others, shape, name):
        batch, k, threads = shape
        case = Case(ours, metric, queries, batch, k, threads)
        flat = others["faiss"]
        loops = flat.loops(batch)
        for path in ("loop", "blas"):
            chosen = (path == "loop") == loops
            # Of no use: a matrix of one column, or a loop over thousands.
            if not chosen and (batch == 1 or (path == "loop" and batch > 1000)):
                continue
            case.add_peer(
                f"{FAISS}, {path}" + ("" if chosen else " (forced)"),
                lambda q, k, t, path=path: flat.search(q, k, t, path),
                peers.SAMPLE if path == "loop" else None)
        if k == 10 and threads == 1 and batch <= 1000 and len(others) > 1:
            case.add_peer(f"usearch {usearch.__version__} exact",
                          others["usearch"].search, peers.SAMPLE)
            case.add_peer(f"numpy {np.__version__}", others["numpy"].search,
                          peers.SAMPLE)
        seconds, theirs = case.measure()
        reads, multiplies = self.limits[threads]
        d = rows.shape[1]
        codes = len(rows) * ((d + 3) // 4 * 4 + 8)
        per_call = sum(1 for _ in range(0, case.per_run, batch))
        rescored = ours.rescored / min(batch, case.per_run)
        for peer, peer_seconds in theirs.items():
            self.results.add(
                name, "time per query", "ms", seconds * 1e3,
                peer_seconds * 1e3, peer, case.checked(peer, rows), case.runs,
                queries=case.runs * case.per_run,
                rescored_per_query=round(rescored, 1),
                of_read_rate=round(
                    codes * per_call / (seconds * case.per_run) / reads, 3),
                of_multiply_rate=round(
                    len(rows) * d / seconds / multiplies, 3)
                if multiplies else None)

    def run_stream(self, ours, rows, queries, cases):
        """Against reading the float32 rows once: what any scan must do."""
        for (batch, k, threads), name in cases.items():
            runs = 5 if measure.QUICK else 25
            case = Case(ours, "l2", queries, batch, k, threads)
            case.runs, case.per_run = runs, 1
            case.sides = {"ours": case.side("ours", ours.search, 1)}
            case.sides["read"] = lambda run: self.library.read_rate(
                rows, threads) and None
            seconds = measure.alternate(case.sides, runs)
            checked = True
            for run in range(0, runs, 5):
                ids, distances = case.answers["ours", run][0]
                true = answers.distances("l2", queries[case.of_run(run, 1)][0],
                                         rows)
                order = np.lexsort((np.arange(len(true)), true))[:k]
                checked &= bool((ids[0] == order).all())
                checked &= bool(np.allclose(distances[0], true[order]))
            self.results.add(
                name, "time per query", "ms", seconds["ours"] * 1e3,
                seconds["read"] / 3 * 1e3, "reading the float32 rows once",
                checked, runs, rescored_per_query=ours.rescored)


if __name__ == "__main__":
    Bench().run()
