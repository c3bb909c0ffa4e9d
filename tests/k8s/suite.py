"""The upstream suite External.Storage, which every CSI driver may run, against the cluster.

Each spec is a process of its own, so its result is kept as soon as it is there: a run that was ended goes on where it
was, and runs of parts add up. Results belong to one build of Quarry, one Kubernetes and one definition of the driver.
"""

import json
import os
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cache

HERE = Path(__file__).resolve().parent / "suite"
DRIVER = HERE / "driver.yaml"
TITLE = "External Storage [Driver: quarry.csi.local] "
AT_ONCE = 2  # specs; more would only wait for the two nodes
MINUTES = 40  # for one spec
IMAGES = re.compile(r"e2e-test-images/(busybox|nginx|agnhost):")
# The suite wants a limit that it can reach (NodeGetInfo's max_volumes_per_node).
SETTINGS = {"max-volumes": 8}


def images(program):
    """The names of the images that the specs use: {busybox: names, agnhost: names}. A shell will do for nginx."""
    done = subprocess.run([str(program), "--list-images"], capture_output=True, text=True, check=True)
    names = sorted(line for line in done.stdout.split() if IMAGES.search(line))
    return {
        "busybox": [name for name in names if "/agnhost:" not in name],
        "agnhost": [name for name in names if "/agnhost:" in name],
    }


class Suite:
    """build: a hash of what is tested. folder: for results and logs of this build."""

    def __init__(self, cluster, programs, build, folder):
        self._cluster = cluster
        self._program = programs / "e2e.test"
        self._path = f"{programs}:{os.environ['PATH']}"
        self._folder = folder / cache.digest(build, programs.name, DRIVER.read_text())
        self._folder.mkdir(parents=True, exist_ok=True)
        self._kept = self._folder / "results.json"
        self._results = json.loads(self._kept.read_text()) if self._kept.exists() else {}
        self._lock = threading.Lock()
        self._skipped = json.loads((HERE / "skipped.json").read_text())

    def run(self, focus, telling):
        """Runs what matches the focus and has not passed yet. True if all of it has passed now.

        telling: only the specs that the long tier runs.
        """
        every = self._listed()
        wanted = self._choose(every, focus, telling)
        todo = [name for name in wanted if self._results.get(name, {}).get("state") not in ("passed", "skipped")]
        print(f"{len(wanted)} specs of {len(every)}; {len(wanted) - len(todo)} have their result", flush=True)
        self._began, self._left = time.monotonic(), len(todo)
        serial = [name for name in todo if "[Serial]" in name]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._one, [name for name in todo if name not in serial]))
        for name in serial:
            self._one(name)
        return self._report(wanted)

    def _listed(self):
        argv = [str(self._program), f"--storage.testdriver={DRIVER}", "--list-tests"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return sorted({line.split(TITLE, 1)[1] for line in done.stdout.splitlines() if TITLE in line})

    def _choose(self, every, focus, telling):
        """The specs to run. Raises an AssertionError about a pattern that matches none: it is out of date."""
        lines = [line.strip() for line in (HERE / "telling.txt").read_text().splitlines()]
        most = [line for line in lines if line and not line.startswith("#")]
        for pattern in [*self._skipped["not run"], *self._skipped["skip themselves"], *most]:
            if not any(re.search(pattern, name) for name in every):
                raise AssertionError(f"no spec has such a name any more: {pattern}")
        wanted = [name for name in every if not self._why("not run", name) and re.search(focus, name)]
        if telling:
            wanted = [name for name in wanted if any(re.search(pattern, name) for pattern in most)]
        if not wanted:
            raise AssertionError(f"no spec that is run matches {focus}")
        return wanted

    def _why(self, section, name):
        return next((why for pattern, why in self._skipped[section].items() if re.search(pattern, name)), None)

    def _one(self, name):
        began = time.monotonic()
        stem = f"{re.sub('[^a-z0-9]+', '-', name.lower())[:100]}-{cache.digest(name)[:6]}"
        log, report = self._folder / f"{stem}.log", self._folder / f"{stem}.json"
        argv = [str(self._program), f"--kubeconfig={self._cluster.plane.kubeconfig}", "--provider=local"]
        argv += [f"--storage.testdriver={DRIVER}", f"--ginkgo.focus={quoted(TITLE + name)}$", "--ginkgo.v"]
        argv += ["--ginkgo.no-color", f"--ginkgo.timeout={MINUTES}m", f"--ginkgo.json-report={report}"]
        with open(log, "wb") as out:
            subprocess.run(argv, stdout=out, stderr=out, env=dict(os.environ, PATH=self._path))
        result = outcome(report, name) if report.exists() else {"state": "failed", "words": "e2e.test ended early"}
        report.unlink(missing_ok=True)
        result["seconds"] = round(time.monotonic() - began)
        if result["state"] == "skipped" and not self._why("skip themselves", name):
            result["state"] = "unexpectedly skipped"
        elif result["state"] == "passed" and self._why("skip themselves", name):
            result["state"] = "passed, but is said to skip itself"
        if result["state"] in ("passed", "skipped"):
            log.unlink()
        with self._lock:
            self._results[name] = result
            new = self._kept.with_suffix(".new")
            new.write_text(json.dumps(self._results, indent=1))
            new.rename(self._kept)
            self._left -= 1
            words = f"[{time.monotonic() - self._began:5.0f} s, {self._left} left] {result['state']}, {result['seconds']} s: {name}"
            print(words, flush=True)
            if result["state"] not in ("passed", "skipped"):
                print(f"    {result.get('words', '')[:600]}\n    log: {log}", flush=True)

    def _report(self, wanted):
        """Prints the sums, and writes them to summary.txt."""
        found = {name: self._results[name] for name in wanted}
        states = sorted({one["state"] for one in found.values()})
        lines = [", ".join(f"{sum(one['state'] == state for one in found.values())} {state}" for state in states)]
        lines[0] += f"; {sum(one['seconds'] for one in found.values())} s of specs"
        lines += [f"{one['state']} {one['seconds']} s {name}" for name, one in found.items()]
        (self._folder / "summary.txt").write_text("\n".join(lines) + "\n")
        print(f"{lines[0]}\nall of them: {self._folder}/summary.txt", flush=True)
        return all(one["state"] in ("passed", "skipped") for one in found.values())


def outcome(report, name):
    """{state, words} of the spec of this name in one of ginkgo's reports."""
    for spec in json.loads(report.read_text())[0]["SpecReports"]:
        text = " ".join([*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText", "")])
        if text == TITLE + name:
            state = spec["State"] if spec["State"] in ("passed", "skipped") else "failed"
            return {"state": state, "words": spec.get("Failure", {}).get("Message", "")}
    return {"state": "failed", "words": "the suite did not reach it"}


def quoted(text):
    """A regular expression of Go for exactly this text."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)
