"""Buckets of a real gateway in trouble: quarryd's calls are killed at each of their steps while clients with and without access
send requests, and a disk hangs. Runs in a guest; see run.
"""

import json
import os
import signal
import subprocess
import threading
import time
import unittest
from pathlib import Path

from s3_client import Client

BASE = Path("/run/quarry/s3")
ADDRESS = "127.0.0.1:7070"
LOG = Path("/run/quarryd.log")
ORDER = Path("/run/bucket-order")
OBJECT = b"the object that was there before"
KEY = "objects/first"
MOST_KILLS = 60
QUARRYD = [
    "quarryd", "--endpoint=unix:///run/quarry/csi.sock", "--pool=main=vg", f"--s3-listen={ADDRESS}", "--s3-user=nobody",
    "--erase-rate=0", "--log-format=text",
]  # fmt: skip


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}\n{LOG.read_text()[-3000:]}")
    return done.stdout.strip()


def wait_for(what, probe, seconds=120):
    limit = time.monotonic() + seconds
    while not (found := probe()):
        if time.monotonic() > limit:
            raise AssertionError(f"did not happen within {seconds} s: {what}\n{LOG.read_text()[-4000:]}")
        time.sleep(0.2)
    return found


def answers():
    try:
        return Client(ADDRESS).request("GET", "/healthz").status == 200
    except OSError:
        return False


def users():
    """The secrets that the gateway knows, by account."""
    try:
        accounts = json.loads((BASE / "iam/users.json").read_text())["accessAccounts"]
    except FileNotFoundError:
        return {}
    return {name: account["secret"] for name, account in accounts.items()}


def setUpModule():
    for folder in ("/run/quarry", "/run/quarry-test"):
        Path(folder).mkdir(mode=0o755, exist_ok=True)
    LOG.touch()
    run("vgcreate", "vg", *(run("vmctl", "dev", str(number)) for number in (1, 2, 3)))
    with LOG.open("a") as log:
        setUpModule.gateway = subprocess.Popen(
            ["quarry-gateway", "--versitygw", "/opt/quarry/extra/versitygw"], stdout=log, stderr=log
        )


def tearDownModule():
    setUpModule.gateway.terminate()
    setUpModule.gateway.wait()


class Clients:
    """Sends requests of each kind, one after the other, until it ends. `refused`: clients that nobody has let in. `kept`: one
    that is let in all the time."""

    def __init__(self, bucket, kept):
        self.bucket, self.kept = bucket, kept
        self.refused = {
            "without a key": Client(ADDRESS),
            "with a wrong secret": Client(ADDRESS, "kept", "0" * 48),
            "of an account that does not exist": Client(ADDRESS, "stranger", "1" * 48),
        }
        self.wrong, self.served, self.turned_away, self.stop = [], 0, 0, threading.Event()
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.loop)

    def loop(self):
        while not self.stop.is_set():
            try:
                self.ask()
            except OSError as error:
                self.wrong.append(f"the gateway did not answer: {error}")
                time.sleep(0.2)

    def ask(self):
        with self.lock:
            strangers = dict(self.refused)
        for who, client in strangers.items():
            for answer in (client.get(self.bucket, KEY), client.put(self.bucket, "new"), client.list(self.bucket)):
                self.turned_away += 1
                if answer.status != 403:
                    self.wrong.append(f"a client {who} got {answer.status} {answer.code}")
        got, put = self.kept.get(self.bucket, KEY), self.kept.put(self.bucket, "kept")
        self.served += 2
        if (got.status, got.body, put.status) != (200, OBJECT, 200):
            self.wrong.append(f"the kept account got {got.status} {got.code} and {put.status} {put.code}")

    def refuse(self, who, client):
        with self.lock:
            self.refused[who] = client

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


class Kills(unittest.TestCase):
    """bucket_call stands for quarryd: one call in a process of its own, which dies at a step."""

    deaths = 0

    def call(self, *words, order=None):
        """The answer, or None if the process was killed."""
        environment = os.environ | ({"QUARRY_CRASH_ORDER": str(ORDER)} if order else {})
        done = subprocess.run(["bucket_call", *words], capture_output=True, text=True, timeout=240, env=environment)
        if done.returncode == -signal.SIGKILL and order:
            return None
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr[-3000:]}")
        return done.stdout.strip()

    def kill_at_each_step(self, words, after_death=lambda: None):
        """Repeats a call that is killed at each of its steps in turn, until it is answered."""
        Path(f"{ORDER}.done").write_text("")
        for _ in range(MOST_KILLS):
            ORDER.write_text("amid-ms 5\n")
            answer = self.call(*words, order=True)
            ORDER.unlink()
            if answer is not None:
                return answer
            type(self).deaths += 1
            after_death()
        self.fail(f"{words} makes no progress")

    def test_no_kill_changes_a_secret_or_lets_anybody_in(self):
        # The first call writes what the gateway starts from, and may find it not serving yet.
        wait_for("the gateway starts", lambda: self.call("list") is not None and answers())
        bucket = self.call("create", "logs", "size=400M", "ondelete=erase")
        secret = self.call("grant", "kept", bucket)
        kept = Client(ADDRESS, "kept", secret)
        self.assertEqual(kept.put("logs", KEY, OBJECT).status, 200)
        with Clients("logs", kept) as clients:
            first = self.grant_and_revoke(bucket, clients)
            second = self.grant_and_revoke(bucket, clients)
            self.assertNotEqual(first, second, "a revoked secret is not given again")
            self.assertEqual(users(), {"kept": secret})
        self.assertEqual(clients.wrong, [])
        self.assertGreater(clients.served, 20)
        self.assertGreater(clients.turned_away, 60)
        self.kill_at_each_step(("delete", bucket))
        self.assertEqual(users(), {})
        self.assertEqual(kept.get("logs", KEY).status, 403)
        self.assertFalse((BASE / "root/logs").is_symlink())
        self.assertEqual(run("sh", "-c", "grep -c /run/quarry/s3/volumes /proc/mounts || true"), "0")
        print(f"{self.deaths} deaths, {clients.served} requests served, {clients.turned_away} refused")
        self.assertGreater(self.deaths, 20)

    def grant_and_revoke(self, bucket, clients):
        """Returns the secret, which is revoked."""
        seen = set()
        secret = self.kill_at_each_step(("grant", "app", bucket), lambda: seen.add(users().get("app")))
        self.assertLessEqual(seen - {None}, {secret}, "a secret that somebody could know has changed")
        app = Client(ADDRESS, "app", secret)
        self.assertEqual((app.get("logs", KEY).status, app.put("logs", "of app").status), (200, 200))
        self.assertEqual(self.call("grant", "app", bucket), secret)

        statuses = []
        self.assertEqual(
            self.kill_at_each_step(("revoke", "app", bucket), lambda: statuses.append(app.get("logs", KEY).status)), "revoked"
        )
        self.assertLessEqual(set(statuses), {200, 403})
        self.assertEqual(statuses, sorted(statuses), "an account that was refused once was let in again")
        self.assertEqual([one.status for one in (app.get("logs", KEY), app.put("logs", "x"), app.list("logs"))], [403] * 3)
        clients.refuse(f"whose access was revoked, with secret {len(clients.refused)}", app)
        self.call("list")  # the next start
        self.assertEqual(app.get("logs", KEY).status, 403)
        return secret


class HangingDisk(unittest.TestCase):
    def quarryctl(self, *words):
        return json.loads(run("quarryctl", "bucket", *words, "--json"))

    def client(self, granted):
        return Client(ADDRESS, granted["access_key_id"], granted["secret_access_key"])

    def shown(self, name):
        # Its exit status says that a bucket does not serve.
        done = subprocess.run(["quarryctl", "bucket", "list", "--json"], capture_output=True, text=True, timeout=240)
        return next(one for one in json.loads(done.stdout)["buckets"] if one["name"] == name)

    def disk_of(self, name):
        """The number of the disk that a linear bucket lies on."""
        lv = Path(os.path.realpath(BASE / "root" / name)).parent.name
        device = run("lvs", "--noheadings", "-o", "devices", f"vg/{lv}").split("(")[0]
        return next(number for number in (1, 2, 3) if os.path.realpath(run("vmctl", "dev", str(number))) == os.path.realpath(device))

    def test_a_disk_that_hangs_takes_only_its_own_bucket_away_until_it_answers(self):
        with LOG.open("a") as log:
            quarryd = subprocess.Popen(QUARRYD, stderr=log)
        self.addCleanup(lambda: (quarryd.terminate(), quarryd.wait()))
        wait_for("quarryd serves", lambda: subprocess.run(["quarryctl", "bucket", "list"], capture_output=True).returncode == 0)
        # So large that each has a disk of its own.
        slow, fine = (self.quarryctl("create", name, "--size", "1200MiB", "ondelete=erase") for name in ("slow", "fine"))
        disk = self.disk_of("slow")
        self.assertNotEqual(disk, self.disk_of("fine"))
        hanging, serving = self.client(slow), self.client(fine)
        self.assertEqual((hanging.put("slow", KEY, OBJECT).status, serving.put("fine", KEY, OBJECT).status), (200, 200))
        pid = setUpModule.gateway.pid
        gateway = Path(f"/proc/{pid}/task/{pid}/children").read_text()

        run("vmctl", "stall", str(disk))
        self.addCleanup(lambda: subprocess.run(["vmctl", "unstall", str(disk)]))
        # Clients that were there when it began wait for the disk.
        waiting = [threading.Thread(target=lambda: self.patient_put(hanging), daemon=True) for _ in range(4)]
        for thread in waiting:
            thread.start()
        longest, puts = 0, 0
        limit = time.monotonic() + 240
        while (BASE / "root/slow").is_symlink():
            self.assertLess(time.monotonic(), limit, f"its clients still wait for the disk\n{LOG.read_text()[-4000:]}")
            began = time.monotonic()
            self.assertEqual(serving.put("fine", f"n/{puts}", OBJECT).status, 200)
            self.assertEqual(serving.get("fine", KEY).body, OBJECT)
            longest, puts = max(longest, time.monotonic() - began), puts + 1
            time.sleep(0.2)
        self.assertLess(longest, 10, "the other bucket waited for this disk")
        answer = hanging.get("slow", KEY)
        self.assertEqual((answer.status, answer.code), (404, "NoSuchBucket"), "its clients are told at once")
        shown = self.shown("slow")
        self.assertFalse(shown.get("serving", False))
        self.assertIn("does not answer", shown["problem"])
        self.assertTrue(self.shown("fine")["serving"])
        self.assertEqual(serving.put("fine", "after", OBJECT).status, 200)

        run("vmctl", "unstall", str(disk))
        wait_for("it serves again", lambda: hanging.get("slow", KEY).status == 200)
        self.assertEqual(hanging.get("slow", KEY).body, OBJECT)
        self.assertEqual(hanging.put("slow", "later", OBJECT).status, 200)
        wait_for("no problem is left", lambda: self.shown("slow").get("problem", "") == "")
        for thread in waiting:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a request that began before is answered once the disk answers")
        self.assertEqual(Path(f"/proc/{pid}/task/{pid}/children").read_text(), gateway, "the gateway was not restarted")
        for name in ("slow", "fine"):
            self.quarryctl("delete", name, "--yes")

    def patient_put(self, client):
        connection = client.connection(timeout=600)
        headers = client.headers("PUT", "/slow/waiting")
        connection.request("PUT", "/slow/waiting", headers=headers)
        connection.getresponse().read()
        connection.close()


if __name__ == "__main__":
    unittest.main(failfast=True, verbosity=2)
