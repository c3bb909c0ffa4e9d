"""What takes too long for every run. All run in one cluster; each leaves nothing behind."""

import contextlib
import statistics
import time

from blocks_scenarios import ChangedBlocks  # noqa: F401, its tests are of this module too
from bucket_scenarios import Buckets  # noqa: F401
from kit import objects
from kit.api import Missing
from kit.cluster import CHART, NAMESPACE, quantity
from kit.objects import claim, generic, is_ready, of_claim, pod, storage_class
from kit.scenario import WRITE, MiB, Scenario, begins_with_earlier_build

GiB = 1 << 30


def wish(size):
    return {"spec": {"resources": {"requests": {"storage": size}}}}


class Growing(Scenario):
    def size(self, name):
        """What the claim says that there is, in bytes."""
        return quantity(self.api.get("PersistentVolumeClaim", name)["status"]["capacity"]["storage"])

    def test_a_claim_that_no_pod_uses_grows_with_the_next_pod(self):
        self.make(claim("fs", "100Mi"), claim("raw", "100Mi", "Block"))
        self.make(pod("fs", of_claim("fs"), WRITE.format("kept")), pod("raw", of_claim("raw"), raw=True))
        self.runs("fs", "raw")
        for name in ("fs", "raw"):
            self.drop("Pod", name)
            self.api.patch("PersistentVolumeClaim", name, wish("200Mi"))
            volume = self.api.get("PersistentVolumeClaim", name)["spec"]["volumeName"]
            self.until(
                f"the PV of {name} says its new size",
                lambda: quantity(self.api.get("PersistentVolume", volume)["spec"]["capacity"]["storage"]) == 200 * MiB,
            )
            self.assertEqual(self.size(name), 100 * MiB)
        self.make(pod("fs", of_claim("fs")), pod("raw", of_claim("raw"), raw=True))
        self.runs("fs", "raw")
        for name in ("fs", "raw"):
            self.until(f"the claim {name} has grown", lambda: self.size(name) == 200 * MiB)
        self.assertGreater(int(self.run_in("fs", "df -k /data | tail -n 1").split()[1]), 150 * 1024)
        self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")
        self.assertEqual(self.run_in("raw", "blockdev --getsize64 /dev/volume").strip(), str(200 * MiB))

    def test_a_claim_that_cannot_grow_says_why_and_grows_when_there_is_room(self):
        self.make(claim("fs", "1Gi"), claim("other", "3Gi"))
        self.make(pod("fs", of_claim("fs"), WRITE.format("kept"), node="n1"), pod("other", of_claim("other"), node="n1"))
        self.runs("fs", "other")
        self.api.patch("PersistentVolumeClaim", "fs", wish("4Gi"))
        said = self.until(
            "an event of the pod says why the claim does not grow",
            lambda: [event for event in self.api.events_about("fs", "Pod") if "ResizeFailed" in event and "room" in event],
        )
        self.notes.append(f"{said[0][:160]}")
        self.assertEqual(self.size("fs"), GiB)
        self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")
        self.drop("Pod", "other")
        self.drop("PersistentVolumeClaim", "other")
        self.until("the claim has grown", lambda: self.size("fs") == 4 * GiB)
        self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")


class Placement(Scenario):
    def test_two_claims_of_one_pod_share_a_node_or_wait_with_a_reason(self):
        self.make(claim("one", "7Gi"), claim("two", "4Gi"))
        self.make(pod("both", of_claim("one"), more={"more": of_claim("two")}))
        self.assertEqual(self.runs("both"), "n2")
        self.drop("Pod", "both")
        self.drop("PersistentVolumeClaim", "two")
        # Each would fit alone, but the larger one is on n2 already.
        self.make(claim("two", "6Gi"), pod("both", of_claim("one"), more={"more": of_claim("two")}))
        self.until(
            "an event says that the second claim does not fit",
            lambda: any("did not have enough free storage" in event for event in self.api.events_about("both")),
        )

    def test_two_claims_that_fit_one_by_one_but_not_together_leave_nothing_behind(self):
        self.make(claim("one", "7Gi"), claim("two", "7Gi"))
        self.make(pod("both", of_claim("one"), more={"more": of_claim("two")}))
        self.until(
            "an event of a claim says that there is no room",
            lambda: any("ProvisioningFailed" in e and "room" in e for c in ("one", "two") for e in self.api.events_about(c)),
        )

    def test_racing_claims_share_the_nodes(self):
        names = [f"racer-{i}" for i in range(3)]
        for name in names:
            self.make(claim(name, "5Gi"))
        for name in names:
            self.make(pod(name, of_claim(name)))
        self.runs(*names)
        self.assertEqual(sorted(self.runs(name) for name in names), ["n1", "n2", "n2"])

    def test_a_claim_with_immediate_binding_is_bound_where_there_is_room(self):
        immediate = storage_class("immediate")
        immediate["volumeBindingMode"] = "Immediate"
        self.make(immediate, claim("now", "8Gi", storage_class="immediate"))
        self.until("the claim is bound", lambda: self.api.get("PersistentVolumeClaim", "now")["status"]["phase"] == "Bound")
        self.make(pod("now", of_claim("now"), WRITE.format("kept")))
        self.assertEqual(self.runs("now"), "n2")

    def test_a_node_without_its_disks_gets_no_claim_until_they_are_back(self):
        node = self.cluster.nodes["n1"]
        before = self.cluster.empty
        for disk in node.disks:
            node.guest.pull_disk(disk)
        self.until("n1 publishes no capacity", lambda: self.cluster.capacity("quarry").get("n1", 0) == 0)
        # n2 serves meanwhile, and the scheduler knows.
        self.make(claim("fs", "64Mi"), pod("fs", of_claim("fs"), WRITE.format("kept")))
        self.assertEqual(self.runs("fs"), "n2")
        for disk in node.disks:
            node.guest.return_disk(disk)
        self.until("the capacity of n1 is back", lambda: self.cluster.capacity("quarry")["n1"] == before["n1"])
        self.cluster.until("Quarry's pods are ready", self.cluster.is_rolled_out)


class ManyPods(Scenario):
    def test_twenty_pods_at_once_with_a_volume_each(self):
        names = [f"many-{i}" for i in range(20)]
        began = time.monotonic()
        for name in names:
            self.make(pod(name, generic("64Mi"), WRITE.format(name)))
        for name in names:
            self.until(f"pod {name} runs", lambda: is_ready(self.api.get("Pod", name)), seconds=600)
        running = time.monotonic() - began
        for name in names:
            self.assertEqual(self.run_in(name, "cat /data/file").strip(), name)
        self.notes.append(f"20 pods run after {running:.0f} s")

    def test_five_hundred_claims_on_full_nodes_say_why_and_cost_little(self):
        names = [f"crowd-{i}" for i in range(500)]
        creates = self.calls("CreateVolume")
        for name in names:
            self.make(claim(name, "100Gi"), pod(name, of_claim(name)))
        for name in (names[0], names[250], names[-1]):
            self.until(
                f"an event says why {name} waits",
                lambda: any("did not have enough free storage" in event for event in self.api.events_about(name)),
            )
        # The scheduler keeps them from the nodes, so nobody asks Quarry for them.
        asked, began = self.calls("GetCapacity"), time.monotonic()
        # For each of three classes, on two nodes.
        self.until("the capacity is published twice more", lambda: self.calls("GetCapacity") >= asked + 12)
        rate = (self.calls("GetCapacity") - asked) / (time.monotonic() - began)
        self.notes.append(f"{rate:.2f} GetCapacity a second on two nodes")
        self.assertLess(rate, 1)
        self.assertEqual(self.calls("CreateVolume"), creates)


class DeadNode(Scenario):
    def test_a_drained_node_keeps_the_data_of_its_pods(self):
        self.make(objects.stateful_set("db", "64Mi", "echo started >>/data/starts; sync; " + objects.IDLE))
        self.made.append(("PersistentVolumeClaim", "data-db-0"))
        node = self.runs("db-0")
        self.cluster.plane.kubectl(
            "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s", seconds=320
        )
        self.until(
            "the pod waits for its node",
            lambda: any("FailedScheduling" in event for event in self.api.events_about("db-0")),
        )
        self.cluster.plane.kubectl("uncordon", node)
        self.assertEqual(self.runs("db-0"), node)
        self.assertEqual(self.run_in("db-0", "cat /data/starts").split(), ["started", "started"])

    def test_a_node_that_is_gone_and_comes_back_under_another_name(self):
        # The pods must start on n1, and a node selector would keep the set's pod from the node of the new name.
        self.cluster.plane.kubectl("cordon", "n2")
        self.make(objects.stateful_set("db", "64Mi", "echo started >>/data/starts; sync; " + objects.IDLE))
        self.made.append(("PersistentVolumeClaim", "data-db-0"))
        self.make(claim("lost", "64Mi"), pod("lost", of_claim("lost")))
        self.runs("db-0", "lost")
        self.cluster.plane.kubectl("uncordon", "n2")
        self.assertEqual(self.run_in("db-0", "cat /data/starts").split(), ["started"])
        volume = {
            name: self.api.get("PersistentVolumeClaim", name)["spec"]["volumeName"] for name in ("data-db-0", "lost")
        }
        # docs/kubernetes.md, "A node that returns under another name": what is kept.
        self.api.patch("PersistentVolume", volume["data-db-0"], {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        kept = self.api.get("PersistentVolume", volume["data-db-0"])
        self.api.patch("StatefulSet", "db", {"spec": {"replicas": 0}})
        self.until("the set has no pod", lambda: self.api.find("Pod", "db-0") is None)
        self.run_in("lost", "sync")
        node = self.cluster.nodes["n1"]
        node.guest.cut_power()
        # "A node that is gone for good".
        self.api.delete("Node", "n1")
        self.until("the pod is gone", lambda: self.api.find("Pod", "lost") is None)
        self.made.remove(("Pod", "lost"))
        self.until("the capacity objects of n1 are gone", lambda: set(self.cluster.capacity("quarry")) == {"n2"})
        for name in volume:
            self.drop("PersistentVolumeClaim", name)
            self.api.delete("PersistentVolume", volume[name])
            with contextlib.suppress(Missing):
                self.api.patch("PersistentVolume", volume[name], {"metadata": {"finalizers": None}})
            self.until(f"the PV of {name} is gone", lambda: self.api.find("PersistentVolume", volume[name]) is None)
        # The same disks, in a node of another name.
        node.come_back("n3")
        try:
            self.cluster.admit("n3")
            self.until("n3 publishes its capacity", lambda: set(self.cluster.capacity("quarry")) == {"n2", "n3"})
            self.assertEqual(len(node.volumes()), 2)
            self.api.create(objects.moved(kept, "n3"))
            again = claim("data-db-0", "64Mi")
            again["spec"]["volumeName"] = volume["data-db-0"]
            self.make(again)
            self.api.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
            self.assertEqual(self.runs("db-0"), "n3")
            self.assertEqual(self.run_in("db-0", "cat /data/starts").split(), ["started", "started"])
            # The data is there, so from now on whoever deletes the claim deletes the volume.
            self.api.patch("PersistentVolume", kept["metadata"]["name"], {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
            self.drop("StatefulSet", "db")
            self.until("the set's pod is gone", lambda: self.api.find("Pod", "db-0") is None)
            self.drop("PersistentVolumeClaim", "data-db-0")
            self.until("the volume is gone with its claim", lambda: len(node.volumes()) == 1)
            # No PersistentVolume names the other one any more, so a person removes it.
            (lost,) = node.volumes()
            node.sh(f"lvremove -qqy quarry/{lost}")
        finally:
            self.api.delete("Node", "n3")
            node.guest.shutdown()
            node.come_back("n1")
            self.cluster.admit("n1")
            self.cluster.wait_served()


class Upgrade(Scenario):
    def test_a_rolling_update_disturbs_no_pod(self):
        self.make(claim("fs", "64Mi"), claim("raw", "64Mi", "Block"))
        writes = "while :; do cut -d' ' -f1 /proc/uptime >>/data/times; sync /data/times; sleep 0.2; done"
        # Its first block is for this test.
        raw = "while :; do echo x | dd of=/dev/volume bs=4096 seek=1 conv=notrunc,fsync 2>/dev/null || exit 1; "
        raw += "cut -d' ' -f1 /proc/uptime; sleep 0.2; done"
        self.make(pod("fs", of_claim("fs"), writes), pod("raw", of_claim("raw"), raw, raw=True))
        self.runs("fs", "raw")
        self.run_in("raw", "echo first | dd of=/dev/volume conv=notrunc,fsync")
        before = {node: self.cluster.quarry_pod(node) for node in self.cluster.nodes}
        begin = {name: len(self.times(name)) for name in ("fs", "raw")}
        # A setting, a class and the limit of inline volumes change at once.
        classes = [{"name": "quarry"}, {"name": "quarry-raid1", "parameters": {"type": "raid1"}}, {"name": "quarry-new"}]
        self.cluster.install(settings={"scrub-days": 7}, storageClasses=classes, inlineVolumes={"maxSize": "2GiB"})
        self.until("Quarry's pods are replaced", self.cluster.is_rolled_out)
        for node, name in before.items():
            self.assertNotEqual(self.cluster.quarry_pod(node), name)
        self.cluster.wait_served()
        self.until("the new class has a capacity", lambda: self.cluster.capacity("quarry-new"))
        times = {name: self.times(name) for name in begin}
        for name in ("fs", "raw"):
            self.assertEqual(self.api.get("Pod", name)["status"]["containerStatuses"][0]["restartCount"], 0)
        self.assertEqual(self.run_in("raw", "head -c 5 /dev/volume"), "first")
        self.run_in("raw", "echo after | dd of=/dev/volume conv=notrunc,fsync")
        for name, at in times.items():
            steps = [later - earlier for earlier, later in zip(at, at[1:])]
            before, during = max(steps[: begin[name]]), max(steps[begin[name] :])
            self.notes.append(f"{name}: longest pause between two writes: {before:.2f} s before, {during:.2f} s during")
            # Starting containers takes all of an emulated node's processors, so some pause there is.
            self.assertLess(during, max(10, 5 * before), f"{name} was disturbed")
        self.drop("Pod", "fs")
        self.make(pod("fs", of_claim("fs")))
        self.runs("fs")
        self.assertEqual(self.times("fs")[: len(times["fs"])], times["fs"], "what was written is still there")

    def times(self, name):
        """When the pod has written, in seconds."""
        words = self.run_in("fs", "cat /data/times") if name == "fs" else self.logs(name)
        return [float(line) for line in words.split()]

    def logs(self, name):
        return self.cluster.plane.kubectl("logs", "-n", self.namespace, name)

    @begins_with_earlier_build
    def test_an_upgrade_from_an_earlier_image_beside_a_silent_disk(self):
        cluster = self.cluster
        values = {
            "pools": [{"name": "main", "vg": "quarry"}, {"name": "spare", "vg": "spare"}],
            "storageClasses": [{"name": "quarry"}, {"name": "quarry-spare", "parameters": {"pool": "spare"}}],
            # The earlier quarryd makes no snapshots, and csi-snapshotter ends if it learns that.
            "snapshotter": {"enabled": False},
            "buckets": {"enabled": False},
        }
        for node in cluster.nodes.values():
            node.make_group("spare", [node.spare])
        cluster.install(image={"tag": "earlier"}, **values)
        cluster.until("the earlier quarryd runs", cluster.is_rolled_out)
        cluster.wait_served()
        node = cluster.nodes["n2"]
        self.make(claim("fs", "64Mi"), claim("silent", "64Mi", storage_class="quarry-spare"))
        self.make(pod("fs", of_claim("fs"), WRITE.format("kept"), node="n2"))
        self.make(pod("silent", of_claim("silent"), WRITE.format("kept"), node="n2"))
        self.runs("fs", "silent")
        node.guest.stall_disk(node.spare)
        try:
            earlier = cluster.quarry_pod("n2")
            # docs/kubernetes.md, "Restarts and upgrades". Without a tag the chart takes that of its version.
            keep = ["--namespace", NAMESPACE, "--reset-then-reuse-values"]
            cluster.plane.helm("upgrade", "quarry", str(CHART), *keep, "--set", "image.tag=")
            about = self.api.within(NAMESPACE)
            self.until(
                "an event says that the pod beside the silent disk does not end",
                lambda: any("FailedKillPod" in event for event in about.events_about(earlier)),
            )
            about.delete("Pod", earlier, seconds=0)
            cluster.until("today's quarryd runs", cluster.is_rolled_out)
            for name in cluster.nodes:
                self.until(f"the driver of {name} is registered", lambda: cluster.is_registered(name))
            # On the node with the silent disk the other pool is served, and what it has is unmounted and deleted.
            self.make(claim("new", "64Mi"), pod("new", of_claim("new"), WRITE.format("new"), node="n2"))
            self.runs("new")
            self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")
            self.drop("Pod", "fs")
            self.drop("PersistentVolumeClaim", "fs")
        finally:
            node.guest.unstall_disk(node.spare)
        self.assertEqual(self.run_in("silent", "echo more >>/data/file; sync; cat /data/file").split(), ["kept", "more"])
        for name in ("silent", "new"):
            self.drop("Pod", name)
            self.drop("PersistentVolumeClaim", name)
        self.until("no PV is left", lambda: not self.api.list("PersistentVolume"))
        cluster.install()
        cluster.until("Quarry has one pool again", cluster.is_rolled_out)
        cluster.wait_served()
        for node in cluster.nodes.values():
            self.until("the group is empty", lambda: not node.sh("lvs --noheadings -o lv_name spare").split())
            node.sh("vgremove -q spare")


class Figures(Scenario):
    def test_how_long_a_pod_takes_beside_one_with_an_empty_folder(self):
        took = {"emptyDir": [], "claim": []}
        volumes = {"emptyDir": {"emptyDir": {}}, "claim": generic("64Mi")}
        for i in range(4):
            for kind, volume in volumes.items():
                name = f"{kind.lower()}-{i}"
                began = time.monotonic()
                self.make(pod(name, volume, node="n1"))
                self.runs(name)
                took[kind].append(time.monotonic() - began)
                self.drop("Pod", name)
        median = {kind: statistics.median(seconds) for kind, seconds in took.items()}
        self.notes.append(f"to Running: {median['claim']:.1f} s with a new claim, {median['emptyDir']:.1f} s with an emptyDir")
