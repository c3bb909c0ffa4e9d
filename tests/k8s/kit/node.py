"""A node of the cluster: a guest of scripts/vmtest with containerd and a kubelet."""

from guest import Guest

from .control_plane import API_PORT, API_SERVICE, SEEN_BY_GUESTS, ControlPlane

KUBELET_PORT = 10250
MEMORY = 3072  # MiB
GROUP = "quarry"  # the volume group of the chart's default pool
STORES = "stores"  # that of the pool with a thin store
LOGS = "/var/log/k8s"


class Node:
    """name: of the node. address: of the host's loopback, leads to the kubelet. sizes: of the disks.

    disks: the numbers of those in the volume group of the chart's pool. The last but one is for the thin store. spare: the
    number of the last one, which is blank.
    """

    def __init__(self, name, address, control_plane, image, extra, sizes):
        self.name = name
        self._plane = control_plane
        self.guest = Guest(
            disks=len(sizes),
            size=",".join(sizes),
            bus="scsi",
            extra=extra,
            memory=MEMORY,
            image_folder=image,
            network=f"{address}:{KUBELET_PORT}",
        )
        self.disks = range(1, len(sizes) - 1)
        self.spare = len(sizes)
        self.words = ""

    def boot(self):
        """Boots it, and makes the volume groups as an administrator would."""
        self.guest.boot()
        self.make_group(GROUP, self.disks)
        self.make_group(STORES, [self.spare - 1])

    def start(self):
        """Starts the kubelet, then imports the images that are new."""
        config = self._plane.config(ControlPlane.token(self.name))
        self.guest.run(["sh", "-c", "cat >/etc/kubelet.conf"], input=config, check=True)
        arguments = [self.name, SEEN_BY_GUESTS, API_SERVICE, str(API_PORT)]
        self.words = self.guest.run(["node.sh", *arguments], timeout=900, check=True).stdout

    def make_group(self, name, disks):
        self.sh(f"vgcreate -q {name} $(for i in {' '.join(map(str, disks))}; do vmctl dev $i; done)")

    def reboot(self):
        self.guest.shutdown()
        self.come_back(self.name)

    def come_back(self, name):
        """Boots it again, with the same disks, as the node of this name."""
        self.name = name
        self.guest.boot()
        self.start()

    def sh(self, command, check=True, timeout=120):
        """Runs a shell command on the node; returns its output."""
        return self.guest.run(["sh", "-c", command], check=check, timeout=timeout).stdout

    def volumes(self):
        """The names of the logical volumes in the groups, but those of the store itself."""
        return self.sh(f"lvs --noheadings -o lv_name -S 'segtype != thin-pool' {GROUP} {STORES}").split()

    def mounts(self):
        """What the kubelet has for pods with volumes of CSI drivers: mounts, and loop devices, which hold raw volumes.

        A raw volume is a bind mount of its device node, and does not hold the logical volume.
        """
        places = "kubernetes.io[~/]csi|/volumeDevices/|/plugins/quarry.csi.local/.*/"
        return self.sh(f"cut -d' ' -f5 /proc/self/mountinfo | grep -E '{places}'; losetup -a", check=False).strip()

    def save_logs(self, folder):
        """Copies the logs of the node and of its containers to this machine."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in self.sh(f"ls {LOGS}/*.log /var/log/pods/*/*/*.log", check=False).split():
            name = path.removeprefix(LOGS).removeprefix("/var/log/pods").strip("/").replace("/", "_")
            (folder / name).write_text(self.guest.run(["tail", "-c", "300000", path]).stdout)
