"""What all scenarios share."""

import unittest

from . import objects
from .cluster import NAMESPACE
from .objects import is_ready

MiB = 1 << 20
WRITE = "echo {0} >/data/file; sync; " + objects.IDLE


def together(batch):
    """Marks tests that may run at the same time: those with the same number. The others run alone, after these."""

    def mark(test):
        test.batch = batch
        return test

    return mark


def begins_with_earlier_build(test):
    """Marks a test that upgrades from the build of the commit in upgrade_from."""
    test.needs_earlier_build = True
    return test


class Scenario(unittest.TestCase):
    """cluster: the running one. notes: what a test has measured. Each test has a namespace of its own, and empties it."""

    cluster = None

    def setUp(self):
        self.until = self.cluster.until
        self.notes = []
        self.made = []
        self.namespace = self._testMethodName.removeprefix("test_").replace("_", "-")[:50].strip("-")
        self.api = self.cluster.api.within(self.namespace)
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        # Without them no pod is admitted, or none starts.
        self.until("the namespace is ready", lambda: self.api.get("ServiceAccount", "default"))
        self.until("the namespace is ready", lambda: self.api.get("ConfigMap", "kube-root-ca.crt"))

    def tearDown(self):
        if self._failed():
            return  # and the run ends
        for kind, name in reversed(self.made):
            self.api.delete(kind, name, seconds=1 if kind == "Pod" else None)
        self.until("no pod is left", lambda: not self.api.list("Pod", self.namespace))
        self.until("no claim is left", lambda: not self.api.list("PersistentVolumeClaim", self.namespace))
        self.api.delete("Namespace", self.namespace)

    def _failed(self):
        result = self._outcome.result
        return any(case is self for case, _ in result.failures + result.errors)

    def make(self, *made):
        for one in made:
            self.api.create(one)
            self.made.append((one["kind"], one["metadata"]["name"]))

    def drop(self, kind, name):
        self.api.delete(kind, name, seconds=1 if kind == "Pod" else None)
        self.until(f"{kind} {name} is gone", lambda: self.api.find(kind, name) is None)
        self.made.remove((kind, name))

    def runs(self, *names):
        """Waits until the pods run. Returns the node of the last one."""
        for name in names:
            self.until(f"pod {name} runs", lambda: is_ready(self.api.get("Pod", name)))
        return self.api.get("Pod", names[-1])["spec"]["nodeName"]

    def snapshot_status(self, name):
        return self.api.get("VolumeSnapshot", name).get("status", {})

    def calls(self, method):
        """How often the nodes' quarryds have answered this RPC."""
        total = 0
        for node in self.cluster.nodes.values():
            for line in self.metrics(node).splitlines():
                if line.startswith("quarry_rpc_duration_seconds_count") and f'method="{method}"' in line:
                    total += int(float(line.split()[-1]))
        return total

    def metrics(self, node):
        """What quarryd says of itself on a node."""
        pod = self.api.get("Pod", self.cluster.quarry_pod(node.name), NAMESPACE)
        ask = "exec 3<>/dev/tcp/{0}/9808; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        return node.guest.run(["bash", "-c", ask.format(pod["status"]["podIP"])], timeout=60, check=True).stdout

    def quarryctl(self, node, *arguments):
        pod = self.cluster.quarry_pod(node.name)
        return self.cluster.plane.kubectl("exec", "-n", NAMESPACE, pod, "-c", "quarryd", "--", "quarryctl", *arguments)

    def run_in(self, name, command):
        return self.cluster.plane.kubectl("exec", "-n", self.namespace, name, "--", "sh", "-c", command)
