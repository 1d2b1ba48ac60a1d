#!/usr/bin/env python3
"""Writes until a file appears, then checks that nothing acknowledged is lost.

    ingest.py SERVER SEED STOP_FILE

Four writers overwrite their own ids of collection "ingest", a batch at a time,
each write with a request id, repeated until it is acknowledged. A point's vector
holds the number of its last write, so a lost write and one that a late repeat
has undone both show. Prints "N acknowledged, N repeats, 0 lost".
"""

import array
import os
import random
import sys
import threading
import time

from stubs import (channel, collections_pb2, collections_pb2_grpc, grpc,
                   points_pb2, points_pb2_grpc, types_pb2, vector)

COLLECTION = "ingest"
WRITERS = 4
IDS = 2000  # of each writer
BATCH = 20
# What a caller repeats: the fault may pass.
PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
           grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)


def insist(call, request, patience=120):
    """The reply, and how often it took another try."""
    until = time.monotonic() + patience
    repeats = 0
    while True:
        try:
            return call(request, timeout=10), repeats
        except grpc.RpcError as error:
            if error.code() not in PASSING or time.monotonic() > until:
                raise
        repeats += 1
        threading.Event().wait(0.05)


class Writer(threading.Thread):
    def __init__(self, server, number, seed, stop_file):
        super().__init__()
        self.stub = points_pb2_grpc.PointServiceStub(channel(server))
        self.number = number
        self.draw = random.Random(seed * WRITERS + number)
        self.stop_file = stop_file
        self.acknowledged = {}  # id: number of its last write
        self.writes = 0
        self.repeats = 0
        self.failure = None

    def run(self):
        try:
            while not os.path.exists(self.stop_file):
                self.write()
        except grpc.RpcError as error:
            self.failure = error

    def write(self):
        ids = [i * WRITERS + self.number
               for i in self.draw.sample(range(IDS), BATCH)]
        self.writes += 1
        request = points_pb2.UpsertRequest(
            collection=COLLECTION,
            points=[types_pb2.Point(
                id=i, vector=vector([float(self.writes), float(i)]))
                for i in ids],
            request_id=points_pb2.RequestId(
                client_id="writer-%d" % self.number, sequence=self.writes))
        _, repeats = insist(self.stub.Upsert, request)
        self.repeats += repeats
        self.acknowledged.update((i, self.writes) for i in ids)

    def lost(self):
        wanted = sorted(self.acknowledged)
        lost = 0
        for at in range(0, len(wanted), 1000):
            reply, _ = insist(self.stub.Get, points_pb2.GetRequest(
                collection=COLLECTION, ids=wanted[at:at + 1000],
                with_vectors=True))
            stored = {p.id: p for p in reply.points}
            for i in wanted[at:at + 1000]:
                want = vector([float(self.acknowledged[i]), float(i)])
                have = stored.get(i)
                if have is None or floats(have.vector) != list(
                        want.values.values):
                    lost += 1
        return lost


def floats(stored):
    if stored.HasField("packed"):
        return list(array.array("f", stored.packed.data))
    return list(stored.values.values)


def main():
    server, seed, stop_file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    collections = collections_pb2_grpc.CollectionServiceStub(channel(server))
    insist(collections.CreateCollection,
           collections_pb2.CreateCollectionRequest(
               collection=collections_pb2.Collection(
                   name=COLLECTION, dimension=2,
                   metric=types_pb2.SQUARED_L2)))
    writers = [Writer(server, n, seed, stop_file) for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        if writer.failure is not None:
            sys.exit("a write failed for good: %s" % writer.failure)
    print("%d acknowledged, %d repeats, %d lost" % (
        sum(w.writes for w in writers), sum(w.repeats for w in writers),
        sum(w.lost() for w in writers)))


if __name__ == "__main__":
    main()
