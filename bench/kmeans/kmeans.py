"""k-means beside scikit-learn and faiss, in one process, by turns.

See bench/kmeans/run.sh for what the environment chooses.
"""

import hashlib
import os
import re
import statistics
import sys
import time

# pylint: disable=wrong-import-position
sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..")]
from harness import blas, measure

CORE_TYPE = blas.run_with_best_core_type()

import library
import peers
import report
import sets
from harness.results import Results

CASES = re.compile(os.environ.get("CASES", ""))
END = time.monotonic() + float(os.environ.get("MOST_SECONDS", "inf"))
# A peer's fit that would take longer is not run.
MOST_FIT = float(os.environ.get("MOST_FIT_SECONDS", "100"))
TOLERANCE = float(os.environ.get("TOLERANCE", "1e-4"))
LIBRARY = "bazel-bin/bench/kmeans/libcoterie_kmeans.so"
BATCH_ROWS = 1024
FITS = ("fit/lloyd", "fit/elkan", "fit/faiss")
PLAN = (
    # set, {k: kinds}
    ("fashion-70k", {k: ("pass", *FITS, "batch") for k in (10, 100, 1000)}),
    ("glove-341k", {100: ("pass", *FITS, "batch"),
                    1000: ("pass", *FITS, "batch", "curve")}),
    ("made-2d", {100: ("pass", *FITS)}),
    ("made-8d", {k: ("pass", *FITS) for k in (100, 1000)}),
)
# Fits of so many iterations, whose difference is a peer's iterations.
FEW, MANY = 1, 6


def same(a, b, relative):
    return abs(a - b) <= relative * abs(b)


class Case:
    """One set and k, from one start."""

    def __init__(self, bench, name, rows, k):
        self.bench, self.name, self.rows, self.k = bench, name, rows, k
        self.start = sets.start_of(rows, k)

    def fit(self, **options):
        return library.Fit(self.bench.library, self.rows, self.start,
                           **options)

    def add(self, kind, metric, unit, ours, peer, peer_name, checked, runs,
            **more):
        case = f"{self.name}/k={self.k}/{kind}"
        self.bench.results.add(case, metric, unit, ours, peer, peer_name,
                               checked, runs, **more)

    def run_pass(self):
        """Seconds of one assignment with its sums: the first, which knows
        nothing of any row, and the median of the later ones."""
        runs = 2 if measure.QUICK else 3
        times = {"first": [], "later": [], "lloyd": [], "elkan": [],
                 "faiss": [], "search": []}
        got = {}
        # Elkan's k bounds a row are worth a try where they fit.
        algorithms = ["lloyd"] + ["elkan"] * (self.k <= 100)
        for run in range(runs):
            for side in ("ours", "scikit", "faiss")[run % 3:] + (
                    "ours", "scikit", "faiss")[:run % 3]:
                getattr(self, "_pass_" + side)(times, got, algorithms)
        median = {name: statistics.median(t) for name, t in times.items() if t}
        bytes_each = got["bytes"]
        first, later = median["first"], median["later"]
        for algorithm in algorithms:
            name = f"{peers.SCIKIT} {algorithm}, iteration"
            fine = same(got["ours"], got[algorithm], 1e-4)
            for kind, ours in (("assign", first), ("iteration", later)):
                self.add(kind, "time", "s", ours, median[algorithm], name,
                         fine, runs, bytes=bytes_each, inertia=got["ours"],
                         peer_inertia=got[algorithm])
        fine = same(got["ours at start"], got["search"], 1e-4)
        self.add("assign", "time", "s", first, median["search"],
                 f"{peers.FAISS} assignment", fine, runs)
        fine = same(got["ours"], got["faiss"], 1e-3)
        self.add("iteration", "time", "s", later, median["faiss"],
                 f"{peers.FAISS} Kmeans, iteration", fine, runs,
                 inertia=got["ours"], peer_inertia=got["faiss"])

    def _pass_ours(self, times, got, unused):
        later = []
        with self.fit(max_iterations=MANY, tolerance=0) as fit:
            while not fit.done:
                reports, before = fit.reports(), fit.bytes()
                start = measure.now()
                fit.step()
                seconds = measure.now() - start
                if fit.reports() == reports:
                    continue
                if reports == 0:
                    times["first"].append(seconds)
                    got["ours at start"] = fit.report()[0]
                elif reports >= 2:
                    later.append(seconds)
                    got["bytes"] = fit.bytes() - before
            got["ours"] = fit.result()[0]
        times["later"].append(statistics.median(later))

    def _pass_scikit(self, times, got, algorithms):
        for algorithm in algorithms:
            seconds = []
            for iterations in (FEW, MANY):
                start = measure.now()
                fitted = peers.scikit(self.rows, self.start, iterations, 0,
                                      algorithm)
                seconds.append(measure.now() - start)
            times[algorithm].append((seconds[1] - seconds[0]) / (MANY - FEW))
            got[algorithm] = fitted.inertia_

    def _pass_faiss(self, times, got, unused):
        start = measure.now()
        distances, _ = peers.faiss_assign(self.rows, self.start)
        times["search"].append(measure.now() - start)
        got["search"] = float(distances.astype("float64").sum())
        seconds = []
        for iterations in (FEW, MANY):
            start = measure.now()
            centres = peers.faiss_fit(self.rows, self.start, iterations)
            seconds.append(measure.now() - start)
        times["faiss"].append((seconds[1] - seconds[0]) / (MANY - FEW))
        if "faiss" not in got:
            _, labels = peers.faiss_assign(self.rows, centres)
            got["faiss"] = peers.inertia(self.rows, centres, labels[:, 0])

    def run_fit(self, peer):
        """Seconds from rows in memory to the end, by the same rule."""
        if peer != "faiss" and self.too_long(peer):
            return
        start = measure.now()
        with self.fit(tolerance=TOLERANCE) as fit:
            fit.run()
            ours = measure.now() - start
            inertia, iterations = fit.result()
            total = fit.bytes()
        more = {"inertia": inertia, "iterations": iterations, "bytes": total}
        start = measure.now()
        if peer == "faiss":
            name = f"{peers.FAISS} Kmeans, as many iterations"
            centres = peers.faiss_fit(self.rows, self.start, iterations)
        else:
            name = f"{peers.SCIKIT} {peer}"
            fitted = peers.scikit(self.rows, self.start, 300, TOLERANCE, peer)
            centres = fitted.cluster_centers_
            more["peer_iterations"] = fitted.n_iter_
        seconds = measure.now() - start
        _, labels = peers.faiss_assign(self.rows, centres)
        theirs = peers.inertia(self.rows, centres, labels[:, 0])
        self.add(f"fit/{peer}", "time", "s", ours, seconds, name,
                 inertia <= theirs * (1 + 1e-3), 1, peer_inertia=theirs, **more)

    def too_long(self, algorithm):
        """Whether a fit would take the peer more than is allowed, by its first
        iterations."""
        seconds = []
        for iterations in (1, 3):
            start = measure.now()
            peers.scikit(self.rows, self.start, iterations, 0, algorithm)
            seconds.append(measure.now() - start)
        each = (seconds[1] - seconds[0]) / 2
        with self.fit(tolerance=TOLERANCE) as fit:
            expected = each * fit.run().result()[1]
        if expected > MOST_FIT:
            print(f"{self.name}/k={self.k}/fit/{algorithm} would take about "
                  f"{expected:.0f} s, not run")
        return expected > MOST_FIT

    def run_batch(self):
        """Mini-batches of the same size, each with its stopping rule, which is
        the same but for what is drawn."""
        start = measure.now()
        with self.fit(batch_rows=BATCH_ROWS, tolerance=0,
                      max_iterations=100) as fit:
            fit.run()
            ours = measure.now() - start
            inertia, total = fit.result()[0], fit.bytes()
        start = measure.now()
        fitted = peers.scikit_batches(self.rows, self.start, BATCH_ROWS, 0)
        seconds = measure.now() - start
        centres = fitted.cluster_centers_
        _, labels = peers.faiss_assign(self.rows, centres)
        theirs = peers.inertia(self.rows, centres, labels[:, 0])
        self.add(f"batch={BATCH_ROWS}", "time", "s", ours, seconds,
                 f"{peers.SCIKIT} MiniBatchKMeans",
                 inertia <= theirs * 1.02, 1, inertia=inertia,
                 peer_inertia=theirs, bytes=total)

    def run_curve(self):
        """Inertia of all rows against bytes, for Lloyd and mini-batches."""
        curves = {"Lloyd": report.lloyd_curve(self)}
        for batch_rows in report.CURVE_BATCHES:
            curves[f"batches of {batch_rows:,}"] = report.batch_curve(
                self, batch_rows, curves["Lloyd"])
        report.plot_curves(f"{self.name}, k = {self.k}", curves)
        lloyd = curves.pop("Lloyd")
        final = lloyd[-1][1]
        for name, curve in curves.items():
            within = [report.bytes_until(c, 1.03 * final)
                      for c in (curve, lloyd)]
            if within[0] == float("inf"):
                print(f"{self.name}/k={self.k}/curve/{name}: does not come "
                      f"within 3 % in {curve[-1][0] / 1e6:.1f} MB")
                continue
            self.add(f"curve/{name.replace(' ', '-')}",
                     "sent until within 3 % of Lloyd's last inertia", "MB",
                     within[0] / 1e6, within[1] / 1e6, "Lloyd, int64 sums",
                     report.below(curve, lloyd, 1.03 * final), 1,
                     points=curve, peer_points=lloyd)


class Bench:
    """All cases."""

    def __init__(self):
        self.library = library.Library(LIBRARY)
        with open(LIBRARY, "rb") as file:
            code = hashlib.sha256(file.read())
        code.update(b"quick" if measure.QUICK else b"")
        self.results = Results("kmeans", code.hexdigest()[:12])
        self.results.machine += "; " + self.library.kernels()

    def run(self):
        print(f"peers: {peers.SCIKIT}, {peers.FAISS} (OPENBLAS_CORETYPE "
              f"{CORE_TYPE}); tolerance of fits {TOLERANCE:g}")
        Results.print_head()
        left = 0
        for name, by_k in PLAN:
            rows = None
            for k, kinds in by_k.items():
                for kind in kinds:
                    key = f"{name}/k={k}/{kind}"
                    if not CASES.search(key) or self.done(key):
                        continue
                    if time.monotonic() > END:
                        left += 1
                        continue
                    if rows is None:
                        rows = sets.SETS[name]()
                    kind, *of = kind.split("/")
                    getattr(Case(self, name, rows, k), "run_" + kind)(*of)
        if left:
            print(f"{left} cases are left for another run with RESUME=1")
        report.write(self.results)

    def done(self, key):
        return any(line["case"].startswith(key.replace("/pass", "/assign"))
                   for line in self.results.lines)


if __name__ == "__main__":
    Bench().run()
