"""Makes the Debian package of this build and looks at it. Installing it is a test in a guest (tests/vm)."""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from deb_checks import DebChecks

BUILD = Path(sys.argv.pop(1))
REPOSITORY = Path(__file__).resolve().parent.parent.parent
CONFIGURATION = {"etc/quarry/quarry.toml", "etc/default/quarryd"}
FILES = CONFIGURATION | {
    "usr/bin/quarryd",
    "usr/bin/quarryctl",
    "usr/libexec/quarry/quarry-lvm",
    "usr/lib/systemd/system/quarry-volume@.service",
    "usr/lib/systemd/system/quarryd.service",
    "usr/share/doc/quarryd/examples/mail",
    "usr/share/doc/quarryd/examples/webhook",
    "usr/share/doc/quarryd/examples/on-change.conf",
    "usr/share/doc/quarryd/examples/quarry.rules.yml",
    "usr/lib/udev/rules.d/59-quarry.rules",
    "usr/share/bash-completion/completions/quarryctl",
    "usr/share/man/man8/quarryd.8.gz",
    "usr/share/man/man8/quarryctl.8.gz",
    "usr/share/man/man5/quarry.toml.5.gz",
    "usr/share/doc/quarryd/copyright",
    "usr/share/doc/quarryd/copyright.libcli11-dev",
    "usr/share/doc/quarryd/copyright.nlohmann-json3-dev",
    "usr/share/doc/quarryd/changelog.gz",
    "usr/share/doc/quarryd/changelog.Debian.gz",
    "usr/share/doc/quarryd/sbom.spdx.json",
    "usr/share/lintian/overrides/quarryd",
}


def make(output, revision="7"):
    argv = [REPOSITORY / "scripts/package", "--built", "--preset", BUILD.name, "--revision", revision, "--output", output]
    environment = dict(os.environ, SOURCE_DATE_EPOCH="1764000000")
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return Path(done.stdout.strip())


class Package(DebChecks, unittest.TestCase):
    forbidden = r"umount|\bmount\b|(?<![\w/])(lv|vg|pv)[a-z]+ |wipefs|dmsetup|mkfs|/dev/(?!null)"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.deb = make(Path(cls.folder.name) / "one")
        cls.root = Path(cls.folder.name) / "root"
        subprocess.run(["dpkg-deb", "-R", cls.deb, cls.root], check=True)
        cls.control = (cls.root / "DEBIAN/control").read_text()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_has_these_files_and_no_other(self):
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        self.assertEqual({name for name in found if not name.startswith("DEBIAN/")}, FILES)

    def test_the_same_build_gives_the_same_bytes(self):
        again = make(Path(self.folder.name) / "two")
        self.assertEqual(self.deb.read_bytes(), again.read_bytes())

    def test_has_the_programs_of_the_build(self):
        for program in ("quarryd", "quarryctl"):
            mine, theirs = (
                subprocess.run([folder / program, "--list-options"], capture_output=True, check=True).stdout
                for folder in (self.root / "usr/bin", BUILD / "bin")
            )
            self.assertEqual(mine, theirs)

    def test_keeps_the_administrators_settings(self):
        listed = (self.root / "DEBIAN/conffiles").read_text().split()
        self.assertEqual({name.removeprefix("/") for name in listed}, CONFIGURATION)

    def test_depends_on_what_it_runs(self):
        depends = re.search(r"^Depends: (.*)$", self.control, re.MULTILINE)[1]
        for package in ("lvm2", "kmod", "e2fsprogs", "libgrpc++", "liblvm2cmd2.03", "libc6"):
            self.assertRegex(depends, rf"(^|, ){re.escape(package)}")

    def test_the_inventory_has_what_is_linked_with_versions(self):
        inventory = json.loads((self.root / "usr/share/doc/quarryd/sbom.spdx.json").read_text())
        self.assertEqual(inventory["spdxVersion"], "SPDX-2.3")
        versions = {package["name"]: package["versionInfo"] for package in inventory["packages"]}
        self.assertRegex(versions["quarry"], r"^\d+\.\d+\.\d+-7\+deb\d+$")
        for name in ("libc6", "libdevmapper1.02.1", "nlohmann-json3-dev", "libcli11-dev"):
            installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
            self.assertEqual(versions[name], installed.stdout)

    def test_the_changelog_names_the_revision(self):
        text = gzip.decompress((self.root / "usr/share/doc/quarryd/changelog.Debian.gz").read_bytes()).decode()
        version = re.search(r"^Version: (.*)$", self.control, re.MULTILINE)[1]
        self.assertTrue(text.startswith(f"quarryd ({version}) "), text)


if __name__ == "__main__":
    unittest.main()
