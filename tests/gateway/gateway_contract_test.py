"""What Quarry relies on in versitygw, one test each, with the program that scripts/gateway builds, started by quarry-gateway.
Usage: gateway_contract_test.py QUARRY-GATEWAY [unittest's arguments]

A new version of versitygw must pass this first. As root the buckets lie on XFS, as those of quarryd do. Exits with 77 if
versitygw cannot be built.
"""

import contextlib
import hashlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from s3_client import Client
from served_folder import ROOT, USER, ServedFolder, wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else "quarry-gateway"
MIB = 1 << 20
served = None


def versitygw():
    done = subprocess.run([REPOSITORY / "scripts/gateway"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return f"{done.stdout.strip()}/versitygw"


def mount_xfs(base, name):
    """An XFS of its own for a bucket. False if this machine cannot mount one."""
    image = base.with_name(f"{base.name}.{name}.img")
    with open(image, "wb") as file:
        file.truncate(320 * MIB)
    place = base / "volumes" / name
    place.mkdir(parents=True)
    commands = (["mkfs.xfs", "-q", image], ["mount", "-o", "loop", image, place])
    mounted = all(subprocess.run(one, capture_output=True).returncode == 0 for one in commands)
    image.unlink()
    return mounted


class Xfs:
    """Whether the buckets "full" and "gone" have an XFS each."""

    mounted = []


def setUpModule():
    global served
    program = versitygw()
    base = Path(tempfile.mkdtemp(prefix="quarry-s3-"))
    base.chmod(0o755)
    if ROOT:
        Xfs.mounted = [base / "volumes" / name for name in ("full", "gone") if mount_xfs(base, name)]
    unittest.addModuleCleanup(clean, base)
    # The cache may lie where the gateway's user has no way to.
    program = shutil.copy(program, base.with_name(f"{base.name}.versitygw"))
    served = ServedFolder(base, PROGRAM, program)
    served.start()


def clean(base):
    if served:
        served.stop()
    for place in Xfs.mounted:
        subprocess.run(["umount", place], capture_output=True)
    shutil.rmtree(base)
    base.with_name(f"{base.name}.versitygw").unlink(missing_ok=True)


def new_bucket(accounts=None):
    """A bucket of its own for a test."""
    new_bucket.count = getattr(new_bucket, "count", 0) + 1
    name = f"bucket-{new_bucket.count}"
    served.bucket(name, accounts)
    return name


def new_account(access="rw"):
    """A bucket, and a client of an account with this access to it."""
    name = f"account-{getattr(new_bucket, 'count', 0)}"
    client = served.account(name)
    return new_bucket({name: access}), client


def wait_for_another(pid):
    """Until another versitygw than this process answers."""
    wait_for("another one answers", lambda: served.pid() not in (0, pid) and served.healthy())


class Accounts(unittest.TestCase):
    def test_users_json_by_rename_is_in_force_at_the_next_request(self):
        bucket = new_bucket({"ba-1": "rw"})
        client = served.client("ba-1", "s" * 32)
        self.assertEqual(client.list(bucket).code, "InvalidAccessKeyId")
        served.account("ba-1", "s" * 32)
        self.assertEqual(client.put(bucket, "key").status, 200)
        served.forget("ba-1")
        self.assertEqual(client.get(bucket, "key").code, "InvalidAccessKeyId")

    def test_another_secret_is_in_force_at_the_next_request(self):
        bucket = new_bucket({"ba-2": "rw"})
        old = served.account("ba-2", "a" * 32)
        self.assertEqual(old.list(bucket).status, 200)
        new = served.account("ba-2", "b" * 32)
        self.assertEqual(new.list(bucket).status, 200)
        self.assertEqual(old.list(bucket).code, "SignatureDoesNotMatch")

    def test_the_gateway_does_not_write_users_json(self):
        before = (served.base / "iam/users.json").read_bytes()
        bucket, client = new_account()
        after_grant = (served.base / "iam/users.json").read_bytes()
        client.put(bucket, "key")
        before_restart = served.pid()
        served.restart()
        wait_for_another(before_restart)
        self.assertEqual((served.base / "iam/users.json").read_bytes(), after_grant)
        self.assertNotEqual(before, after_grant)
        self.assertEqual(sorted(path.name for path in (served.base / "iam").iterdir()), ["users.json"])

    def test_an_account_may_make_no_bucket(self):
        _, client = new_account()
        self.assertEqual(client.request("PUT", "/bucket-of-mine").status, 403)
        self.assertFalse((served.base / "root/bucket-of-mine").exists())

    def test_a_request_without_a_key_is_refused(self):
        bucket, client = new_account()
        client.put(bucket, "key")
        self.assertEqual(served.client().get(bucket, "key").status, 403)

    def test_a_thousand_accounts_are_served(self):
        before = dict(served.accounts)
        served.accounts |= {f"ba-many-{n:036}": "s" * 32 for n in range(1000)}
        try:
            bucket, client = new_account()
            began = time.monotonic()
            self.assertEqual(client.put(bucket, "key").status, 200)
            self.assertLess(time.monotonic() - began, 5)
        finally:
            served.accounts = before
            served.write_accounts()


class Policies(unittest.TestCase):
    def test_user_policy_by_setxattr_is_in_force_at_the_next_request(self):
        client = served.account("ba-3")
        bucket = new_bucket()
        self.assertEqual(client.put(bucket, "key").code, "AccessDenied")
        served.allow(bucket, {"ba-3": "rw"})
        self.assertEqual(client.put(bucket, "key").status, 200)
        served.allow(bucket, {})
        self.assertEqual(client.get(bucket, "key").code, "AccessDenied")
        self.assertEqual(client.list(bucket).code, "AccessDenied")

    def test_a_bucket_without_a_policy_lets_no_account_in(self):
        bucket, client = new_account()
        os.removexattr(served.data(bucket), "user.policy")
        self.assertEqual(client.get(bucket, "key").status, 403)
        self.assertEqual(client.put(bucket, "key").status, 403)

    def test_a_policy_that_does_not_parse_lets_no_account_in(self):
        bucket, client = new_account()
        os.setxattr(served.data(bucket), "user.policy", b'{"Statement": [')
        self.assertGreaterEqual(client.put(bucket, "key").status, 400)

    def test_read_write(self):
        bucket, client = new_account("rw")
        self.assertEqual(client.put(bucket, "a/key", b"x").status, 200)
        self.assertEqual(client.get(bucket, "a/key").body, b"x")
        self.assertEqual(client.head(bucket, "a/key").status, 200)
        self.assertEqual(client.list(bucket).all("Key"), ["a/key"])
        self.assertEqual(client.delete(bucket, "a/key").status, 204)
        self.assertEqual(client.get(bucket, "a/key").code, "NoSuchKey")

    def test_read_only(self):
        bucket, client = new_account("ro")
        served.root().put(bucket, "key", b"x")
        self.assertEqual(client.get(bucket, "key").body, b"x")
        self.assertEqual(client.list(bucket).all("Key"), ["key"])
        self.assertEqual(client.put(bucket, "other").code, "AccessDenied")
        self.assertEqual(client.delete(bucket, "key").code, "AccessDenied")
        self.assertEqual(client.request("POST", f"/{bucket}/other", {"uploads": ""}).code, "AccessDenied")
        self.assertEqual(served.root().list(bucket).all("Key"), ["key"])

    def test_write_only(self):
        bucket, client = new_account("wo")
        self.assertEqual(client.put(bucket, "key", b"x").status, 200)
        self.assertEqual(client.get(bucket, "key").code, "AccessDenied")
        self.assertEqual(client.head(bucket, "key").status, 403)
        self.assertEqual(client.list(bucket).code, "AccessDenied")
        self.assertEqual(client.delete(bucket, "key").code, "AccessDenied")
        upload = client.begin_upload(bucket, "parts")
        tag = client.put_part(bucket, "parts", upload, 1, b"part").headers["etag"]
        self.assertEqual(client.complete_upload(bucket, "parts", upload, [tag]).status, 200)

    def test_one_account_in_several_buckets(self):
        client = served.account("ba-4")
        one, two, other = new_bucket({"ba-4": "rw"}), new_bucket({"ba-4": "ro"}), new_bucket()
        self.assertEqual(client.put(one, "key").status, 200)
        self.assertEqual(client.put(two, "key").code, "AccessDenied")
        self.assertEqual(client.list(two).status, 200)
        self.assertEqual(client.list(other).code, "AccessDenied")

    def test_the_folder_of_uploads_is_denied_and_uploads_work(self):
        bucket, client = new_account()
        for key in (".sgwtmp/x", ".sgwtmp/multipart/x"):
            self.assertEqual(client.put(bucket, key).code, "AccessDenied", key)
            self.assertEqual(client.get(bucket, key).code, "AccessDenied", key)
            self.assertEqual(client.delete(bucket, key).code, "AccessDenied", key)
        upload = client.begin_upload(bucket, "big")
        bodies = [bytes([n]) * 5 * MIB for n in range(2)] + [b"end"]
        tags = [client.put_part(bucket, "big", upload, n, body).headers["etag"] for n, body in enumerate(bodies, 1)]
        self.assertEqual(client.put(bucket, ".sgwtmp/multipart/y").code, "AccessDenied")
        self.assertEqual(client.complete_upload(bucket, "big", upload, tags).status, 200)
        self.assertEqual(client.get(bucket, "big").body, b"".join(bodies))
        self.assertEqual(client.list(bucket).all("Key"), ["big"])

    def test_no_account_may_change_policy_acl_or_bucket(self):
        bucket, client = new_account()
        before = os.getxattr(served.data(bucket), "user.policy")
        body = before.replace(b"Deny", b"Allow")
        self.assertEqual(client.request("PUT", f"/{bucket}", {"policy": ""}, body).status, 403)
        self.assertEqual(client.request("DELETE", f"/{bucket}", {"policy": ""}).status, 403)
        self.assertEqual(client.request("GET", f"/{bucket}", {"policy": ""}).status, 403)
        self.assertGreaterEqual(client.request("PUT", f"/{bucket}", {"acl": ""}, headers={"x-amz-acl": "public-read"}).status, 400)
        self.assertEqual(client.request("DELETE", f"/{bucket}").status, 403)
        versioning = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        self.assertGreaterEqual(client.request("PUT", f"/{bucket}", {"versioning": ""}, versioning).status, 400)
        self.assertEqual(os.getxattr(served.data(bucket), "user.policy"), before)
        self.assertEqual(client.put(bucket, "key").status, 200)

    def test_an_object_cannot_be_made_public_by_its_acl(self):
        bucket, client = new_account()
        client.put(bucket, "key")
        client.request("PUT", f"/{bucket}/key", {"acl": ""}, headers={"x-amz-acl": "public-read"})
        self.assertEqual(served.client().get(bucket, "key").status, 403)


class Links(unittest.TestCase):
    def test_a_bucket_behind_a_link_lists_and_serves(self):
        bucket, client = new_account()
        self.assertEqual(client.put(bucket, "a/b/key").status, 200)
        self.assertTrue((served.data(bucket) / "a/b/key").is_file())
        self.assertIn(bucket, served.root().request("GET", "/").all("Name"))
        self.assertEqual(client.list(bucket).all("Key"), ["a/b/key"])
        self.assertEqual(client.request("HEAD", f"/{bucket}").status, 200)

    def test_without_its_link_a_bucket_is_gone_at_once(self):
        bucket, client = new_account()
        client.put(bucket, "key")
        served.unlink(bucket)
        for answer in (client.put(bucket, "new"), client.get(bucket, "key"), client.list(bucket)):
            self.assertEqual((answer.status, answer.code), (404, "NoSuchBucket"))
        self.assertEqual(client.head(bucket, "key").status, 404)
        self.assertFalse((served.base / "root" / bucket).exists())
        served.link(bucket)
        self.assertEqual(client.get(bucket, "key").status, 200)

    def test_behind_a_dangling_link_nothing_is_written(self):
        bucket, client = new_account()
        data = served.data(bucket)
        data.rename(data.with_name("away"))
        for answer in (client.put(bucket, "new"), client.put(bucket, "a/b"), client.get(bucket, "key")):
            self.assertEqual((answer.status, answer.code), (404, "NoSuchBucket"))
        self.assertFalse(data.exists())
        self.assertEqual([path.name for path in data.parent.iterdir()], ["away"])

    @unittest.skipUnless(ROOT, "needs mounts")
    def test_an_idle_gateway_keeps_no_mount_busy_and_sees_the_unmount(self):
        place = served.base / "volumes/gone"
        if place not in Xfs.mounted:
            self.skipTest("this machine cannot mount XFS")
        client = served.account("ba-gone")
        served.bucket("gone", {"ba-gone": "rw"})
        self.assertEqual(client.put("gone", "key", b"x" * MIB).status, 200)
        self.assertEqual(client.get("gone", "key").status, 200)
        self.assertEqual(client.list("gone").status, 200)
        served.unlink("gone")
        done = subprocess.run(["umount", place], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        Xfs.mounted.remove(place)
        served.link("gone")
        self.assertEqual(client.put("gone", "key").code, "NoSuchBucket")
        self.assertEqual(list(place.iterdir()), [])

    def test_locks_lie_in_the_gateways_own_folder(self):
        bucket, client = new_account()
        self.assertEqual(client.request("PUT", f"/{bucket}/key", body=b"x", headers={"if-none-match": "*"}).status, 200)
        self.assertEqual(client.request("PUT", f"/{bucket}/key", body=b"y", headers={"if-none-match": "*"}).status, 412)
        visible = {path.name for path in (served.base / "root").iterdir()} - {".vgwlocks"}
        self.assertTrue(all(re.fullmatch("bucket-[0-9]+|full|gone", name) for name in visible), visible)


class Storing(unittest.TestCase):
    def test_objects_come_back_as_they_were(self):
        bucket, client = new_account()
        for size in (0, 1, 4096, 3 * MIB + 1):
            body = os.urandom(size)
            answer = client.put(bucket, f"size-{size}", body)
            self.assertEqual(answer.headers["etag"].strip('"'), hashlib.md5(body).hexdigest())
            self.assertEqual(client.get(bucket, f"size-{size}").body, body)

    def test_a_key_and_one_below_it_exclude_each_other(self):
        bucket, client = new_account()
        self.assertEqual(client.put(bucket, "a").status, 200)
        self.assertGreaterEqual(client.put(bucket, "a/b").status, 400)
        self.assertEqual(client.get(bucket, "a").status, 200)

    def test_the_objects_belong_to_the_gateways_user(self):
        bucket, client = new_account()
        client.put(bucket, "a/key")
        for path in (served.data(bucket) / "a", served.data(bucket) / "a/key"):
            self.assertEqual(path.stat().st_uid, USER)
        self.assertEqual((served.data(bucket) / "a").stat().st_mode & 0o077, 0)

    @unittest.skipUnless(ROOT, "needs a file system of its own")
    def test_a_full_bucket_says_507_and_the_others_serve(self):
        if served.base / "volumes/full" not in Xfs.mounted:
            self.skipTest("this machine cannot mount XFS")
        client = served.account("ba-full")
        served.bucket("full", {"ba-full": "rw"})
        other = new_bucket({"ba-full": "rw"})
        self.assertEqual(client.put("full", "first", b"x" * MIB).status, 200)
        filler = served.data("full").parent / "filler"
        space = os.statvfs(filler.parent)
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, (space.f_bavail - 16) * space.f_frsize)
        answer = client.put("full", "second", b"y" * 4 * MIB)
        self.assertEqual((answer.status, answer.code), (507, "InsufficientStorage"))
        self.assertEqual(client.get("full", "second").code, "NoSuchKey")
        self.assertEqual(client.list("full").all("Key"), ["first"])
        self.assertEqual(client.put(other, "key", b"y" * 4 * MIB).status, 200)
        self.assertEqual(client.delete("full", "first").status, 204)
        self.assertEqual(client.put("full", "third", b"z" * 512 * 1024).status, 200)


class Process(unittest.TestCase):
    def test_killed_within_a_put_it_leaves_nothing(self):
        bucket, client = new_account()
        client.put(bucket, "before", b"x")
        body = os.urandom(8 * MIB)
        path = f"/{bucket}/torn"
        connection = client.connection()
        connection.putrequest("PUT", path, skip_host=True)
        for name, value in client.headers("PUT", path, body_hash=hashlib.sha256(body).hexdigest()).items():
            connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body[: len(body) // 2])
        time.sleep(0.3)
        killed = served.pid()
        os.kill(killed, signal.SIGKILL)
        wait_for_another(killed)
        connection.close()
        self.assertEqual(client.get(bucket, "torn").code, "NoSuchKey")
        self.assertEqual(client.get(bucket, "before").body, b"x")
        files = [path for path in served.data(bucket).rglob("*") if path.is_file()]
        self.assertEqual([path.name for path in files], ["before"])

    def test_a_multipart_upload_goes_on_after_a_kill(self):
        bucket, client = new_account()
        upload = client.begin_upload(bucket, "key")
        first, last = os.urandom(5 * MIB), b"last"
        tags = [client.put_part(bucket, "key", upload, 1, first).headers["etag"]]
        killed = served.pid()
        os.kill(killed, signal.SIGKILL)
        wait_for_another(killed)
        tags.append(client.put_part(bucket, "key", upload, 2, last).headers["etag"])
        self.assertEqual(client.complete_upload(bucket, "key", upload, tags).status, 200)
        self.assertEqual(client.get(bucket, "key").body, first + last)

    def test_health_needs_no_key(self):
        self.assertEqual(served.client().request("GET", "/healthz").status, 200)

    def test_the_admin_interface_is_on_its_private_socket_alone(self):
        users = b"<"
        self.assertGreaterEqual(served.root().request("PATCH", "/list-users").status, 400)
        answer = served.admin().request("PATCH", "/list-users")
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIn(users, answer.body)
        self.assertEqual((served.base / "private/admin.sock").stat().st_mode & 0o777, 0o600)

    def test_it_listens_on_its_address_alone(self):
        inodes = set()
        for path in Path(f"/proc/{served.pid()}/fd").iterdir():
            # A file that the gateway closes meanwhile is not the socket on which it listens.
            with contextlib.suppress(FileNotFoundError):
                if match := re.match(r"socket:\[(\d+)\]", os.readlink(path)):
                    inodes.add(match[1])
        listening = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in inodes:
                    listening.append(words[1])
        port = int(served.address.rsplit(":", 1)[1])
        self.assertEqual(listening, [f"0100007F:{port:04X}"])

    def test_neither_arguments_nor_log_have_a_secret(self):
        bucket, client = new_account()
        client.put(bucket, "key")
        arguments = Path(f"/proc/{served.pid()}/cmdline").read_bytes().decode()
        log = served.log.read_text()
        for secret in (served.root_keys[1], client.secret):
            self.assertNotIn(secret, arguments)
            self.assertNotIn(secret, log)


class Reports:
    """The socket on which quarryd receives what the gateway reports of its requests. The gateway has found it: its client
    library tells a socket that is gone from another one only by a report that is lost."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        new = served.base / "reports.new"
        self.socket.bind(str(new))
        new.chmod(0o600)
        if ROOT:
            os.chown(new, USER, USER)
        new.rename(served.base / "reports.sock")
        self.lines = []

    def __enter__(self):
        def found():
            served.client().get("nothing", "to-be-found")
            self.take()
            return self.sum("failed_count", bucket="nothing")

        wait_for("the gateway finds the receiver", found)
        return self

    def __exit__(self, *_):
        self.socket.close()

    def take(self, seconds=0.1):
        """Receives what is there, and what comes within this time."""
        self.socket.settimeout(seconds)
        try:
            while True:
                self.lines += self.socket.recv(65536).decode().splitlines()
                self.socket.settimeout(0.01)
        except TimeoutError:
            pass

    def own(self):
        """[(name, value, tags)] of the lines that are not about the client library itself."""
        found = []
        for line in self.lines:
            if not line.startswith("datadog.dogstatsd.client."):
                name, rest = line.split(":", 1)
                value, kind, tags, *_ = rest.split("|")
                assert kind == "c" and tags.startswith("#"), line
                found.append((name, int(value), dict(tag.split(":", 1) for tag in tags[1:].split(","))))
        return found

    def sum(self, name, **wanted):
        return sum(value for one, value, tags in self.own() if one == f"versitygw.{name}" and wanted.items() <= tags.items())

    def wait_for(self, count, name, **wanted):
        def come():
            self.take()
            return self.sum(name, **wanted) >= count

        wait_for(f"{count} {name} of {wanted}: {self.lines}", come)


class Slots(unittest.TestCase):
    """quarryd's probe asks for a bucket that does not exist (src/bucket/gateway_probe.cc)."""

    PROBED = "/xn--quarry-probe"

    def probe(self, timeout=60):
        connection = served.client().connection(timeout)
        try:
            connection.request("GET", self.PROBED)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def test_a_request_without_a_key_for_a_missing_bucket_is_404(self):
        status, body = self.probe()
        self.assertEqual(status, 404)
        self.assertIn(b"<Code>NoSuchBucket</Code>", body)

    def test_bodies_that_do_not_come_take_all_slots_and_the_probe_waits_for_one(self):
        arguments = Path(f"/proc/{served.pid()}/cmdline").read_bytes().decode().split("\0")
        slots = int(arguments[arguments.index("--concurrency") + 1])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        bucket, client = new_account()
        slow = []
        self.addCleanup(lambda: [connection.close() for connection in slow])
        for number in range(slots):
            path = f"/{bucket}/slow-{number}"
            connection = client.connection()
            connection.putrequest("PUT", path, skip_host=True)
            for name, value in client.headers("PUT", path, body_hash="UNSIGNED-PAYLOAD").items():
                connection.putheader(name, value)
            connection.putheader("content-length", "1000000")
            # It begins to work on a request when it has the first 8 KiB.
            connection.endheaders(b"x" * 16384)
            slow.append(connection)

        def waits():
            try:
                return self.probe(2) and False
            except TimeoutError:
                return True

        wait_for("the probe waits", waits, 120)
        # It is well all the same, and this is how quarryd tells it from one that hangs.
        self.assertTrue(served.healthy())
        with self.assertRaises(TimeoutError):
            self.probe(2)
        # One client that leaves makes room, also for the probes that waited before.
        for connection in slow[:10]:
            connection.close()
        wait_for("the probe has a slot", lambda: not waits(), 60)


class Reporting(unittest.TestCase):
    def test_each_request_is_reported_with_bucket_action_and_status(self):
        bucket, client = new_account()
        missing = f"{bucket}-missing"
        with Reports() as reports:
            self.assertEqual(client.put(bucket, "key", b"x" * 1000).status, 200)
            self.assertEqual(client.put(bucket, "key", b"x" * 500).status, 200)
            self.assertEqual(client.get(bucket, "key").status, 200)
            self.assertEqual(client.head(bucket, "key").status, 200)
            self.assertEqual(client.get(bucket, "other").status, 404)
            self.assertEqual(served.client().get(bucket, "key").status, 403)
            self.assertEqual(served.client(client.access, "wrong").get(bucket, "key").status, 403)
            self.assertEqual(client.list(bucket).status, 200)
            self.assertEqual(client.delete(bucket, "key").status, 204)
            self.assertEqual(client.get(missing, "key").status, 404)
            reports.wait_for(1, "failed_count", bucket=missing)
            reports.take(3)
            expected = (
                ("success_count", 2, {"action": "PutObject", "status": "200"}),
                ("success_count", 1, {"action": "GetObject", "status": "200"}),
                ("success_count", 1, {"action": "HeadObject", "status": "200"}),
                ("failed_count", 1, {"action": "GetObject", "status": "404"}),
                ("failed_count", 2, {"action": "GetObject", "status": "403"}),
                ("success_count", 1, {"action": "ListObjectsV2", "status": "200"}),
                ("success_count", 1, {"action": "DeleteObject", "status": "204"}),
                ("bytes_written", 1500, {"action": "PutObject", "status": "200"}),
                ("bytes_read", 500, {"action": "GetObject", "status": "200"}),
            )
            for name, count, tags in expected:
                self.assertEqual(reports.sum(name, bucket=bucket, **tags), count, f"{name} {tags}: {reports.lines}")
            every = reports.sum("success_count", bucket=bucket) + reports.sum("failed_count", bucket=bucket)
            self.assertEqual(every, 9, "each request counts once")
            # quarryd refuses a line with another tag.
            names = {tag for _, _, tags in reports.own() for tag in tags}
            self.assertLessEqual(names, {"service", "method", "api", "action", "bucket", "status"})

    def test_no_name_of_a_bucket_adds_a_line_or_a_tag_that_counts(self):
        bucket, client = new_account()
        with Reports() as reports:
            for name in (f"x,bucket:{bucket}", f"x|#bucket:{bucket},status:200", f"x\nversitygw.success_count:9|c|#bucket:{bucket}"):
                self.assertGreaterEqual(client.request("GET", f"/{name}").status, 400)
            client.put(bucket, "key")
            reports.wait_for(1, "success_count", bucket=bucket)
            reports.take(3)
            for line in reports.lines:
                self.assertTrue(line.startswith(("versitygw.", "datadog.dogstatsd.client.")), line)
            self.assertLessEqual(sum("success_count:9|" in line for line in reports.lines if line.startswith("versitygw.s")), 0)

    def test_it_serves_without_a_receiver_and_finds_another_one(self):
        bucket, client = new_account()
        with Reports() as reports:
            client.put(bucket, "key")
            reports.wait_for(1, "success_count", bucket=bucket)
        began = time.monotonic()
        for _ in range(20):
            self.assertEqual(client.put(bucket, "key").status, 200)
        self.assertLess(time.monotonic() - began, 5)
        with Reports():
            pass  # it is found


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = Path(tempfile.mkdtemp(prefix="quarry-s3-tls-"))
        cls.base.chmod(0o755)
        cls.files = (cls.base / "cert.pem", cls.base / "key.pem")
        cls.certificate("first")
        cls.served = ServedFolder(cls.base, PROGRAM, served.versitygw, tls=cls.files)
        cls.served.start()

    @classmethod
    def tearDownClass(cls):
        cls.served.remove()

    @classmethod
    def certificate(cls, name):
        new = [path.with_suffix(".new") for path in cls.files]
        argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        argv += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-out", new[0], "-keyout", new[1]]
        subprocess.run(argv, check=True, capture_output=True)
        for path, place in zip(new, cls.files):
            if ROOT:
                os.chown(path, USER, USER)
            path.rename(place)

    def name(self):
        connection = self.served.client().connection()
        connection.connect()
        try:
            return connection.sock.getpeercert()["subject"][0][0][1]
        finally:
            connection.close()

    def test_a_refused_put_is_told_and_not_cut_off(self):
        self.served.bucket("closed")
        client = self.served.account("ba-tls")
        # Of a larger body it reads no more than this, so its client may see a broken connection instead (docs/buckets.md).
        for _ in range(20):
            self.assertEqual(client.put("closed", "key", b"x" * 256 * 1024).code, "AccessDenied")

    def test_it_serves(self):
        client = self.served.account("ba-open")
        self.served.bucket("open", {"ba-open": "rw"})
        body = os.urandom(2 * MIB)
        self.assertEqual(client.put("open", "key", body).status, 200)
        self.assertEqual(client.get("open", "key").body, body)

    def test_without_tls_it_answers_nothing(self):
        with self.assertRaises(OSError):
            answer = Client(self.served.address).request("GET", "/healthz")
            self.assertGreaterEqual(answer.status, 400)
            raise ConnectionError

    def test_a_renewed_certificate_is_in_force_without_a_restart(self):
        before, pid = self.name(), self.served.pid()
        self.certificate(f"{before}-renewed")
        wait_for("the new certificate", lambda: self.renewed(before))
        self.assertEqual(self.served.pid(), pid)

    def renewed(self, before):
        try:
            return self.name() == f"{before}-renewed"
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
