#!/usr/bin/env python3
"""Makes the container image of Coterie from built programs, without Docker.

    make_image.py --coteried FILE --coterie FILE [--name NAME]
        --archive OUT.tar     a docker-archive, for docker load, ctr images
                              import, podman load, kind load image-archive
        --contents OUT.tsv    what is in it: path, bytes, SHA-256, package
        --tree DIR            the same files in a folder, for a Containerfile

In it: the server, the command line (whose `coterie health` is the probe), the
shared libraries that the two name, and who the user is. No shell, no package
manager. The user is 65532, and nothing in it has to be written to. The same
programs and libraries give the same bytes. Over 100 MB is an error.
"""

import argparse
import hashlib
import pathlib
import subprocess
import sys

from docker_archive import is_elf, libraries, write_archive

USER = 65532
LIMIT = 100 * 1000 * 1000
DATA = "var/lib/coterie"
CONTENTS = "usr/share/coterie/contents.tsv"
ETC = {
    "etc/passwd": "root:x:0:0:root:/:/\n"
                  "coterie:x:65532:65532:coterie:/var/lib/coterie:/\n",
    "etc/group": "root:x:0:\ncoterie:x:65532:\n",
    # Names first from /etc/hosts, then from DNS.
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def packages_of(paths):
    """{path: "name version" of the Debian package it came with, or "-"}."""
    # Debian's merged /usr: a package may list a file under either name.
    names = {p: (p, p.replace("/usr/lib/", "/lib/", 1)) for p in paths}
    asked = sorted({name for both in names.values() for name in both})
    found = subprocess.run(["dpkg-query", "--search"] + asked,
                           capture_output=True, text=True).stdout
    owner = {}
    for line in found.splitlines():
        package, _, path = line.partition(": ")
        owner[path] = package.split(",")[0]
    shown = subprocess.run(
        ["dpkg-query", "--show", "--showformat",
         "${binary:Package}\t${Package} ${Version}\n"] +
        sorted(set(owner.values())),
        capture_output=True, text=True).stdout if owner else ""
    version = dict(line.split("\t") for line in shown.splitlines())
    return {p: next((version[owner[n]] for n in both if n in owner), "-")
            for p, both in names.items()}


def contents(files, origin):
    rows = ["path\tbytes\tsha256\tpackage"]
    for path in sorted(files):
        rows.append("%s\t%d\t%s\t%s" % (
            "/" + path, len(files[path]),
            hashlib.sha256(files[path]).hexdigest(), origin[path]))
    return "\n".join(rows) + "\n"


def configuration(version):
    return {
        "Entrypoint": ["/usr/bin/coteried"],
        "Cmd": ["--listen=0.0.0.0:7600", "--http=0.0.0.0:7601",
                "--data_dir=/" + DATA],
        "Env": ["PATH=/usr/bin"],
        "ExposedPorts": {"7600/tcp": {}, "7601/tcp": {}},
        "Healthcheck": {"Test": ["CMD", "/usr/bin/coterie", "health"],
                        "Interval": 5 * 10**9, "Timeout": 5 * 10**9},
        "Labels": {"org.opencontainers.image.title": "coterie",
                   "org.opencontainers.image.version": version},
        "StopSignal": "SIGTERM",
        "User": "%d:%d" % (USER, USER),
        "Volumes": {"/" + DATA: {}},
        "WorkingDir": "/" + DATA,
    }


def write_tree(root, layers):
    for files in layers:
        for path, data in files.items():
            at = pathlib.Path(root) / path
            if data is None:
                at.mkdir(parents=True, exist_ok=True)
                continue
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(data)
            at.chmod(0o755 if is_elf(data) else 0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coteried", required=True)
    parser.add_argument("--coterie", required=True)
    parser.add_argument("--name", default="coterie")
    parser.add_argument("--archive")
    parser.add_argument("--contents")
    parser.add_argument("--tree")
    args = parser.parse_args()

    own = {"usr/bin/coteried": args.coteried, "usr/bin/coterie": args.coterie}
    theirs = libraries(own.values())
    package = packages_of(theirs.values())
    # "coterie 0.1.0"
    title = subprocess.run([args.coterie, "--version"], capture_output=True,
                           text=True, check=True).stdout.strip()
    version = title.split()[-1]
    origin = {path: package[file] for path, file in theirs.items()}
    origin.update({path: title for path in own})
    origin.update({path: "-" for path in ETC})
    # Two layers: libraries change seldom.
    below = {path: pathlib.Path(file).read_bytes()
             for path, file in theirs.items()}
    below.update({path: text.encode() for path, text in ETC.items()})
    above = {path: pathlib.Path(file).read_bytes()
             for path, file in own.items()}
    listed = contents({**below, **above}, origin)
    above[CONTENTS] = listed.encode()
    above[DATA] = None
    layers = [below, above]

    size = sum(len(data) for files in layers for data in files.values() if data)
    if size > LIMIT:
        sys.exit("make_image: %d bytes of files are over the limit of %d" %
                 (size, LIMIT))
    if args.contents:
        pathlib.Path(args.contents).write_text(listed)
    if args.tree:
        write_tree(args.tree, layers)
    if args.archive:
        write_archive(args.archive, "%s:%s" % (args.name, version),
                      configuration(version), layers, USER)
    print("%s:%s, %.1f MB, %d files" % (
        args.name, version, size / 1e6, sum(map(len, layers)) - 1))


if __name__ == "__main__":
    main()
