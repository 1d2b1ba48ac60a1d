#!/usr/bin/env python3
"""Asks for the words nearest to some, as a caller would.

    ask.py SERVER exact VECTORS.npy    compares answers with a plain scan of the
                                       file in double precision; prints "equal N"
    ask.py SERVER policy POLICY        one search (fail, allow, require:RATIO);
                                       prints "CODE shards OK/TOTAL exact=BOOL"
                                       and, of an error, its message
    ask.py SERVER await POLICY SECONDS the same until it is OK, exact, and of all
                                       shards; prints the seconds it took
"""

import array
import math
import random
import sys
import threading
import time

from stubs import channel, grpc, policy, search_pb2, search_pb2_grpc, vector

K = 10
QUERIES = 8


def rows(path):
    with open(path, "rb") as f:
        assert f.read(6) == b"\x93NUMPY", path
        f.read(2)
        header = f.read(int.from_bytes(f.read(2), "little")).decode()
        shape = header.split("'shape': (")[1].split(")")[0].split(",")
        n, d = int(shape[0]), int(shape[1])
        values = array.array("f", f.read(4 * n * d))
    return [values[i * d:(i + 1) * d] for i in range(n)]


def nearest(base, query):
    """Ids of the K rows nearest by cosine, ties by id, and their distances."""
    squares = math.fsum(x * x for x in query)
    scored = []
    for i, row in enumerate(base):
        dot = sum(x * y for x, y in zip(row, query))
        norm = sum(x * x for x in row)
        scored.append((1 - dot / math.sqrt(norm * squares), i))
    return sorted(scored)[:K]


def search(stub, query, text="fail", timeout=5):
    return stub.Search(search_pb2.SearchRequest(
        collection="words", k=K, partial_policy=policy(text), profile=True,
        queries=[search_pb2.Query(vector=vector(query))]), timeout=timeout)


def exact(stub, path):
    base = rows(path)
    draw = random.Random(1)
    for _ in range(QUERIES):
        query = array.array(
            "f", (x + draw.gauss(0, 0.05) for x in draw.choice(base)))
        reply = search(stub, query)
        assert reply.results[0].exact, reply.certificate.withheld
        got = reply.results[0].hits
        want = nearest(base, query)
        assert [hit.id for hit in got] == [i for _, i in want], (got, want)
        for hit, (distance, _) in zip(got, want):
            assert abs(hit.distance - distance) < 1e-12, (hit, distance)
    print("equal %d" % QUERIES)


def once(stub, text, query):
    """(code name, shards that answered, of how many, exact, message)"""
    try:
        reply = search(stub, query, text)
    except grpc.RpcError as error:
        return error.code().name, 0, 0, False, error.details()
    coverage = reply.coverage
    missing = "; ".join(shard.reason for shard in coverage.missing)
    return ("OK", coverage.shards_ok, coverage.shards_total,
            reply.results[0].exact, missing)


def main():
    server, command = sys.argv[1:3]
    stub = search_pb2_grpc.SearchServiceStub(channel(server))
    query = [1.0] * 100
    if command == "exact":
        exact(stub, sys.argv[3])
    elif command == "policy":
        code, ok, total, certified, message = once(stub, sys.argv[3], query)
        print("%s shards %d/%d exact=%s %s" %
              (code, ok, total, certified, message))
    else:
        began = time.monotonic()
        pause = threading.Event()
        while True:
            code, ok, total, certified, message = once(
                stub, sys.argv[3], query)
            took = time.monotonic() - began
            if code == "OK" and ok == total and certified:
                print("%.1f" % took)
                return
            if took > float(sys.argv[4]):
                sys.exit("not whole after %.0f s: %s %d/%d %s" %
                         (took, code, ok, total, message))
            pause.wait(0.1)


if __name__ == "__main__":
    main()
