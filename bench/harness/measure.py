"""Times sides by turns, so that what changes on the machine hits all alike."""

import os
import statistics
import time

# CLOCK=cpu counts the CPU seconds of the process instead of the clock on the
# wall: on a busy machine this is the steadier of the two for one thread.
CPU_CLOCK = os.environ.get("CLOCK") == "cpu"
QUICK = os.environ.get("QUICK") == "1"


def now():
    return time.process_time() if CPU_CLOCK else time.perf_counter()


def alternate(sides, runs):
    """Seconds of each side, the median of its runs.

    sides: {name: function of the run's number}. The order turns with the run.
    """
    seconds = {name: [] for name in sides}
    names = list(sides)
    for run in range(runs):
        turn = run % len(names)
        for name in names[turn:] + names[:turn]:
            start = now()
            sides[name](run)
            seconds[name].append(now() - start)
    return {name: statistics.median(s) for name, s in seconds.items()}
