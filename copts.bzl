"""Compiler options of our own code (never of generated or foreign code)."""

COTERIE_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wnon-virtual-dtor",
    "-Wimplicit-fallthrough",
    "-Werror",
    # Debian's Abseil and gRPC headers are not ours to mend.
    "-Wno-deprecated-declarations",
    "-Wno-missing-field-initializers",
]
