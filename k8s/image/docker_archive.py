"""Docker archives out of files of this machine, without Docker."""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile

LOADER = "lib64/ld-linux-x86-64.so.2"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def libraries(programs):
    """{path in the image: file here} of all that the programs load."""
    found = {}
    for program in programs:
        told = subprocess.run(["ldd", program], capture_output=True, text=True)
        out = told.stdout
        if "not a dynamic executable" in told.stderr:
            continue
        if told.returncode != 0 or "not found" in out:
            sys.exit("%s lacks a library:\n%s%s" % (program, out, told.stderr))
        for path in re.findall(r"(/\S+) \(0x", out):
            name = os.path.basename(path)
            inside = LOADER if name.startswith("ld-linux") \
                else LIBRARIES + "/" + name
            found[inside] = os.path.realpath(path)
    return found


def is_elf(data):
    return data[:4] == b"\x7fELF"


def layer(files, owner):
    """A tar with fixed times and order of {path: bytes}: (bytes, digest). None
    for bytes is a folder of `owner`; programs may be run, nothing is written to.
    """
    buffer = io.BytesIO()
    made = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as t:
        def folder(path, uid=0):
            if not path or path in made:
                return
            folder(os.path.dirname(path))
            made.add(path)
            info = tarfile.TarInfo(path)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            info.uid = info.gid = uid
            t.addfile(info)
        for path in sorted(files):
            if files[path] is None:
                folder(path, owner)
                continue
            folder(os.path.dirname(path))
            info = tarfile.TarInfo(path)
            info.size = len(files[path])
            info.mode = 0o755 if is_elf(files[path]) else 0o644
            t.addfile(info, io.BytesIO(files[path]))
    data = buffer.getvalue()
    return data, hashlib.sha256(data).hexdigest()


def write_archive(path, tag, config, layers, owner):
    """Writes `layers` ([{path: bytes}]) and the image's `config`, as tag."""
    made = [layer(files, owner) for files in layers]
    image = json.dumps({
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + digest for _, digest in made]},
    }, sort_keys=True).encode()
    image_name = hashlib.sha256(image).hexdigest() + ".json"
    manifest = json.dumps([{
        "Config": image_name,
        "RepoTags": [tag],
        "Layers": [digest + "/layer.tar" for _, digest in made],
    }]).encode()
    members = [(image_name, image)]
    members += [(digest + "/layer.tar", data) for data, digest in made]
    members.append(("manifest.json", manifest))
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as t:
        for member, data in members:
            info = tarfile.TarInfo(member)
            info.size, info.mode = len(data), 0o644
            t.addfile(info, io.BytesIO(data))
