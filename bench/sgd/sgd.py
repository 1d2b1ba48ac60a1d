"""Runs the SGD experiments, compares with gradient descent, draws the law.

See bench/sgd/run.sh.
"""

import json
import os
import subprocess
import sys

# pylint: disable=wrong-import-position
sys.path[:0] = [os.path.join(os.path.dirname(__file__), "..")]
from harness.results import OUT, Results
import plots
import service

BENCH = "bazel-bin/bench/sgd/sgd_bench"
GRADIENT = "bazel-bin/bench/sgd/gradient_bench"
DATA = ["data/a1a.libsvm", "data/mushrooms.libsvm"]
SAGA = ("SAGA", "ISAGA")
ROWS = {"a1a": 1605, "mushrooms": 8124}


def runs():
    """Each run of the binary, as it ends."""
    with subprocess.Popen([BENCH] + DATA, stdout=subprocess.PIPE,
                          text=True) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        sys.exit(process.returncode)


def case_of(run):
    return f"{run['method']}/{run['data']}/n={run['n']}/ntau={run['ntau']}"


def workers_of(run):
    """n as in the step, 1 / the largest share of the rows."""
    rows = ROWS[run["data"].split()[0]]
    return rows / -(-rows // run["n"])


class Report:
    """Compares each run with the gradient descent of its problem."""

    def __init__(self, results):
        self.results = results
        self.descent = {}  # (data, n) -> {"GD(1/2L)": run, "GD(1/L)": run}
        self.saga = None
        self.sgd = None
        self.nesterov = None
        self.law = []  # (run, updates of GD(1/L))

    def add(self, run):
        key = (run["data"], run["n"])
        if run["method"].startswith("GD"):
            self.descent.setdefault(key, {})[run["method"]] = run
            if run["method"] == "GD(1/2L)":
                return
        if run["method"] in ("SGD", "ISGD"):
            self.add_noise(run)
            return
        if run["method"] == "Nesterov":
            self.nesterov = run
            return
        if run["method"].startswith("accelerated"):
            self.compare(run, self.nesterov, "Nesterov", "updates")
            self.compare(run, self.nesterov, "Nesterov", "bytes_up")
            return
        if run["method"] in SAGA:
            if run["method"] == "SAGA":
                self.saga = run
            else:
                self.compare(run, self.saga, "SAGA, n=1", "updates")
            return
        peer = self.descent[key]["GD(1/2L)"]
        if run["updates"] < 0:
            # Both after as many updates: how far from the optimum.
            self.results.add(case_of(run), "relative gap", "gap", run["gap"],
                             run["target"], "what shifts reach", False, 1,
                             updates=None, tau=run["tau"])
            return
        for peer_name in ("GD(1/2L)", "GD(1/L)"):
            if peer_name in self.descent[key] and peer_name != run["method"]:
                self.compare(run, self.descent[key][peer_name], peer_name,
                             "updates")
        self.compare(run, peer, "GD(1/2L)", "bytes_up")
        self.compare(run, peer, "GD(1/2L)", "bytes_down")
        if run["method"] == "ISEGA" and "GD(1/L)" in self.descent[key]:
            self.law.append((run, self.descent[key]["GD(1/L)"]["updates"]))

    def add_noise(self, run):
        """Where a constant step ends, beside SGD on one row an update."""
        if run["method"] == "SGD":
            self.sgd = run
            return
        self.results.add(case_of(run), "noise floor", "gap", run["gap"],
                         self.sgd["gap"], "SGD, one row", False, 1,
                         tau=run["tau"])

    def compare(self, run, peer, peer_name, metric):
        unit = "B" if metric.startswith("bytes") else "steps"
        self.results.add(case_of(run), metric, unit, run[metric], peer[metric],
                         peer_name, peer["updates"] >= 0, 1, tau=run["tau"],
                         target=run["target"])

    def print_law(self):
        """How well updates follow K (1 + 1/(n tau)), K those of GD(1/L)."""
        worst = 0
        for run, whole in self.law:
            off = run["updates"] / (whole *
                                    (1 + 1 / (workers_of(run) * run["tau"])))
            worst = max(worst, abs(off - 1))
        print(f"ISEGA's updates over K (1 + 1/(n tau)): within {worst:.1%} "
              f"in {len(self.law)} runs")

    def points(self):
        return [(run["data"], run["n"], workers_of(run) * run["tau"],
                 run["updates"] / whole) for run, whole in self.law]


def add_bandwidth(results):
    """A logistic gradient beside reading the same rows."""
    for rows, dimension in ((800_000, 123), (400_000, 256),
                            (120_000, 784)):
        line = subprocess.run([GRADIENT, str(rows), str(dimension)], check=True,
                              capture_output=True, text=True).stdout
        run = json.loads(line)
        results.add(f"logistic/rows={rows}/d={dimension}", "bandwidth", "GB/s",
                    run["logistic_gb_per_s"], run["read_gb_per_s"],
                    "reading the rows", False, 9, less_is_better=False,
                    target=run["target"])


def main():
    results = Results("sgd")
    results.print_head()
    report = Report(results)
    for run in runs():
        report.add(run)
    add_bandwidth(results)
    service.add_wire(results)
    service.add_stragglers(results)
    curves = service.add_scikit_learn(results,
                                      1 if os.environ.get("QUICK") else 5)
    report.print_law()
    plots.law(report.points(), f"{OUT}/sgd.png")
    plots.bytes_to_gap(results.lines, f"{OUT}/sgd_bytes.png")
    plots.stragglers(results.lines, f"{OUT}/sgd_stragglers.png")
    plots.loss_over_time(curves, f"{OUT}/sgd_loss.png")


if __name__ == "__main__":
    main()
