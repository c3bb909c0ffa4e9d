"""Buckets as both packages install them, with boto3 and with versitygw's own test client. Runs in a guest of the kind s3; the
packages are in /opt/quarry/extra. Usage: service_test.py before | after    (after: the next boot, by a power cut)
"""

import hashlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import full_flow

EXTRA = Path("/opt/quarry/extra")
BASE = Path("/run/quarry/s3")
ACKNOWLEDGED = Path("/var/lib/acknowledged.json")
# Of the cases of versitygw's own client: those that write and read objects. All of them run on the host (tests/gateway), where
# they take a minute. Each request has ten seconds, which is too short for all at once where the machine is emulated.
CASES = (
    "PutObject_success", "PutObject_overwrite_file_obj", "PutObject_checksums_success", "PutObject_racey_success",
    "PutObjectTagging_success", "GetObject_success", "CopyObject_success", "CopyObject_overwrite_same_file_object",
    "ListObjectsV2_list_all_objs", "DeleteObjects_success", "UploadPartCopy_success", "ListParts_success",
    "AbortMultipartUpload_success", "CompleteMultipartUpload_success",
)  # fmt: skip
PORT = 443
MIB = 1 << 20


def sh(command, check=True):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if check and done.returncode != 0:
        unit = subprocess.run("journalctl -b -u quarryd -u quarry-gateway | tail -40", shell=True, capture_output=True, text=True)
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}{unit.stdout}")
    return done.stdout.strip()


def install():
    for name in ("quarryd", "quarry-s3-gateway"):
        sh(f"DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-confold install {EXTRA}/{name}_*.deb")


def configure():
    disks = [sh(f"vmctl dev {number}") for number in (1, 2, 3)]
    Path("/etc/quarry").mkdir(exist_ok=True)
    Path("/etc/quarry/quarry.toml").write_text(
        f'endpoint = "unix:///run/quarry/csi.sock"\ns3-listen = "127.0.0.1:{PORT}"\n'
        f'[[pool]]\nname = "main"\nvg = "vg-data"\ndevices = {json.dumps(disks)}\n'
    )


def bucket(*words):
    return json.loads(sh(f"quarryctl bucket {' '.join(words)} --json"))


def is_up():
    return subprocess.run(["quarryctl", "bucket", "list"], capture_output=True).returncode == 0


def is_serving(name):
    return is_up() and any(one["name"] == name and one.get("serving") for one in bucket("list")["buckets"])


def is_healthy(port=PORT):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def leg_of(name):
    """The number of a disk with a leg of a bucket's array."""
    lv = data_of(name).parent.name
    devices = sh(f"lvs --noheadings -a -o lv_name,devices vg-data | grep '{lv}_rimage' | grep -o '/dev/[a-z0-9]*'").split()
    return next(number for number in (1, 2, 3) if os.path.realpath(sh(f"vmctl dev {number}")) == os.path.realpath(devices[0]))


def is_away(disk):
    return subprocess.run(["vmctl", "dev", str(disk)], capture_output=True).returncode != 0


def data_of(name):
    """The folder with the objects of a bucket."""
    return Path(os.path.realpath(BASE / "root" / name))


def client(granted, **options):
    """granted: what quarryctl said of an account."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=granted["url"],
        aws_access_key_id=granted["access_key_id"],
        aws_secret_access_key=granted["secret_access_key"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, read_timeout=120, **options),
    )


def digest(body):
    return hashlib.sha256(body).hexdigest()


def wait_for(what, probe, seconds=180):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(0.1)
    raise AssertionError(f"did not happen within {seconds} s: {what}\n{sh('journalctl -b -u quarry-gateway | tail -20', False)}")


def processes():
    """The pids of quarry-gateway and versitygw, 0 if there is none."""
    main = int(sh("systemctl show -P MainPID quarry-gateway"))
    children = Path(f"/proc/{main}/task/{main}/children")
    words = children.read_text().split() if main else []
    return main, int(words[0]) if words else 0


class Before(unittest.TestCase):
    """In the order of their names."""

    @classmethod
    def setUpClass(cls):
        install()
        configure()
        cls.idle = processes()
        # The volumes are made and mounted after the gateway's mount namespace was.
        sh("systemctl enable --now quarryd")
        wait_for("quarryd and the gateway serve", lambda: is_up() and is_healthy())
        cls.photos = bucket("create", "photos", "--size", "320MiB", "type=raid1")
        cls.other = bucket("create", "other", "--size", "320MiB", "ondelete=erase")
        cls.s3 = client(cls.photos)
        cls.beside = client(cls.other)

    def test_10_its_unit_waited_for_quarryd_and_serves_without_rights(self):
        main, _ = self.idle
        self.assertGreater(main, 0)
        user = pwd.getpwnam("quarry-s3").pw_uid
        for pid in processes():
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            self.assertEqual(set(status["Uid"].split()), {str(user)})
            self.assertEqual(status["NoNewPrivs"], "1")
            # To bind a port below 1024, which this test uses, and nothing else.
            self.assertEqual(int(status["CapEff"], 16), 1 << 10)
            self.assertEqual(int(status["CapBnd"], 16), 1 << 10)
        self.assertNotEqual(os.readlink(f"/proc/{main}/ns/mnt"), os.readlink("/proc/1/ns/mnt"))

    def test_20_objects_go_to_the_volume_that_was_mounted_later(self):
        body = os.urandom(3 * MIB)
        self.s3.put_object(Bucket="photos", Key="a/cat.jpg", Body=body)
        self.assertEqual(self.s3.get_object(Bucket="photos", Key="a/cat.jpg")["Body"].read(), body)
        stored = data_of("photos") / "a/cat.jpg"
        self.assertEqual(stored.read_bytes(), body)
        self.assertEqual(os.stat(stored).st_dev, os.stat(data_of("photos").parent).st_dev)
        self.assertNotEqual(os.stat(stored).st_dev, os.stat(BASE).st_dev)

    def test_30_a_full_bucket_says_507_and_its_neighbour_serves(self):
        filler = data_of("photos").parent / "filler"
        space = os.statvfs(filler.parent)
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, (space.f_bavail - 16) * space.f_frsize)
        with self.assertRaises(self.s3.exceptions.ClientError) as refused:
            client(self.photos, retries={"max_attempts": 1}).put_object(Bucket="photos", Key="big", Body=b"x" * 4 * MIB)
        self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 507)
        self.beside.put_object(Bucket="other", Key="big", Body=b"x" * 4 * MIB)
        filler.unlink()
        self.s3.put_object(Bucket="photos", Key="big", Body=b"x" * 4 * MIB)

    def test_40_a_restart_of_quarryd_cuts_no_client_off(self):
        before = processes()
        reader = self.s3.get_object(Bucket="photos", Key="big")["Body"]
        first = reader.read(MIB)
        sh("systemctl restart quarryd")
        self.assertEqual(first + reader.read(), b"x" * 4 * MIB)
        self.assertEqual(processes(), before)

    def test_50_killed_processes_come_back(self):
        main, child = processes()
        os.kill(child, signal.SIGKILL)
        wait_for("another versitygw", lambda: processes()[1] not in (0, child) and is_healthy())
        self.assertEqual(processes()[0], main)
        os.kill(main, signal.SIGKILL)
        wait_for("another quarry-gateway", lambda: processes()[0] not in (0, main) and is_healthy())
        self.s3.head_object(Bucket="photos", Key="big")

    def test_60_a_deletion_reaches_the_gateway_and_nothing_keeps_the_volume(self):
        self.beside.put_object(Bucket="other", Key="key", Body=b"x")
        bucket("delete", "other", "--yes")
        with self.assertRaises(self.s3.exceptions.ClientError):
            self.beside.put_object(Bucket="other", Key="new", Body=b"x")
        # A mount that is left in another namespace would hold the device.
        wait_for("its volume is erased", lambda: "s3:other" not in sh("lvs --noheadings -o lv_tags vg-data"))

    def test_70_raid1_serves_while_a_disk_is_away_and_after_it_is_back(self):
        disk = leg_of("photos")
        stored, failures, stop = {}, [], threading.Event()

        def put():
            mine = client(self.photos, retries={"max_attempts": 1})
            number = 0
            while not stop.is_set():
                key, body = f"load/{number}", os.urandom(256 * 1024)
                try:
                    mine.put_object(Bucket="photos", Key=key, Body=body)
                    stored[key] = digest(body)
                except Exception as error:
                    failures.append(f"{key}: {error}")
                number += 1

        writer = threading.Thread(target=put)
        writer.start()
        try:
            wait_for("the first objects", lambda: len(stored) > 3)
            sh(f"vmctl pull {disk}")
            count = len(stored)
            upload = self.s3.create_multipart_upload(Bucket="photos", Key="parts")["UploadId"]
            bodies, parts = [os.urandom(5 * MIB), os.urandom(MIB)], []
            for number, body in enumerate(bodies, 1):
                tag = self.s3.upload_part(Bucket="photos", Key="parts", UploadId=upload, PartNumber=number, Body=body)["ETag"]
                parts.append({"PartNumber": number, "ETag": tag})
            wait_for("objects while the disk is away", lambda: len(stored) > count + 5)
            sh(f"vmctl return {disk}")
            count = len(stored)
            self.s3.complete_multipart_upload(
                Bucket="photos", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts}
            )
            wait_for("objects after the disk is back", lambda: len(stored) > count + 5)
        finally:
            stop.set()
            writer.join()
        self.assertEqual(failures, [])
        for key, expected in stored.items():
            self.assertEqual(digest(self.s3.get_object(Bucket="photos", Key=key)["Body"].read()), expected, key)
        self.assertEqual(self.s3.get_object(Bucket="photos", Key="parts")["Body"].read(), b"".join(bodies))
        listed = self.s3.get_paginator("list_objects_v2").paginate(Bucket="photos", Prefix="load/")
        self.assertEqual({entry["Key"] for page in listed for entry in page.get("Contents", [])}, set(stored))

    def test_75_versitygws_own_cases_pass_on_raid1_while_a_disk_goes_and_comes_back(self):
        """Its cases make buckets of their own, which no client of Quarry's gateway may. So a second versitygw serves a folder on
        the volume of a bucket: the file system, its mount options and the array are those of every bucket."""
        bucket("create", "flow", "--size", "600MiB", "type=raid1")
        folder = data_of("flow").parent / "flow"
        folder.mkdir()
        shutil.chown(folder, "quarry-s3", "quarry-s3")
        work = Path(sh("mktemp -d"))
        work.chmod(0o755)
        program = shutil.copy("/usr/libexec/quarry/versitygw", work / "versitygw")
        for name in ("iam", "root"):
            (work / name).mkdir()
            shutil.chown(work / name, "quarry-s3", "quarry-s3")
        keys, address = ("root", "s" * 32), "127.0.0.1:7071"
        # The flags of quarry-gateway (src/gateway/gateway_command.cc).
        argv = ["setpriv", "--reuid=quarry-s3", "--regid=quarry-s3", "--clear-groups", program, "--quiet", "--keep-alive",
                "--disable-acl", "--health", "/healthz", "--iam-dir", work / "iam", "--iam-cache-disable", "--admin-port",
                work / "root/admin.sock", "--socket-perm", "0600", "posix", "--bucketlinks", folder]  # fmt: skip
        variables = dict(os.environ, ROOT_ACCESS_KEY=keys[0], ROOT_SECRET_KEY=keys[1], VGW_PORT=address, VGW_REGION="us-east-1")
        gateway = subprocess.Popen([str(word) for word in argv], env=variables, stdout=subprocess.DEVNULL)
        disk = leg_of("flow")
        try:
            wait_for("it answers", lambda: is_healthy(7071))
            for act in ("pull", "return"):
                doing = None
                for number, case in enumerate(CASES):
                    asked = [str(word) for word in full_flow.command(program, keys, address, (case,))]
                    environment = full_flow.environment()
                    running = subprocess.Popen(asked, cwd=work, env=environment, stdout=subprocess.PIPE, text=True)
                    if number == len(CASES) // 3:
                        doing = subprocess.Popen(["vmctl", act, str(disk)])  # the cases go on meanwhile
                    output, _ = running.communicate(timeout=300)
                    self.assertEqual(running.returncode, 0, f"{case}, {act}: {output[-1000:]}")
                    if number == 2 * len(CASES) // 3:
                        self.assertEqual(doing.wait(timeout=120), 0)
                self.assertEqual(is_away(disk), act == "pull")
        finally:
            gateway.kill()
            gateway.wait()
        shutil.rmtree(folder)
        bucket("delete", "flow", "--yes")

    def test_80_twenty_five_acknowledged_objects(self):
        # The last step: the power is cut right after it.
        stored = {}
        for number in range(25):
            body = os.urandom(4096 + number * 1000)
            self.s3.put_object(Bucket="photos", Key=f"kept/{number}", Body=body, Metadata={"number": str(number)})
            stored[f"kept/{number}"] = digest(body)
        ACKNOWLEDGED.write_text(json.dumps({"account": self.photos, "stored": stored}))
        sh("sync -f /var/lib")


class After(unittest.TestCase):
    def test_10_every_acknowledged_object_survived_the_power_cut(self):
        kept = json.loads(ACKNOWLEDGED.read_text())
        wait_for("the bucket serves by itself", lambda: is_serving("photos"))
        s3 = client(kept["account"])
        for key, expected in kept["stored"].items():
            found = s3.get_object(Bucket="photos", Key=key)
            self.assertEqual(digest(found["Body"].read()), expected, key)
            self.assertEqual(found["Metadata"], {"number": key.rsplit("/", 1)[1]})

    def test_20_a_purge_ends_the_gateway_and_leaves_user_and_objects(self):
        sh("DEBIAN_FRONTEND=noninteractive apt-get -q -y purge quarry-s3-gateway")
        self.assertEqual(sh("pgrep -x versitygw", check=False), "")
        self.assertGreater(pwd.getpwnam("quarry-s3").pw_uid, 0)
        self.assertTrue((data_of("photos") / "kept/0").is_file())
        self.assertFalse(os.path.lexists("/etc/systemd/system/multi-user.target.wants/quarry-gateway.service"))


if __name__ == "__main__":
    which = {"before": "Before", "after": "After"}[sys.argv.pop(1)]
    unittest.main(defaultTest=which, failfast=True, verbosity=2)
