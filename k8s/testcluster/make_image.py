#!/usr/bin/env python3
"""An image for the test cluster out of files of this machine.

    make_image.py NAME:TAG OUT.tar --add FILE:PATH... -- COMMAND...

Programs bring the shared libraries that they name.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "image"))
from docker_archive import is_elf, libraries, write_archive

USER = 65532


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tag")
    parser.add_argument("archive")
    parser.add_argument("--add", action="append", default=[])
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    files = {}
    for file, path in (added.rsplit(":", 1) for added in args.add):
        files[path] = pathlib.Path(file).read_bytes()
        if is_elf(files[path]):
            for inside, library in libraries([file]).items():
                files[inside] = pathlib.Path(library).read_bytes()
    files["etc/passwd"] = b"root:x:0:0:root:/:/\nuser:x:65532:65532:user:/:/\n"
    files["etc/nsswitch.conf"] = b"hosts: files dns\n"
    write_archive(args.archive, args.tag,
                  {"Entrypoint": args.command, "Env": ["PATH=/usr/bin:/bin:/"]},
                  [files], USER)
    print("%s, %.1f MB" % (args.tag, sum(map(len, files.values())) / 1e6))


if __name__ == "__main__":
    main()
