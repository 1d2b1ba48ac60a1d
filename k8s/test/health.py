#!/usr/bin/env python3
"""Watches what one server says of its health, ten times a second, and calls it
each time as traffic would.

    health.py SERVER loading SECONDS [SERVICE...]   until it is SERVING
    health.py SERVER draining SECONDS [SERVICE...]  from SERVING until it is gone

The services are asked by name and have to agree with "". Prints what it saw;
an exit code of 1 and a message where that is not so, or takes longer.
"""

import sys
import threading
import time

from stubs import channel, grpc, health_pb2, health_pb2_grpc, search_pb2, \
    search_pb2_grpc, vector

INTERVAL = 0.1
Status = health_pb2.HealthCheckResponse


class Watch(threading.Thread):
    """Every status that Watch reports, in turn."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.stub = health_pb2_grpc.HealthStub(channel(server))
        self.name = name
        self.seen = []
        self.start()

    def run(self):
        try:
            for reply in self.stub.Watch(
                    health_pb2.HealthCheckRequest(service=self.name),
                    wait_for_ready=True):
                self.seen.append(Status.ServingStatus.Name(reply.status))
        except grpc.RpcError:
            pass  # the server is gone


class Server:
    def __init__(self, address):
        self.health = health_pb2_grpc.HealthStub(channel(address))
        self.search = search_pb2_grpc.SearchServiceStub(channel(address))

    def check(self, name=""):
        """The status, or the code of the error."""
        try:
            return Status.ServingStatus.Name(self.health.Check(
                health_pb2.HealthCheckRequest(service=name), timeout=2).status)
        except grpc.RpcError as error:
            return error.code().name

    def call(self):
        """The code of a search, and its message. OK of a collection that is
        there; of one that is not, NOT_FOUND is as good an answer."""
        try:
            self.search.Search(search_pb2.SearchRequest(
                collection="words", k=1,
                queries=[search_pb2.Query(vector=vector([1.0] * 100))]),
                timeout=5)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        return "OK", ""


def expect(holds, what, *seen):
    if not holds:
        sys.exit("%s: %s" % (what, " ".join(map(str, seen))))


def names_agree(server, services):
    """What "" says, before and after the others said the same."""
    before = server.check()
    others = [server.check(name) for name in services]
    alive, nope = server.check("alive"), server.check("nope")
    after = server.check()
    if before == after and before in ("SERVING", "NOT_SERVING"):
        expect(all(o == before for o in others), "services of a server that is "
               + before, *zip(services, others))
        expect(alive == "SERVING", "alive", alive)
        expect(nope == "NOT_FOUND", "a name that nobody has", nope)
    return after


def loading(server, services, until):
    began = time.monotonic()
    polls = 0
    while True:
        said = names_agree(server, services)
        code, message = server.call()
        # Only what was said before the call binds it.
        if said == "SERVING":
            expect(code in ("OK", "NOT_FOUND"), "SERVING, but a search is",
                   code, message)
            break
        polls += said == "NOT_SERVING"
        expect(time.monotonic() < until, "not SERVING in time", said)
        time.sleep(INTERVAL)
    took = time.monotonic() - began
    expect(polls > 0, "it never was NOT_SERVING")
    print("NOT_SERVING for %.1f s (%d polls), then SERVING" % (took, polls))


def draining(server, services, until):
    expect(server.check() == "SERVING", "it does not serve")
    print("SERVING", flush=True)
    turned = None
    answered = 0
    while True:
        said = names_agree(server, services)
        if said == "NOT_SERVING" and turned is None:
            turned = time.monotonic()
        if said not in ("SERVING", "NOT_SERVING"):
            break
        expect(said == "NOT_SERVING" or turned is None,
               "SERVING again, after NOT_SERVING")
        code, message = server.call()
        # As of a load balancer that has not looked away yet.
        if turned is not None and time.monotonic() - turned < 3:
            expect(code == "OK", "a search while it drains is", code, message)
            answered += 1
        expect(time.monotonic() < until, "not gone in time", said)
        time.sleep(INTERVAL)
    expect(turned is not None, "it was gone without NOT_SERVING")
    print("NOT_SERVING for %.1f s (%d searches answered), then gone" %
          (time.monotonic() - turned, answered))


def main():
    address, kind, seconds = sys.argv[1:4]
    services = sys.argv[4:]
    until = time.monotonic() + float(seconds)
    watch, unknown = Watch(address, ""), Watch(address, "nope")
    server = Server(address)
    if kind == "loading":
        loading(server, services, until)
        turns = ["NOT_SERVING", "SERVING"]
    else:
        draining(server, services, until)
        turns = ["SERVING", "NOT_SERVING"]
    while len(watch.seen) < 2 and time.monotonic() < until:
        time.sleep(INTERVAL)
    expect(watch.seen == turns, "Watch", *watch.seen)
    expect(unknown.seen == ["SERVICE_UNKNOWN"], "Watch of a name that nobody "
           "has", *unknown.seen)
    print("Watch: " + ", ".join(watch.seen))


if __name__ == "__main__":
    main()
