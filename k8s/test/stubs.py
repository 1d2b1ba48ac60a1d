"""Stubs generated from the protos, and a channel. COTERIE_STUBS is their folder
(k8s/test/run.sh makes it)."""

import os
import sys

STUBS = os.environ["COTERIE_STUBS"]
sys.path.insert(0, STUBS)

import grpc  # noqa: E402

# The stubs of grpc.health.v1 are in a package that is there already.
grpc.__path__.append(os.path.join(STUBS, "grpc"))
from api.v1 import points_pb2, points_pb2_grpc  # noqa: E402,F401
from api.v1 import collections_pb2, collections_pb2_grpc  # noqa: E402,F401
from api.v1 import search_pb2, search_pb2_grpc, types_pb2  # noqa: E402,F401
from grpc.health.v1 import health_pb2, health_pb2_grpc  # noqa: E402,F401


def channel(server):
    """Reconnects within half a second when pods come and go."""
    return grpc.insecure_channel(server, options=[
        ("grpc.max_receive_message_length", 16 << 20),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
    ])


def vector(values):
    return types_pb2.Vector(values=types_pb2.FloatVector(values=values))


def policy(text):
    """fail, allow, or require:RATIO."""
    kind, _, ratio = text.partition(":")
    if kind == "require":
        return search_pb2.PartialPolicy(
            require=search_pb2.RequirePolicy(min_ratio=float(ratio)))
    if kind == "allow":
        return search_pb2.PartialPolicy(allow=search_pb2.AllowPolicy())
    return search_pb2.PartialPolicy(fail=search_pb2.FailPolicy())
