"""C++ (and gRPC) code from .proto files through the system's protoc."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def _generate_impl(ctx):
    outputs = []
    root = ctx.label.workspace_root  # "" or "external/NAME"
    for src in ctx.files.srcs:
        stem = src.basename[:-len(".proto")]
        folder = src.short_path
        if root:
            folder = folder[len("../") + len(ctx.label.workspace_name) + 1:]
        folder = folder[:-len(src.basename)]
        package = ctx.label.package + "/" if ctx.label.package else ""
        rel = folder[len(package):]
        suffixes = [".pb.h", ".pb.cc"]
        if ctx.attr.grpc:
            suffixes += [".grpc.pb.h", ".grpc.pb.cc"]
        for suffix in suffixes:
            outputs.append(ctx.actions.declare_file(rel + stem + suffix))

    out_root = ctx.bin_dir.path + ("/" + root if root else "")
    args = ctx.actions.args()
    args.add("--cpp_out=" + out_root)
    if ctx.attr.grpc:
        args.add("--grpc_out=" + out_root)
        args.add("--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin")
    args.add("-I" + (root if root else "."))
    args.add("-Iexternal/googleapis")
    args.add("-I/usr/include")
    args.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = "/usr/bin/protoc",
        arguments = [args],
        inputs = ctx.files.srcs + ctx.files.imports,
        outputs = outputs,
        mnemonic = "ProtocCpp",
    )
    return [DefaultInfo(files = depset(outputs))]

_generate = rule(
    implementation = _generate_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".proto"]),
        "imports": attr.label_list(allow_files = [".proto"]),
        "grpc": attr.bool(default = False),
    },
)

def cc_proto(name, srcs, deps = [], imports = [], grpc = False, strip_root = False, alwayslink = False, visibility = None):
    """A cc_library of generated messages, with gRPC stubs when `grpc` is set.

    Args:
      name: target name.
      srcs: .proto files of one package, imported by their path from the root.
      deps: other cc_proto targets whose messages these use.
      imports: .proto files that these import and that are not system files.
      grpc: also generate services.
      strip_root: the repository's root is an include directory (external use).
      alwayslink: keep the descriptors even if no symbol is used.
      visibility: as usual.
    """
    _generate(
        name = name + "_srcs",
        srcs = srcs,
        imports = imports,
        grpc = grpc,
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = [name + "_srcs"],
        # Generated code is not ours to warn about.
        copts = ["-w"],
        alwayslink = alwayslink,
        includes = ["."] if strip_root else None,
        visibility = visibility,
        deps = deps + (["@system//:grpc"] if grpc else ["@system//:protobuf"]),
    )
