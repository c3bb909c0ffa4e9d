"""The Debian package's postrm, in a folder instead of the root."""

import fcntl
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "debian" / "postrm"


class Purge(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.lock = self.root / "run/quarry/locks/socket.lock"
        self.lock.parent.mkdir(parents=True)
        self.lock.touch(0o600)
        (self.root / "run/quarry/lvm").mkdir()
        (self.root / "run/quarry/admin.sock").touch()
        (self.root / "etc/quarry").mkdir(parents=True)

    def run_script(self, word):
        text = SCRIPT.read_text()
        for top in ("/run/", "/etc/"):
            text = text.replace(f" {top}", f" {self.root}{top}")
        self.assertEqual(text.count("/run/quarry"), text.count(f"{self.root}/run/quarry"), "a path outside of the folder")
        return subprocess.run(["sh", "-s", word], input=text, capture_output=True, text=True, check=True).stdout

    def test_a_purge_removes_what_quarryd_kept(self):
        self.run_script("purge")
        self.assertFalse((self.root / "run/quarry").exists())
        self.assertFalse((self.root / "etc/quarry").exists())

    def test_a_removal_keeps_it(self):
        self.run_script("remove")
        self.assertTrue(self.lock.exists())

    def test_a_purge_leaves_what_another_quarryd_uses(self):
        with self.lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            said = self.run_script("purge")
        self.assertIn("another quarryd", said)
        self.assertTrue((self.root / "run/quarry/lvm").exists())
        self.assertTrue((self.root / "run/quarry/admin.sock").exists())
        self.assertFalse((self.root / "etc/quarry").exists())


if __name__ == "__main__":
    unittest.main()
