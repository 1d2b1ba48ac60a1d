"""SGD through the service: bytes over gRPC, stragglers, time beside
scikit-learn. See bench/sgd/run.sh.
"""

import json
import os
import re
import statistics
import subprocess
import tempfile
import time

import numpy as np

WIRE = "bazel-bin/bench/sgd/wire_bench"
STRAGGLER = "bazel-bin/bench/sgd/straggler_bench"
A1A = "data/a1a.libsvm"
FOLDER = os.environ.get("DATA", "data/large")
L2 = 2.5e-4


def lines_of(*command):
    """The JSON lines that a program prints, as they come."""
    with subprocess.Popen(command, stdout=subprocess.PIPE,
                          text=True) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def add_wire(results):
    """Uplink bytes to a relative gap of 1e-5, 20 workers on a1a."""
    whole = {}
    for run in lines_of(WIRE, A1A):
        if run["method"] == "GD(1/2L)":
            whole[run["shards"]] = run
            continue
        peer = whole[run["shards"]]
        results.add(
            f"{run['method']}/a1a/n=20/grpc/shards={run['shards']}",
            "bytes up at the RPC layer", "B", run["wire_bytes_up"],
            peer["wire_bytes_up"], "GD(1/2L)",
            run["reached"] and peer["reached"], 1, updates=run["updates"],
            share=round(run["wire_bytes_up"] / peer["wire_bytes_up"], 4),
            packed=run["packed_bytes_up"])


def add_stragglers(results):
    """Eight shards of 4 ms a step, one of them slower."""
    sync = {}
    for run in lines_of(STRAGGLER, A1A):
        key = (run["layout"], run["slow"])
        case = (f"asynchronous {run['way']}/a1a {run['layout']}/n=8/"
                f"slow={run['slow']:g}")
        if run["way"] == "synchronous":
            sync[key] = run
        elif run["way"] == "table":
            results.add(case, "time to a gap of 1e-5", "s", run["seconds"],
                        sync[key]["seconds"], "synchronous",
                        run["reached"] and sync[key]["reached"], 1,
                        staleness_p95=run["staleness_p95"])
        else:  # where it stalls
            results.add(case, "relative gap", "gap", run["gap"],
                        sync[key]["gap"], "synchronous", run["reached"], 1,
                        updates=run["updates"])


class Server:
    """coteried, all in one, on a folder of its own, and its command line."""

    def __init__(self, folder):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            ["bazel-bin/server/coteried", "--listen=127.0.0.1:0", "--http=",
             f"--data_dir={folder}/data"],
            stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            served = re.search(r"serving on ([^,]*),", line)
            if served:
                self.address = served.group(1)
                return
        raise RuntimeError("coteried did not start")

    def run(self, *arguments):
        return subprocess.run(
            ["bazel-bin/client/coterie", f"--server={self.address}",
             *arguments], check=True, capture_output=True, text=True).stdout

    def stop(self):
        self.process.terminate()
        self.process.wait()


def libsvm(path, dimension):
    rows, labels = [], []
    with open(path, encoding="ascii") as file:
        for line in file:
            label, *pairs = line.split()
            row = np.zeros(dimension, dtype=np.float32)
            for pair in pairs:
                index, value = pair.split(":")
                row[int(index) - 1] = float(value)
            rows.append(row)
            labels.append(1 if float(label) > 0 else -1)
    return np.array(rows), np.array(labels)


def fashion():
    """Fashion-MNIST: the first five kinds of clothes against the others."""
    rows = np.load(f"{FOLDER}/fashion-70k.npy").astype(np.float32) / 255
    with open(f"{FOLDER}/fashion-70k.labels.txt", encoding="ascii") as file:
        kinds = np.array([int(line) for line in file])
    return rows, np.where(kinds < 5, 1, -1)


def sets():
    yield "a1a", *libsvm(A1A, 123)
    yield "mushrooms", *libsvm("data/mushrooms.libsvm", 116)
    if not os.environ.get("QUICK"):
        yield "fashion-70k", *fashion()


def objective(w, rows, labels):
    margins = labels * (rows @ w)
    return float(np.mean(np.logaddexp(0, -margins)) + L2 / 2 * w @ w)


def peers(n):
    """scikit-learn's own defaults, but for the same objective."""
    # pylint: disable=import-outside-toplevel
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    return {
        # At most 100 iterations: what it ends at is what we have to reach.
        "LogisticRegression": lambda: LogisticRegression(
            C=1 / (L2 * n), fit_intercept=False),
        "SGDClassifier": lambda: SGDClassifier(
            loss="log_loss", alpha=L2, fit_intercept=False, random_state=0),
    }


def load(server, name, rows, labels, folder):
    np.save(f"{folder}/{name}.npy", rows)
    with open(f"{folder}/{name}.csv", "w", encoding="ascii") as file:
        file.write("label\n")
        file.writelines(f"{label}\n" for label in labels)
    server.run("import", name, f"{folder}/{name}.npy", "--attributes",
               f"{folder}/{name}.csv", "--create", "--metric", "l2")


def train(server, name, loss, updates=20_000):
    """Nesterov's method on full gradients, its step from the rows."""
    start = time.perf_counter()
    model = json.loads(server.run(
        "--json", "train", name, "--label", "label", "--method", "accelerated",
        "--workers", "1", "--block-fraction", "1", "--l2", str(L2),
        "--updates", str(updates), "--target-loss", repr(loss)))
    seconds = time.perf_counter() - start
    return seconds, model


def add_scikit_learn(results, runs):
    """Time to the loss that scikit-learn ends at: fit() there, the whole
    command here. Returns loss over time: data -> name -> [(seconds, loss)]."""
    curves = {}
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            for name, rows, labels in sets():
                load(server, name, rows, labels, folder)
                # As its documentation advises for speed.
                theirs = rows.astype(np.float64)
                for peer, make in peers(len(rows)).items():
                    compare(results, server, (name, peer, make),
                            (theirs, labels), runs)
                if len(rows) < 10_000:
                    curves[name] = losses(server, name, theirs, labels)
        finally:
            server.stop()
    return curves


def losses(server, name, rows, labels):
    """Both sides stopped earlier and later."""
    result = {"coterie train --method accelerated": [
        (seconds, model["last"]["loss"]) for seconds, model in
        (train(server, name, 0, updates) for updates in
         (5, 10, 20, 50, 100, 200, 400, 800))]}
    for peer, make in peers(len(rows)).items():
        result[peer] = []
        for iterations in (1, 2, 5, 10, 20, 50, 100, 200):
            fitted = make().set_params(max_iter=iterations, tol=1e-12)
            start = time.perf_counter()
            fitted.fit(rows, labels)
            seconds = time.perf_counter() - start
            result[peer].append(
                (seconds, objective(fitted.coef_[0], rows, labels)))
    return result


def compare(results, server, case, data, runs):
    name, peer, make = case
    rows, labels = data
    ours, theirs = [], []
    for _ in range(runs):
        fitted = make()
        start = time.perf_counter()
        fitted.fit(rows, labels)
        theirs.append(time.perf_counter() - start)
        loss = objective(fitted.coef_[0], rows, labels)
        seconds, model = train(server, name, loss)
        ours.append(seconds)
    results.add(f"accelerated/{name}/to the loss of {peer}", "time", "s",
                statistics.median(ours), statistics.median(theirs), peer,
                model["stop"] == "TARGET_LOSS", runs, loss=loss,
                updates=int(model["last"]["update"]),
                training_seconds=model["seconds"])
