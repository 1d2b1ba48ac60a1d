#!/usr/bin/env python3
"""The image with slow_load.so preloaded: k8s.local/slow:1.

    slow_image.py OUT.tar SLOW_LOAD.so SECONDS COTERIED COTERIE
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "image"))
import make_image
from docker_archive import libraries, write_archive


def main():
    archive, preload, seconds, coteried, coterie = sys.argv[1:]
    own = {"usr/bin/coteried": coteried, "usr/bin/coterie": coterie,
           "slow_load.so": preload}
    files = {path: pathlib.Path(file).read_bytes()
             for path, file in {**libraries(own.values()), **own}.items()}
    files.update({path: text.encode() for path, text in make_image.ETC.items()})
    files[make_image.DATA] = None
    config = make_image.configuration("1")
    config["Env"] += ["LD_PRELOAD=/slow_load.so", "SLOW_LOAD=" + seconds]
    write_archive(archive, "k8s.local/slow:1", config, [files],
                  make_image.USER)


if __name__ == "__main__":
    main()
