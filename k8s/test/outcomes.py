#!/usr/bin/env python3
"""What became of the calls in a report of ghz: one line,

    outcomes.py REPORT.json
    total 1200 failed 30 codes Unavailable windows 3 longest 4.1

A window is a time in which calls failed with less than a second between them.
"""

import datetime
import json
import sys


def seconds(text):
    """RFC 3339 with up to nine digits of fraction."""
    base, _, rest = text.partition(".")
    digits = "".join(c for c in rest if c.isdigit())[:6] if rest else "0"
    if not rest:
        base = base[:19]
    moment = datetime.datetime.strptime(base[:19], "%Y-%m-%dT%H:%M:%S")
    return moment.timestamp() + float("0." + (digits or "0"))


def main():
    with open(sys.argv[1]) as f:
        calls = json.load(f)["details"] or []
    failed = sorted((seconds(c["timestamp"]), c["status"]) for c in calls
                    if c["status"] != "OK")
    windows = []
    for at, _ in failed:
        if windows and at - windows[-1][1] < 1:
            windows[-1][1] = at
        else:
            windows.append([at, at])
    print("total %d failed %d codes %s windows %d longest %.1f" % (
        len(calls), len(failed),
        ",".join(sorted({code for _, code in failed})) or "-", len(windows),
        max((last - first for first, last in windows), default=0)))


if __name__ == "__main__":
    main()
