"""The whole cluster: control plane, nodes, and Quarry as the chart installs it."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import objects
from .api import PATIENCE, until
from .control_plane import ControlPlane
from .node import GROUP, STORES, Node
from .objects import DRIVER

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
KUBERNETES = REPOSITORY / "deploy" / "kubernetes"
CHART = KUBERNETES / "chart"
NAMESPACE = "quarry-system"
# Names of nodes, and the sizes of their disks: a claim of 8 GiB fits n2 alone. The last disk but one is for the thin
# store, the last one for a third pool.
NODES = {"n1": ("2G", "2G", "2G", "8G", "1G"), "n2": ("6G", "6G", "8G", "1G")}
# n3: what n1 may call itself later.
ADDRESSES = {"n1": "127.0.1.1", "n2": "127.0.1.2", "n3": "127.0.1.1"}
VALUES = {
    "pools": [
        {"name": "main", "vg": GROUP},
        {"name": "thin", "vg": STORES, "store": {"fast": "6GiB type=linear"}},
    ],
    "storageClasses": [
        {"name": "quarry"},
        {"name": "quarry-raid1", "parameters": {"type": "raid1"}},
        {"name": "quarry-thin", "parameters": {"pool": "thin", "type": "thin"}},
    ],
    "inlineVolumes": {"maxSize": "1GiB"},
    "provisioner": {"capacityPollInterval": "30s"},
    "snapshotter": {"enabled": True, "retryIntervalMax": "10s"},
}
# So that the sidecar's log says what it was refused.
BUCKETS = {"buckets": {"enabled": True, "sidecar": {"extraArgs": ["--v=3"]}}}


class Cluster:
    def __init__(self, folder, programs, image, extra, settings=None, cosi=None):
        """settings: of quarryd, in the chart's values. cosi: the folder of COSI's programs: the cluster has buckets then."""
        self._settings = settings or {}
        self._values = {**VALUES, **(BUCKETS if cosi else {})}
        self.began = time.monotonic()
        self.empty = {}  # what capacity() said of the empty pools
        self.plane = ControlPlane(folder, programs, ADDRESSES, cosi)
        self.nodes = {
            name: Node(name, ADDRESSES[name], self.plane, image, extra, sizes) for name, sizes in NODES.items()
        }

    @property
    def api(self):
        return self.plane.api

    def say(self, words):
        print(f"[{time.monotonic() - self.began:4.0f} s] {words}", flush=True)

    def start(self):
        """From nothing to a cluster in which Quarry serves."""
        with ThreadPoolExecutor() as pool:
            boots = [pool.submit(node.boot) for node in self.nodes.values()]
            self.plane.start()
            self.say("the control plane is ready")
            self.install()
            for boot in boots:
                boot.result()
            self.say("the nodes have booted")
            list(pool.map(Node.start, self.nodes.values()))
        self.say("the kubelets run")
        for name, node in self.nodes.items():
            print(f"{name}: {node.words}", end="")
        self.admit(*self.nodes)
        self.say("the nodes are ready")
        self.wait_served()
        self.empty = self.capacity("quarry")
        self.say("Quarry serves")

    def admit(self, *names):
        """Lets Quarry run on these nodes, and waits until they are ready."""
        label = {"metadata": {"labels": {"quarry.csi.local/storage": "true"}}}
        for name in names:
            self.until(f"node {name} is there", lambda: self.api.patch("Node", name, label))
        for name in names:
            self.until(f"node {name} is ready", lambda: objects.is_ready(self.api.get("Node", name)))

    def recipe(self):
        """What, besides the images, decides how Quarry is installed and what a node is."""
        files = [path for path in sorted(CHART.rglob("*")) if path.is_file()] + [Path(__file__).with_name("node.sh")]
        return [json.dumps([self._values, self._settings, NODES]), *(path.read_text() for path in files)]

    def install(self, **values):
        """Installs the chart, or changes the values of what is installed."""
        merged = {**self._values, "settings": self._settings, **values}
        path = self.plane.folder / "values.json"
        path.write_text(json.dumps(merged))
        self.plane.helm(
            "upgrade", "--install", "quarry", str(CHART), "--namespace", NAMESPACE, "--create-namespace", "--values", str(path)
        )

    def wait_served(self):
        """Until every node's driver is registered and ready, and its capacity is published."""
        for name in self.nodes:
            self.until(f"the driver of {name} is registered", lambda: self.is_registered(name))
        self.until("Quarry's pods are ready", self.is_rolled_out)
        self.until("capacity is published", lambda: set(self.capacity("quarry")) == set(self.nodes))

    def is_registered(self, node):
        driver = next((d for d in self.api.get("CSINode", node)["spec"]["drivers"] or () if d["name"] == DRIVER), None)
        return driver is not None and driver["nodeID"] == node and driver["topologyKeys"] == [f"{DRIVER}/node"]

    def is_rolled_out(self):
        daemons = self.api.get("DaemonSet", "quarry-node", NAMESPACE)
        status = daemons["status"]
        return (
            status.get("observedGeneration") == daemons["metadata"]["generation"]
            and status.get("updatedNumberScheduled") == status.get("numberReady") == len(self.nodes)
            and self.api.get("Deployment", "quarry-resizer", NAMESPACE)["status"].get("readyReplicas", 0) >= 1
        )

    def capacity(self, storage_class):
        """{node: bytes of the largest volume of this class}, as published."""
        found = {}
        for one in self.api.list("CSIStorageCapacity", NAMESPACE):
            if one["storageClassName"] == storage_class:
                node = one["nodeTopology"]["matchLabels"][f"{DRIVER}/node"]
                found[node] = quantity(one.get("maximumVolumeSize", one.get("capacity", "0")))
        return found

    def quarry_pod(self, node):
        """The name of Quarry's pod on a node."""
        pods = self.api.list("Pod", NAMESPACE, "app.kubernetes.io/component=node")
        return next(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node)

    def wait_empty(self):
        """Until no PersistentVolume, snapshot, logical volume or mount of Quarry is left."""
        self.until("no PV is left", lambda: not self.api.list("PersistentVolume"))
        self.until("no snapshot is left", lambda: not self.api.list("VolumeSnapshotContent"))
        for node in self.nodes.values():
            self.until(f"no volume is left on {node.name}", lambda: not node.volumes(), describe=lambda: node.sh("lvs -a"))
            self.until(f"no mount is left on {node.name}", lambda: not node.mounts(), describe=node.mounts)

    def until(self, what, look, seconds=PATIENCE, describe=None):
        """Waits as api.until does, and describes the cluster if what is awaited does not come."""
        return until(what, look, seconds, describe or self.describe)

    def describe(self):
        """What a person would look at first."""
        kinds = "nodes,pods,pvc,pv,volumesnapshots,volumesnapshotcontents"
        words = [self.plane.kubectl("get", kinds, "-A", "-o", "wide", check=False)]
        words.append(self.plane.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp", check=False)[-4000:])
        return "\n".join(words)

    def save_logs(self, folder):
        for path in self.plane.logs.glob("*.log"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / path.name).write_bytes(path.read_bytes())
        for name, node in self.nodes.items():
            if not node.guest.running():
                continue
            try:
                node.save_logs(folder / name)
            except Exception as error:  # of a node that hangs: the failure that led here must be shown
                self.say(f"no logs of {name}: {error}")

    def stop(self):
        for node in self.nodes.values():
            node.guest.close()
        self.plane.stop()


def quantity(text):
    """A quantity of Kubernetes in bytes."""
    units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    for unit, size in units.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * size
    return int(text)
