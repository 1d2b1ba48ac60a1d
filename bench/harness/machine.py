"""What the numbers were measured on."""

import os


def _cpuinfo():
    fields = {}
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    return fields


def describe():
    """CPU, cores that this process may use, cache and load, in one line."""
    cpu = _cpuinfo()
    return "%s family %s model %s, %d cores, %s cache, load %.1f at start" % (
        cpu.get("model name", "unknown CPU"),
        cpu.get("cpu family", "?"),
        cpu.get("model", "?"),
        len(os.sched_getaffinity(0)),
        cpu.get("cache size", "unknown"),
        os.getloadavg()[0],
    )
