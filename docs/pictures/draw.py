"""Draws the pictures of docs/pictures from what scene.py saw. Usage: draw.py SCENE.json OUTPUT-DIRECTORY

The panels are those of deploy/grafana: a Prometheus gets the recorded pages with their times, and answers the panels' own
queries.
"""

import html
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
PANELS = [
    "Free space", "Space by use", "Largest volume that can be created", "Volumes by condition", "Missing disks", "Calls",
    "Duration of calls, 95 of 100", "LVM commands",
]  # fmt: skip
STEP = 1  # seconds, as the pages were recorded
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$")


def open_metrics(pages):
    """The pages as one text with times, as `promtool tsdb create-blocks-from openmetrics` reads it."""
    families = {}
    for at, page in pages:
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:4]
            found = SAMPLE.match(line)
            if found:
                label = '{instance="edge1",' + found[2][1:] if found[2] else '{instance="edge1"}'
                families.setdefault((name, kind), []).append(f"{found[1]}{label} {found[3]} {at:.3f}")
    lines = []
    for (name, kind), samples in families.items():
        # OpenMetrics has counters without their ending in TYPE.
        lines.append(f"# TYPE {name.removesuffix('_total') if kind == 'counter' else name} {kind}")
        lines += sorted(samples, key=lambda line: line.rsplit(" ", 2)[0])
    return "\n".join([*lines, "# EOF", ""])


class Prometheus:
    """A Prometheus that has recorded these pages."""

    def __init__(self, pages, directory):
        programs = Path(subprocess.run([ROOT / "scripts" / "lib" / "prometheus"], check=True, capture_output=True,
                                       text=True).stdout.strip())  # fmt: skip
        text = directory / "pages"
        text.write_text(open_metrics(pages))
        subprocess.run([programs / "promtool", "tsdb", "create-blocks-from", "openmetrics", text, directory / "data"],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        (directory / "prometheus.yml").write_text("{}\n")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{one.getsockname()[1]}"
        self.url = f"http://{address}/api/v1/query_range"
        self.server = subprocess.Popen(
            [programs / "prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
             "--storage.tsdb.retention.time=100y", f"--query.lookback-delta={3 * STEP}s", f"--web.listen-address={address}", "--log.level=error"])  # fmt: skip

    def series(self, query, start, end):
        """[(labels, times, values)]"""
        for variable, value in (("$instance", ".*"), ("$pool", ".*"), ("$__rate_interval", "15s")):
            query = query.replace(variable, value)
        asked = urllib.parse.urlencode({"query": query, "start": start, "end": end, "step": STEP})
        limit = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}?{asked}", timeout=30) as answer:
                    result = json.load(answer)["data"]["result"]
                break
            except OSError:
                if time.monotonic() > limit:
                    raise
                time.sleep(0.2)
        return [(one["metric"], [t - start for t, _ in one["values"]], [float(v) for _, v in one["values"]]) for one in result]


def name_of(target, labels):
    """The legend of a series, as Grafana makes it of the panel's format."""
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda m: labels.get(m[1], ""), target.get("legendFormat", "")) or "value"


def draw_panel(axes, panel, prometheus, start, end):
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
    scale, word = {"bytes": (2**30, "GiB"), "percentunit": (0.01, "%"), "s": (0.001, "ms")}.get(unit, (1, ""))
    drawn = 0
    for target in panel["targets"]:
        for labels, times, values in prometheus.series(target["expr"], start, end):
            if any(value != 0 for value in values) or len(panel["targets"]) == 1 and panel["title"] == "Missing disks":
                axes.step(times, [value / scale for value in values], where="post", label=name_of(target, labels), lw=1.6)
                drawn += 1
    axes.set_title(panel["title"], loc="left", fontsize=10, fontweight="bold")
    axes.set_ylabel(word, fontsize=8)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.25)
    if drawn > 1:
        axes.legend(fontsize=6.5, ncols=2, framealpha=0.7, loc="best")


def draw_dashboard(scene, path):
    start, end = scene["pages"][0][0], scene["pages"][-1][0]
    panels = {panel["title"]: panel for panel in json.loads((ROOT / "deploy/grafana/quarry.json").read_text())["panels"]}
    figure, grid = plt.subplots(4, 2, figsize=(13, 13), sharex=True)
    with tempfile.TemporaryDirectory() as directory:
        prometheus = Prometheus(scene["pages"], Path(directory))
        try:
            for axes, title in zip(grid.flat, PANELS, strict=True):
                draw_panel(axes, panels[title], prometheus, start, end)
                for at, _ in scene["marks"]:
                    axes.axvline(at - start, color="0.45", ls=":", lw=1)
        finally:
            prometheus.server.kill()
            prometheus.server.wait()
    for axes in grid[-1]:
        axes.set_xlabel("seconds", fontsize=8)
    events = "      ".join(f"{at - start:.0f} s: {what}" for at, what in scene["marks"])
    figure.suptitle("Series of Quarry's dashboard, recorded in a guest and drawn by matplotlib, not by Grafana\n" + events, fontsize=10)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(path, dpi=75)


def draw_terminal(shown, path):
    """What commands printed, as an SVG that looks like a terminal."""
    lines = []
    for one in shown:
        lines += [("#9ece6a", f"# {one['command']}"), *(("#c0caf5", line) for line in one["text"].rstrip().splitlines()), ("", "")]
    width = max(len(line) for _, line in lines) * 8 + 32
    height = (len(lines) - 1) * 18 + 32
    rows = [
        f'<text x="16" y="{32 + 18 * n}" fill="{colour}" xml:space="preserve">{html.escape(line)}</text>'
        for n, (colour, line) in enumerate(lines) if line
    ]  # fmt: skip
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="DejaVu Sans Mono, monospace" font-size="13">\n'
        '<rect width="100%" height="100%" rx="8" fill="#1a1b26"/>\n' + "\n".join(rows) + "\n</svg>\n")


def main():
    scene = json.loads(Path(sys.argv[1]).read_text())
    out = Path(sys.argv[2])
    draw_dashboard(scene, out / "dashboard.png")
    draw_terminal([scene["shown"]["healthy"], scene["shown"]["degraded"]], out / "status.svg")


if __name__ == "__main__":
    os.umask(0o022)
    main()
