"""What quarryd and the gateway share (docs/buckets.md), made by a test without quarryd: folders, buckets, accounts."""

import errno
import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

from s3_client import Client

ROOT = os.geteuid() == 0
# In a guest, the user of the package.
USER = int(os.environ.get("QUARRY_GATEWAY_USER") or (12345 if ROOT else os.geteuid()))
# An owner that is no account: nobody but the operator owns a bucket.
OWNER = "quarry"
READ = ["s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"]
WRITE = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:ListBucketMultipartUploads"]
ACCESS = {"rw": READ + WRITE, "ro": READ, "wo": ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]}


def policy(bucket, accounts):
    """accounts: {name: "rw", "ro" or "wo"}. The text of a bucket's policy."""
    here = f"arn:aws:s3:::{bucket}"
    hidden = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"{here}/.sgwtmp/*"}
    allowed = [
        {"Effect": "Allow", "Principal": {"AWS": [name]}, "Action": ACCESS[access], "Resource": [here, f"{here}/*"]}
        for name, access in sorted(accounts.items())
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": [hidden, *allowed]}).encode()


def has_attributes(folder):
    """Whether files there can have attributes of users."""
    try:
        os.getxattr(folder, "user.quarry")
    except OSError as error:
        return error.errno != errno.ENOTSUP
    return True


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(what, probe, seconds=30, log=None):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := probe():
            return found
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {seconds} s: {what} {log.read_text()[-2000:] if log else ''}")


class ServedFolder:
    """The folder, and a quarry-gateway that serves it."""

    def __init__(self, base, program, versitygw, port=None, tls=None):
        """tls: (certificate, key) or None."""
        self.base, self.program, self.versitygw, self.tls = Path(base), program, versitygw, tls
        self.address = f"127.0.0.1:{port or free_port()}"
        self.root_keys = ("root", secrets.token_hex(16))
        self.accounts, self.generation, self.process = {}, 0, None
        self.log = self.base / "gateway.log"
        self.base.mkdir(parents=True, exist_ok=True)
        if not has_attributes(self.base):
            # versitygw refuses such a root. On tmpfs that is so before Linux 6.6.
            on_disk = Path("/var/lib/quarry/s3-root")
            self.folder(on_disk, 0o755, 0)
            for stale in on_disk.iterdir():
                if stale.is_symlink():
                    stale.unlink()
            if not (self.base / "root").is_symlink():
                (self.base / "root").symlink_to(on_disk)
        for name, mode, owner in (("volumes", 0o755, 0), ("root", 0o755, 0), ("iam", 0o755, 0), ("private", 0o700, USER)):
            self.folder(self.base / name, mode, owner)
        self.folder(self.base / "root/.vgwlocks", 0o700, USER)
        self.write_accounts()
        self.restart()

    @staticmethod
    def folder(path, mode, owner):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
        if ROOT:
            os.chown(path, owner, owner)

    def write(self, path, text):
        """By rename, as quarryd does."""
        new = path.with_name(path.name + ".new")
        new.write_bytes(text)
        new.chmod(0o600)
        if ROOT:
            os.chown(new, USER, USER)
        new.rename(path)

    def write_accounts(self):
        users = {
            name: {"access": name, "secret": secret, "role": "user", "userID": 0, "groupID": 0, "projectID": 0}
            for name, secret in self.accounts.items()
        }
        self.write(self.base / "iam/users.json", json.dumps({"accessAccounts": users}).encode())

    def account(self, name, secret=None):
        """A new account, or another secret for one. Returns a client of it."""
        self.accounts[name] = secret or secrets.token_hex(16)
        self.write_accounts()
        return self.client(name, self.accounts[name])

    def forget(self, name):
        del self.accounts[name]
        self.write_accounts()

    def restart(self):
        """Another generation, which restarts a gateway that runs."""
        self.generation += 1
        values = {"ROOT_ACCESS_KEY": self.root_keys[0], "ROOT_SECRET_KEY": self.root_keys[1], "VGW_PORT": self.address}
        values |= {"VGW_REGION": "us-east-1", "QUARRY_GENERATION": self.generation}
        if self.tls:
            values |= {"VGW_CERT": self.tls[0], "VGW_KEY": self.tls[1]}
        self.write(self.base / "gateway.env", "".join(f"{key}={value}\n" for key, value in values.items()).encode())

    def start(self):
        arguments = [self.program, "--dir", str(self.base), "--versitygw", self.versitygw]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_until_healthy()

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(timeout=20)
            self.process = None

    def healthy(self):
        try:
            return self.client().request("GET", "/healthz").status == 200
        except OSError:
            return False

    def wait_until_healthy(self):
        wait_for("the gateway answers", self.healthy, log=self.log)

    def pid(self):
        """Of versitygw."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def client(self, access="", secret=""):
        return Client(self.address, access, secret, tls=self.tls and self.tls[0])

    def root(self):
        return self.client(*self.root_keys)

    def admin(self):
        return Client(str(self.base / "private/admin.sock"), *self.root_keys)

    def data(self, bucket):
        return self.base / "volumes" / bucket / "data"

    def bucket(self, name, accounts=None):
        """Makes a bucket's folders, then links it, as quarryd does after the mount."""
        data = self.data(name)
        self.folder(data.parent, 0o711, 0)
        self.folder(data, 0o700, USER)
        os.setxattr(data, "user.acl", json.dumps({"Owner": OWNER, "Grantees": []}).encode())
        os.setxattr(data, "user.ownership", b"BucketOwnerEnforced")
        self.allow(name, accounts or {})
        self.link(name)

    def allow(self, name, accounts):
        os.setxattr(self.data(name), "user.policy", policy(name, accounts))

    def link(self, name):
        (self.base / "root" / name).symlink_to(self.data(name))

    def unlink(self, name):
        (self.base / "root" / name).unlink()

    def remove(self):
        self.stop()
        shutil.rmtree(self.base)
