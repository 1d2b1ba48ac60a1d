"""Exact searches through gRPC under load. See bench/grpc_search/run.sh."""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

# pylint: disable=wrong-import-position
sys.path[:0] = [os.path.join(os.path.dirname(__file__), ".."),
                os.path.join(os.path.dirname(__file__), "..", "exact")]
import answers
import faiss
import numpy as np
import wire
from harness import measure
from harness.results import Results

SET = os.environ.get("SET", "glove-341k")
K = 10
CLIENTS = [int(c) for c in os.environ.get("CLIENTS", "1 4 16").split()]
RUNS = 1 if measure.QUICK else 3
SECONDS = 2 if measure.QUICK else 3
QUERIES = 10_000
CHECKED = 1_000
SHARDS = os.environ.get("SHARDS", "4")

# Queries per second by clients, measured earlier by the same kind of load (a
# closed loop of encoded requests, k = 10, squared L2) on the same kind of
# machine, not in this run: recorded, server and client on the same 2 cores.
# Rows of exact answers, and of graphs with their recall.
RECORDED = {
    "glove-341k": {
        "Milvus 2.3.5 FLAT": {1: 50.3, 4: 91.3, 16: 117.7},
        "Milvus 2.3.5 HNSW ef=192, recall 0.954": {1: 330, 4: 601, 16: 739},
        "Weaviate 1.35.2 flat": {1: 8.0, 4: 15.7, 16: 17.2},
        "Weaviate 1.35.2 hnsw ef=136, recall 0.954":
            {1: 322, 4: 762, 16: 691},
    },
    "fashion-70k": {
        "Milvus 2.3.5 FLAT": {1: 49.3, 4: 88.0, 16: 89.7},
        "Weaviate 1.35.2 flat": {1: 8.2, 4: 14.8, 16: 15.2},
    },
}


def held_out():
    """The rows, and queries that are not among them."""
    values = np.load(f"{os.environ.get('DATA', 'data/large')}/{SET}.npy")
    order = np.random.default_rng(7).permutation(len(values))
    queries = np.ascontiguousarray(values[order[:QUERIES]], dtype=np.float32)
    return np.ascontiguousarray(values[np.sort(order[QUERIES:])],
                                dtype=np.float32), queries


def cpu_seconds(pid):
    """Of a process with all its threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        parts = file.read().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """coteried, all in one, on a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.address = None

    def start(self):
        log = os.path.join(self.folder, "log")
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                ["bazel-bin/server/coteried", "--listen=127.0.0.1:0", "--http=",
                 f"--data_dir={self.folder}/data", "--local_shards=" + SHARDS]
                + os.environ.get("SERVER_FLAGS", "").split(),
                stdout=out, stderr=out)
        for _ in range(1200):
            with open(log, encoding="utf-8") as file:
                found = re.search(r"serving on ([^,]*),", file.read())
            if found:
                self.address = found[1]
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError("the server did not start: see " + log)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def load(server, requests, *flags):
    return subprocess.run(
        ["bazel-bin/bench/grpc_search/load", "--target=" + server.address,
         "--requests=" + requests, *flags],
        check=True, capture_output=True, text=True).stdout


def check(server, requests, rows, queries):
    """Whether the first replies are certified and what faiss finds."""
    replies = requests + ".replies"
    first = requests + ".first"
    wire.write_frames(first, list(wire.read_frames(requests))[:CHECKED])
    load(server, first, "--once", "--replies=" + replies)
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    truth = index.search(queries[:CHECKED], K)[1]
    found = [wire.search_reply(r) for r in wire.read_frames(replies)]
    same, differ = answers.compare(
        "l2", rows, queries[:CHECKED], np.stack([f[0] for f in found]),
        np.stack([f[1] for f in found]), truth)
    certified = all(f[2] for f in found)
    print(f"{len(found)} replies: {'certified' if certified else 'NOT certified'}"
          f", {'same' if same else 'NOT the same'} as faiss "
          f"({differ} lists with another order within float32)")
    return same and certified


def measure_clients(server, requests, clients):
    runs = []
    for _ in range(RUNS):
        before = cpu_seconds(server.process.pid)
        run = json.loads(load(server, requests, f"--clients={clients}",
                              f"--seconds={SECONDS}s", "--warm=1s"))
        run["server_cores"] = round(
            (cpu_seconds(server.process.pid) - before) / (SECONDS + 1), 2)
        runs.append(run)
    return {name: statistics.median(run[name] for run in runs)
            for name in runs[0]}


def main():
    rows, queries = held_out()
    results = Results("grpc_search")
    with tempfile.TemporaryDirectory() as folder:
        vectors = f"{folder}/{SET}.npy"
        requests = f"{folder}/requests"
        np.save(vectors, rows)
        wire.write_frames(requests, [wire.search_request("bench", q, K)
                                     for q in queries])
        server = Server(folder)
        server.start()
        start = time.monotonic()
        subprocess.run(
            ["bazel-bin/client/coterie", "--server", server.address, "import",
             "bench", vectors, "--create", "--metric", "l2"],
            check=True, capture_output=True)
        took = time.monotonic() - start
        print(f"{len(rows)} rows imported in {took:.1f} s")
        try:
            report(server, requests, results, "imported",
                   check(server, requests, rows, queries))
            server.stop()
            server.start()
            report(server, requests, results, "restarted",
                   check(server, requests, rows, queries))
        finally:
            server.stop()


def report(server, requests, results, state, checked):
    results.print_head()
    for clients in CLIENTS:
        ours = measure_clients(server, requests, clients)
        print("%s, %d clients: %.0f/s, p50 %.2f ms, p99 %.2f ms, server %.2f "
              "cores, client %.2f" % (
                  state, clients, ours["qps"], ours["p50_ms"], ours["p99_ms"],
                  ours["server_cores"], ours["client_cores"]))
        for peer, recorded in RECORDED.get(SET, {}).items():
            if clients in recorded:
                results.add(
                    f"{SET}/l2/clients={clients}/k={K}/{state}", "searches",
                    "1/s", ours["qps"], recorded[clients],
                    f"{peer} (recorded)", checked, RUNS, less_is_better=False,
                    recorded=True, p50_ms=ours["p50_ms"],
                    p99_ms=ours["p99_ms"], server_cores=ours["server_cores"],
                    client_cores=ours["client_cores"], errors=ours["errors"])


if __name__ == "__main__":
    main()
