"""deploy/prometheus and deploy/grafana against a real Prometheus: the alerts by promtool, the queries of the dashboard on
what a quarryd has answered. There is no Grafana here, so how the panels look is not tested."""

import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy" / "prometheus" / "quarry.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "quarry.json"
PAGE = ROOT / "tests" / "fixtures" / "metrics" / "degraded.txt"
SKIPPED = 77
NAME = re.compile(r"\bquarry_[a-z0-9_]+")
# Histograms have these endings beside their name.
PARTS = re.compile(r"^(quarry_\w+_duration_seconds)_(?:bucket|count|sum)$")
# No call has failed in the recorded page.
EMPTY = {"Calls that fail"}
# The pool of the recorded page has no thin store. This one is made here: the kernel has made it read-only.
STORE = "".join(
    f'{name}{{pool="main",store="fast"{more}}} {value}\n'
    for name, more, value in (
        ("quarry_store_mode", ',mode="read-only"', 1),
        ("quarry_store_healthy", "", 0),
        ("quarry_store_size_bytes", "", 1 << 30),
        ("quarry_store_promised_bytes", "", 3 << 28),
        ("quarry_store_free_bytes", "", 1 << 28),
        ("quarry_store_data_used_bytes", "", 1 << 29),
        ("quarry_store_metadata_size_bytes", "", 4 << 20),
        ("quarry_store_metadata_used_bytes", "", 1 << 20),
    )
)


def queries():
    """(panel, query) of each target of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def exported():
    """The names of all metrics in the exporter's sources."""
    names = set()
    for source in sorted((ROOT / "src" / "daemon" / "monitoring").iterdir()):
        names |= set(re.findall(r'"(quarry_[a-z0-9_]+)"', source.read_text()))
    return names


def used(text):
    return {PARTS.sub(r"\1", name) for name in NAME.findall(text)}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class NamesTest(unittest.TestCase):
    def test_alerts_and_panels_use_metrics_that_exist(self):
        self.assertLessEqual(used(RULES.read_text()), exported())
        panels = {name for _, query in queries() for name in used(query)}
        self.assertLessEqual(panels, exported())
        self.assertGreater(len(panels), 10)

    def test_the_recorded_page_has_every_metric_of_a_node_without_kubelet_and_buckets(self):
        recorded = set(re.findall(r"^# TYPE (\S+)", PAGE.read_text(), re.M))
        absent = {name for name in exported() if name.startswith(("quarry_kubelet_", "quarry_bucket_", "quarry_s3_"))}
        self.assertEqual(recorded, exported() - absent, "record the page again")

    def test_every_panel_has_its_own_id_and_place(self):
        panels = json.loads(DASHBOARD.read_text())["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        cells = [
            (x, y)
            for panel in panels
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        self.assertEqual(len(set(cells)), len(cells), "panels overlap")
        self.assertLess(max(x for x, _ in cells), 24)


class RulesTest(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run([PROGRAMS / "promtool", *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_rules_are_valid(self):
        self.promtool("check", "rules", RULES)

    def test_each_alert_fires_on_its_problem_and_on_nothing_else(self):
        self.promtool("test", "rules", Path(__file__).with_name("rules_test.yml"))

    def test_each_alert_is_tested(self):
        alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
        tests = Path(__file__).with_name("rules_test.yml").read_text()
        self.assertEqual([alert for alert in alerts if f'alertname="{alert}"' not in tests], [])


class Exporter(http.server.BaseHTTPRequestHandler):
    """Answers with the recorded page and a store. Histograms grow with each scrape, as in a quarryd that works."""

    scrapes = 0

    def do_GET(self):
        Exporter.scrapes += 1
        grown = re.compile(r"^(quarry_\w+_duration_seconds_(?:bucket|count|sum){.*}) (\S+)$", re.M)
        page = grown.sub(lambda m: f"{m[1]} {float(m[2]) * Exporter.scrapes}", PAGE.read_text())
        self.send_response(200)
        self.end_headers()
        self.wfile.write((page + STORE).encode())

    def log_message(self, *_):
        pass


class DashboardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
        cls.addClassCleanup(cls.exporter.server_close)
        threading.Thread(target=cls.exporter.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.exporter.shutdown)
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        config = Path(directory.name) / "prometheus.yml"
        target = f"127.0.0.1:{cls.exporter.server_port}"
        config.write_text(
            "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
            f"rule_files: ['{RULES}']\n"
            f"scrape_configs: [{{job_name: quarry, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        cls.url = f"http://127.0.0.1:{free_port()}"
        cls.server = subprocess.Popen(
            [PROGRAMS / "prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory.name}/data",
             f"--web.listen-address={cls.url.removeprefix('http://')}", "--log.level=error"])  # fmt: skip
        cls.addClassCleanup(cls.server.wait)
        cls.addClassCleanup(cls.server.kill)
        cls.wait_for("count_over_time(quarry_ready[1m]) >= 4")

    @classmethod
    def query(cls, text):
        with urllib.request.urlopen(f"{cls.url}/api/v1/query?{urllib.parse.urlencode({'query': text})}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]

    @classmethod
    def wait_for(cls, text):
        limit = time.monotonic() + 60
        while True:
            try:
                if cls.query(text):
                    return
            except OSError:
                pass
            if time.monotonic() > limit or cls.server.poll() is not None:
                raise AssertionError(f"Prometheus has no answer to {text}")
            time.sleep(0.1)

    def test_every_query_has_an_answer(self):
        for panel, query in queries():
            for variable, value in (("$instance", ".*"), ("$pool", ".*"), ("$__rate_interval", "20s")):
                query = query.replace(variable, value)
            self.assertNotIn("$", query)
            with self.subTest(panel=panel, query=query):
                result = self.query(query)
                self.assertEqual(result == [], panel in EMPTY, result)
                self.assertNotIn("NaN", [one["value"][1] for one in result])

    def test_the_panels_of_problems_show_the_pulled_disk(self):
        values = {}
        for panel, query in queries():
            result = self.query(query.replace("$instance", ".*").replace("$pool", ".*").replace("$__rate_interval", "20s"))
            values.setdefault(panel, [one["value"][1] for one in result])
        self.assertEqual(values["Missing disks"], ["1"])
        self.assertEqual(values["Volumes that are not healthy"], ["1"])
        self.assertEqual(values["Pools that do not serve"], ["0"])
        self.assertEqual(values["Disks that report a warning"], ["0"])

    def test_the_panels_of_thin_stores_show_the_read_only_one(self):
        values = {}
        for panel, query in queries():
            result = self.query(query.replace("$instance", ".*").replace("$pool", ".*").replace("$__rate_interval", "20s"))
            values.setdefault(panel, []).extend(one["value"][1] for one in result)
        self.assertEqual(values["Thin stores that need attention"], ["1", "0"])
        self.assertEqual(values["Thin stores: promised, written, metadata"], ["0.75", "0.5", "0.25"])
        self.assertEqual(values["Thin stores: largest volume that can be created"], [str(1 << 28)])

    def test_the_alert_of_the_pulled_disk_waits_to_fire(self):
        self.wait_for('ALERTS{alertname="QuarryDiskMissing", alertstate="pending", severity="critical"}')


if __name__ == "__main__":
    found = subprocess.run([ROOT / "scripts" / "lib" / "prometheus"], stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        sys.exit(SKIPPED if found.returncode == SKIPPED and not os.environ.get("CI") else 1)
    PROGRAMS = Path(found.stdout.strip())
    unittest.main()
