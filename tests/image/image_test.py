"""Makes the container image twice, takes it apart, and runs each of its programs in it. Needs root (chroot)."""

import io
import json
import os
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1))
REPOSITORY = Path(__file__).resolve().parent.parent.parent
MOST_BYTES = 30e6  # compressed
# A program, its argument, and a word of its answer.
PROGRAMS = {
    "quarryd": ("--version", "quarryd"),
    "quarryctl": ("--version", "quarryctl"),
    "lvm": ("version", "LVM version"),
    "modprobe": ("--version", "kmod"),
    "thin_check": ("--help", "thin_check"),
    "thin_repair": ("--help", "thin_repair"),
    "mkfs.ext4": ("-V", "mke2fs"),
    "e2fsck": ("-V", "e2fsck"),
    "resize2fs": ("-h", "resize2fs"),
    "tune2fs": ("-h", "tune2fs"),
    "mkfs.xfs": ("-V", "mkfs.xfs version"),
    "xfs_growfs": ("-V", "xfs_growfs version"),
    "xfs_db": ("-V", "xfs_db version"),
    "mkfs.btrfs": ("--version", "mkfs.btrfs"),
    "btrfstune": ("--help", "btrfstune"),
    "btrfs": ("--version", "btrfs-progs"),
}


# Of the S3 gateway.
MOST_BYTES_OF_GATEWAY = 20e6
GATEWAY_PROGRAM = "quarry-gateway"


def gateway():
    """The folder of scripts/gateway, None if versitygw cannot be built here: the image is then tested without it."""
    done = subprocess.run([REPOSITORY / "scripts/gateway"], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 77):
        sys.exit("versitygw could not be built")
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def make(output, gateway=None, **environment):
    more = ["--gateway", str(gateway)] if gateway else []
    subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts/lib/oci_image.py"), "--build", str(BUILD), "--output", str(output), *more],
        check=True,
        env=dict(os.environ, **environment),
        stdout=subprocess.DEVNULL,
    )


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.one, cls.two, cls.root = (Path(cls.folder.name) / name for name in ("one", "two", "root"))
        cls.gateway = gateway()
        make(cls.one, cls.gateway, SOURCE_DATE_EPOCH="1764000000")
        make(cls.two, cls.gateway, SOURCE_DATE_EPOCH="1764000000", TZ="Asia/Tokyo", LC_ALL="C.UTF-8")
        layout = cls.one / "layout"
        blob = lambda described: (layout / "blobs" / described["digest"].replace(":", "/")).read_bytes()
        cls.index = json.loads((layout / "index.json").read_text())
        cls.manifest = json.loads(blob(cls.index["manifests"][0]))
        cls.config = json.loads(blob(cls.manifest["config"]))
        for layer in cls.manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(blob(layer))) as archive:
                archive.extraction_filter = lambda member, _path: member  # with all modes
                archive.extractall(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def files(self):
        return [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink()]

    def test_the_same_files_give_the_same_bytes(self):
        for name in ("quarry.oci.tar", "sbom.spdx.json"):
            self.assertEqual((self.one / name).read_bytes(), (self.two / name).read_bytes(), name)

    def test_a_later_commit_changes_only_quarrys_layer(self):
        with tempfile.TemporaryDirectory() as folder:
            make(folder, self.gateway, SOURCE_DATE_EPOCH="1765000000")
            index = json.loads((Path(folder) / "layout/index.json").read_text())
            manifest = Path(folder) / "layout/blobs" / index["manifests"][0]["digest"].replace(":", "/")
            layers = json.loads(manifest.read_text())["layers"]
        self.assertEqual(layers[:-1], self.manifest["layers"][:-1])
        self.assertNotEqual(layers[-1], self.manifest["layers"][-1])

    def test_is_small(self):
        sizes = [layer["size"] for layer in self.manifest["layers"]]
        if self.gateway:
            self.assertLess(sizes.pop(1), MOST_BYTES_OF_GATEWAY)
        self.assertLess(sum(sizes), MOST_BYTES)

    def test_has_the_very_s3_gateway_that_was_tested(self):
        if not self.gateway:
            self.skipTest("versitygw cannot be built here")
        packed = self.root / "usr/libexec/quarry/versitygw"
        self.assertEqual(packed.read_bytes(), (self.gateway / "versitygw").read_bytes())
        # It finds versitygw, so the folder is the only thing that it complains about.
        for arguments, word in ((["--version"], "quarry-gateway "), (["--dir", "x"], "--dir")):
            done = subprocess.run(["chroot", self.root, "/usr/bin/quarry-gateway", *arguments], capture_output=True, text=True)
            self.assertIn(word, done.stdout + done.stderr)
        # A static program, which needs nothing of the image.
        done = subprocess.run(["chroot", self.root, "/usr/libexec/quarry/versitygw", "--version"], capture_output=True, text=True)
        self.assertIn("v1.8.0", done.stdout)

    def test_has_the_user_of_the_s3_gateway_under_the_number_of_the_chart(self):
        if not self.gateway:
            self.skipTest("versitygw cannot be built here")
        users = (self.root / "etc/passwd").read_text().splitlines()
        self.assertIn("quarry-s3:x:47070:47070::/:/usr/sbin/nologin", users)
        chart = REPOSITORY / "deploy/kubernetes/chart/templates/s3.yaml"
        self.assertIn("runAsUser: 47070\n", chart.read_text())

    def test_starts_quarryd_and_finds_its_tools(self):
        self.assertEqual(self.config["config"]["Entrypoint"], ["/usr/bin/quarryd"])
        self.assertEqual(self.config["config"]["Env"], ["PATH=/usr/sbin:/usr/bin"])
        self.assertEqual(stat.S_IMODE((self.root / "tmp").stat().st_mode), 0o1777)
        for name, (argument, word) in PROGRAMS.items():
            with self.subTest(program=name):
                done = subprocess.run(
                    ["chroot", str(self.root), self.where(name), argument],
                    capture_output=True,
                    text=True,
                    env={"PATH": "/usr/sbin:/usr/bin"},
                )
                self.assertIn(word, done.stdout + done.stderr)
        self.assertTrue(os.access(self.root / "usr/bin/quarry-lvm", os.X_OK))

    def test_lvm_finds_the_programs_that_check_and_repair_thin_pools(self):
        # In a mount namespace of its own: lvm reads /proc.
        ask = 'mount --rbind /proc "$1/proc" && exec chroot "$1" /usr/sbin/lvm lvmconfig --typeconfig default "$2"'
        for name in ("thin_check", "thin_repair"):
            told = subprocess.run(
                ["unshare", "--mount", "sh", "-c", ask, "sh", str(self.root), f"global/{name}_executable"],
                capture_output=True,
                text=True,
            )
            self.assertIn(f'{name}_executable="/usr/sbin/{name}"', told.stdout, told.stderr)
            self.assertTrue(os.access(self.root / f"usr/sbin/{name}", os.X_OK))

    def where(self, name):
        found = [f"/{folder}/{name}" for folder in ("usr/sbin", "usr/bin") if (self.root / folder / name).exists()]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def test_has_no_other_program(self):
        programs = {
            path.name
            for path in self.root.rglob("*")
            if path.parent.name in ("bin", "sbin") and path.parent.is_dir() and not path.parent.is_symlink()
        }
        # mke2fs, kmod and pdata_tools are the files behind some of the names.
        self.assertEqual(programs, set(PROGRAMS) | {"quarry-lvm", "mke2fs", "kmod", "pdata_tools"} | ({GATEWAY_PROGRAM} if self.gateway else set()))
        self.assertEqual([path for path in self.files() if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)], [])

    def test_the_inventory_names_the_package_of_every_file(self):
        inventory = json.loads((self.one / "sbom.spdx.json").read_text())
        self.assertEqual(inventory["spdxVersion"], "SPDX-2.3")
        names = {package["name"]: package["versionInfo"] for package in inventory["packages"]}
        for name in ("quarry", "lvm2", "e2fsprogs", "xfsprogs", "btrfs-progs", "kmod", "libc6", "libstdc++6"):
            self.assertIn(name, names)
        installed = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", "lvm2"], capture_output=True, text=True, check=True
        ).stdout
        self.assertEqual(names["lvm2"], installed)
        licences = {path.parent.name for path in (self.root / "usr/share/doc").glob("*/copyright")}
        modules = {line.split()[0] for line in (self.gateway / "modules").read_text().splitlines()} if self.gateway else set()
        # One file has the licences of all modules in versitygw.
        self.assertEqual(licences - {"versitygw"}, set(names) - modules)
        self.assertLessEqual(modules, set(names))
        self.assertEqual((self.root / "usr/share/doc/quarry/sbom.spdx.json").read_bytes(), (self.one / "sbom.spdx.json").read_bytes())

    def test_is_named_and_described(self):
        self.assertRegex(
            self.index["manifests"][0]["annotations"]["io.containerd.image.name"], r"^quarry\.csi\.local/quarryd:\d+\.\d+\.\d+$"
        )
        self.assertEqual(self.config["os"], "linux")
        self.assertEqual(self.config["created"], "2025-11-24T16:00:00Z")
        self.assertEqual(len(self.config["rootfs"]["diff_ids"]), len(self.manifest["layers"]))


if __name__ == "__main__":
    unittest.main()
