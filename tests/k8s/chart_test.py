"""Renders the chart as users would, with Helm itself. Needs no cluster. Usage: chart_test.py [TEST…]"""

import os
import re
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
KUBERNETES = REPOSITORY / "deploy" / "kubernetes"
CHART = KUBERNETES / "chart"
# A helm that is built from its module takes the cluster for a very old one.
VERSION = ("--kube-version", "1.36.0")
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
            found.append((kind[1], name[1], one))
    return found


def configuration(text):
    """quarry.toml in the rendered ConfigMap."""
    document = next(one for kind, _, one in documents(text) if kind == "ConfigMap")
    lines = document.split("quarry.toml: |\n", 1)[1].splitlines()
    return tomllib.loads("\n".join(line.removeprefix("    ") for line in lines))


class Chart(unittest.TestCase):
    def test_is_without_fault_for_helms_linter(self):
        for values in (None, *KUBERNETES.glob("values/*.yaml")):
            helm("lint", "--strict", CHART, *VERSION, *(["--values", values] if values else []))

    def test_the_plain_manifests_are_those_of_the_chart(self):
        made = subprocess.run(
            [str(REPOSITORY / "scripts/manifests"), "--print"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        self.assertEqual((KUBERNETES / "quarry.yaml").read_text(), made, "run scripts/manifests")

    def test_has_one_of_everything(self):
        kinds = sorted((kind, name) for kind, name, _ in documents(render()))
        self.assertEqual(len(set(kinds)), len(kinds))
        for kind in ("CSIDriver", "DaemonSet", "Deployment", "ConfigMap"):
            self.assertEqual([one for one, _ in kinds].count(kind), 1, kind)
        self.assertEqual([name for kind, name in kinds if kind == "StorageClass"], ["quarry", "quarry-raid1"])
        self.assertNotIn("PodMonitor", [kind for kind, _ in kinds])

    def test_inline_volumes_are_off_until_their_size_is_set(self):
        driver = next(one for kind, _, one in documents(render()) if kind == "CSIDriver")
        self.assertNotIn("Ephemeral", driver)
        self.assertIn("podInfoOnMount: false", driver)
        self.assertNotIn("ephemeral-max-size", configuration(render()))
        text = render("--set", "inlineVolumes.maxSize=2GiB")
        driver = next(one for kind, _, one in documents(text) if kind == "CSIDriver")
        self.assertIn("- Ephemeral", driver)
        self.assertIn("podInfoOnMount: true", driver)
        self.assertEqual(configuration(text)["ephemeral-max-size"], "2GiB")

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
            'settings={"node-id":"x"}': "node-id",
            'storageClasses=[{"name":"a","parametres":{}}]': "parametres",
            'kubeletDirectory="/x"': "kubeletDirectory",
        }.items():
            self.assertIn(word, render("--set-json", value, fails=True))

    def test_another_kubelet_folder_and_driver_name_are_used_throughout(self):
        text = render("--set", "kubeletDir=/var/lib/k0s/kubelet,driverName=other.example")
        self.assertIn("--endpoint=unix:///var/lib/k0s/kubelet/plugins/other.example/csi.sock", text)
        self.assertNotIn("/var/lib/kubelet", text)
        self.assertNotIn("quarry.csi.local/csi", text)
        self.assertIn("provisioner: other.example", text)

    def test_alerts_use_metrics_that_exist(self):
        text = render("--set", "metrics.rules.enabled=true,metrics.podMonitor.enabled=true")
        used = set(re.findall(r"expr: (quarry_\w+)", text))
        self.assertGreater(len(used), 4)
        described = (REPOSITORY / "docs" / "metrics.md").read_text()
        self.assertEqual({name for name in used if name not in described}, set())


if __name__ == "__main__":
    found = subprocess.run(
        [str(REPOSITORY / "scripts/lib/k8s-programs"), "helm"], stdout=subprocess.PIPE, text=True, check=True
    )
    programs = Path(found.stdout.strip())
    unittest.main(verbosity=2)
