"""Makes the Debian package quarry-s3-gateway of this build and looks at it. Exits with 77 if versitygw cannot be built."""

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
NAME = "quarry-s3-gateway"
DOC = f"usr/share/doc/{NAME}"
FILES = {
    "usr/bin/quarry-gateway",
    "usr/libexec/quarry/versitygw",
    "usr/lib/systemd/system/quarry-gateway.service",
    "usr/share/man/man8/quarry-gateway.8.gz",
    f"{DOC}/copyright",
    f"{DOC}/copyright.libcli11-dev",
    f"{DOC}/copyright.versitygw.gz",
    f"{DOC}/changelog.gz",
    f"{DOC}/changelog.Debian.gz",
    f"{DOC}/sbom.spdx.json",
    f"usr/share/lintian/overrides/{NAME}",
}


def gateway():
    done = subprocess.run([REPOSITORY / "scripts/gateway"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return Path(done.stdout.strip())


class GatewayPackage(DebChecks, unittest.TestCase):
    forbidden = r"umount|\bmount\b|deluser|rm -r|/run/quarry|/dev/(?!null)"

    @classmethod
    def setUpClass(cls):
        cls.gateway = gateway()
        cls.folder = tempfile.TemporaryDirectory()
        argv = [REPOSITORY / "scripts/package", "--gateway", "--built", "--preset", BUILD.name, "--revision", "7"]
        done = subprocess.run([*argv, "--output", cls.folder.name], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.deb, cls.root = Path(done.stdout.strip()), Path(cls.folder.name) / "root"
        subprocess.run(["dpkg-deb", "-R", cls.deb, cls.root], check=True)
        cls.control = (cls.root / "DEBIAN/control").read_text()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_has_these_files_and_no_other(self):
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        self.assertEqual({name for name in found if not name.startswith("DEBIAN/")}, FILES)

    def test_has_the_very_gateway_that_was_tested(self):
        packed, tested = self.root / "usr/libexec/quarry/versitygw", self.gateway / "versitygw"
        self.assertEqual(packed.read_bytes(), tested.read_bytes())
        self.assertTrue(os.access(packed, os.X_OK))

    def test_its_program_finds_its_gateway(self):
        # With a folder that is no setting it ends before it would wait.
        done = subprocess.run([self.root / "usr/bin/quarry-gateway", "--dir", "x"], capture_output=True, text=True)
        self.assertIn("--dir", done.stderr)
        done = subprocess.run([self.root / "usr/bin/quarry-gateway", "--version"], capture_output=True, text=True)
        self.assertRegex(done.stdout, r"^quarry-gateway \d+\.\d+\.\d+$")

    def test_it_needs_none_of_lvm(self):
        depends = re.search(r"^Depends: (.*)$", self.control, re.MULTILINE)[1]
        self.assertRegex(depends, r"(^|, )adduser")
        self.assertNotRegex(depends, "lvm|grpc|devmapper")

    def test_the_page_has_the_options_of_the_program(self):
        page = subprocess.run(
            ["zcat", self.root / "usr/share/man/man8/quarry-gateway.8.gz"], capture_output=True, text=True, check=True
        ).stdout
        told = subprocess.run([BUILD / "bin/quarry-gateway", "--help"], capture_output=True, text=True, check=True).stdout
        # With an end after the word, because texts name other programs' options, too.
        options = set(re.findall(r"^  (?:-h,)?(--[a-z-]+)", told, re.MULTILINE))
        self.assertIn("--versitygw", options)
        page_options = re.findall(r"^(?:\\fB\\-h\\fR, )?\\fB(\\-\\-[a-z\\-]+)\\fR", page, re.MULTILINE)
        self.assertEqual({one.replace("\\", "") for one in page_options}, options)

    def test_the_inventory_has_every_module(self):
        inventory = json.loads((self.root / DOC / "sbom.spdx.json").read_text())
        versions = {package["name"]: package["versionInfo"] for package in inventory["packages"]}
        for line in (self.gateway / "modules").read_text().splitlines():
            name, version = line.split()
            self.assertEqual(versions[name], version)
        self.assertEqual(versions["github.com/versity/versitygw"], "v1.8.0")


if __name__ == "__main__":
    unittest.main()
