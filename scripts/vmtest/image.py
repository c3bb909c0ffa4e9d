"""Builds the guest image: a Debian root file system and the kernel to boot it with.

The result is a directory in the cache:
  root.img   raw disk with an MBR and one ext4 partition; read-only base of the guests' overlays
  vmlinuz    the kernel, for QEMU's -kernel
  sonames    the names of the guest's shared libraries, one on each line
  packages   what is installed, with versions
"""

import json
import os
import shutil
import struct
import subprocess
import time

import cache

RELEASES = ("bookworm", "trixie")
PACKAGES = (
    "lvm2", "dmsetup", "dmeventd", "thin-provisioning-tools", "udev", "kmod",
    "e2fsprogs", "xfsprogs", "btrfs-progs", "dosfstools", "cryptsetup-bin", "fdisk", "gdisk",
    "nvme-cli", "util-linux", "mount", "procps", "strace", "ca-certificates",
    "libblkid1", "libmount1", "libudev1", "libdevmapper1.02.1", "libdevmapper-event1.02.1", "liblvm2cmd2.03",
)  # fmt: skip
KERNEL = "linux-image-cloud-amd64"
# What else there is in an image, by its kind: the packages, and the size of the root file system in bytes.
KINDS = {
    "plain": ((), 2 << 30),
    # A node of Kubernetes; sparse, and most of it stays empty.
    "node": (("containerd", "runc", "containernetworking-plugins", "iproute2", "iptables"), 8 << 30),
    # A server: systemd is process 1, and the libraries of the Debian package are installed, because a guest has no network.
    "server": (("systemd", "systemd-sysv"), 2 << 30),
    # A server with buckets: what quarry-s3-gateway depends on, and an S3 client as users have it.
    "s3": (("systemd", "systemd-sysv", "adduser", "openssl", "python3-boto3"), 3 << 30),
}
WITH_SYSTEMD = ("server", "s3")
# What quarryd's package depends on besides PACKAGES. A new soname of a library changes a name here.
LIBRARIES = {
    "bookworm": ("libfmt9", "libgrpc++1.51", "libnvme1", "libprometheus-cpp-core1.0", "libprotobuf32", "libtomlplusplus3"),
    "trixie": (
        "libfmt10", "libgrpc++1.51t64", "libnvme1t64", "libprometheus-cpp-core1.0", "libprotobuf32t64",
        "libtomlplusplus3t64",
    ),
}  # fmt: skip
# Starts the harness's agent where systemd is process 1. Units that only cost time in a guest are masked.
AGENT_UNIT = """[Unit]
Description=The harness's agent
Wants=systemd-udev-settle.service
After=systemd-udev-settle.service

[Service]
ExecStart=/opt/vmtest/agent
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TasksMax=infinity
LimitNOFILE=524288

[Install]
WantedBy=multi-user.target
"""
AGENT = "etc/systemd/system/vmtest-agent.service"
MASKED = ("getty.target", "serial-getty@ttyS0.service", "systemd-logind.service", "apt-daily.timer",
          "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer", "e2scrub_all.timer", "e2scrub_reap.service",
          "systemd-networkd-wait-online.service")  # fmt: skip
# A test guest needs no manuals, and they are a third of its files.
EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
# By this the kernel finds its root under any disk name: MBR disk signature + partition number.
DISK_SIGNATURE = 0x51564D31
ROOT_PARTUUID = f"{DISK_SIGNATURE:08x}-01"
PARTITION_OFFSET = 1 << 20
DEFAULT_MIRROR = "http://deb.debian.org/debian"

# At boot the image itself only finds the harness's disk, which is namespace 2 of
# the system controller, and runs the init on it. So a change of the harness needs
# no new image. A namespace's number is not in its device's name, and some devices
# may appear after the root: quarry_parts, from the kernel's command line, lists
# those to wait for.
STUB_INIT = """#!/bin/sh
mount -t devtmpfs dev /dev
mount -t sysfs sys /sys
tries=0
IFS=,
for part in $quarry_parts; do
    unset IFS
    until eval "[ -b \\"\\$part$part\\" ]"; do
        for block in /sys/block/nvme*; do
            read -r serial <"$block/device/serial"
            read -r nsid <"$block/nsid"
            [ "$serial" = quarry-system ] && eval "export part$nsid=/dev/${block##*/}"
        done
        tries=$((tries + 1))
        [ $tries -gt 400 ] && echo "vmtest: part $part of the system disk does not come" && exit 1
        [ $tries -gt 2 ] && sleep 0.05
    done
done
mount -o ro -t ext4 "$part2" /opt/vmtest && exec /opt/vmtest/init
echo "vmtest: the harness's disk cannot be mounted"
exit 1
"""


def _packages(release, kind):
    return PACKAGES + KINDS[kind][0] + (LIBRARIES[release] if kind in WITH_SYSTEMD else ())


def recipe(release, kind):
    """Everything that decides the contents of an image, as text."""
    _, size = KINDS[kind]
    parts = {
        "layout": 1,
        "release": release,
        "packages": _packages(release, kind),
        "kernel": KERNEL,
        "excluded": EXCLUDED,
        "signature": DISK_SIGNATURE,
        "bytes": size,
        "init": STUB_INIT,
    }
    if kind in WITH_SYSTEMD:
        parts |= {"agent": AGENT_UNIT, "masked": MASKED}
    return json.dumps(parts, sort_keys=True)


def image(release="bookworm", kind="plain", rebuild=False):
    """The directory of the image of this release and kind. Builds it if the cache has none."""
    if release not in RELEASES:
        raise cache.HarnessError(f"release {release!r} is not one of {', '.join(RELEASES)}")
    if kind not in KINDS:
        raise cache.HarnessError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    return cache.entry(_name(release, kind), lambda place: _build(release, kind, place), rebuild=rebuild)


def _name(release, kind):
    return f"image-{release}-{cache.digest(recipe(release, kind))}"


def prune():
    """Removes the images that no present recipe makes."""
    wanted = {_name(release, kind) for release in RELEASES for kind in KINDS}
    for path in cache.cache_root().glob("image-*-*"):
        if path.is_dir() and path.name not in wanted:
            cache.note(f"removing {path}" if cache.remove(path) else f"not removing {path}: a guest uses it")


def host_mirror():
    """The Debian mirror that the host's own apt uses."""
    line = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"
    try:
        listed = subprocess.run(
            ["apt-get", "indextargets", "--format", line], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return DEFAULT_MIRROR
    for target in listed.splitlines():
        origin, label, component, uri = target.split("|", 3)
        if origin == "Debian" and label == "Debian" and component == "main" and uri.startswith("http"):
            return uri.rstrip("/")
    return DEFAULT_MIRROR


def _build(release, kind, place):
    if os.geteuid() != 0:
        raise cache.HarnessError("the guest image can only be built by root")
    for tool in ("mmdebstrap", "mke2fs", "dpkg-deb", "chroot"):
        if shutil.which(tool, path=cache.with_sbin()["PATH"]) is None:
            raise cache.HarnessError(f"{tool} is needed to build the guest image")
    started = time.monotonic()
    mirror = host_mirror()
    cache.note(f"building the {release} guest image ({kind}) from {mirror} (once; under a minute with a fast mirror)")
    work = place.parent
    root = work / "root"
    kernel = work / "kernel"
    kernel.mkdir()
    _bootstrap(release, _packages(release, kind), mirror, root, kernel)
    _install_kernel(kernel, root, place)
    _configure(root)
    if kind in WITH_SYSTEMD:
        _configure_systemd(root)
    (place / "sonames").write_text("\n".join(_sonames(root)) + "\n")
    versions = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W"]
    (place / "packages").write_text(cache.checked(versions))
    _make_disk(root, place / "root.img", KINDS[kind][1])
    cache.note(f"the {release} guest image is ready after {time.monotonic() - started:.0f} s")


def _bootstrap(release, packages, mirror, root, kernel):
    # The kernel's package is fetched but not installed: installing it would
    # also run an initramfs generator, and the guest boots without initramfs.
    fetch = (
        f'cd "{kernel}" && export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" && '
        f"apt-get download $(apt-cache depends --important {KERNEL} | sed -n 's/.*Depends: \\(linux-image-\\)/\\1/p')"
    )
    # In namespaces of its own: no process and no mount of the build stays, however it ends.
    argv = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
    argv += ["--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(packages)}"]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    argv += [f"--customize-hook={fetch}", "--format=directory", release, str(root), mirror]
    lines = []
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, LC_ALL="C")
    ) as running:
        try:
            for line in running.stdout:
                lines.append(line.rstrip())
                if line.startswith("I: "):
                    cache.note(f"  {line[3:].rstrip()}")
        except BaseException:
            running.kill()
            raise
    if running.returncode != 0:
        tail = "\n".join(lines[-30:])
        raise cache.HarnessError(f"mmdebstrap failed ({running.returncode}):\n{tail}")


def _install_kernel(packages, root, place):
    """Unpacks the one kernel package: modules into root, the kernel itself beside the image."""
    found = sorted(packages.glob("linux-image-*.deb"))
    if len(found) != 1:
        raise cache.HarnessError(f"expected one kernel package, got {[path.name for path in found]}")
    unpacked = packages / "unpacked"
    cache.checked(["dpkg-deb", "-x", str(found[0]), str(unpacked)])
    kernel = next(unpacked.glob("boot/vmlinuz-*"))
    version = kernel.name.removeprefix("vmlinuz-")
    shutil.copyfile(kernel, place / "vmlinuz")
    for config in unpacked.glob("boot/config-*"):
        shutil.move(config, root / "boot" / config.name)
    modules = next(path for path in (unpacked / "lib/modules", unpacked / "usr/lib/modules") if path.is_dir())
    (root / "usr/lib/modules").mkdir(exist_ok=True)
    shutil.move(modules / version, root / "usr/lib/modules" / version)
    cache.checked(["chroot", str(root), "/sbin/depmod", version])


def _configure(root):
    stub = root / "sbin/init"
    stub.unlink(missing_ok=True)
    stub.write_text(STUB_INIT)
    stub.chmod(0o755)
    for mount_point in ("opt/vmtest", "opt/quarry/extra"):
        (root / mount_point).mkdir(parents=True)
    (root / "etc/hostname").write_text("quarry\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost quarry\n::1 localhost\n")
    (root / "etc/fstab").write_text("")
    (root / "etc/resolv.conf").unlink(missing_ok=True)


def _configure_systemd(root):
    (root / AGENT).write_text(AGENT_UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "vmtest-agent.service").symlink_to(f"/{AGENT}")
    for unit in MASKED:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")


def _sonames(root):
    """The names of all shared libraries that the guest's loader can find."""
    names = set()
    for folder in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "lib", "lib64"):
        for path in (root / folder).glob("*.so*"):
            names.add(path.name)
    return sorted(names)


def _make_disk(root, target, size):
    with open(target, "wb") as disk:
        disk.truncate(PARTITION_OFFSET + size)
    # mke2fs takes its size from an argument because the file also has a partition table.
    cache.checked(
        ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(root), "-m", "0", "-L", "quarry-root"]
        + ["-J", "size=16", "-E", f"offset={PARTITION_OFFSET},lazy_itable_init=0,assume_storage_prezeroed=1"]
        + [str(target), f"{size // 1024}k"]
    )
    with open(target, "r+b") as disk:
        disk.write(partition_table(PARTITION_OFFSET // 512, size // 512))


def partition_table(start, sectors):
    """An MBR with one Linux partition; LBA only, because the kernel reads nothing else."""
    anywhere = b"\xfe\xff\xff"
    table = struct.pack("<B3sB3sII", 0, anywhere, 0x83, anywhere, start, sectors)
    return bytes(440) + struct.pack("<IH", DISK_SIGNATURE, 0) + table + bytes(48) + b"\x55\xaa"
