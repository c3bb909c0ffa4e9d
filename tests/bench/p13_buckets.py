"""P13, in a guest of the kind s3: PUT and GET through the S3 gateway on a volume of quarryd's, mounted as a bucket is, beside the
same gateway on a plain directory of an XFS that mkfs and mount made with their own options. Prints lines of JSON.

Usage: p13_buckets.py [--samples N]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

EXTRA = Path("/opt/quarry/extra")
BASE = Path("/run/quarry/s3")
SIZES = {"4k": 4 << 10, "1m": 1 << 20, "64m": 64 << 20}
CLIENTS = 8
# What a PUT may cost: an acknowledged object must be on the disk, and the peer's is not. A GET must cost nothing.
MOST = {"put": 20, "get": 1.5}


def sh(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def volumes():
    """Mounts the volume and its peer, of equal size on equal disks. quarryd stays."""
    disk, other = (sh(f"vmctl dev {number}") for number in (1, 2))
    Path("/etc/quarry").mkdir(exist_ok=True)
    declared = BASE.parent / "bench.toml"
    declared.parent.mkdir(parents=True, exist_ok=True)
    declared.write_text(
        f'[[volume]]\nname = "ours"\nsize = "3GiB"\nfs = "xfs"\nmount = "{BASE}/volumes/ours"\noptions = ["sync", "noexec"]\n'
    )
    log = open("/tmp/quarryd.log", "w")
    arguments = ["quarryd", "--endpoint", "unix:///run/quarry/csi.sock", "--pool", f"main=vg-data,device={disk}"]
    daemon = subprocess.Popen(arguments, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while not Path("/run/quarry/admin.sock").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    sh(f"quarryctl apply -f {declared}")
    peer = BASE / "volumes/peer"
    peer.mkdir(parents=True)
    sh(f"mkfs.xfs -q {other} && mount {other} {peer}")
    return daemon


def timed(call):
    began = time.monotonic()
    answer = call()
    taken = (time.monotonic() - began) * 1000
    if answer.status >= 300:
        sys.exit(f"the gateway answered {answer.status}: {answer.body[:300]}")
    return taken


def in_turns(samples, name, size, clients):
    """{"put"/"get": {bucket: milliseconds}}"""
    body, found = os.urandom(size), {verb: {bucket: [] for bucket in clients} for verb in ("put", "get")}
    for number in range(samples):
        for bucket, client in clients.items():
            key = f"{name}/{number}"
            found["put"][bucket].append(timed(lambda: client.put(bucket, key, body)))
            found["get"][bucket].append(timed(lambda: client.get(bucket, key)))
    return found


def together(samples, clients):
    """Milliseconds for each PUT of 4 KiB, of several clients at once."""
    taken = {}
    for bucket, client in clients.items():
        def load(which):
            for number in range(samples):
                timed(lambda: client.put(bucket, f"many/{which}-{number}", b"x" * SIZES["4k"]))

        threads = [threading.Thread(target=load, args=(which,)) for which in range(CLIENTS)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken[bucket] = [(time.monotonic() - began) * 1000 / (samples * CLIENTS)]
    return taken


def show(name, what, taken, most):
    ours, peer = (statistics.median(taken[bucket]) for bucket in ("ours", "peer"))
    line = {"name": f"P13.{name}", "what": what, "ours": round(ours, 2), "peer": round(peer, 2), "unit": "ms"}
    line |= {"ratio": round(ours / peer, 2), "n": len(taken["ours"]), "ours_p99": round(max(taken["ours"]), 2)}
    line |= {"per_second": round(1000 / ours, 1), "peer_per_second": round(1000 / peer, 1)}
    line |= {"goal": f"<= {most}", "met": ours / peer <= most}
    print(json.dumps(line), flush=True)


def memory(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=20)
    samples = parser.parse_args().samples
    sys.path.insert(0, str(EXTRA))
    from served_folder import ServedFolder

    BASE.mkdir(parents=True, exist_ok=True)
    BASE.parent.chmod(0o755)
    daemon = volumes()
    program = shutil.copy(EXTRA / "versitygw", "/usr/local/bin/versitygw")
    os.chmod(program, 0o755)
    served = ServedFolder(BASE, shutil.which("quarry-gateway"), program)
    served.start()
    client = served.account("bench")
    for bucket in ("ours", "peer"):
        served.bucket(bucket, {"bench": "rw"})
    clients = {bucket: client for bucket in ("ours", "peer")}
    for name, size in SIZES.items():
        found = in_turns(samples if size < SIZES["64m"] else max(3, samples // 5), name, size, clients)
        for verb in ("put", "get"):
            show(f"{verb}_{name}", f"{verb.upper()} : the same on a plain directory", found[verb], MOST[verb])
    show("put_4k_8", "8 clients' PUT : the same on a plain directory", together(samples, clients), MOST["put"])
    used = memory(served.pid())
    line = {"name": "P13.memory", "what": "versitygw after the load", "ours": round(used, 1), "peer": None, "unit": "MiB"}
    print(json.dumps(line | {"ratio": None, "n": 1, "goal": "<= 128 MiB", "met": used <= 128}), flush=True)
    served.stop()
    daemon.terminate()
    daemon.wait()
    # The second part makes the folder again.
    for bucket in ("ours", "peer"):
        sh(f"umount {BASE}/volumes/{bucket}")
    shutil.rmtree(BASE)
    shutil.rmtree("/var/lib/quarry/s3-root", ignore_errors=True)


if __name__ == "__main__":
    main()
