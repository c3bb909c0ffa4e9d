"""Lists of changed blocks in a cluster, by upstream's sidecar and client library."""

import json
import subprocess

import prepare
from kit.cluster import KUBERNETES, NAMESPACE
from kit.images import LIST_BLOCKS
from kit.objects import DRIVER, claim, of_claim, pod, snapshot
from kit.scenario import MiB, Scenario

SERVICE = "quarry-changed-blocks"
HOST = f"{SERVICE}.{NAMESPACE}.svc"
SIZE = 64 * MiB
COPY = "dd if=/dev/{0} of=/tmp/copy bs=4096 skip={1} seek={1} count={2} conv=notrunc 2>/dev/null"


class ChangedBlocks(Scenario):
    def setUp(self):
        super().setUp()
        self.address = self.serve_lists()
        self.addCleanup(self.end_lists)

    def test_a_backup_program_copies_what_changed_between_two_snapshots_and_nothing_else(self):
        self.make(claim("data", "64Mi", "Block", storage_class="quarry-thin"))
        self.make(pod("writer", of_claim("data"), raw=True, node="n1"))
        self.runs("writer")
        self.write("writer", 0, 6)
        self.write("writer", 8 * MiB, 256)
        self.cut("first")
        self.write("writer", 16 * MiB, 3)
        self.write("writer", SIZE - 4096, 1)
        self.cut("second")
        full, delta = self.list("first"), self.list("second", "first")
        self.assertLess(sum(size for _, size in full), 2 * MiB)
        self.assertLess(sum(size for _, size in delta), MiB)
        self.notes.append(f"full: {full}; delta: {delta}")
        # The backup, as docs/changed-blocks.md has it.
        self.make(
            claim("before", "64Mi", "Block", storage_class="quarry-thin", restored="first"),
            claim("after", "64Mi", "Block", storage_class="quarry-thin", restored="second"),
            pod("backup", of_claim("before"), raw=True, more={"after": of_claim("after")}, node="n1"),
        )
        self.runs("backup")
        self.assertNotEqual(self.run_in("backup", "cmp /dev/volume /dev/after || true"), "")
        self.run_in("backup", f"truncate -s {SIZE} /tmp/copy")
        for device, ranges in (("volume", full), ("after", delta)):
            for offset, size in ranges:
                self.run_in("backup", COPY.format(device, offset // 4096, size // 4096))
            self.assertEqual(self.run_in("backup", f"cmp /tmp/copy /dev/{device} && echo same").strip(), "same")
        # quarryd has lost nothing of it when it comes back, nor has the sidecar.
        self.cluster.nodes["n1"].sh("pkill -KILL -x quarryd")
        again = self.until("lists are served again", lambda: self.try_to_list("second", "first"))
        self.assertEqual(again, delta)
        # Whoever may not see the snapshots is told nothing of their blocks.
        self.forbid_snapshots()
        phase, words = self.run_client("stranger", "first", "")
        self.assertEqual(phase, "Failed", words)
        self.assertIn("PermissionDenied", words)

    def write(self, name, offset, blocks):
        self.run_in(name, f"dd if=/dev/urandom of=/dev/volume bs=4096 seek={offset // 4096} count={blocks} conv=notrunc,fsync")

    def cut(self, name):
        self.make(snapshot(name, "data"))
        self.until(f"snapshot {name} is ready", lambda: self.snapshot_status(name).get("readyToUse"))

    def list(self, name, previous=""):
        """[(offset, size)] in bytes."""
        phase, words = self.run_client(f"list-{name}", name, previous)
        self.assertEqual(phase, "Succeeded", words)
        return self.ranges(words)

    def try_to_list(self, name, previous):
        """As list() does; None if there was no answer."""
        phase, words = self.run_client("try", name, previous)
        self.drop("Pod", "try")
        if phase == "Succeeded":
            return self.ranges(words)
        self.assertIn("Unavailable", words)
        return None

    def ranges(self, words):
        messages = json.loads(words)
        self.assertEqual({message["volume_capacity_bytes"] for message in messages}, {SIZE})
        return [(one.get("byte_offset", 0), one["size_bytes"]) for message in messages for one in message["block_metadata"]]

    def run_client(self, pod_name, name, previous):
        """Runs the client to its end, in a pod of the backup program's account: (the pod's phase, its output)."""
        argv = ["/bin/list-blocks", f"-driver={DRIVER}", f"-namespace={self.namespace}", f"-snapshot={name}"]
        argv += [f"-previous={previous}"] if previous else []
        spec = {
            "serviceAccountName": "backup",
            "restartPolicy": "Never",
            "hostNetwork": True,
            # There is no DNS, and nothing that serves the addresses of services.
            "hostAliases": [{"ip": self.address, "hostnames": [HOST]}],
            "nodeSelector": {"kubernetes.io/hostname": "n1"},
            "containers": [{"name": "main", "image": LIST_BLOCKS, "command": argv}],
        }
        self.make({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name}, "spec": spec})
        phase = self.until(
            f"pod {pod_name} has ended",
            lambda: next((p for p in ("Succeeded", "Failed") if self.api.get("Pod", pod_name)["status"]["phase"] == p), None),
        )
        return phase, self.cluster.plane.kubectl("logs", "-n", self.namespace, pod_name)

    def forbid_snapshots(self):
        role = {"rules": [{"apiGroups": ["cbt.storage.k8s.io"], "resources": ["snapshotmetadataservices"], "verbs": ["get"]}]}
        self.cluster.plane.kubectl("patch", "clusterrole", "quarry-backup", "--type=merge", "--patch", json.dumps(role))

    def serve_lists(self):
        """Installs the sidecar on n1 as docs/changed-blocks.md says, and an account for the client. Returns its address."""
        plane = self.cluster.plane
        plane.kubectl("apply", "--filename", str(prepare.blocks() / "blocks-crds"))
        self.until("its kind is served", lambda: self.api.list("SnapshotMetadataService") == [])
        authority = certificate(plane.folder / "tls")
        files = [f"--cert={plane.folder}/tls/tls.crt", f"--key={plane.folder}/tls/tls.key"]
        plane.kubectl("create", "secret", "tls", "changed-blocks", "--namespace", NAMESPACE, *files)
        self.cluster.install(
            changedBlocks={"enabled": True, "node": "n1", "tlsSecret": "changed-blocks", "caCert": authority}
        )
        plane.kubectl("apply", "--filename", "-", text=self.example())
        return self.until("the sidecar serves", self.service_address)

    def service_address(self):
        """Of the pod behind the service, once it is ready; None before."""
        ask = ["get", "endpointslices", "-n", NAMESPACE, "-l", f"kubernetes.io/service-name={SERVICE}", "-o", "json"]
        slices = json.loads(self.cluster.plane.kubectl(*ask))["items"]
        ends = [end for one in slices for end in one["endpoints"] or () if end["conditions"]["ready"]]
        return ends[0]["addresses"][0] if ends else None

    def end_lists(self):
        if self._failed():
            return  # and its logs are of use
        plane = self.cluster.plane
        plane.kubectl("delete", "--ignore-not-found", "--filename", "-", text=self.example())
        self.cluster.install()
        plane.kubectl("delete", "secret", "changed-blocks", "--namespace", NAMESPACE, "--ignore-not-found")

    def example(self):
        text = (KUBERNETES / "examples" / "backup-program.yaml").read_text()
        # Without its first object, the namespace.
        return text.split("---\n", 1)[1].replace("namespace: backup", f"namespace: {self.namespace}")


def certificate(folder):
    """Makes tls.crt and tls.key there, for the sidecar's name. Returns the certificate of the authority that signed it."""
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(f"subjectAltName=DNS:{HOST}\n")
    for arguments in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt",
        "req -newkey rsa:2048 -nodes -subj /CN=lists -keyout tls.key -out tls.csr",
        "x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile name -out tls.crt",
    ):
        subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
    return (folder / "ca.crt").read_text()
