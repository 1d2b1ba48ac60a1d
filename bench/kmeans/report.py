"""Curves of inertia against bytes, and the results as a table and a plot."""

import library
import numpy as np
from harness.results import OUT

CURVE_BATCHES = (32768, 65536, 114000)
CURVE_POINTS = 40


def _inertia(case, centres):
    """Of all rows, canonically."""
    with library.Fit(case.bench.library, case.rows, centres,
                     max_iterations=1) as fit:
        while fit.reports() == 0:
            fit.step()
        return fit.report()[0]


def lloyd_curve(case):
    """[(bytes sent before, inertia)] after each iteration."""
    points = []
    with case.fit(max_iterations=100, tolerance=0) as fit:
        sent = 0
        while not fit.done:
            before = fit.reports()
            fit.step()
            if fit.reports() == before:
                continue
            # What an assignment reports is what the one before has reached.
            points.append((sent, fit.report()[0]))
            sent = fit.bytes()
    return points


def batch_curve(case, batch_rows, lloyd):
    """The same after batches, as far as Lloyd goes to come within 2 %. Without
    reassignment, which puts centres of few rows onto random ones."""
    limit = bytes_until(lloyd, 1.02 * lloyd[-1][1])
    points = [lloyd[0]]
    with case.fit(batch_rows=batch_rows, reassignment_ratio=0, tolerance=0,
                  max_iterations=1000) as fit:
        following = limit / CURVE_POINTS
        while fit.bytes() < limit and not fit.done:
            fit.step()
            if fit.bytes() >= following:
                points.append((fit.bytes(), _inertia(case, fit.centres())))
                following = fit.bytes() + limit / CURVE_POINTS
    return points


def bytes_until(curve, inertia):
    """Where the curve, drawn as a line, reaches `inertia`."""
    for (b0, j0), (b1, j1) in zip(curve, curve[1:]):
        if j0 <= inertia:
            return b0
        if j1 <= inertia:
            return b0 + (b1 - b0) * (j0 - inertia) / (j0 - j1)
    return float("inf") if curve[-1][1] > inertia else curve[-1][0]


def below(curve, other, until):
    """Whether the line `curve` is nowhere above the line `other`, from its own
    first step until it reaches `until`."""
    end = bytes_until(curve, until)
    at = np.array([b for b, j in curve + other if 0 < b <= end])
    if not np.isfinite(end) or not len(at):
        return False
    return bool((np.interp(at, *zip(*curve)) <=
                 np.interp(at, *zip(*other)) * (1 + 1e-9)).all())


def plot_curves(title, curves):
    """bench/out/kmeans_curve.png"""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, points in curves.items():
        sent, inertia = zip(*points)
        axes.plot(np.array(sent) / 1e6, inertia, "o-", markersize=3, label=name)
    final = curves["Lloyd"][-1][1]
    axes.axhline(1.03 * final, color="grey", linestyle=":",
                 label="Lloyd's last + 3 %")
    axes.set_xlim(0, 1.1 * max(c[-1][0] for n, c in curves.items()
                               if n != "Lloyd") / 1e6)
    axes.set_ylim(0.99 * final, curves["Lloyd"][0][1])
    axes.set_xlabel("MB sent, both ways, one shard")
    axes.set_ylabel("inertia of all rows")
    axes.set_title(title)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(f"{OUT}/kmeans_curve.png", dpi=120)


def markdown(lines):
    """A row a comparison."""
    rows = ["| case | peer | ours | peer's | unit | ratio | inertia to the "
            "peer's | checked |", "|---|---|---|---|---|---|---|---|"]
    for line in lines:
        inertia = ""
        if line.get("peer_inertia"):
            inertia = "%.5f" % (line["inertia"] / line["peer_inertia"])
        rows.append("| %s | %s | %.3g | %.3g | %s | %.2f | %s | %s |" % (
            line["case"], line["peer_name"], line["ours"], line["peer"],
            line["unit"], line["ratio"], inertia,
            "yes" if line["checked"] else "NO"))
    return "\n".join(rows) + "\n"


def write(results):
    """kmeans.md and kmeans.png beside kmeans.jsonl."""
    with open(f"{OUT}/kmeans.md", "w", encoding="utf-8") as file:
        file.write(markdown(results.lines))
    results.plot_ratios("k-means, one thread")
