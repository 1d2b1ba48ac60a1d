"""The OpenBLAS kernels that are fastest here.

OpenBLAS picks kernels by a table of CPU models and may miss newer ones by far;
a comparison should not profit from that.
"""

import os
import subprocess
import sys

CANDIDATES = ("", "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids")

_PROBE = """
import time, faiss, numpy as np
faiss.omp_set_num_threads(1)
faiss.cvar.distance_compute_blas_threshold = 0
r = np.random.default_rng(1)
x = r.random((20000, 128), dtype=np.float32)
index = faiss.IndexFlatL2(128); index.add(x)
best = 9e9
for _ in range(3):
    t = time.process_time(); index.search(x[:1024], 1)
    best = min(best, time.process_time() - t)
print(best)
"""


def _environment(core_type):
    env = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    env.pop("OPENBLAS_CORETYPE", None)
    if core_type:
        env["OPENBLAS_CORETYPE"] = core_type
    return env


def run_with_best_core_type():
    """Starts this program anew under the best setting, unless one is set.

    Returns its name ("default" for none).
    """
    chosen = os.environ.get("BENCH_CORE_TYPE")
    if chosen is not None:
        return chosen or "default"
    seconds = {}
    for candidate in CANDIDATES:
        probe = subprocess.run([sys.executable, "-c", _PROBE],
                               env=_environment(candidate), check=False,
                               capture_output=True, text=True)
        if probe.returncode == 0:
            seconds[candidate] = float(probe.stdout.split()[-1])
    best = min(seconds, key=seconds.get)
    print("OpenBLAS core types, seconds: " + ", ".join(
        f"{name or 'default'} {s:.3f}" for name, s in seconds.items()))
    env = _environment(best)
    env.pop("OPENBLAS_NUM_THREADS")
    env["BENCH_CORE_TYPE"] = best
    os.execve(sys.executable, [sys.executable] + sys.argv, env)
