"""Just enough of the protocol buffer encoding to write searches and to read
their replies without generated code. Field numbers: api/v1/search.proto."""

import struct

import numpy as np


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _bytes(field, content):
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def search_request(collection, query, k):
    """coterie.v1.SearchRequest of one query, its vector as floats."""
    values = _bytes(1, query.astype("<f4").tobytes())
    vector = _bytes(1, values)
    return (_bytes(1, collection.encode()) + _bytes(2, _bytes(1, vector)) +
            _varint(3 << 3) + _varint(k))


def fields(message):
    """(field number, value) of each field; bytes, or an integer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        yield tag >> 3, message[at:at + size]
        at += size


def search_reply(message):
    """(ids, distances, whether certified) of a SearchResponse to one query."""
    result = next(v for n, v in fields(message) if n == 1)
    ids, distances, exact = [], [], False
    for number, value in fields(result):
        if number == 2:
            exact = bool(value)
            continue
        hit = dict(fields(value))
        ids.append(struct.unpack("<Q", hit.get(1, bytes(8)))[0])
        distances.append(struct.unpack("<d", hit.get(2, bytes(8)))[0])
    return np.array(ids, dtype=np.uint64), np.array(distances), exact


def write_frames(path, messages):
    with open(path, "wb") as file:
        for message in messages:
            file.write(struct.pack("<I", len(message)) + message)


def read_frames(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        size, = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + size]
        at += 4 + size
