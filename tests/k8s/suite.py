"""The upstream suite External.Storage, which every CSI driver may run, against the cluster.

Each spec is a process of its own. The results of a batch of specs are kept once the cluster is empty after it. So a run
that was ended goes on with the next batch, and runs of parts add up. Results belong to one build of Quarry, one chart
with its values, one kind of node, one Kubernetes and one definition of the driver. A failure stays on record: what fails
once and passes later has a cause too.
"""

import collections
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
DRIVER, THIN = HERE / "driver.yaml", HERE / "thin.yaml"  # what Quarry claims, in its default class and in a thin store
THIN_FOCUS = r"VolumeSnapshotDataSource|pvc data source|volume-expand|snapshottable"  # what a store does in its own way
TITLE = "External Storage [Driver: quarry.csi.local] "
AT_ONCE = 2  # specs; more would only wait for the two nodes
BATCH = 16  # specs, until the cluster must be empty again
MINUTES = 40  # for one spec
# These make a volume of a snapshot and let the scheduler choose its node. The scheduler does not know where the
# snapshot is, so they get a cluster of one node.
ONE_NODE = r"\[Feature:VolumeSnapshotDataSource\]"
GOOD = ("passed", "skipped")  # states in ginkgo's reports
# Images that the specs use, and what is wanted of each.
IMAGES = {"busybox": "busybox", "nginx": "busybox", "glibc-dns-testing": "coreutils", "agnhost": "agnhost"}
# The suite wants a limit that it can reach (NodeGetInfo's max_volumes_per_node).
SETTINGS = {"max-volumes": 8}


def images(program):
    """The full names of IMAGES, by what is wanted of them."""
    done = subprocess.run([str(program), "--list-images"], capture_output=True, text=True, check=True)
    names = {kind: [] for kind in IMAGES.values()}
    for line in sorted(done.stdout.split()):
        found = re.search("/e2e-test-images/([^/:]+):", line)
        if found and found.group(1) in IMAGES:
            names[IMAGES[found.group(1)]].append(line)
    return names


class Suite:
    """tested: names or hashes of all that a result depends on. folder: for the results and logs of all builds. driver: the
    definition of the driver, DRIVER or THIN."""

    def __init__(self, cluster, programs, tested, folder, driver=None):
        self._cluster = cluster
        self._program = programs / "e2e.test"
        self._path = f"{programs}:{os.environ['PATH']}"
        self._driver = driver or DRIVER
        self._folder = folder / cache.digest(*tested, programs.name, self._driver.read_text())
        self._folder.mkdir(parents=True, exist_ok=True)
        self._kept = self._folder / "results.json"
        self._results = json.loads(self._kept.read_text()) if self._kept.exists() else {}
        self._lock = threading.Lock()
        self._skipped = json.loads((HERE / "skipped.json").read_text())

    def run(self, focus):
        """Runs what matches the focus and has no result yet, or a failure. True if all of it has passed now.

        Raises if a batch of specs leaves something in the cluster.
        """
        every = self._listed()
        wanted = self._choose(every, focus)
        todo = [name for name in wanted if self._results.get(name, {}).get("state") not in GOOD]
        print(f"{len(wanted)} specs of {len(every)}; {len(wanted) - len(todo)} have their result", flush=True)
        self._began, self._left = time.monotonic(), len(todo)
        pinned = [name for name in todo if re.search(ONE_NODE, name)]
        self._batches([name for name in todo if name not in pinned])
        if pinned:
            self._batches_on_one_node(pinned)
        return self._report(wanted)

    def _batches(self, names):
        serial = [name for name in names if "[Serial]" in name]
        others = [name for name in names if name not in serial]
        for i in range(0, len(others), BATCH):
            self._batch(others[i : i + BATCH], AT_ONCE)
        for name in serial:
            self._batch([name], 1)

    def _batches_on_one_node(self, names):
        # The last node has the most room. The suite ignores cordoned nodes.
        others = sorted(self._cluster.nodes)[:-1]
        self._cluster.plane.kubectl("cordon", *others)
        try:
            self._batches(names)
        finally:
            self._cluster.plane.kubectl("uncordon", *others)

    def _batch(self, names, at_once):
        with ThreadPoolExecutor(at_once) as pool:
            results = dict(zip(names, pool.map(self._one, names)))
        try:
            self._cluster.wait_empty()
        except Exception as error:
            left = f"one of these left something behind: {', '.join(names)}: {str(error)[:300]}"
            self._keep({name: {**result, "state": "failed", "words": left} for name, result in results.items()})
            raise
        self._keep(results)

    def _keep(self, results):
        for name, result in results.items():
            failures = self._results.get(name, {}).get("failures", [])
            if result["state"] not in GOOD:
                failures = [*failures, result["words"]]
            self._results[name] = {**result, "failures": failures}
        new = self._kept.with_suffix(".new")
        new.write_text(json.dumps(self._results, indent=1))
        new.rename(self._kept)

    def _listed(self):
        argv = [str(self._program), f"--storage.testdriver={self._driver}", "--list-tests"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return sorted({line.split(TITLE, 1)[1] for line in done.stdout.splitlines() if TITLE in line})

    def _choose(self, every, focus):
        """The specs to run. Raises an AssertionError about a pattern that matches none: it is out of date."""
        for pattern in [*self._skipped["not run"], *self._skipped["skip themselves"]]:
            if not any(re.search(pattern, name) for name in every):
                raise AssertionError(f"no spec has such a name any more: {pattern}")
        wanted = [name for name in every if not self._listed_as("not run", name) and re.search(focus, name)]
        if not wanted:
            raise AssertionError(f"no spec that is run matches {focus}")
        return wanted

    def _listed_as(self, section, name):
        """What skipped.json says there of this spec."""
        return [words for pattern, words in self._skipped[section].items() if re.search(pattern, name)]

    def _verdict(self, name, result):
        """The state of a result beside what skipped.json says now."""
        listed = [
            one for one in self._listed_as("skip themselves", name) if self._driver.name not in one.get("but with", ())
        ]
        if result["state"] == "passed" and listed:
            return "passed, but is said to skip itself"
        if result["state"] in GOOD and result.get("failures"):
            return f"{result['state']}, but failed before"
        if result["state"] == "skipped" and not any(re.search(one["says"], result["words"]) for one in listed):
            return "unexpectedly skipped"
        return result["state"]

    def _one(self, name):
        began = time.monotonic()
        stem = f"{re.sub('[^a-z0-9]+', '-', name.lower())[:100]}-{cache.digest(name)[:6]}"
        log, report = self._folder / f"{stem}.log", self._folder / f"{stem}.json"
        report.unlink(missing_ok=True)
        argv = [str(self._program), f"--kubeconfig={self._cluster.plane.kubeconfig}", "--provider=local"]
        argv += [f"--storage.testdriver={self._driver}", f"--ginkgo.focus={quoted(TITLE + name)}$", "--ginkgo.v"]
        argv += ["--ginkgo.no-color", f"--ginkgo.timeout={MINUTES}m", f"--ginkgo.json-report={report}"]
        with open(log, "wb") as out:
            status = subprocess.run(argv, stdout=out, stderr=out, env=dict(os.environ, PATH=self._path)).returncode
        result = outcome(report, name) if report.exists() else {"state": "failed", "words": "e2e.test made no report"}
        report.unlink(missing_ok=True)
        if result["state"] in GOOD and status != 0:
            result = {"state": "failed", "words": f"e2e.test ended with status {status}"}
        result["seconds"] = round(time.monotonic() - began)
        verdict = self._verdict(name, result)
        if verdict in GOOD:
            log.unlink()
        with self._lock:
            self._left -= 1
            words = f"[{time.monotonic() - self._began:5.0f} s, {self._left} left] {verdict}, {result['seconds']} s: {name}"
            print(words, flush=True)
            if verdict not in GOOD:
                print(f"    {result['words'][:600]}\n    log: {log}", flush=True)
        return result

    def _report(self, wanted):
        """Prints the sums, and writes them to summary.txt."""
        verdicts = {name: self._verdict(name, self._results[name]) for name in wanted}
        counts = collections.Counter(verdicts.values())
        seconds = sum(self._results[name]["seconds"] for name in wanted)
        lines = [f"{', '.join(f'{counts[state]} {state}' for state in sorted(counts))}; {seconds} s of specs"]
        lines += [f"{verdict} {self._results[name]['seconds']} s {name}" for name, verdict in verdicts.items()]
        (self._folder / "summary.txt").write_text("\n".join(lines) + "\n")
        print(f"{lines[0]}\nall of them: {self._folder}/summary.txt", flush=True)
        for name, verdict in verdicts.items():
            if verdict not in GOOD:
                words = self._results[name].get("failures") or [self._results[name]["words"]]
                print(f"{verdict}: {name}\n    {words[-1][:300]}", flush=True)
        if any("failed before" in verdict for verdict in verdicts.values()):
            print(f"to begin anew once the cause is mended: rm {self._kept}", flush=True)
        return all(verdict in GOOD for verdict in verdicts.values())


def outcome(report, name):
    """{state, words} of the spec of this name in one of ginkgo's reports."""
    for spec in json.loads(report.read_text())[0]["SpecReports"]:
        texts = [*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText", "")]
        # The suite's own list leaves out containers without a text.
        if " ".join(filter(None, texts)) == TITLE + name:
            state = spec["State"] if spec["State"] in GOOD else "failed"
            return {"state": state, "words": spec.get("Failure", {}).get("Message", "")}
    return {"state": "failed", "words": "the suite did not reach it"}


def quoted(text):
    """A regular expression of Go for exactly this text."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)
