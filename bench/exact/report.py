"""The results of bench/exact as a table for people and as a plot."""

import re

from harness.results import OUT

COLUMNS = (
    # heading, of a peer's name
    ("faiss loop", r"^faiss.*, loop"),
    ("faiss BLAS", r"^faiss.*, blas"),
    ("usearch", r"^usearch"),
    ("numpy", r"^numpy"),
    ("reading float32", r"^reading"),
)


def _cases(lines):
    """{case: its lines}, in the order in which they were measured."""
    cases = {}
    for line in lines:
        cases.setdefault(line["case"], []).append(line)
    return cases


def _peer(lines, pattern):
    for line in lines:
        if re.search(pattern, line["peer_name"]):
            return line
    return None


def markdown(lines):
    """A row a case: milliseconds a query of all sides, shares of what the
    machine could do, the ratio to the fastest peer."""
    rows = ["| case | ours | " + " | ".join(c[0] for c in COLUMNS) +
            " | ratio to the best | of read rate | of int8 peak | re-scored a "
            "query | other float32 lists | same |",
            "|---" * (8 + len(COLUMNS)) + "|"]
    for case, of_case in _cases(lines).items():
        first = of_case[0]
        cells = [case, "%.3g" % first["ours"]]
        for _, pattern in COLUMNS:
            peer = _peer(of_case, pattern)
            cells.append("%.3g" % peer["peer"] if peer else "")
        differ = sum(line.get("peer_differs", 0) for line in of_case)
        asked = sum(line.get("peer_queries", 0) for line in of_case)
        cells += ["%.2f" % min(line["ratio"] for line in of_case),
                  "%.2f" % first["of_read_rate"],
                  "%.2f" % first["of_multiply_rate"],
                  "%.4g" % first["rescored_per_query"],
                  f"{differ} of {asked}" if asked else "",
                  "yes" if all(line["checked"] for line in of_case) else "NO"]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _series(lines, fixed, varied):
    """{side: [(value of `varied`, ms)]} of the cases that contain `fixed`."""
    series = {"ours": {}, "least that memory and int8 peak allow": {}}
    for line in lines:
        value = re.search(varied + r"=(\d+)", line["case"])
        if not value or not all(f in line["case"] + "/" for f in fixed):
            continue
        at = int(value[1])
        series["ours"][at] = line["ours"]
        series["least that memory and int8 peak allow"][at] = line["floor_ms"]
        for heading, pattern in COLUMNS[:-1]:
            if re.search(pattern, line["peer_name"]):
                series.setdefault(heading, {})[at] = line["peer"]
    return {name: sorted(points.items()) for name, points in series.items()}


def plot(lines, path):
    """Milliseconds a query by batch and by k, for each set."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    sets = sorted({line["case"].split("/batch")[0] for line in lines
                   if "reading" not in line["peer_name"]})
    if not sets:
        return
    views = (("batch", ("/k=10/", "/threads=1/"), "k = 10"),
             ("k", ("/batch=1/", "/threads=1/"), "one query a call"),
             ("k", ("/batch=1000/", "/threads=1/"), "1,000 queries a call"))
    figure, axes = pyplot.subplots(len(sets), len(views), squeeze=False,
                                   figsize=(13, 3.2 * len(sets)))
    for row, name in zip(axes, sets):
        for ax, (varied, fixed, title) in zip(row, views):
            drawn = _series(lines, (name + "/",) + fixed, varied)
            for i, (side, points) in enumerate(drawn.items()):
                if points:
                    style = "k:" if side.startswith("least") else "o-"
                    ax.plot(*zip(*points), style, label=side, markersize=3,
                            linewidth=2 if i == 0 else 1)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel(varied)
            ax.set_title(f"{name}, {title}, 1 thread", fontsize=8)
        row[0].set_ylabel("ms a query")
        row[0].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def write(lines):
    """exact.md and exact.png beside exact.jsonl."""
    with open(f"{OUT}/exact.md", "w", encoding="utf-8") as file:
        file.write(markdown(lines))
    plot(lines, f"{OUT}/exact.png")
