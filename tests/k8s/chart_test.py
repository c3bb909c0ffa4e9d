"""Renders the chart as users would, with Helm itself. Needs no cluster. Usage: chart_test.py [TEST…]"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
KUBERNETES = REPOSITORY / "deploy" / "kubernetes"
CHART = KUBERNETES / "chart"
# A helm that is built from its module takes the cluster for a very old one.
VERSION = ("--kube-version", "1.36.0")
AUTHORITY = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
LISTS = (
    "--set-json", "snapshotter.enabled=true",
    "--set-json", "changedBlocks=" + json.dumps({"enabled": True, "node": "n1", "tlsSecret": "cert", "caCert": AUTHORITY}),
)  # fmt: skip
programs = None


def helm(*arguments, fails=False):
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [str(programs / "helm"), *map(str, arguments)], capture_output=True, text=True, env=dict(os.environ, HOME=home)
        )
    if (done.returncode != 0) != fails:
        raise AssertionError(f"helm {arguments}: status {done.returncode}\n{done.stderr}{done.stdout}")
    return done.stderr if fails else done.stdout


def render(*arguments, **more):
    return helm("template", "quarry", CHART, "--namespace", "quarry-system", *VERSION, *arguments, **more)


def documents(text):
    """[(kind, name, document)] of rendered YAML, as far as a test needs it."""
    found = []
    for one in re.split(r"^---\n", text, flags=re.M):
        kind, name = re.search(r"^kind: (\S+)", one, re.M), re.search(r"^  name: (\S+)", one, re.M)
        if kind:
            found.append((kind[1], name[1].strip('"'), one))
    return found


def configuration(text):
    """quarry.toml in the annotation of the DaemonSet's pods, when there are no buckets."""
    document = next(one for kind, _, one in documents(text) if kind == "DaemonSet")
    lines = document.split("quarry.csi.local/configuration: |\n", 1)[1].split("    spec:\n", 1)[0].splitlines()
    return tomllib.loads("\n".join(line.removeprefix(" " * 10) for line in lines))


class Chart(unittest.TestCase):
    def test_is_without_fault_for_helms_linter(self):
        for values in (None, *KUBERNETES.glob("values/*.yaml")):
            helm("lint", "--strict", CHART, *VERSION, *(["--values", values] if values else []))

    def test_the_plain_manifests_are_those_of_the_chart(self):
        argv = [str(REPOSITORY / "scripts/manifests"), "--print"]
        made = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual((KUBERNETES / "quarry.yaml").read_text(), made, "run scripts/manifests")

    def test_has_one_of_everything(self):
        kinds = sorted((kind, name) for kind, name, _ in documents(render()))
        self.assertEqual(len(set(kinds)), len(kinds))
        for kind in ("CSIDriver", "DaemonSet", "Deployment"):
            self.assertEqual([one for one, _ in kinds].count(kind), 1, kind)
        self.assertEqual([name for kind, name in kinds if kind == "StorageClass"], ["quarry", "quarry-raid1"])
        self.assertNotIn("PodMonitor", [kind for kind, _ in kinds])

    def test_inline_volumes_are_off_until_their_size_is_set(self):
        self.assertNotIn("ephemeral-max-size", configuration(render()))
        text = render("--set", "inlineVolumes.maxSize=2GiB")
        self.assertEqual(configuration(text)["ephemeral-max-size"], "2GiB")
        drivers = [next(one for kind, _, one in documents(each) if kind == "CSIDriver") for each in (text, render())]
        self.assertEqual(drivers[0], drivers[1], "what cannot be changed must not depend on a value")

    def test_a_pool_may_have_thin_stores_and_a_class_for_them(self):
        pools = '[{"name":"thin","vg":"stores","store":{"fast":"500GiB type=raid1"}}]'
        classes = '[{"name":"quarry-thin","parameters":{"pool":"thin","type":"thin","store":"fast"}}]'
        text = render("--set-json", f"pools={pools}", "--set-json", f"storageClasses={classes}")
        self.assertEqual(
            configuration(text)["pool"], [{"name": "thin", "vg": "stores", "store": {"fast": "500GiB type=raid1"}}]
        )
        (made,) = (one for kind, _, one in documents(text) if kind == "StorageClass")
        for words in ('pool: "thin"', 'type: "thin"', 'store: "fast"'):
            self.assertIn(words, made)

    def test_nothing_of_snapshots_is_there_until_they_are_enabled(self):
        self.assertNotIn("snapshot", render().lower())
        found = documents(render("--set", "snapshotter.enabled=true"))
        self.assertEqual([name for kind, name, _ in found if kind == "VolumeSnapshotClass"], ["quarry"])
        self.assertNotIn("CustomResourceDefinition", [kind for kind, _, _ in found])

    def test_each_node_makes_its_own_snapshots(self):
        text = render("--set", "snapshotter.enabled=true,snapshotter.extraArgs={--v=5},snapshotter.timeout=7m")
        pods = next(one for kind, _, one in documents(text) if kind == "DaemonSet")
        container = pods.split("- name: csi-snapshotter\n")[1].split("\n      volumes:\n")[0]
        for words in ("--csi-address=/csi/csi.sock", "--node-deployment", "--timeout=7m", '"--v=5"', "name: NODE_NAME"):
            self.assertIn(words, container)
        self.assertNotIn("leader-election", container)
        self.assertIn("mountPath: /var/run/secrets/kubernetes.io/serviceaccount", container)

    def test_the_sidecars_may_read_snapshots_and_write_what_they_must(self):
        text = render("--set", "snapshotter.enabled=true")
        roles = [found for found in documents(text) if "snapshot.storage.k8s.io]" in found[2]]
        self.assertEqual([role[:2] for role in roles], [("ClusterRole", "quarry-quarry-system-quarry-node")])
        rule = r"apiGroups: \[snapshot\.storage\.k8s\.io\], resources: \[(\S+)\], verbs: \[(.*?)\]"
        self.assertEqual(
            dict(re.findall(rule, roles[0][2])),
            {
                "volumesnapshots": "get, list, watch, update",
                "volumesnapshotclasses": "get, list, watch",
                "volumesnapshotcontents": "get, list, watch, patch",
                "volumesnapshotcontents/status": "update, patch",
            },
        )

    def test_snapshot_classes_have_what_their_values_say(self):
        classes = '[{"name":"a"},{"name":"b","default":true,"parameters":{"type":"raid1","inuse":"cow"},"deletionPolicy":"Retain"}]'
        values = "snapshotter.enabled=true,driverName=x.example"
        text = render("--set", values, "--set-json", f"snapshotter.classes={classes}")
        plain, other = (one for kind, _, one in documents(text) if kind == "VolumeSnapshotClass")
        for words in ('driver: "x.example"', "deletionPolicy: Delete"):
            self.assertIn(words, plain)
        self.assertNotIn("parameters", plain)
        for words in ('type: "raid1"', 'inuse: "cow"', "deletionPolicy: Retain", 'is-default-class: "true"'):
            self.assertIn(words, other)

    def test_nothing_of_changed_blocks_is_there_until_they_are_enabled(self):
        for text in (render(), render("--set", "snapshotter.enabled=true")):
            for word in ("changed-blocks", "cbt.storage", "subjectaccessreviews"):
                self.assertNotIn(word, text)

    def test_lists_of_changed_blocks_come_from_one_node_over_tls(self):
        found = documents(render(*LISTS, "--set", "changedBlocks.port=7443,changedBlocks.extraArgs={--v=5},driverName=x.example"))
        pods = next(one for kind, name, one in found if (kind, name) == ("Deployment", "quarry-changed-blocks"))
        for words in (
            '{key: metadata.name, operator: In, values: ["n1"]}',
            "--disable-metrics",
            "limits:\n              memory: 256Mi",
            "path: /var/lib/kubelet/plugins/x.example, type: Directory",
            'secretName: "cert", defaultMode: 0400',
            "--port=7443",
            '"--v=5"',
            "capabilities: {drop: [ALL]}",
            "automountServiceAccountToken: false",
        ):
            self.assertIn(words, pods)
        self.assertNotIn("privileged", pods)
        service, address = (
            next(one for kind, _, one in found if kind == wanted) for wanted in ("Service", "SnapshotMetadataService")
        )
        self.assertIn("port: 7443", service)
        self.assertIn("app.kubernetes.io/component: changed-blocks", service)
        self.assertIn('address: "quarry-changed-blocks.quarry-system.svc:7443"', address)
        self.assertIn(f'caCert: "{base64.b64encode(AUTHORITY.encode()).decode()}"', address)
        self.assertEqual([name for kind, name, _ in found if kind == "SnapshotMetadataService"], ["x.example"])

    def test_the_sidecar_of_changed_blocks_may_only_look(self):
        found = documents(render(*LISTS))
        role = next(one for kind, name, one in found if kind == "ClusterRole" and name.endswith("-changed-blocks"))
        self.assertEqual(set(re.findall(r"verbs: \[(.*?)\]", role)), {"create", "get", "get, list"})
        self.assertEqual(re.findall(r"resources: \[(\S+)\], verbs: \[create\]", role), ["tokenreviews", "subjectaccessreviews"])
        self.assertNotIn("secrets", role)

    def test_lists_of_changed_blocks_name_what_they_lack(self):
        for lacking in ("node", "tlsSecret", "caCert"):
            self.assertIn(f"changedBlocks.{lacking} is not set", render(*LISTS, "--set", f"changedBlocks.{lacking}=", fails=True))
        self.assertIn("snapshotter.enabled", render(*LISTS, "--set", "snapshotter.enabled=false", fails=True))

    def test_nothing_of_buckets_is_there_until_they_are_enabled(self):
        for word in ("s3", "cosi", "objectstorage", "[secrets]"):
            self.assertNotIn(word, render().lower())
        kinds = [(kind, name) for kind, name, _ in documents(render("--set", "buckets.enabled=true"))]
        self.assertIn(("DaemonSet", "quarry-s3"), kinds)
        self.assertNotIn("CustomResourceDefinition", [kind for kind, _ in kinds])

    def test_only_cosis_sidecar_may_touch_secrets(self):
        found = documents(render("--set", "buckets.enabled=true"))
        roles = {name: one for kind, name, one in found if kind.endswith("Role") and "[secrets]" in one}
        self.assertEqual(list(roles), ["quarry-quarry-system-quarry-s3"])
        self.assertIn("resources: [secrets], verbs: [get, create, update, delete]", roles["quarry-quarry-system-quarry-s3"])
        pods = next(one for kind, name, one in found if (kind, name) == ("DaemonSet", "quarry-s3"))
        gateway, sidecar = pods.split("- name: gateway\n")[1].split("\n      volumes:\n")[0].split("- name: cosi-sidecar\n")
        self.assertNotIn("serviceaccount", gateway)
        self.assertIn("mountPath: /var/run/secrets/kubernetes.io/serviceaccount", sidecar)
        self.assertIn("runAsNonRoot: true", gateway)
        for container in (gateway, sidecar):
            self.assertIn("capabilities: {drop: [ALL]}", container)

    def test_a_sidecar_may_change_the_buckets_of_its_own_node_only(self):
        found = documents(render("--set", "buckets.enabled=true"))
        policy = next(one for kind, name, one in found if kind == "ValidatingAdmissionPolicy" and name.endswith("-buckets"))
        account = "system:serviceaccount:quarry-system:quarry-s3"
        for words in ("failurePolicy: Fail", "resources: [buckets], operations: [UPDATE]", account):
            self.assertIn(words, policy)
        # The name that quarryd gives itself, with the node's name as the API server knows it.
        settings = (REPOSITORY / "docs" / "configuration.md").read_text()
        default = re.search(r"^\| `--cosi-driver-name` .*?`n-<node id>(\.[a-z0-9.]+)`", settings, re.M)
        self.assertIn(f'"n-" + request.userInfo.extra["authentication.kubernetes.io/node-name"][0] + "{default[1]}"', policy)

    def test_the_gateway_has_the_address_of_its_node_and_perhaps_tls(self):
        def arguments(*values):
            text = render("--set", ",".join(("buckets.enabled=true", *values)))
            return dict(re.findall(r"^ +- --(s3-[a-z]+|cosi-endpoint)=(.*)$", text, re.M)), text

        plain, text = arguments()
        self.assertEqual(
            plain,
            {"s3-listen": "$(HOST_IP):7070", "s3-region": "us-east-1", "cosi-endpoint": "unix:///run/quarry/cosi/cosi.sock"},
        )
        self.assertNotIn("secretName", text)
        url = "buckets.url=https://$(QUARRY_NODE_ID)"
        more, text = arguments("buckets.tlsSecret=cert", "buckets.ipv6=true", "buckets.port=7443", url)
        self.assertEqual(more["s3-listen"], "[$(HOST_IP)]:7443")
        self.assertEqual(more["s3-cert"], "/etc/quarry/s3/tls.crt")
        self.assertEqual(more["s3-url"], "https://$(QUARRY_NODE_ID)")
        self.assertIn('secretName: "cert", defaultMode: 0440', text)

    def test_the_sidecars_are_those_that_the_cluster_tests_build(self):
        cosi = (REPOSITORY / "tests" / "k8s" / "cosi" / "go.mod").read_text()
        version = re.search(r"^\tsigs\.k8s\.io/container-object-storage-interface (v\S+)$", cosi, re.M)[1]
        self.assertIn(f"/objectstorage-sidecar:{version}\n", (CHART / "values.yaml").read_text())
        blocks = (REPOSITORY / "tests" / "k8s" / "blocks" / "go.mod").read_text()
        version = re.search(r"^\tgithub\.com/kubernetes-csi/external-snapshot-metadata (v\S+)$", blocks, re.M)[1]
        self.assertIn(f"/csi-snapshot-metadata:{version}\n", (CHART / "values.yaml").read_text())
        module = (REPOSITORY / "tests" / "k8s" / "go" / "go.mod").read_text()
        images = dict(re.findall(r"sig-storage/csi-([a-z]+):(v\S+)", (CHART / "values.yaml").read_text()))
        built = dict(re.findall(r"^\tgithub\.com/kubernetes-csi/external-([a-z]+)/v\d+ (v\S+)$", module, re.M))
        self.assertEqual(images, built)

    def test_the_versions_are_those_of_the_programs(self):
        version = re.search(r"project\(quarry VERSION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"\nappVersion: {version}\n", (CHART / "Chart.yaml").read_text())

    def test_every_setting_is_taken_or_refused_on_purpose(self):
        table = (REPOSITORY / "docs" / "configuration.md").read_text()
        documented = set(re.findall(r"^\| `--([a-z0-9-]+)", table, re.M)) - {"help", "config", "check"}
        taken = set(json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]["properties"])
        refused = {"admin-endpoint", "driver-name", "endpoint", "ephemeral-max-size", "expand", "kubelet-dir",
                   "metrics-address", "mode", "node-id", "on-change", "pool", "state-dir",
                   "cosi-driver-name", "cosi-endpoint", "s3-cert", "s3-key", "s3-listen", "s3-region", "s3-url", "s3-user",
                   "statsd-address"}  # fmt: skip
        self.assertEqual(taken | refused, documented)
        self.assertEqual(taken & refused, set())
        rows = re.findall(r"^\| (`.*?) \|", table.split("\n## Pools\n")[1].split("\n## ")[0], re.M)
        documented = {key for row in rows for key in re.findall(r"`([a-z-]+)[` ]", row)}
        pools = json.loads((CHART / "values.schema.json").read_text())["properties"]["pools"]["items"]["properties"]
        self.assertEqual(set(pools), documented)

    def test_settings_and_pools_reach_the_configuration_with_their_types(self):
        pools = '[{"name":"a","vg":"x","devices":["/dev/disk/by-id/1",{"model":"I*","min-size":"1T"}],"share":{"raid1":"40%"}}]'
        text = render("--set-json", f"pools={pools}", "--set-json", 'settings={"repair-delay":1800,"alpha":true,"fsck":"preen"}')
        self.assertEqual(
            configuration(text),
            {
                "repair-delay": 1800,
                "alpha": True,
                "fsck": "preen",
                "pool": [
                    {
                        "name": "a",
                        "vg": "x",
                        "devices": ["/dev/disk/by-id/1", {"model": "I*", "min-size": "1T"}],
                        "share": {"raid1": "40%"},
                    }
                ],
            },
        )

    def test_wrong_values_are_refused_by_name(self):
        for value, word in {
            "pools=[]": "pools",
            'pools=[{"name":"a"}]': "vg",
            'pools=[{"name":"a","vg":"x"},{"name":"a","vg":"y"}]': "two have one name",
            'pools=[{"name":"a","vg":"x","devises":[]}]': "devises",
            'settings={"node-id":"x"}': "node-id",
            'settings={"fsck":"nonsense"}': "fsck",
            'settings={"scrub-days":"often"}': "scrub-days",
            'storageClasses=[{"name":"a","parametres":{}}]': "parametres",
            'kubeletDirectory="/x"': "kubeletDirectory",
            'storageClasses=[{"name":"a","parameters":{"typ":"raid1"}}]': "typ",
            'storageClasses=[{"name":"a","parameters":{"pool":"nowhere"}}]': "nowhere",
            'pools=[{"name":"a","vg":"x","share":{"raid1":0.4}}]': "whole number",
            'metrics={"address":"::"}': "address",
            'maxUnavailable=0': "maxUnavailable",
            'snapshotter={"enabled":"yes"}': "enabled",
            'changedBlocks={"enabled":"yes"}': "/changedBlocks/enabled",
            'changedBlocks={"caCert":"/etc/ca.crt"}': "/changedBlocks/caCert",
            'changedBlocks={"caCert":"-----BEGIN CERTIFICATE----- -----BEGIN PRIVATE KEY-----"}': "/changedBlocks/caCert",
            'changedBlocks={"node":"N 1"}': "/changedBlocks/node",
            'changedBlocks={"port":8080}': "/changedBlocks/port",
            'buckets={"enabled":"yes"}': "enabled",
            'buckets={"enabled":true,"url":"photos.example.org"}': "url",
            'buckets={"enabled":true,"port":80}': "port",
            'snapshotter={"enabled":true,"classes":[{"name":"a","deletionPolicy":"Keep"}]}': "deletionPolicy",
            'snapshotter={"enabled":true,"classes":[{"name":"a","parameters":{"typ":"raid1"}}]}': "typ",
            'snapshotter={"enabled":true,"classes":[{"name":"a","parameters":{"type":"raid7"}}]}': "raid7",
            'snapshotter={"enabled":true,"classes":[{"name":"a","parameters":{"pool":"nowhere"}}]}': "nowhere",
            'snapshotter={"enabled":true,"classes":[{"name":"a","parameters":{"inuse":"maybe"}}]}': "maybe",
        }.items():
            self.assertIn(word, render("--set-json", value, fails=True))

    def test_large_numbers_keep_their_digits(self):
        text = render("--set-json", 'storageClasses=[{"name":"a","parameters":{"regionsize":1048576}}]')
        self.assertIn('regionsize: "1048576"', text)

    def test_another_kubelet_folder_and_driver_name_are_used_throughout(self):
        text = render("--set", "kubeletDir=/var/lib/k0s/kubelet,driverName=other.example")
        self.assertIn("--endpoint=unix:///var/lib/k0s/kubelet/plugins/other.example/csi.sock", text)
        self.assertNotIn("/var/lib/kubelet", text)
        self.assertNotIn("quarry.csi.local/csi", text)
        self.assertIn('provisioner: "other.example"', text)

    def test_alerts_use_metrics_that_exist(self):
        text = render("--set", "metrics.rules.enabled=true,metrics.podMonitor.enabled=true")
        used = set(re.findall(r"expr: (quarry_\w+)", text))
        self.assertGreater(len(used), 4)
        described = (REPOSITORY / "docs" / "metrics.md").read_text()
        self.assertEqual({name for name in used if name not in described}, set())


if __name__ == "__main__":
    found = subprocess.run([str(REPOSITORY / "scripts/lib/k8s-programs"), "helm"], stdout=subprocess.PIPE, text=True)
    if found.returncode != 0:
        sys.exit(found.returncode)
    programs = Path(found.stdout.strip())
    unittest.main(verbosity=2)
