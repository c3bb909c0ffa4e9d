"""The S3 gateway as its package installs it, on volumes of quarryd's, with boto3. Runs in a guest of the kind s3; both packages
are in /opt/quarry/extra. Usage: service_test.py before | after    (after: the next boot, by a power cut)

The folder that quarryd and the gateway share is made by this test, so a fault here is the gateway's or its unit's.
"""

import hashlib
import json
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

EXTRA = Path("/opt/quarry/extra")
BASE = Path("/run/quarry/s3")
ACKNOWLEDGED = Path("/var/lib/acknowledged.json")
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
        'endpoint = "unix:///run/quarry/csi.sock"\n[[pool]]\nname = "main"\nvg = "vg-data"\n'
        f"devices = {json.dumps(disks)}\n"
    )
    folder = Path("/etc/quarry/volumes.d")
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in (("photos", "raid1"), ("other", "linear")):
        (folder / f"{name}.toml").write_text(
            f'[[volume]]\nname = "{name}"\nsize = "320MiB"\ntype = "{kind}"\nfs = "xfs"\nmount = "{BASE}/volumes/{name}"\n'
            'options = ["sync", "noexec"]\n'
        )


def shared_folder():
    """The files that quarryd would write, for the user of the package."""
    os.environ["QUARRY_GATEWAY_USER"] = str(pwd.getpwnam("quarry-s3").pw_uid)
    sys.path.insert(0, str(EXTRA))
    from served_folder import ServedFolder

    Path("/run/quarry").mkdir(exist_ok=True)
    Path("/run/quarry").chmod(0o755)
    return ServedFolder(BASE, "", "", port=PORT)


def client(served, name, **options):
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=f"http://{served.address}",
        aws_access_key_id=name,
        aws_secret_access_key=served.accounts[name],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, read_timeout=120, **options),
    )


def digest(body):
    return hashlib.sha256(body).hexdigest()


def wait_for(what, probe, seconds=60):
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
        cls.served = shared_folder()
        cls.served.account("ba-1", "s" * 32)
        cls.s3 = client(cls.served, "ba-1")
        wait_for("the gateway answers", cls.served.healthy)
        # The volumes are made and mounted after the gateway's mount namespace was.
        sh("systemctl enable --now quarryd")
        sh("quarryctl apply")
        for name in ("photos", "other"):
            assert os.path.ismount(BASE / "volumes" / name), name
            cls.served.bucket(name, {"ba-1": "rw"})

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
        stored = BASE / "volumes/photos/data/a/cat.jpg"
        self.assertEqual(stored.read_bytes(), body)
        self.assertEqual(os.stat(stored).st_dev, os.stat(BASE / "volumes/photos").st_dev)
        self.assertNotEqual(os.stat(stored).st_dev, os.stat(BASE).st_dev)

    def test_30_a_full_bucket_says_507_and_its_neighbour_serves(self):
        filler = BASE / "volumes/photos/filler"
        space = os.statvfs(filler.parent)
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, (space.f_bavail - 16) * space.f_frsize)
        with self.assertRaises(self.s3.exceptions.ClientError) as refused:
            client(self.served, "ba-1", retries={"max_attempts": 1}).put_object(Bucket="photos", Key="big", Body=b"x" * 4 * MIB)
        self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], 507)
        self.s3.put_object(Bucket="other", Key="big", Body=b"x" * 4 * MIB)
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
        wait_for("another versitygw", lambda: processes()[1] not in (0, child) and self.served.healthy())
        self.assertEqual(processes()[0], main)
        os.kill(main, signal.SIGKILL)
        wait_for("another quarry-gateway", lambda: processes()[0] not in (0, main) and self.served.healthy())
        self.s3.head_object(Bucket="photos", Key="big")

    def test_60_an_unmount_reaches_the_gateway_and_nothing_keeps_the_volume(self):
        self.s3.put_object(Bucket="other", Key="key", Body=b"x")
        self.served.unlink("other")
        sh("quarryctl volume unmount other")
        self.served.link("other")
        with self.assertRaises(self.s3.exceptions.ClientError) as refused:
            self.s3.put_object(Bucket="other", Key="new", Body=b"x")
        self.assertEqual(refused.exception.response["Error"]["Code"], "NoSuchBucket")
        self.served.unlink("other")
        # A mount that is left in another namespace would hold the device.
        Path("/etc/quarry/volumes.d/other.toml").unlink()
        sh("quarryctl volume delete --yes other")

    def test_70_raid1_serves_while_a_disk_is_away_and_after_it_is_back(self):
        leg = sh("lvs --noheadings -a -o devices vg-data | grep -o '/dev/[a-z0-9]*' | head -1")
        disk = next(number for number in (1, 2, 3) if os.path.realpath(sh(f"vmctl dev {number}")) == os.path.realpath(leg))
        stored, failures, stop = {}, [], threading.Event()

        def put():
            mine = client(self.served, "ba-1", retries={"max_attempts": 1})
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

    def test_80_twenty_five_acknowledged_objects(self):
        # The last step: the power is cut right after it.
        stored = {}
        for number in range(25):
            body = os.urandom(4096 + number * 1000)
            self.s3.put_object(Bucket="photos", Key=f"kept/{number}", Body=body, Metadata={"number": str(number)})
            stored[f"kept/{number}"] = digest(body)
        ACKNOWLEDGED.write_text(json.dumps(stored))


class After(unittest.TestCase):
    def test_10_every_acknowledged_object_survived_the_power_cut(self):
        served = shared_folder()
        served.account("ba-1", "s" * 32)
        wait_for("the volume is mounted", lambda: os.path.ismount(BASE / "volumes/photos"), 120)
        served.link("photos")
        wait_for("the gateway answers", served.healthy)
        s3 = client(served, "ba-1")
        for key, expected in json.loads(ACKNOWLEDGED.read_text()).items():
            found = s3.get_object(Bucket="photos", Key=key)
            self.assertEqual(digest(found["Body"].read()), expected, key)
            self.assertEqual(found["Metadata"], {"number": key.rsplit("/", 1)[1]})

    def test_20_a_purge_ends_the_gateway_and_leaves_user_and_objects(self):
        sh("DEBIAN_FRONTEND=noninteractive apt-get -q -y purge quarry-s3-gateway")
        self.assertEqual(sh("pgrep -x versitygw", check=False), "")
        self.assertGreater(pwd.getpwnam("quarry-s3").pw_uid, 0)
        self.assertTrue((BASE / "volumes/photos/data/kept/0").is_file())
        self.assertFalse(os.path.lexists("/etc/systemd/system/multi-user.target.wants/quarry-gateway.service"))


if __name__ == "__main__":
    which = {"before": "Before", "after": "After"}[sys.argv.pop(1)]
    unittest.main(defaultTest=which, failfast=True, verbosity=2)
