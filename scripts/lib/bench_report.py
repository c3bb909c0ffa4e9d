"""Results of benchmarks: lines of JSON, read from standard input.

    bench_report.py table     the lines as a readable table
    bench_report.py layout    google-benchmark's JSON of layout_bench as such lines
"""

import json
import statistics
import sys

# Every create and every GetCapacity includes a placement. One LVM command takes 4 ms.
LAYOUT_GOAL_MS = 5


def number(value):
    """Three significant digits."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def quantity(value, unit):
    return "-" if value is None else f"{number(value)} {unit}"


def verdict(met):
    """None: there is no goal."""
    return {None: "", True: "met", False: "MISSED"}[met]


def row(line):
    unit = line["unit"]
    native = line.get("native_equivalent_ms")
    return (
        line["name"],
        line["what"],
        quantity(line["ours"], unit),
        quantity(line.get("ours_p99"), unit),
        quantity(line["peer"], unit),
        number(line["ratio"]),
        "-" if native is None else f"~{number(native)} ms",
        line["goal"],
        verdict(line["met"]),
    )


def table(lines):
    head = ("name", "ours : peer", "ours", "p99", "peer", "ratio", "native", "goal", "")
    rows = [head] + [row(line) for line in lines]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip())


def layout(report):
    """One line for each benchmark and type: the median and the worst of all repetitions."""
    times = {}
    for run in report["benchmarks"]:
        if run["run_type"] == "iteration":
            scale = {"ns": 1e-6, "us": 1e-3, "ms": 1}[run["time_unit"]]
            name = f"layout.{run['name'].split('/')[0]}.{run['label']}"
            times.setdefault(name, []).append(run["cpu_time"] * scale)
    for name, values in times.items():
        worst = sorted(values)[-1]
        line = {"name": name, "ours": round(statistics.median(values), 4), "peer": None, "unit": "ms", "ratio": None}
        line |= {"n": len(values), "ours_p99": round(worst, 4), "what": "16 PVs, 10,000 free runs"}
        line |= {"goal": f"<= {LAYOUT_GOAL_MS} ms", "met": statistics.median(values) <= LAYOUT_GOAL_MS}
        print(json.dumps(line))


def main():
    if sys.argv[1:] == ["layout"]:
        layout(json.load(sys.stdin))
    elif sys.argv[1:] == ["table"]:
        table([json.loads(text) for text in sys.stdin if text.strip()])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
