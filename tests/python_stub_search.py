"""A Python client from generated stubs, as the README shows it.

    python_stub_search.py HOST:PORT FOLDER_OF_GENERATED_STUBS
"""

import sys

sys.path.insert(0, sys.argv[2])

import grpc  # noqa: E402

from api.v1 import collections_pb2, collections_pb2_grpc  # noqa: E402
from api.v1 import points_pb2, points_pb2_grpc  # noqa: E402
from api.v1 import search_pb2, search_pb2_grpc, types_pb2  # noqa: E402

channel = grpc.insecure_channel(
    sys.argv[1], options=[("grpc.max_receive_message_length", 16 << 20)])

collections = collections_pb2_grpc.CollectionServiceStub(channel)
collections.CreateCollection(collections_pb2.CreateCollectionRequest(
    collection=collections_pb2.Collection(
        name="colours", dimension=3, metric=types_pb2.SQUARED_L2)))

points = points_pb2_grpc.PointServiceStub(channel)
colours = {1: ("red", [1, 0, 0]), 2: ("green", [0, 1, 0]),
           3: ("orange", [1, 0.6, 0]), 2**64 - 1: ("black", [0, 0, 0])}
points.Upsert(points_pb2.UpsertRequest(
    collection="colours",
    points=[
        types_pb2.Point(
            id=i,
            vector=types_pb2.Vector(values=types_pb2.FloatVector(values=v)),
            attributes={"name": types_pb2.AttributeValue(string_value=name)})
        for i, (name, v) in colours.items()]))

search = search_pb2_grpc.SearchServiceStub(channel)
reply = search.Search(search_pb2.SearchRequest(
    collection="colours",
    queries=[search_pb2.Query(vector=types_pb2.Vector(
        values=types_pb2.FloatVector(values=[1, 0.5, 0])))],
    k=2,
    with_attributes=types_pb2.AttributeSelector(all=True)))

hits = [(h.id, h.attributes["name"].string_value, round(h.distance, 4))
        for h in reply.results[0].hits]
print(hits)
assert hits == [(3, "orange", 0.01), (1, "red", 0.25)], hits
assert reply.results[0].exact

try:
    search.Search(search_pb2.SearchRequest(collection="nothing", k=1, queries=[
        search_pb2.Query(id=1)]))
    raise AssertionError("an unknown collection was found")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.NOT_FOUND, error
