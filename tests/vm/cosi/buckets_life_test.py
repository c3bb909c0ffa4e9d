"""Buckets from the first call to the last byte, with everything real: quarryd, quarryctl, COSI's socket, quarry-gateway,
versitygw, LVM. Runs in a guest; see run.
"""

import json
import os
import re
import signal
import subprocess
import time
import unittest
import urllib.request
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from s3_client import Client

BASE = Path("/run/quarry/s3")
ADDRESS = "127.0.0.1:7070"
COSI = "/run/quarry/cosi.sock"
LOG = Path("/run/quarryd.log")
QUARRYD = [
    "quarryd", "--endpoint=unix:///run/quarry/csi.sock", "--pool=main=vg", f"--cosi-endpoint=unix://{COSI}",
    "--s3-user=quarry-s3", "--erase-rate=0", "--log-format=text", "--metrics-address=127.0.0.1:9808",
]  # fmt: skip


def run(*words, status=0):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}\n{LOG.read_text()[-3000:]}")
    return done.stdout


def bucket(*words, status=0):
    text = run("quarryctl", "bucket", *words, "--json", status=status)
    return json.loads(text) if status == 0 else text


def metric(name, **labels):
    """The value of a metric of quarryd, None if it is not there."""
    with urllib.request.urlopen("http://127.0.0.1:9808/metrics", timeout=20) as answer:
        page = answer.read().decode()
    for found, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", page, re.MULTILINE):
        if dict(re.findall(r'(\w+)="([^"]*)"', found)).items() >= labels.items():
            return float(value)
    return None


def keys(granted):
    return granted["access_key_id"], granted["secret_access_key"]


def wait_for(what, probe, seconds=60):
    limit = time.monotonic() + seconds
    while not (found := probe()):
        if time.monotonic() > limit:
            raise AssertionError(f"did not happen within {seconds} s: {what}\n{LOG.read_text()[-3000:]}")
        time.sleep(0.2)
    return found


def cosi(*words, code=0):
    """One call of v1alpha2, as its sidecar makes it: {key: value}, or the message of a refusal. Waits out UNAVAILABLE and ABORTED, as
    the sidecar does."""
    limit = time.monotonic() + 60
    while True:
        done = subprocess.run(["quarry-cosi-call", COSI, "v1alpha2", *words], capture_output=True, text=True)
        number, _, message = done.stderr.partition(" ")
        if number not in ("10", "14") or time.monotonic() > limit:
            break
        time.sleep(0.2)
    if (int(number or 0), done.returncode) != (code, 1 if code else 0):
        raise AssertionError(f"{words}: {done.returncode} {done.stderr}\n{LOG.read_text()[-3000:]}")
    return message if code else dict(line.split("=", 1) for line in done.stdout.splitlines())


def client_of(secret):
    """A client that knows nothing but a Secret."""
    assert (secret["COSI_PROTOCOL"], secret["COSI_S3_ADDRESSING_STYLE"]) == ("S3", "path"), secret
    keys = secret["COSI_S3_ACCESS_KEY_ID"], secret["COSI_S3_ACCESS_SECRET_KEY"]
    return Client(urlsplit(secret["COSI_S3_ENDPOINT"]).netloc, *keys, region=secret["COSI_S3_REGION"])


def answers():
    try:
        return Client(ADDRESS).request("GET", "/healthz").status == 200
    except OSError:
        return False


class BucketsLife(unittest.TestCase):
    """In the order of their names."""

    @classmethod
    def start(cls):
        with LOG.open("a") as log:
            cls.quarryd = subprocess.Popen(QUARRYD, stderr=log)
        # Not before its pool was read, and every bucket serves.
        wait_for("quarryd serves", lambda: subprocess.run(["quarryctl", "bucket", "list"], capture_output=True).returncode == 0)

    @classmethod
    def kill(cls):
        cls.quarryd.send_signal(signal.SIGKILL)
        cls.quarryd.wait()

    @classmethod
    def setUpClass(cls):
        Path("/run/quarry").mkdir(mode=0o755, exist_ok=True)
        run("useradd", "--system", "quarry-s3")
        run("vgcreate", "vg", *(run("vmctl", "dev", str(number)).strip() for number in (1, 2, 3)))
        with LOG.open("a") as log:
            cls.gateway = subprocess.Popen(["quarry-gateway", "--versitygw", "/opt/quarry/extra/versitygw"], stdout=log, stderr=log)
        cls.start()
        wait_for("the gateway answers", answers)

    @classmethod
    def tearDownClass(cls):
        cls.quarryd.terminate()
        cls.quarryd.wait()
        cls.gateway.terminate()
        cls.gateway.wait()

    def client(self, granted):
        return Client(ADDRESS, *keys(granted))

    def test_10_every_rule_of_cosi_holds_in_both_versions(self):
        text = run("quarry-cosi-check", COSI, "size=304MiB", "--smaller", "size=300MiB")
        self.assertIn("\n0 rules are broken\n", text)
        self.assertGreater(text.count("\nok "), 80)
        self.assertEqual(bucket("list")["buckets"], [])

    def test_15_v1alpha2_leads_from_a_claim_to_a_secret_to_objects_and_back_to_nothing(self):
        name, account = f"bc-{uuid.uuid4()}", f"ba-{uuid.uuid4()}"
        parameters = ("size=304MiB", "ondelete=refuse")
        made = cosi("create", name, *parameters)["BUCKET"]
        self.assertEqual(cosi("create", name, *parameters)["BUCKET"], made)
        self.assertEqual(cosi("existing", made, *parameters)["BUCKET"], made)
        self.assertIn("size", cosi("existing", made, "size=320MiB", code=3))

        secret = cosi("grant", account, made)
        reader = cosi("grant", f"{account}-reader", f"{made}=ro")
        owned, body = secret["COSI_S3_BUCKET_ID"], os.urandom(100_000)
        self.assertEqual(owned, name, "clients of v1alpha1 know no other")
        s3, reading = client_of(secret), client_of(reader)
        self.assertEqual((s3.put(owned, "a/b", body).status, s3.get(owned, "a/b").body), (200, body))
        self.assertEqual((reading.get(owned, "a/b").body, reading.put(owned, "c").status), (body, 403))
        self.assertEqual(cosi("grant", account, made), secret, "the Secret is written again")
        self.assertIn("1 object", cosi("delete", made, code=9))
        self.assertEqual(s3.get(owned, "a/b").body, body, "a refused deletion changes nothing")

        self.assertEqual(s3.delete(owned, "a/b").status, 204)
        cosi("revoke", secret["ACCOUNT"], made)
        for refused in (s3.get(owned, "a/b"), s3.put(owned, "a/b"), s3.list(owned)):
            self.assertEqual((refused.status, refused.code), (403, "InvalidAccessKeyId"))
        self.assertEqual(reading.list(owned).status, 200, "the other account has its access")
        cosi("revoke", secret["ACCOUNT"], made)

        cosi("delete", made)
        cosi("delete", made)
        cosi("existing", made, code=5)
        self.assertEqual((reading.get(owned, "a/b").status, reading.list(owned).status), (403, 403))
        self.assertEqual((bucket("list")["buckets"], list((BASE / "volumes").iterdir())), ([], []))
        self.assertEqual(json.loads((BASE / "iam/users.json").read_text())["accessAccounts"], {})
        wait_for("its bytes are erased", lambda: run("lvs", "--noheadings", "vg").strip() == "")

    def test_20_a_bucket_by_one_command_serves_at_once(self):
        first = bucket("create", "photos", "--size", "320MiB", "type=raid1")
        type(self).owner = first
        s3 = self.client(first)
        body = os.urandom(1 << 20)
        self.assertEqual(s3.put("photos", "a/b", body).status, 200)
        self.assertEqual(s3.get("photos", "a/b").body, body)
        again = bucket("create", "photos", "--size", "320MiB", "type=raid1")
        self.assertEqual(keys(again), keys(first))
        for size in ("640MiB", "304MiB"):
            self.assertIn("already", self.refused("create", "photos", "--size", size, "type=raid1"))
        shown = wait_for("the object is counted", lambda: [one for one in bucket("list")["buckets"] if one.get("content", {}).get("objects") == 1], 90)
        self.assertTrue(shown[0]["serving"])

    def refused(self, *words):
        done = subprocess.run(["quarryctl", "bucket", *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_30_access_is_as_granted_and_ends_when_it_is_revoked(self):
        reader, writer = bucket("grant", "reader", "photos", "--access", "ro"), bucket("grant", "writer", "photos", "--access", "wo")
        reading, writing = self.client(reader), self.client(writer)
        self.assertEqual((reading.get("photos", "a/b").status, reading.put("photos", "c").status), (200, 403))
        self.assertEqual((writing.get("photos", "a/b").status, writing.put("photos", "c").status), (403, 200))
        self.assertEqual(keys(bucket("grant", "reader", "photos", "--access", "ro")), keys(reader))
        for s3 in (reading, writing, self.client(self.owner)):
            self.assertEqual(s3.put("photos", ".sgwtmp/x").status, 403)
        bucket("revoke", "reader", "photos")
        self.assertEqual(reading.get("photos", "a/b").status, 403)
        self.assertEqual(self.client(self.owner).get("photos", "a/b").status, 200)
        again = bucket("grant", "reader", "photos", "--access", "ro")
        self.assertNotEqual(again["secret_access_key"], reader["secret_access_key"])
        self.assertEqual(reading.get("photos", "a/b").status, 403, "the old secret")

    def test_40_calls_for_volumes_do_not_touch_it(self):
        for words in (("volume", "delete", "s3:photos", "--yes"), ("volume", "unmount", "s3:photos"),
                      ("volume", "grow", "s3:photos", "--size", "+1GiB")):  # fmt: skip
            done = subprocess.run(["quarryctl", *words], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("quarryctl bucket", done.stderr)
        self.assertEqual(self.client(self.owner).get("photos", "a/b").status, 200)

    def test_50_it_serves_while_quarryd_is_dead_and_after_it_is_back(self):
        s3 = self.client(self.owner)
        self.kill()
        self.assertEqual(s3.put("photos", "meanwhile", b"1").status, 200)
        self.start()
        self.assertEqual(s3.get("photos", "meanwhile").body, b"1")
        wait_for("quarryd has looked at the bucket", self.is_shown_serving)
        self.assertEqual(s3.put("photos", "later").status, 200)

    def is_shown_serving(self):
        # The status is 1 while a bucket has a problem.
        listed = subprocess.run(["quarryctl", "bucket", "list", "--json"], capture_output=True, text=True).stdout
        return json.loads(listed)["buckets"][0]["serving"]

    def test_52_a_full_bucket_can_be_revoked(self):
        mount = next((BASE / "volumes").iterdir())
        filler = mount / "data" / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M", "status=none"], capture_output=True)
        for number in range(64):  # to the last block
            subprocess.run(["dd", "if=/dev/zero", f"of={filler}{number}", "bs=4k", "status=none"], capture_output=True)
        self.assertLess(os.statvfs(mount).f_bavail, 10)
        writer = bucket("grant", "writer", "photos", "--access", "wo")
        self.assertEqual(self.client(writer).put("photos", "one more", b"x" * 65536).status, 507)
        bucket("revoke", "writer", "photos")
        self.assertEqual(self.client(writer).put("photos", "c").status, 403)
        for path in (mount / "data").glob("filler*"):
            path.unlink()

    def test_54_a_file_system_that_shut_itself_down_is_mounted_again(self):
        s3 = self.client(self.owner)
        run("xfs_io", "-x", "-c", "shutdown", str(next((BASE / "volumes").iterdir())))
        self.assertNotEqual(s3.get("photos", "a/b").status, 200)
        wait_for("the object is there again", lambda: s3.get("photos", "a/b").status == 200)
        self.assertEqual(s3.put("photos", "after").status, 200)

    def test_56_requests_are_counted_also_after_quarryd_was_killed(self):
        def requests(operation, code):
            return metric("quarry_bucket_requests_total", bucket="photos", operation=operation, code=code)

        def received():
            return metric("quarry_bucket_received_bytes_total", bucket="photos")

        s3 = self.client(self.owner)
        wait_for("the gateway has reported what came before", lambda: requests("put", "2xx") > 0)
        time.sleep(5)  # reports come every two seconds
        puts, refused, bytes_before = requests("put", "2xx"), requests("get", "4xx"), received()
        self.assertEqual(s3.put("photos", "counted", b"x" * 1000).status, 200)
        self.assertEqual(Client(ADDRESS).get("photos", "counted").status, 403)
        wait_for("the put is counted", lambda: requests("put", "2xx") == puts + 1)
        wait_for("the refused get is counted", lambda: requests("get", "4xx") == refused + 1)
        wait_for("the bytes are counted", lambda: received() == bytes_before + 1000)
        self.assertEqual(metric("quarry_s3_gateway_refused_reports_total"), 0)
        self.assertEqual((metric("quarry_s3_gateway_healthy"), metric("quarry_s3_gateway_full")), (1, 0))
        self.assertEqual(s3.delete("photos", "counted").status, 204)

    def test_60_it_grows_while_it_serves(self):
        s3 = self.client(self.owner)
        size = os.statvfs(next((BASE / "volumes").iterdir())).f_blocks
        bucket("grow", "photos", "--size", "+128MiB")
        again = bucket("create", "photos", "--size", "320MiB", "type=raid1")
        self.assertEqual(keys(again), keys(self.owner), "the first request, repeated")
        self.assertGreater(os.statvfs(next((BASE / "volumes").iterdir())).f_blocks, size)
        self.assertEqual(s3.put("photos", "grown").status, 200)

    def test_70_the_keys_are_in_no_log_and_no_argument(self):
        lines = subprocess.run("cat /proc/[0-9]*/cmdline", shell=True, capture_output=True).stdout.decode(errors="replace")
        text = LOG.read_text() + lines + run("quarryctl", "trace", "--json") + run("quarryctl", "status", "--json")
        self.assertNotIn(self.owner["secret_access_key"], text)
        root = next(line for line in (BASE / "gateway.env").read_text().splitlines() if line.startswith("ROOT_SECRET_KEY="))
        self.assertNotIn(root.split("=", 1)[1], text)

    def test_80_a_bucket_with_objects_is_deleted_only_when_it_is_empty(self):
        self.assertIn("object", self.refused("delete", "photos", "--yes"))
        s3 = self.client(self.owner)
        for key in ("a/b", "c", "meanwhile", "later", "after", "grown"):
            self.assertEqual(s3.delete("photos", key).status, 204, key)
        bucket("delete", "photos", "--yes")
        self.assertEqual(s3.get("photos", "a/b").status, 403)
        self.assertEqual(list((BASE / "volumes").iterdir()), [])
        wait_for("its bytes are erased", lambda: run("lvs", "--noheadings", "vg").strip() == "")


if __name__ == "__main__":
    unittest.main(failfast=True)
