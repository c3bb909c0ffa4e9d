"""Makes the container image of Quarry, without a registry and without a container runtime.

The image has the programs of a build, the tools that they run, the libraries
of both, and nothing else: no shell, no package manager. Everything but the
build's own programs is taken from this machine's Debian packages. The same
files give the same bytes, whenever and wherever the image is made.

With --gateway it also has versitygw, the S3 gateway of buckets, in a layer of its own, and quarry-gateway.

The output folder gets
  layout/           an OCI image layout (image-spec 1.1)
  quarry.oci.tar    the same as one file, for `ctr images import` or `podman load`
  sbom.spdx.json    what is in it, by Debian package (SPDX 2.3); also in the image
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from inventory import COMPILED_IN, InventoryError, go_modules, is_program, libraries, owners, run, sbom, versions

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("quarryd", "quarryctl", "quarry-lvm")
GATEWAY = "quarry-gateway"
# What quarryd runs. LVM runs modprobe, and thin_check and thin_repair as well; the file systems are those of
# docs/filesystems.md.
TOOLS = (
    "lvm", "modprobe", "thin_check", "thin_repair", "mkfs.ext4", "e2fsck", "resize2fs", "tune2fs",
    "mkfs.xfs", "xfs_growfs", "xfs_db", "mkfs.btrfs", "btrfs", "btrfstune",
)  # fmt: skip
SETTINGS = ("/etc/mke2fs.conf",)  # without it mkfs.ext4 knows no features
PATH = "/usr/sbin:/usr/bin"
MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
# Who the S3 gateway is in a container. The objects on the disks belong to this number, so it never changes.
GATEWAY_USER, GATEWAY_ID = "quarry-s3", 47070
FOLDERS = {"dev": 0o755, "etc": 0o755, "proc": 0o555, "run": 0o755, "sys": 0o555, "tmp": 0o1777, "var": 0o755}


class ImageError(Exception):
    """Why no image was made."""


def stripped(path):
    """The bytes of a program of the build, without symbols and without the id of its debugging information."""
    with tempfile.NamedTemporaryFile() as copy:
        run("strip", "--strip-all", "--remove-section=.note.gnu.build-id", "-o", copy.name, str(path))
        return Path(copy.name).read_bytes()


class Layer:
    """One layer: a tar archive whose bytes depend on its files alone."""

    def __init__(self):
        self.entries = {}

    def folder(self, name, mode=0o755):
        self.entries.setdefault(name, (tarfile.DIRTYPE, mode, b"", ""))

    def _place(self, name):
        for parent in reversed(Path(name).parents[:-1]):
            self.folder(str(parent))

    def file(self, name, data, mode=0o644):
        self._place(name)
        self.entries[name] = (tarfile.REGTYPE, mode, data, "")

    def link(self, name, target):
        self._place(name)
        self.entries[name] = (tarfile.SYMTYPE, 0o777, b"", target)

    def tar(self, time):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, (kind, mode, data, target) in sorted(self.entries.items()):
                info = tarfile.TarInfo(name)
                info.type, info.mode, info.size, info.linkname, info.mtime = kind, mode, len(data), target, time
                archive.addfile(info, io.BytesIO(data))
        return out.getvalue()


def tools_layer(own):
    """The tools, and all libraries of these and of the programs `own`; the packages that they are from; and its time.

    The time is that of the newest file, so the layer changes only with the packages, and nodes that have it fetch only
    Quarry's layer.
    """
    layer = Layer()
    for name, mode in FOLDERS.items():
        layer.folder(name, mode)
    for name, target in MERGED.items():
        layer.folder(target)
        layer.link(name, target)
    layer.link("var/run", "../run")
    found = {}
    for name in TOOLS:
        where = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if where is None:
            raise ImageError(f"this machine lacks {name}: scripts/deps image")
        found[name] = Path(where)
    for name, path in found.items():
        real = path.resolve()
        layer.file(f"usr/sbin/{real.name}", real.read_bytes(), 0o755)
        if real.name != name:
            layer.link(f"usr/sbin/{name}", real.name)
    settings = [Path(name) for name in SETTINGS]
    for path in settings:
        layer.file(str(path)[1:], path.read_bytes())
    loaded = libraries([path for path in [*found.values(), *own] if is_program(path)])
    triplet = run("gcc", "-print-multiarch").strip()
    for name, path in loaded.items():
        layer.file(inside(name, triplet), path.resolve().read_bytes(), 0o755)
    packages = owners([*found.values(), *settings, *loaded.values()]) | versions(COMPILED_IN)
    add_licences(layer, packages)
    sources = [*found.values(), *settings, *loaded.values()]
    return layer, packages, int(max(path.resolve().stat().st_mtime for path in sources))


def inside(library, triplet):
    """Where a library lies in the image. Programs name the loader by its path, other libraries by their names."""
    if not library.startswith("/"):
        return f"usr/lib/{triplet}/{library}"
    first, rest = library[1:].split("/", 1)
    return f"{MERGED.get(first, first)}/{rest}"


def gateway_layer(gateway):
    """versitygw, the licences in it, and its user. gateway: the folder that scripts/gateway made. It changes only with the
    version."""
    layer = Layer()
    layer.file("usr/libexec/quarry/versitygw", (gateway / "versitygw").read_bytes(), 0o755)
    layer.file("usr/share/doc/versitygw/copyright", (gateway / "copyright").read_bytes())
    users = {"root": 0, GATEWAY_USER: GATEWAY_ID}
    passwd = "".join(f"{name}:x:{number}:{number}::/:/usr/sbin/nologin\n" for name, number in users.items())
    layer.file("etc/passwd", passwd.encode())
    layer.file("etc/group", "".join(f"{name}:x:{number}:\n" for name, number in users.items()).encode())
    return layer


def add_licences(layer, packages):
    for name, _, _ in packages:
        source = Path(f"/usr/share/doc/{name}/copyright")
        if source.is_file():
            layer.file(f"usr/share/doc/{name}/copyright", source.read_bytes())


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Layout:
    """An OCI image layout in memory: {name: bytes}."""

    def __init__(self):
        self.files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

    def blob(self, data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def json(self, value, media_type):
        return self.blob(compact(value), media_type)


def make(build, name, gateway=None):
    version = re.search(r"project\(quarry VERSION (\S+)", (REPOSITORY / "CMakeLists.txt").read_text())[1]
    name = name if ":" in name.rsplit("/", 1)[-1] else f"{name}:{version}"
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "-C", str(REPOSITORY), "log", "-1", "--format=%ct"))
    created = datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = [build / "bin" / program for program in (*PROGRAMS, *([GATEWAY] if gateway else []))]
    if lost := [str(path) for path in own if not path.is_file()]:
        raise ImageError(f"not built: {', '.join(lost)}")

    tools, packages, tools_time = tools_layer(own)
    quarry = Layer()
    for path in own:
        quarry.file(f"usr/bin/{path.name}", stripped(path), 0o755)
    modules = go_modules(gateway / "modules") if gateway else []
    inventory = sbom(version, packages, created, "scripts/image", modules)
    quarry.file("usr/share/doc/quarry/copyright", (REPOSITORY / "LICENSE").read_bytes())
    quarry.file("usr/share/doc/quarry/sbom.spdx.json", inventory)

    parts = [("Debian", tools, tools_time), ("Quarry", quarry, time)]
    if gateway:
        # Its time is no commit's, so nodes that have the layer do not fetch it again.
        parts.insert(1, ("versitygw", gateway_layer(gateway), 0))
    layout, layers, contents = Layout(), [], []
    for _, layer, its_time in parts:
        tar = layer.tar(its_time)
        contents.append("sha256:" + hashlib.sha256(tar).hexdigest())
        layers.append(layout.blob(gzip.compress(tar, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip"))
    config = {
        "architecture": run("dpkg", "--print-architecture").strip(),
        "os": "linux",
        "created": created,
        "config": {
            "Entrypoint": ["/usr/bin/quarryd"],
            "Env": [f"PATH={PATH}"],
            "Labels": {"org.opencontainers.image.title": "quarry", "org.opencontainers.image.version": version},
        },
        "rootfs": {"type": "layers", "diff_ids": contents},
        "history": [{"created": created, "created_by": f"scripts/image: {what}"} for what, _, _ in parts],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": layout.json(config, "application/vnd.oci.image.config.v1+json"),
        "layers": layers,
    }
    described = layout.json(manifest, manifest["mediaType"])
    described["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rsplit(":", 1)[-1],
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]}
    layout.files["index.json"] = compact(index)
    return name, time, layout, layers, inventory


def write(output, time, layout, inventory):
    folder = output / "layout"
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in layout.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    archive = Layer()
    for name, data in layout.files.items():
        archive.file(name, data)
    (output / "quarry.oci.tar").write_bytes(archive.tar(time))
    (output / "sbom.spdx.json").write_bytes(inventory)


def main():
    parser = argparse.ArgumentParser(prog="scripts/image", description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help="folder for the image [image, below the build]")
    parser.add_argument("--name", default="quarry.csi.local/quarryd", help="name, and perhaps tag, of the image [%(default)s:VERSION]")
    parser.add_argument("--gateway", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    output = asked.output or asked.build / "image"
    output.mkdir(parents=True, exist_ok=True)
    name, time, layout, layers, inventory = make(asked.build, asked.name, asked.gateway)
    write(output, time, layout, inventory)
    size = sum(layer["size"] for layer in layers)
    print(f"{name}: {size / 1e6:.1f} MB compressed, in {output}")
    for layer in layers:
        print(f"  layer {layer['digest']}  {layer['size'] / 1e6:.1f} MB")


if __name__ == "__main__":
    try:
        main()
    except (ImageError, InventoryError) as error:
        sys.exit(f"image: {error}")
