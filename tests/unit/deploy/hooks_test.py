"""The programs of deploy/hooks, run as quarryd runs them, with a sendmail and an HTTP server of this test's own."""

import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

HOOKS = Path(__file__).resolve().parents[3] / "deploy" / "hooks"
EVENT = {
    "node": "n1", "time": "2026-01-02T03:04:05Z", "kind": "volume", "pool": "main", "id": "main.qa",
    "name": "data$(id)`id`", "state": "degraded", "before": "healthy", "severity": "warning", "detail": "a leg is missing",
    "summary": "volume data$(id)`id` of pool main on n1 is degraded", "repeated": False, "skipped": 0, "version": 1,
}


class HooksTest(unittest.TestCase):
    def setUp(self):
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.directory = Path(self._directory.name)
        for name in ("mail", "webhook", "on-change.conf"):
            shutil.copy(HOOKS / name, self.directory / name)

    def configure(self, text):
        with (self.directory / "on-change.conf").open("a") as config:
            config.write(text)

    def run_hook(self, name):
        environment = {f"QUARRY_EVENT_{key.upper()}": str(value) for key, value in EVENT.items() if key != "version"}
        environment["PATH"] = f"{self.directory}:/usr/bin:/bin"
        return subprocess.run([self.directory / name], env=environment, input=json.dumps(EVENT) + "\n", text=True,
                              capture_output=True, timeout=60)

    def test_the_mail_has_the_summary_as_its_subject_and_runs_nothing_in_a_name(self):
        sendmail = self.directory / "sendmail"
        sendmail.write_text(f'#!/bin/sh\necho "$@" > {self.directory}/arguments\ncat > {self.directory}/mail.out\n')
        sendmail.chmod(0o755)
        self.configure("MAIL_TO=admin@example.com\n")
        done = self.run_hook("mail")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.directory / "arguments").read_text(), "-t -i\n")
        head, body = (self.directory / "mail.out").read_text().split("\n\n", 1)
        self.assertIn("To: admin@example.com\n", head)
        self.assertIn(f"Subject: [quarry warning] {EVENT['summary']}\n", head)
        self.assertIn("a leg is missing", body)
        self.assertIn(json.dumps(EVENT), body)

    def test_the_webhook_gets_the_object_as_it_is(self):
        got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                got.append((self.path, self.headers["Content-Type"], self.headers["X-Token"], json.loads(body)))
                self.send_response(200 if self.path == "/ok" else 403)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        (self.directory / "token").write_text('header = "X-Token: 17"\n')
        url = f"http://127.0.0.1:{server.server_port}"
        self.configure(f"WEBHOOK_URL={url}/ok\nWEBHOOK_CURL_CONFIG={self.directory}/token\n")
        done = self.run_hook("webhook")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(got, [("/ok", "application/json", "17", EVENT)])
        self.configure(f"WEBHOOK_URL={url}/refused\n")
        refused = self.run_hook("webhook")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("403", refused.stderr)


if __name__ == "__main__":
    if shutil.which("curl") is None:
        print("curl is not installed: scripts/deps build", file=sys.stderr)
        sys.exit(1 if os.environ.get("CI") else 77)  # 77: ctest shows "Skipped"
    unittest.main()
