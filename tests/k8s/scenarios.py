"""What a cluster with Quarry must do. All run in one cluster; each leaves nothing behind, and says so."""

import time
import unittest

from kit import objects
from kit.api import Refused
from kit.cluster import KUBERNETES, NAMESPACE, quantity
from kit.objects import claim, generic, inline, is_ready, of_claim, pod, storage_class

MiB = 1 << 20
WRITE = "echo {0} >/data/file; sync; " + objects.IDLE


class Scenario(unittest.TestCase):
    """cluster: the running one. logs: where logs go after a failure. Every test leaves the cluster empty."""

    cluster = None
    logs = None

    def setUp(self):
        self.api = self.cluster.api
        self.until = self.cluster.until
        self.made = []
        print(f"[{time.monotonic() - self.cluster.began:4.0f} s] ", end="", flush=True)

    def tearDown(self):
        if self._failed():
            print(self.cluster.describe(), flush=True)
            self.cluster.save_logs(self.logs)
            print(f"logs: {self.logs}", flush=True)
            return  # and the run ends
        for kind, name in reversed(self.made):
            self.api.delete(kind, name, seconds=1 if kind == "Pod" else None)
        self.nothing_is_left()

    def _failed(self):
        result = self._outcome.result
        return any(case is self for case, _ in result.failures + result.errors)

    def nothing_is_left(self):
        self.until("no pod is left", lambda: not self.api.list("Pod", "default"))
        self.until("no claim is left", lambda: not self.api.list("PersistentVolumeClaim"))
        self.until("no PV is left", lambda: not self.api.list("PersistentVolume"))
        for node in self.cluster.nodes.values():
            self.until(f"no volume is left on {node.name}", lambda: not node.volumes(), describe=lambda: node.sh("lvs -a"))
            mounts = node.sh("grep -c '/dev/mapper/quarry-' /proc/mounts || true").strip()
            self.assertEqual(mounts, "0", node.sh("cat /proc/mounts"))

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

    def run_in(self, name, command):
        return self.cluster.plane.kubectl("exec", name, "--", "sh", "-c", command)


class Volumes(Scenario):
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


class Scheduling(Scenario):
    def test_a_claim_goes_where_it_fits_and_the_published_capacity_follows(self):
        before = self.cluster.empty
        self.until("all of the pools is free", lambda: self.cluster.capacity("quarry") == before)
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
        self.until("the capacity is back", lambda: self.cluster.capacity("quarry") == before)

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
    def test_a_class_that_no_node_can_serve_is_refused_when_it_is_made(self):
        wrong = {"type": "raid17", "pool": "nowhere", "colour": "red"}
        for key, value in wrong.items():
            with self.assertRaises(Refused) as refused:
                self.make(storage_class("wrong", **{key: value}))
            self.assertIn(key, str(refused.exception))
        self.make(storage_class("right", type="raid1", pool="main", **{"csi.storage.k8s.io/fstype": "xfs"}))


    def test_the_example_policy_keeps_inline_volumes_to_labelled_namespaces(self):
        policy = str(KUBERNETES / "examples" / "inline-policy.yaml")
        one = pod("inline", inline("64MiB"))
        three = pod("inline", inline("64MiB"), more={name: inline("64MiB") for name in ("one", "two")})
        self.assertEqual(self.api.refusal(one), "")
        self.cluster.plane.kubectl("apply", "-f", policy)
        try:
            self.until("inline volumes are refused", lambda: "quarry/inline=true" in self.api.refusal(one))
            self.assertEqual(self.api.refusal(pod("other", generic("64Mi"))), "")
            self.api.patch("Namespace", "default", {"metadata": {"labels": {"quarry/inline": "true"}}})
            self.until("inline volumes are allowed", lambda: not self.api.refusal(one))
            self.assertIn("at most two", self.api.refusal(three))
        finally:
            self.cluster.plane.kubectl("delete", "-f", policy)


class Failures(Scenario):
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


class Upgrade(Scenario):
    def test_a_rolling_update_disturbs_no_pod(self):
        self.make(claim("fs", "64Mi"), claim("raw", "64Mi", "Block"))
        writes = "while :; do cut -d' ' -f1 /proc/uptime >>/data/times; sync /data/times; sleep 0.2; done"
        self.make(pod("fs", of_claim("fs"), writes), pod("raw", of_claim("raw"), raw=True))
        self.runs("fs", "raw")
        before = {node: self.cluster.quarry_pod(node) for node in self.cluster.nodes}
        begin = len(self.times())
        # A setting, a class and the limit of inline volumes change at once.
        classes = [{"name": "quarry"}, {"name": "quarry-raid1", "parameters": {"type": "raid1"}}, {"name": "quarry-new"}]
        self.cluster.install(settings={"scrub-days": 7}, storageClasses=classes, inlineVolumes={"maxSize": "2GiB"})
        self.until("Quarry's pods are replaced", self.cluster.is_rolled_out)
        for node, name in before.items():
            self.assertNotEqual(self.cluster.quarry_pod(node), name)
        self.cluster.wait_served()
        self.until("the new class has a capacity", lambda: self.cluster.capacity("quarry-new"))
        times = self.times()
        self.assertEqual(self.api.get("Pod", "fs")["status"]["containerStatuses"][0]["restartCount"], 0)
        steps = [later - earlier for earlier, later in zip(times, times[1:])]
        print(f"(longest pause between two writes: {max(steps[:begin]):.2f} s before, {max(steps[begin:]):.2f} s during) ", end="")
        self.drop("Pod", "fs")
        self.make(pod("fs", of_claim("fs")))
        self.runs("fs")
        self.assertEqual(self.times()[: len(times)], times, "what was written is still there")

    def times(self):
        return [float(line) for line in self.run_in("fs", "cat /data/times").split()]


class Upkeep(Scenario):
    def test_metrics_and_quarryctl_work_in_the_pods(self):
        for name, node in self.cluster.nodes.items():
            pod_name = self.cluster.quarry_pod(name)
            address = self.api.get("Pod", pod_name, NAMESPACE)["status"]["podIP"]
            ask = f"exec 3<>/dev/tcp/{address}/9808; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
            text = node.guest.run(["bash", "-c", ask], timeout=60, check=True).stdout
            self.assertIn("quarry_kubelet_registered 1", text)
            status = self.cluster.plane.kubectl("exec", "-n", NAMESPACE, pod_name, "-c", "quarryd", "--", "quarryctl", "status")
            self.assertIn("main", status)


