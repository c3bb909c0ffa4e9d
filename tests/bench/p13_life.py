"""P13, second part, in a guest of the kind s3: what a bucket costs to make, beside the commands of an administrator; a grant; and
the memory of quarryd and the gateway with several buckets, each with its children. Prints lines of JSON.

Usage: p13_life.py [--samples N] [--buckets N]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from p13_buckets import EXTRA, sh  # the guest has both side by side

SIZE = "320MiB"
# A bucket is more than its file system: tags, accounts, policy, link, an answer of the gateway. All of it is synced.
MOST_CREATE = 4
MOST_GRANT_MS = 2000
MOST_MIB = {"quarryd": 128, "gateway": 128}


def timed(command):
    began = time.monotonic()
    sh(command)
    return (time.monotonic() - began) * 1000


def memory(pid):
    """PSS in MiB, of a process and its children."""
    used = 0.0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            used += int(line.split()[1]) / 1024
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        used += sum(memory(int(child)) for child in children.read_text().split())
    return used


def start(disk):
    """quarryd and the gateway on a volume group of this disk."""
    Path("/run/quarry").mkdir(mode=0o755, exist_ok=True)
    sh("id quarry-s3 || useradd --system quarry-s3")
    sh(f"vgcreate -q life {disk}")
    program = shutil.copy(EXTRA / "versitygw", "/usr/local/bin/versitygw")
    os.chmod(program, 0o755)
    log = open("/tmp/life.log", "w")
    daemon = ["quarryd", "--endpoint=unix:///run/quarry/csi.sock", "--pool=main=life", "--s3-listen=127.0.0.1:7070"]
    processes = [subprocess.Popen(argv, stdout=log, stderr=log) for argv in (daemon, ["quarry-gateway", "--versitygw", program])]
    deadline = time.monotonic() + 120
    # A bucket is made only once the gateway answers.
    while subprocess.run(f"quarryctl bucket create first --size {SIZE}", shell=True, capture_output=True).returncode != 0:
        if time.monotonic() > deadline:
            sys.exit(Path("/tmp/life.log").read_text()[-2000:])
        time.sleep(0.5)
    return processes


def by_hand(number):
    """The same as an administrator would make it, with the mount options of a bucket."""
    place = f"/mnt/peer{number}"
    return (
        f"lvcreate -q -y -W y -n peer{number} -L 320m life && mkfs.xfs -q /dev/life/peer{number} && mkdir -p {place} && "
        f"mount -o sync,nosuid,nodev,noexec /dev/life/peer{number} {place} && mkdir {place}/data && sync -f {place}"
    )


def show(name, what, ours, peer, goal, met, unit="ms"):
    middle, other = statistics.median(ours), statistics.median(peer) if peer else None
    line = {"name": f"P13.{name}", "what": what, "ours": round(middle, 1), "peer": other and round(other, 1), "unit": unit}
    line |= {"ratio": other and round(middle / other, 2), "n": len(ours), "ours_p99": round(max(ours), 1)}
    print(json.dumps(line | {"goal": goal, "met": met(middle, other)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--buckets", type=int, default=10, help="with how many the memory is measured")
    asked = parser.parse_args()
    daemon, gateway = start(sh("vmctl dev 3"))
    creates, peers, grants = [], [], []
    for number in range(asked.samples):
        creates.append(timed(f"quarryctl bucket create ours{number} --size {SIZE}"))
        peers.append(timed(by_hand(number)))
        grants.append(timed(f"quarryctl bucket grant app{number} first"))
        sh(f"umount /mnt/peer{number} && lvremove -q -y life/peer{number}")
    show("bucket_create", "bucket create : lvcreate, mkfs.xfs, mount", creates, peers, f"<= {MOST_CREATE}",
         lambda ours, peer: ours / peer <= MOST_CREATE)  # fmt: skip
    show("bucket_grant", "bucket grant", grants, None, f"<= {MOST_GRANT_MS} ms", lambda ours, _: ours <= MOST_GRANT_MS)
    # One is there from the start.
    for number in range(asked.samples, asked.buckets - 1):
        sh(f"quarryctl bucket create ours{number} --size {SIZE}")
    count = len(json.loads(sh("quarryctl bucket list --json"))["buckets"])
    for name, process in (("quarryd", daemon), ("gateway", gateway)):
        most = MOST_MIB[name]
        show(f"memory_{name}", f"{name} with {count} buckets", [memory(process.pid)], None, f"<= {most} MiB",
             lambda ours, _: ours <= most, "MiB")  # fmt: skip
    for process in (daemon, gateway):
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
