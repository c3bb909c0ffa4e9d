"""What a cluster with Quarry must do. All run in one cluster; each leaves nothing behind, and says so."""

from kit import objects
from kit.api import Refused
from kit.cluster import KUBERNETES, quantity
from kit.objects import claim, generic, inline, is_ready, of_claim, pod, snapshot, storage_class
from kit.scenario import WRITE, MiB, Scenario, together


class Volumes(Scenario):
    @together(1)
    def test_mounted_raw_inline_and_generic_volumes_come_and_go(self):
        self.make(claim("fs", "200Mi"), claim("raw", "100Mi", "Block"))
        self.make(
            pod("fs", of_claim("fs"), WRITE.format("kept")),
            pod("raw", of_claim("raw"), raw=True),
            pod("inline", inline("100MiB"), WRITE.format("inline")),
            pod("generic", generic("64Mi", "quarry-raid1"), WRITE.format("generic")),
        )
        self.runs("fs", "raw", "inline", "generic")
        self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")
        self.assertEqual(self.run_in("inline", "cat /data/file").strip(), "inline")
        read = self.run_in("raw", "echo bytes | dd of=/dev/volume conv=notrunc,fsync 2>/dev/null; head -c 5 /dev/volume")
        self.assertEqual(read, "bytes")
        self.assertEqual(self.run_in("raw", "blockdev --getsize64 /dev/volume").strip(), str(100 * MiB))
        # The claim outlives its pod, and the next pod finds the data.
        node = self.runs("fs")
        self.drop("Pod", "fs")
        self.make(pod("fs", of_claim("fs")))
        self.assertEqual(self.runs("fs"), node)
        self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")

    @together(1)
    def test_a_claim_and_a_raw_device_grow_while_pods_use_them(self):
        self.make(claim("fs", "100Mi"), claim("raw", "100Mi", "Block"))
        self.make(pod("fs", of_claim("fs"), WRITE.format("kept")), pod("raw", of_claim("raw"), raw=True))
        self.runs("fs", "raw")
        for name in ("fs", "raw"):
            wish = {"spec": {"resources": {"requests": {"storage": "200Mi"}}}}
            self.api.patch("PersistentVolumeClaim", name, wish)
        for name in ("fs", "raw"):
            self.until(
                f"claim {name} has grown",
                lambda: quantity(self.api.get("PersistentVolumeClaim", name)["status"]["capacity"]["storage"]) == 200 * MiB,
            )
        self.assertEqual(self.run_in("raw", "blockdev --getsize64 /dev/volume").strip(), str(200 * MiB))
        blocks = int(self.run_in("fs", "df -k /data | tail -n 1").split()[1])
        self.assertGreater(blocks, 150 * 1024)
        self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")


    @together(1)
    def test_a_claim_becomes_a_copy_of_another_one_that_no_pod_uses(self):
        self.make(claim("first", "100Mi"), pod("first", of_claim("first"), WRITE.format("kept")))
        node = self.runs("first")
        # The scheduler does not know where the source is.
        self.make(claim("second", "120Mi", source="first"), pod("second", of_claim("second"), node=node))
        self.until(
            "an event says that the source is in use",
            lambda: any("not in use" in event for event in self.api.events_about("second")),
        )
        self.drop("Pod", "first")
        self.assertEqual(self.runs("second"), node)
        self.assertEqual(self.run_in("second", "cat /data/file").strip(), "kept")
        self.make(pod("first", of_claim("first")))
        self.runs("first")
        self.assertEqual(self.run_in("first", "cat /data/file").strip(), "kept")

    @together(1)
    def test_a_snapshot_keeps_the_content_that_the_claim_had(self):
        self.make(claim("first", "100Mi"), pod("first", of_claim("first"), WRITE.format("old")))
        node = self.runs("first")
        self.make(snapshot("then", "first"))
        self.until(
            "the snapshot says that the claim is in use",
            lambda: "in use" in self.snapshot_status("then").get("error", {}).get("message", ""),
        )
        self.assertFalse(self.snapshot_status("then").get("readyToUse"))
        self.drop("Pod", "first")
        self.until("the snapshot is ready", lambda: self.snapshot_status("then").get("readyToUse"))
        self.assertEqual(quantity(self.snapshot_status("then")["restoreSize"]), 100 * MiB)
        self.make(pod("first", of_claim("first"), WRITE.format("new")))
        self.runs("first")
        self.assertEqual(self.run_in("first", "cat /data/file").strip(), "new")
        # The scheduler does not know where the snapshot is.
        self.make(claim("second", "200Mi", restored="then"), pod("second", of_claim("second"), node=node))
        self.runs("second")
        self.assertEqual(self.run_in("second", "cat /data/file").strip(), "old")
        blocks = int(self.run_in("second", "df -k /data | tail -n 1").split()[1])
        self.assertGreater(blocks, 150 * 1024)
        # The snapshot outlives its claim, and what is made of the snapshot outlives the snapshot.
        self.drop("Pod", "first")
        self.drop("PersistentVolumeClaim", "first")
        self.make(claim("third", "100Mi", restored="then"), pod("third", of_claim("third"), node=node))
        self.runs("third")
        self.drop("VolumeSnapshot", "then")
        for name in ("second", "third"):
            self.assertEqual(self.run_in(name, "cat /data/file").strip(), "old")

    @together(1)
    def test_a_snapshot_and_a_copy_of_a_thin_claim_are_made_while_a_pod_writes(self):
        writes = "echo old >/data/file; sync; while :; do date >>/data/dates; sync /data/dates; sleep 0.1; done"
        self.make(claim("first", "64Mi", storage_class="quarry-thin"), pod("first", of_claim("first"), writes))
        node = self.runs("first")
        self.until("the pod has written", lambda: self.run_in("first", "cat /data/file").strip() == "old")
        self.make(snapshot("then", "first"))
        self.until("the snapshot is ready", lambda: self.snapshot_status("then").get("readyToUse"))
        self.assertEqual(quantity(self.snapshot_status("then")["restoreSize"]), 64 * MiB)
        self.run_in("first", "echo new >/data/file; sync")
        # The scheduler does not know where the snapshot is, nor the claim.
        self.make(
            claim("restored", "96Mi", storage_class="quarry-thin", restored="then"),
            claim("copy", "64Mi", storage_class="quarry-thin", source="first"),
            pod("both", of_claim("restored"), more={"copy": of_claim("copy")}, node=node),
        )
        self.runs("both")
        self.assertEqual(self.run_in("both", "cat /data/file").strip(), "old")
        self.assertEqual(self.run_in("both", "cat /copy/file").strip(), "new")
        self.assertGreater(int(self.run_in("both", "df -k /data | tail -n 1").split()[1]), 70 * 1024)
        # All of them are written to, and end in any order.
        self.drop("VolumeSnapshot", "then")
        self.run_in("both", "echo own >/data/file; sync")
        self.assertEqual(self.run_in("first", "cat /data/file").strip(), "new")


class Scheduling(Scenario):
    @together(2)
    def test_a_claim_goes_where_it_fits_and_the_published_capacity_follows(self):
        before = self.cluster.empty
        self.until("all of the pool is free", lambda: self.cluster.capacity("quarry")["n2"] == before["n2"])
        self.assertLess(before["n1"], 8 << 30)
        self.assertGreater(before["n2"], 8 << 30)
        self.make(claim("big", "8Gi"), pod("big", of_claim("big")))
        self.assertEqual(self.runs("big"), "n2")
        self.until(
            "the capacity of n2 has fallen",
            lambda: self.cluster.capacity("quarry")["n2"] <= before["n2"] - (8 << 30),
        )
        self.make(claim("more", "8Gi"), pod("more", of_claim("more")))
        self.until(
            "an event says that the claim fits nowhere",
            lambda: any("did not have enough free storage" in event for event in self.api.events_about("more")),
        )
        # Room is made, and the claim that waited gets it.
        self.drop("Pod", "big")
        self.drop("PersistentVolumeClaim", "big")
        self.assertEqual(self.runs("more"), "n2")
        self.drop("Pod", "more")
        self.drop("PersistentVolumeClaim", "more")
        self.until("the capacity is back", lambda: self.cluster.capacity("quarry")["n2"] == before["n2"])

    @together(1)
    def test_a_claim_for_one_pod_keeps_the_second_one_waiting(self):
        self.make(claim("one", "64Mi", access="ReadWriteOncePod"), pod("first", of_claim("one")))
        self.runs("first")
        self.make(pod("second", of_claim("one")))
        self.until(
            "the second pod is told why it waits",
            lambda: any("ReadWriteOncePod" in event for event in self.api.events_about("second")),
        )
        self.drop("Pod", "first")
        self.runs("second")


class BadInput(Scenario):
    @together(1)
    def test_a_class_that_no_node_can_serve_is_refused_when_it_is_made(self):
        wrong = {"type": "raid17", "pool": "nowhere", "colour": "red"}
        for key, value in wrong.items():
            with self.assertRaises(Refused) as refused:
                self.make(storage_class("wrong", **{key: value}))
            self.assertIn(key, str(refused.exception))
        self.make(storage_class("right", type="raid1", pool="main", **{"csi.storage.k8s.io/fstype": "xfs"}))

    @together(2)
    def test_the_example_policy_keeps_inline_volumes_to_labelled_namespaces(self):
        policy = str(KUBERNETES / "examples" / "inline-policy.yaml")
        one = pod("inline", inline("64MiB"))
        three = pod("inline", inline("64MiB"), more={name: inline("64MiB") for name in ("one", "two")})
        self.assertEqual(self.api.refusal(one), "")
        self.cluster.plane.kubectl("apply", "-f", policy)
        try:
            self.until("inline volumes are refused", lambda: "quarry/inline=true" in self.api.refusal(one))
            self.assertEqual(self.api.refusal(pod("other", generic("64Mi"))), "")
            self.api.patch("Namespace", self.namespace, {"metadata": {"labels": {"quarry/inline": "true"}}})
            self.until("inline volumes are allowed", lambda: not self.api.refusal(one))
            self.assertIn("at most two", self.api.refusal(three))
        finally:
            self.cluster.plane.kubectl("delete", "-f", policy)


class Failures(Scenario):
    @together(2)
    def test_quarryd_killed_and_kubelet_restarted_lose_nothing(self):
        self.make(claim("fs", "64Mi"), pod("fs", of_claim("fs"), WRITE.format("kept"), node="n1"))
        self.runs("fs")
        node = self.cluster.nodes["n1"]
        # quarryd dies while the next pod's volume is made and mounted; the kubelet dies after that.
        self.make(claim("next", "64Mi"), pod("next", of_claim("next"), WRITE.format("next"), node="n1"))
        node.sh("until lvs --noheadings quarry | grep -c . | grep -qx 2; do sleep 0.1; done; pkill -KILL -x quarryd")
        node.sh("kill -KILL $(cat /run/kubelet.pid)")
        self.api.delete("Pod", "fs", seconds=1)
        node.sh("start-kubelet")
        self.until("pod fs is gone", lambda: self.api.find("Pod", "fs") is None)
        self.made.remove(("Pod", "fs"))
        self.runs("next")
        self.make(pod("fs", of_claim("fs")))
        self.runs("fs")
        self.assertEqual(self.run_in("fs", "cat /data/file").strip(), "kept")

    def test_a_node_that_reboots_gives_its_pods_their_volumes_back(self):
        self.make(claim("fs", "64Mi"), claim("raw", "64Mi", "Block"))
        self.make(
            pod("fs", of_claim("fs"), "date >>/data/starts; sync; " + objects.IDLE, node="n1"),
            pod("raw", of_claim("raw"), raw=True, node="n1"),
            pod("inline", inline("64MiB"), node="n1"),
        )
        self.runs("fs", "raw", "inline")
        self.run_in("raw", "echo bytes | dd of=/dev/volume conv=notrunc,fsync")
        node = self.cluster.nodes["n1"]
        node.reboot()
        for name in ("fs", "raw", "inline"):
            self.until(
                f"pod {name} runs again",
                lambda: self.restarts(name) >= 1 and is_ready(self.api.get("Pod", name)),
            )
        self.assertEqual(len(self.run_in("fs", "cat /data/starts").splitlines()), 2)
        self.assertEqual(self.run_in("raw", "head -c 5 /dev/volume"), "bytes")

    def restarts(self, name):
        return sum(one["restartCount"] for one in self.api.get("Pod", name)["status"].get("containerStatuses", ()))


class Upkeep(Scenario):
    @together(1)
    def test_metrics_and_quarryctl_work_in_the_pods(self):
        for node in self.cluster.nodes.values():
            self.assertIn("quarry_kubelet_registered 1", self.metrics(node))
            self.assertIn("main", self.quarryctl(node, "status"))
