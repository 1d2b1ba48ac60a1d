"""Results in the one format of bench/: JSON lines, a table, a plot."""

import json
import os

from harness import machine

OUT = "bench/out"


class Results:
    """Collects the results of one benchmark; writes each as it comes.

    `build` names the code that is measured. With RESUME=1 in the environment
    the lines of an earlier run of the same build stay: `has` tells which.
    """

    def __init__(self, bench, build=None):
        self.bench = bench
        self.build = build
        self.lines = self._kept()
        self.command = os.environ.get("BENCH_COMMAND", "make bench-" + bench)
        self.machine = machine.describe()
        os.makedirs(OUT, exist_ok=True)
        self.file = open(f"{OUT}/{bench}.jsonl", "w", encoding="utf-8")
        for line in self.lines:
            self.file.write(json.dumps(line) + "\n")

    def _kept(self):
        path = f"{OUT}/{self.bench}.jsonl"
        if os.environ.get("RESUME") != "1" or not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line for line in lines if line.get("build") == self.build]

    def has(self, case):
        return any(line["case"] == case for line in self.lines)

    def add(self, case, metric, unit, ours, peer, peer_name, checked, runs,
            less_is_better=True, **more):
        """One comparison. `ratio` is at least 1 where ours is better.

        `checked`: both sides' answers were compared in this run. `more`:
        further fields of this benchmark.
        """
        ratio = peer / ours if less_is_better else ours / peer
        line = {
            "bench": self.bench, "case": case, "metric": metric, "unit": unit,
            "ours": float(f"{ours:.5g}"), "peer": float(f"{peer:.5g}"),
            "peer_name": peer_name, "ratio": float(f"{ratio:.4g}"),
            "checked": bool(checked), "runs": runs, "command": self.command,
            "machine": self.machine,
        }
        line.update(more)
        if self.build:
            line["build"] = self.build
        self.lines.append(line)
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        print("%-46s %10.4g %10.4g %-5s %7.2fx  %-5s %s" % (
            case, ours, peer, unit, ratio, "same" if checked else "DIFF",
            peer_name), flush=True)

    @staticmethod
    def print_head():
        print("%-46s %10s %10s %-5s %8s  %-5s %s" % (
            "case", "ours", "peer", "unit", "ratio", "answ.", "peer"))

    def plot_ratios(self, title, select=lambda line: True):
        """Bars of the ratios, one colour a peer, as bench/out/BENCH.png."""
        import matplotlib  # pylint: disable=import-outside-toplevel
        matplotlib.use("Agg")
        from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
        lines = [line for line in self.lines if select(line)]
        if not lines:
            return
        peers = sorted({line["peer_name"] for line in lines})
        figure, axes = pyplot.subplots(figsize=(10, 1 + 0.22 * len(lines)))
        colours = {p: f"C{i % 10}" for i, p in enumerate(peers)}
        axes.barh(range(len(lines)), [line["ratio"] for line in lines],
                  color=[colours[line["peer_name"]] for line in lines])
        axes.set_yticks(range(len(lines)), [line["case"] for line in lines],
                        fontsize=7)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set_xlabel("times faster than the peer")
        axes.legend([pyplot.Rectangle((0, 0), 1, 1, color=colours[p])
                     for p in peers], peers, fontsize=7)
        axes.set_title(title)
        figure.tight_layout()
        figure.savefig(f"{OUT}/{self.bench}.png", dpi=120)
