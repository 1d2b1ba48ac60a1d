"""Recall and speed of tree, LSH and FAISS kinds beside their peers, one thread.

See bench/approx/run.sh. CASES=REGEX runs the cases whose name it matches,
PEERS=REGEX those of hnswlib, faiss-hnsw, faiss-ivf, scann and annoy.
"""

import json
import os
import re
import sys

# pylint: disable=wrong-import-position
sys.path[:0] = [os.path.join(os.path.dirname(__file__), ".."),
                os.path.dirname(__file__)]
from harness import measure
from harness.results import OUT, Results

import numpy as np
import ours as our
import peers as peer

CASES = re.compile(os.environ.get("CASES", ""))
PEERS = re.compile(os.environ.get("PEERS", ""))
FACTORIES = [f for f in os.environ.get(
    "FACTORIES", "HNSW32;IVF1024,Flat;IVF1024,PQ{parts}").split(";") if f]
LEVELS = (0.9, 0.95, 0.99)
TARGETS = (0.5, 0.8, 0.9, 0.95, 0.99)
K = 10
QUERIES = 1000
RUNS = 1 if measure.QUICK else 3


def recall(found, truth):
    hits = sum(len(np.intersect1d(f, t)) for f, t in zip(found, truth))
    return hits / truth.size


def squared(rows, queries, ids):
    """Squared distances of what a peer found, in double."""
    gaps = rows[ids.astype(np.int64)].astype(np.float64) - queries[:, None]
    return np.sort((gaps ** 2).sum(axis=2), axis=1)


def low_dimension(results, d, n, batch):
    """Exact answers: tree against the peers and our own scan."""
    name = f"gauss-{n // 1000}k-d{d}/l2/batch={batch}/k={K}/threads=1"
    if not CASES.search(name) or results.has(name):
        return
    from sklearn import __version__ as version
    from sklearn.neighbors import BallTree, KDTree
    random = np.random.default_rng(d)
    rows = random.standard_normal((n, d), dtype=np.float32)
    m = 20_000 if d < 8 else 2000
    queries = random.standard_normal((m, d), dtype=np.float32)
    few = queries[:max(100 if d < 8 else 20, batch)]  # for slow sides
    ours = our.Ours("l2", rows)
    nanoflann = our.Nanoflann(rows)
    found = {}

    def note(side, ids):
        found[side] = ids

    def in_batches(tree, some):
        return np.concatenate([
            tree.query(some[i:i + batch], k=K, return_distance=False)
            for i in range(0, len(some), batch)])

    sides = {
        "ours": lambda _: note(
            "ours", ours.search(our.TREE, queries, K, batch=batch)),
        "nanoflann": lambda _: note(
            "nanoflann", nanoflann.search(queries, K)),
        "scan": lambda _: note(
            "scan", ours.search(our.CERTIFIED, few, K, batch=batch)[0])}
    titles = {"nanoflann": ("nanoflann KDTreeSingleIndexAdaptor", m),
              "scan": ("our best scan", len(few))}
    for maker, count in ((KDTree, 2000), (BallTree, 2000 if d < 8 else 100)):
        tree = maker(rows, leaf_size=40)
        side = maker.__name__
        sides[side] = lambda _, t=tree, s=side, c=count: note(
            s, in_batches(t, queries[:c]))
        titles[side] = (f"scikit-learn {version} {side}", count)
    seconds = measure.alternate(sides, RUNS)
    ids, distances = found["ours"]
    leaves = ours.counts_of(our.TREE, queries, K)[0] / m
    for side, (title, count) in titles.items():
        if side == "scan":
            same = bool((found[side] == ids[:count]).all())
        else:
            # The rounding of float32 may choose another of two rows as near.
            same = np.allclose(squared(rows, queries[:count], found[side]),
                               distances[:count], rtol=1e-5, atol=1e-12)
        results.add(name, "time per query", "us", seconds["ours"] / m * 1e6,
                    seconds[side] / count * 1e6, title, same, RUNS,
                    leaves=round(leaves, 1))
    ours.close()
    nanoflann.close()


class Curve:
    """Points of one index: effort, recall, queries a second."""

    def __init__(self, case, name, is_ours, build_seconds):
        self.case = case
        self.name = name
        self.is_ours = is_ours
        self.build_seconds = round(build_seconds, 1)
        self.points = []

    def add(self, effort, found, seconds, more):
        self.points.append({"effort": effort, "recall": round(found, 4),
                            "qps": round(QUERIES / seconds, 1), **more})

    def best(self, level):
        """The fastest point that reaches this recall; None if none does."""
        fit = [p for p in self.points if p["recall"] >= level]
        return max(fit, key=lambda p: p["qps"]) if fit else None

    def line(self):
        return {"bench": "approx", "case": self.case, "curve": self.name,
                "ours": self.is_ours, "build_seconds": self.build_seconds,
                "points": self.points}


def load(data):
    """Name, rows and held-out queries."""
    folder = os.environ.get("DATA", "data/large")
    rows = np.load(f"{folder}/{data}.npy").astype(np.float32)
    order = np.random.default_rng(7).permutation(len(rows))
    queries = np.ascontiguousarray(rows[order[:QUERIES]])
    kept = order[QUERIES:]
    if measure.QUICK:
        kept = kept[:20_000]
        data = data.split("-")[0] + "-20k"
    return data, np.ascontiguousarray(rows[np.sort(kept)]), queries


def sides_of(case, metric, rows, queries, ours, factories, peers):
    """[(curve, effort, function that gives ids, prediction of ours or None)]."""
    sides = []

    def mine(name, kind, settings, seconds):
        curve = Curve(case, name, True, seconds)
        for label, target, effort in settings:
            sides.append((curve, label, lambda t=target, e=effort, k=kind:
                          ours.search(k, queries, K, t, e)[0],
                          ours.predict(kind, K, target)))
        return curve

    seconds = ours.build_seconds
    curves = [mine("our scan", our.CERTIFIED, [("exact", 1, 0)], 0)]
    targets = [(t, t, 0) for t in TARGETS]
    exact = [("exact", 1, 0)]
    for name, kind in (("tree", our.TREE), ("lsh", our.LSH)):
        curves.append(mine(f"our {name}", kind,
                           targets + (exact if kind == our.TREE else []),
                           seconds["tree and lsh"]))
    for i, factory in enumerate(factories):
        curves.append(mine(f"our faiss {factory}", our.FAISS + i, targets,
                           seconds[factory]))
    for other in peers:
        curve = Curve(case, other.name, False, other.build_seconds)
        curves.append(curve)
        for effort in other.efforts:
            sides.append((curve, effort, lambda o=other, e=effort:
                          o.search(queries, K, e), None))
    return curves, sides


def curves(results, data, metric):
    """Recall against queries a second; then the best at each level of recall."""
    if not CASES.search(f"{data}/{metric}/batch=1/k={K}/threads=1"):
        return []
    data, rows, queries = load(data)
    case = f"{data}/{metric}/batch=1/k={K}/threads=1"
    parts = {100: 20, 784: 56}[rows.shape[1]]
    factories = [f.format(parts=parts) for f in FACTORIES]
    others = peer.all_of(f"{data}-{metric}", metric, rows, PEERS)
    ours = our.Ours(metric, rows, 32, factories)
    truth = ours.search(our.EXACT, queries, K)[0]
    made, sides = sides_of(case, metric, rows, queries, ours, factories, others)
    found = {}

    def run(i):
        found[i] = sides[i][2](), ours.counts.copy()

    started = measure.now()
    seconds = measure.alternate(
        {i: lambda _, i=i: run(i) for i in range(len(sides))}, RUNS)
    print(f"{case}: {measure.now() - started:.0f} s measured", flush=True)
    for i, (curve, effort, _, predicted) in enumerate(sides):
        ids, counts = found[i]
        more = {} if predicted is None else {
            "read": round(counts[0] / QUERIES, 1),
            "evaluated": round(counts[1] / QUERIES, 1),
            "exact_answers": round(counts[2] / QUERIES, 3),
            "predicted_us": round(predicted * 1e6, 1)}
        curve.add(effort, recall(ids, truth), seconds[i], more)
    ours.close()
    compare(results, case, made)
    return [curve.line() for curve in made]


def compare(results, case, made):
    """Prints what each has at each level of recall; notes our fastest index
    beside the scan and each peer."""
    print(f"{'queries a second at recall of at least':48}"
          + "".join(f"{level:>22}" for level in LEVELS), flush=True)
    for curve in made:
        cells = [curve.best(level) for level in LEVELS]
        print(f"{curve.name:48}" + "".join(
            f"{p['qps']:>9.0f} ({p['effort']}: {p['recall']:.3f})".rjust(22)
            if p else "-".rjust(22) for p in cells), flush=True)
    print("microseconds a query, predicted and measured, by target")
    for curve in made:
        if curve.is_ours:
            print(f"{curve.name:32}" + "".join(
                f"{p['effort']}: {p['predicted_us']:.0f} {1e6 / p['qps']:.0f}"
                .rjust(20) for p in curve.points), flush=True)
    scan = made[0]
    for level in LEVELS:
        mine = [(c.best(level), c) for c in made if c.is_ours and c is not scan]
        mine = [(point, c) for point, c in mine if point]
        if not mine:
            continue
        best, curve = max(mine, key=lambda pair: pair[0]["qps"])
        more = {key: best[key] for key in best if key != "qps"}
        for other in [scan] + [c for c in made if not c.is_ours]:
            point = other.best(level)
            if point:
                results.add(
                    f"{case}/recall>={level}/{curve.name}",
                    "queries per second", "1/s", best["qps"], point["qps"],
                    f"{other.name}, {point['effort']}: {point['recall']}",
                    True, RUNS, less_is_better=False, **more)


def least_mean(shares):
    """What the mean is above in 975 of 1,000 draws of as many queries."""
    random = np.random.default_rng(5)
    means = [random.choice(shares, len(shares)).mean() for _ in range(1000)]
    return np.quantile(means, 0.025)


def merged(segments, kind, queries, target):
    """The nearest of what the segments have; each has numbers of its own."""
    found = [s.search(kind, queries, K, target) for s in segments]
    ids = np.concatenate([f[0] + (np.uint64(i) << np.uint64(40))
                          for i, f in enumerate(found)], axis=1)
    distances = np.concatenate([
        np.where(f[0] == ~np.uint64(0), np.inf, f[1]) for f in found], axis=1)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :K]
    return np.take_along_axis(ids, nearest, axis=1)


def targets_after_changes(data, metric):
    """Prints the recall for each target over what an index was built of, and
    after 30 % of it were deleted and as many rows added, in a segment of their
    own."""
    if not CASES.search(f"{data}/{metric}/changes"):
        return
    data, rows, queries = load(data)
    case = f"{data}/{metric}/changes"
    order = np.random.default_rng(9).permutation(len(rows))
    first = np.sort(order[:len(rows) * 10 // 13])
    old = our.Ours(metric, np.ascontiguousarray(rows[first]), 32)
    new = our.Ours(metric, np.ascontiguousarray(
        rows[np.sort(order[len(first):])]), 32)
    gone = np.random.default_rng(10).random(len(first)) < 0.3
    print(f"{case}: recall, and in brackets what its mean is above in 975 of "
          "1,000 draws", flush=True)
    for name, segments in (("as built", [old]), ("changed", [old, new])):
        if name == "changed":
            old.delete(gone)
        truth = merged(segments, our.EXACT, queries, 1)
        for kind, title in ((our.TREE, "tree"), (our.LSH, "lsh")):
            for target in (0.8, 0.9, 0.95, 0.99):
                ids = merged(segments, kind, queries, target)
                shares = np.array([len(np.intersect1d(f, t)) / K
                                   for f, t in zip(ids, truth)])
                print(f"{case}/{name}/{title}/target={target} "
                      f"{shares.mean():.4f} ({least_mean(shares):.4f})",
                      flush=True)
    old.close()
    new.close()


def plot(lines):
    """bench/out/approx-DATA-METRIC.png for each case."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    for case in sorted({line["case"] for line in lines}):
        figure, axes = pyplot.subplots(figsize=(9, 6))
        for line in lines:
            if line["case"] != case:
                continue
            points = sorted(line["points"], key=lambda p: p["recall"])
            axes.plot([p["recall"] for p in points], [p["qps"] for p in points],
                      "o-" if line["ours"] else "x--", label=line["curve"])
        axes.set(xlabel=f"recall@{K}", ylabel="queries a second, one thread",
                 yscale="log", xlim=(0.4, 1.005), title=case)
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
        name = "-".join(case.split("/")[:2])
        figure.savefig(f"{OUT}/approx-{name}.png", dpi=120)
        pyplot.close(figure)


def keep(made):
    """The curves of this run and, of cases that it left out, the last ones."""
    path = f"{OUT}/approx-curves.jsonl"
    lines = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    again = {line["case"] for line in made}
    lines = [line for line in lines if line["case"] not in again] + made
    with open(path, "w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
    return lines


def main():
    results = Results("approx")
    Results.print_head()
    n = 200_000 if measure.QUICK else 1_000_000
    for d in (2, 3, 8):
        for batch in (1, 1000):
            low_dimension(results, d, n, batch)
    for data, metric in (("glove-341k", "l2"), ("glove-341k", "cosine"),
                         ("fashion-70k", "l2")):
        targets_after_changes(data, metric)
        made = curves(results, data, metric)
        if made:
            plot(keep(made))
    results.plot_ratios("approximate search, one thread")


main()
