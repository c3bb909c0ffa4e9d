"""A few minutes of a server's life, in a guest of scripts/vmtest: what scripts/pictures draws.

Prints one JSON object: pages of /metrics with their times, what quarryctl printed, and what was done when.
"""

import json
import os
import subprocess
import threading
import time
import urllib.request

METRICS = "127.0.0.1:9808"
CONFIG = f"""
endpoint = "unix:///run/quarry/csi.sock"
node-id = "edge1"
metrics-address = "{METRICS}"
repair-delay = 25
rebuild-rate = "12MiB"
erase-rate = "6MiB"
health-interval = 5

[[pool]]
name = "main"
vg = "vg0"
"""

pages, marks, shown = [], [], {}


def run(*words, check=True):
    done = subprocess.run(words, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def show(name, *words):
    shown[name] = {"command": " ".join(words), "text": run(*words, check=False)}


def mark(text):
    marks.append([time.time(), text])


def scrape():
    while True:
        started = time.time()
        try:
            with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=5) as page:
                pages.append([started, page.read().decode()])
        except OSError:
            pass  # quarryd starts
        time.sleep(max(0.0, started + 1 - time.time()))


def write(path, mebibytes):
    run("dd", "if=/dev/urandom", f"of={path}", "bs=1M", f"count={mebibytes}", "conv=fsync", "status=none")


def until(condition, seconds):
    limit = time.time() + seconds
    while not condition():
        if time.time() > limit:
            raise SystemExit(f"nothing happened for {seconds} s:\n" + run("quarryctl", "status", check=False))
        time.sleep(1)


def is_healthy():
    return all(v["condition"] == "healthy" for p in json.loads(run("quarryctl", "status", "--json"))["pools"]
               for v in p["volumes"])  # fmt: skip


def main():
    disks = [run("vmctl", "dev", str(n)).strip() for n in range(1, 6)]
    run("vgcreate", "vg0", *disks)
    os.makedirs("/etc/quarry", exist_ok=True)
    os.makedirs("/run/quarry", exist_ok=True)
    with open("/etc/quarry/quarry.toml", "w") as config:
        config.write(CONFIG)
    with open("/run/quarryd.log", "w") as log:
        subprocess.Popen(["quarryd"], stderr=log)
    threading.Thread(target=scrape, daemon=True).start()
    until(lambda: subprocess.run(["quarryctl", "check"], capture_output=True).returncode == 0, 60)
    time.sleep(8)
    mark("volumes are made")
    run("quarryctl", "volume", "create", "database", "--size", "320MiB", "type=raid1", "--mount", "/srv/database")
    run("quarryctl", "volume", "create", "media", "--size", "480MiB", "type=raid5", "--mount", "/srv/media")
    run("quarryctl", "volume", "create", "scratch", "--size", "640MiB", "--mount", "/srv/scratch")
    write("/srv/database/rows", 64)
    write("/srv/media/film", 200)
    until(is_healthy, 120)
    time.sleep(8)
    show("healthy", "quarryctl", "status")
    lost = run("lvs", "--noheadings", "-o", "devices", "vg0", "-a", "-S", "lv_name=~rimage_0").split("(")[0].strip()
    number = next(n for n, disk in enumerate(disks, 1) if disk == lost)
    mark("a disk is pulled")
    run("vmctl", "pull", str(number))
    until(lambda: not is_healthy(), 60)
    write("/srv/database/rows2", 16)
    time.sleep(5)
    show("degraded", "quarryctl", "status")
    show("check", "quarryctl", "check")
    time.sleep(12)
    until(is_healthy, 240)
    mark("repaired on another disk")
    time.sleep(12)
    mark("a volume is deleted")
    run("quarryctl", "volume", "unmount", "scratch")
    run("quarryctl", "volume", "delete", "scratch", "--yes")
    until(lambda: "erase" not in run("quarryctl", "status").lower(), 200)
    time.sleep(20)
    show("repaired", "quarryctl", "status")
    print(json.dumps({"pages": pages, "marks": marks, "shown": shown}))


main()
