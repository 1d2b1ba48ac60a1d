"""Exact search against exact peers, in one process, by turns.

See bench/exact/run.sh for what the environment chooses.
"""

import hashlib
import os
import re
import sys
import time

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
import report
import usearch
from harness.results import Results

CASES = re.compile(os.environ.get("CASES", ""))
END = time.monotonic() + float(os.environ.get("MOST_SECONDS", "inf"))
FAISS = f"faiss-cpu {faiss.__version__} IndexFlat"
LIBRARY = "bazel-bin/bench/exact/libcoterie_exact.so"
# Calls of a run, when a call has few queries: the first finds cold caches.
CALLS_A_RUN = 10
PLAN = (
    # set, {metric: shapes}
    ("glove-341k", {"l2": "full", "cosine": "one k"}),
    ("fashion-70k", {"l2": "full", "cosine": "one k"}),
    ("glove-2.7M", {"l2": "large"}),
    ("gauss-1536", {"l2": "stream"}),
    ("outlier-1536", {"l2": "stream"}),
)
# (batch, k, threads)
SHAPES = {
    "full": [(b, k, t) for t in (1, 2) for k in (10, 1, 100, 1000)
             for b in (1, 16, 1000, 4000)],
    "one k": [(b, 10, t) for t in (1, 2) for b in (1, 16, 1000, 4000)],
    "large": [(1, 10, 1), (16, 10, 1), (1000, 10, 1), (1, 10, 2), (16, 10, 2),
              (1, 1, 1), (1, 100, 1), (16, 100, 1), (1, 1000, 1),
              (16, 1000, 1)],
    "stream": [(1, 10, 1)],
}


def runs_of(batch, k, plan):
    """How often, and how many queries each time."""
    if batch == 1:
        runs = 8 if measure.QUICK else 100 if k == 10 else 30
        return (runs // 4 if plan == "large" else runs), CALLS_A_RUN
    if batch == 16:
        runs = 3 if measure.QUICK else 15
        return ((runs + 2) // 3 if plan == "large" else runs), 4 * batch
    return (1 if measure.QUICK or plan == "large" else 3), batch


class Case:
    """One comparison of ours with several peers on the same calls."""

    def __init__(self, ours, metric, queries, shape, runs):
        self.ours, self.metric, self.queries = ours, metric, queries
        self.batch, self.k, self.threads = shape
        self.runs, self.per_run = runs
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
        """`sample`: at most so many queries of each run are asked."""
        count = min(self.per_run, sample or self.per_run)
        if count < self.batch:
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

    def ours_of(self, run, count):
        found = self.answers["ours", run]
        return (np.concatenate([f[0] for f in found])[:count],
                np.concatenate([f[1] for f in found])[:count])

    def ours_right(self, known):
        """Whether ours were right in every run. known: answers.OurAnswers."""
        return all(known.agree(self.of_run(run, self.per_run),
                               *self.ours_of(run, self.per_run))
                   for run in range(self.runs))

    def compared(self, name, rows):
        """The peer's answers: (the same as ours?, queries asked, queries with
        another list)."""
        same, asked, differ = True, 0, 0
        for run in range(self.runs):
            theirs = np.concatenate(self.answers[name, run])
            n = len(theirs)
            agree, unequal = answers.compare(
                self.metric, rows, self.queries[self.of_run(run, n)],
                *self.ours_of(run, n), theirs)
            same, asked, differ = same and agree, asked + n, differ + unequal
        return same, asked, differ


def build_of(path):
    with open(path, "rb") as file:
        code = hashlib.sha256(file.read())
    code.update(b"quick" if measure.QUICK else b"")
    return code.hexdigest()[:12]


class Bench:
    """All cases."""

    def __init__(self):
        self.library = library.Library(LIBRARY)
        self.results = Results("exact", build_of(LIBRARY))
        self.results.machine += "; " + self.library.kernels()
        self.limits = {}
        self.left = 0
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
        for name, metrics in PLAN:
            wanted = {}
            for metric, plan in metrics.items():
                cases = {s: f"{name}/{metric}/batch={s[0]}/k={s[1]}/"
                            f"threads={s[2]}" for s in SHAPES[plan]}
                wanted[metric] = {s: n for s, n in cases.items()
                                  if CASES.search(n) and
                                  not self.results.has(n)}
            if not any(wanted.values()):
                continue
            if time.monotonic() > END:
                self.left += sum(len(w) for w in wanted.values())
                continue
            rows, queries = data.SETS[name]()
            for metric, plan in metrics.items():
                if wanted[metric]:
                    self.run_set(metric, rows, queries, plan, wanted[metric])
        if self.left:
            print(f"{self.left} cases are left for another run with RESUME=1")
        report.write(self.results.lines)

    def run_set(self, metric, rows, queries, plan, cases):
        ours = library.Ours(self.library, metric, rows)
        if plan == "stream":
            self.run_stream(ours, rows, queries, cases)
        else:
            others = {"faiss": peers.Faiss(metric, rows),
                      "usearch": peers.Usearch(metric, rows),
                      "numpy": peers.Numpy(metric, rows)}
            known = {}
            for shape, case in cases.items():
                if time.monotonic() > END:
                    self.left += 1
                    continue
                k = shape[1]
                if k not in known:
                    known[k] = answers.OurAnswers(metric, rows, queries, k)
                self.run_case(ours, known[k], others, shape, case, plan)
        ours.close()

    def run_case(self, ours, known, others, shape, name, plan):
        batch, k, threads = shape
        rows = known.rows
        case = Case(ours, known.metric, known.queries, shape,
                    runs_of(batch, k, plan))
        # Few queries of peers that take them one by one, or seconds.
        few = batch if batch <= 16 else peers.SAMPLE
        flat = others["faiss"]
        loops = flat.loops(batch)
        for path in ("loop", "blas"):
            chosen = (path == "loop") == loops
            # Of no use: a matrix of one column, or a loop over thousands.
            if not chosen and (batch == 1 or (path == "loop" and batch > 1000)):
                continue
            sample = few if path == "loop" else None
            if path == "loop" and batch == 1 and plan == "full":
                sample = None
            case.add_peer(
                f"{FAISS}, {path}" + ("" if chosen else " (forced)"),
                lambda q, k, t, path=path: flat.search(q, k, t, path), sample)
        if k == 10 and threads == 1 and batch <= 1000:
            case.add_peer(f"usearch {usearch.__version__} exact",
                          others["usearch"].search, few)
            case.add_peer(f"numpy {np.__version__}", others["numpy"].search,
                          few)
        seconds, theirs = case.measure()
        more = self.yardsticks(rows, seconds, shape)
        more["queries"] = case.runs * case.per_run
        more["rescored_per_query"] = round(
            ours.rescored / min(batch, case.per_run), 1)
        right = case.ours_right(known)
        for peer, peer_seconds in theirs.items():
            same, asked, differ = case.compared(peer, rows)
            self.results.add(
                name, "time per query", "ms", seconds * 1e3,
                peer_seconds * 1e3, peer, right and same, case.runs,
                peer_queries=asked, peer_differs=differ, **more)

    def yardsticks(self, rows, seconds, shape):
        """What memory and multipliers would allow at most."""
        batch, _, threads = shape
        reads, multiplies = self.limits[threads]
        n, d = rows.shape
        # A pass over the codes, once a call; every product of two codes.
        read = n * ((d + 3) // 4 * 4 + 8) / batch / reads
        multiply = n * d / multiplies if multiplies else 0
        return {
            "of_read_rate": round(read / seconds, 3),
            "of_multiply_rate": round(multiply / seconds, 3),
            "floor_ms": float(f"{max(read, multiply) * 1e3:.4g}"),
            "read_gb_s": round(reads / 1e9, 1),
            "multiply_g_s": round(multiplies / 1e9),
        }

    def run_stream(self, ours, rows, queries, cases):
        """Against reading the float32 rows once: what any scan must do."""
        for shape, name in cases.items():
            threads = shape[2]
            runs = 5 if measure.QUICK else 25
            case = Case(ours, "l2", queries, shape, (runs, 1))
            case.sides["read"] = lambda run, threads=threads: (
                self.library.read_rate(rows, threads) and None)
            seconds = measure.alternate(case.sides, runs)
            checked = True
            for run in range(0, runs, 5):
                ids, distances = case.answers["ours", run][0]
                true = answers.distances("l2", queries[case.of_run(run, 1)][0],
                                         rows)
                order = np.lexsort((np.arange(len(true)), true))[:shape[1]]
                checked &= bool((ids[0] == order).all())
                checked &= bool(np.allclose(distances[0], true[order]))
            self.results.add(
                name, "time per query", "ms", seconds["ours"] * 1e3,
                seconds["read"] / 3 * 1e3, "reading the float32 rows once",
                checked, runs, rescored_per_query=ours.rescored,
                **self.yardsticks(rows, seconds["ours"], shape))


if __name__ == "__main__":
    Bench().run()
