"""google.rpc protos from the PyPI package that tools/install_deps.sh unpacks."""

_FILES = ["status.proto", "error_details.proto", "code.proto"]

def _googleapis_impl(ctx):
    source = ctx.path(Label("//:WORKSPACE")).dirname.get_child(".deps").get_child("googleapis")
    rpc = source.get_child("google").get_child("rpc")
    for name in _FILES:
        if not rpc.get_child(name).exists:
            fail("%s is missing: run tools/install_deps.sh first" % rpc.get_child(name))
        ctx.symlink(rpc.get_child(name), "google/rpc/" + name)
    ctx.file("BUILD", """
load("@coterie//third_party:cc_proto.bzl", "cc_proto")

filegroup(
    name = "protos",
    srcs = ["google/rpc/status.proto"],
    visibility = ["@coterie//api/v1:__pkg__", "@coterie//tests:__pkg__"],
)

cc_proto(
    name = "rpc_cc_proto",
    srcs = [%s],
    strip_root = True,
    visibility = ["@coterie//api:__subpackages__", "@coterie//client:__pkg__", "@coterie//tests:__subpackages__"],
)
""" % ", ".join(['"google/rpc/%s"' % f for f in _FILES]))

googleapis_repository = repository_rule(
    implementation = _googleapis_impl,
    local = True,
)
