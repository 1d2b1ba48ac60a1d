"""Draws what bench/sgd measured, out of the lines of its results."""

import re

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # pylint: disable=wrong-import-position


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def law(points, path):
    """Updates over n tau beside 1 + 1/(n tau). `points`: (data, n, n tau,
    updates over those of GD(1/L))."""
    figure, axes = pyplot.subplots(figsize=(7, 5))
    for index, data in enumerate(sorted({p[0] for p in points})):
        for marker, n in zip("osd^", (5, 20, 50, 100)):
            of = [p[2:] for p in points if p[:2] == (data, n)]
            if of:
                axes.plot(*zip(*of), marker, color=f"C{index}",
                          fillstyle="none", label=f"{data}, n={n}")
    grid = [2 ** (i / 8) for i in range(-9, 18)]
    axes.plot(grid, [1 + 1 / u for u in grid], color="black", linewidth=0.8,
              label="1 + 1/(n tau)")
    axes.axhline(2, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("n tau: blocks sent by all workers, in gradients")
    axes.set_ylabel("updates / updates of gradient descent, 1/L")
    axes.set_title("ISEGA to a relative gap of 1e-5 (dotted: descent, 1/2L)")
    axes.legend(fontsize=7)
    save(figure, path)


def bytes_to_gap(lines, path):
    """What 20 workers send on a1a, beside GD(1/2L), and how the share of ISEGA
    falls with their number."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    share = [(line["case"], line["ours"] / line["peer"]) for line in lines
             if line["metric"] == "bytes_up"
             and line["peer_name"] == "GD(1/2L)"]
    bars = [(case.replace("/a1a/n=20/ntau=", ", n tau = "), value)
            for case, value in share
            if "/a1a/n=20/" in case and "GD" not in case]
    left.barh(*zip(*bars))
    for at, (_, value) in enumerate(bars):
        left.text(value, at, f" {value:.1%}", va="center", fontsize=7)
    left.set_xscale("log")
    left.tick_params(axis="y", labelsize=7)
    left.set_xlabel("bytes of workers / bytes of GD(1/2L)")
    left.set_title("a1a, 20 workers, relative gap 1e-5")
    for data in ("a1a", "mushrooms"):
        points = []
        for case, value in share:
            found = re.fullmatch(rf"ISEGA/{data}/n=(\d+)/ntau=1", case)
            if found:
                points.append((int(found.group(1)), value))
        if points:
            right.plot(*zip(*points), "o-", label=f"ISEGA, {data}")
    grid = (5, 20, 50, 100)
    right.plot(grid, [1 / n for n in grid], color="black", linewidth=0.8,
               label="1/n: values alone")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("workers n, n tau = 1")
    right.set_ylabel("bytes of workers / bytes of GD(1/2L)")
    right.legend(fontsize=8)
    save(figure, path)


def stragglers(lines, path):
    """Seconds to the gap with one slow worker, in and out of step."""
    of = [line for line in lines if line["metric"] == "time to a gap of 1e-5"]
    if not of:
        return
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    names = []
    for at, line in enumerate(of):
        layout, slow = re.search(r"a1a (\w+)/n=8/slow=(\d+)",
                                 line["case"]).groups()
        names.append(f"{layout}\nx {slow}" if slow != "1" else
                     f"{layout}\nnone slow")
        for shift, seconds, colour, label in (
                (-0.2, line["peer"], "C0", "synchronous"),
                (0.2, line["ours"], "C1", "asynchronous, table")):
            axes.bar(at + shift, seconds, 0.4, color=colour,
                     label=label if at == 0 else None)
        axes.text(at + 0.2, line["ours"],
                  f"{line['ours'] / line['peer']:.2f}", ha="center",
                  va="bottom", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("seconds to a relative gap of 1e-5")
    axes.set_title("One of eight workers slower (number: share of "
                   "synchronous time)")
    axes.legend()
    save(figure, path)


def loss_over_time(curves, path):
    """`curves`: data -> name -> [(seconds, loss)]."""
    if not curves:
        return
    figure, row = pyplot.subplots(1, len(curves), squeeze=False,
                                  figsize=(5.5 * len(curves), 4.5))
    for axes, (data, by_name) in zip(row[0], curves.items()):
        best = min(loss for points in by_name.values() for _, loss in points)
        for name, points in by_name.items():
            above = [(s, loss - best) for s, loss in sorted(points)
                     if loss > best]
            axes.plot(*zip(*above), "o-", markersize=3, label=name)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("seconds, whole call")
        axes.set_ylabel("loss above the least seen")
        axes.set_title(data)
        axes.legend(fontsize=8)
    save(figure, path)
