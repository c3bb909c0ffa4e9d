"""What a cluster needs before it starts, while the network of this machine is still there."""

import os
import subprocess
import sys
from pathlib import Path

import cache
import debian
import image
import qemu
from guest import Guest
from kit import images

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PROGRAMS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "helm",
    "csi-provisioner", "csi-resizer", "csi-snapshotter", "snapshot-controller",
)  # fmt: skip
SKIPPED = 77


def programs(*more):
    """The folder with the cluster's programs. Ends this process with status 77 if they cannot be built."""
    return _made_by("lib/k8s-programs", [*PROGRAMS, *more], "the cluster's programs")


def cosi():
    """The folder with COSI's controller, sidecar and definitions. Ends this process with status 77 as programs() does."""
    return _made_by("lib/cosi-programs", [], "COSI's programs")


def blocks():
    """The folder with the sidecar of changed blocks and its client. Ends this process with status 77 as programs() does."""
    return _made_by("lib/blocks-programs", [], "the sidecar of changed blocks")


def blocks_images(folder):
    """The archives of their images, made in this folder."""
    folder.mkdir()
    programs_folder = blocks()
    made = {values("changedBlocks")["changedBlocks"]: "csi-snapshot-metadata", images.LIST_BLOCKS: "list-blocks"}
    for name, program in made.items():
        images.single(folder / f"{program}.tar", name, programs_folder / program)
    return [folder / f"{program}.tar" for program in made.values()]


def s3_gateway():
    """The folder with the S3 gateway of buckets. Ends this process with status 77 as programs() does."""
    return _made_by("gateway", [], "the S3 gateway")


def _made_by(script, arguments, what):
    """The folder that one of scripts/ makes and prints."""
    argv = [str(REPOSITORY / "scripts" / script), *arguments]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if done.returncode == SKIPPED and not os.environ.get("CI"):
        sys.exit(SKIPPED)
    if done.returncode != 0:
        sys.exit(f"{what} could not be built")
    return Path(done.stdout.strip())


def values(*sections):
    """The images in these sections of the chart's default values: {section: name}."""
    chart = REPOSITORY / "deploy" / "kubernetes" / "chart"
    text = (chart / "values.yaml").read_text()
    names = {}
    for section in sections:
        part = text[text.index(f"\n{section}:") :]
        names[section] = part[part.index("image: ") + 7 :].split("\n", 1)[0].strip()
    return names


def node_image(release, binaries, build, suite=None):
    """The folder of the nodes' image: Debian, the kubelet, and the images that no commit changes. Built if missing.

    suite: the names of the upstream suite's images, as suite.images() gives them. Importing images takes minutes in an
    emulated guest, so it is done once.
    """
    # The cluster has no network to fetch it with.
    qemu.command()
    suite = suite or {"busybox": [], "coreutils": [], "agnhost": []}
    base = image.image(release, "node")
    named = values("provisioner", "resizer", "snapshotter", "buckets")
    sidecar = cache.digest((cosi() / "cosi-sidecar").read_bytes())
    recipe = [base.name, binaries.name, sidecar, s3_gateway().name, *sorted(named.values())]
    recipe += [*suite["busybox"], *suite["coreutils"], *suite["agnhost"]]
    recipe += [(HERE / "kit" / file).read_text() for file in ("images.py", "pause.c")]
    # The rest of this script only runs in a cluster.
    recipe.append((HERE / "kit" / "node.sh").read_text().split("\nname=$1 ")[0])

    def make(place):
        cache.note(f"importing the images of the {release} node (once; some minutes)")
        folder = place.parent / "archives"
        folder.mkdir()
        images.pause(folder / "pause.tar", HERE / "kit" / "pause.c")
        images.busybox(folder / "busybox.tar", [images.BUSYBOX, *suite["busybox"]], busybox())
        if suite["agnhost"]:
            images.coreutils(folder / "coreutils.tar", suite["coreutils"], busybox())
            images.agnhost(folder / "agnhost.tar", suite["agnhost"], busybox(), binaries / "agnhost")
        images.single(folder / "provisioner.tar", named["provisioner"], binaries / "csi-provisioner")
        images.single(folder / "resizer.tar", named["resizer"], binaries / "csi-resizer")
        images.single(folder / "snapshotter.tar", named["snapshotter"], binaries / "csi-snapshotter")
        images.single(folder / "cosi.tar", named["buckets"], cosi() / "cosi-sidecar")
        # Its first layers change only with Debian's packages and versitygw, so later builds are imported faster.
        quarry_image(build, folder / "made", gateway=True).rename(folder / "earlier.tar")
        extra = [*folder.glob("*.tar"), binaries / "kubelet", HERE / "kit" / "node.sh"]
        with Guest(disks=0, image_folder=base, extra=extra, memory=2048) as guest:
            guest.boot()
            guest.run(["node.sh", "prepare"], timeout=900, check=True)
            guest.shutdown()
            guest.commit(place)

    kind = f"node-{release}" if not suite["agnhost"] else f"suite-{release}"
    made = cache.entry(f"{kind}-{cache.digest(*recipe)}", make)
    cache.prune(kind, keep=2, older_than=6 * 3600)
    return made


def busybox():
    """A static busybox. The package is only unpacked: installing it would replace the machine's own busybox."""

    suite = "bookworm"
    found = cache.entry(
        f"busybox-{cache.digest(suite)}", lambda place: debian.unpack(suite, ["busybox-static"], place)
    )
    return next(found.glob("**/bin/busybox"))


def earlier_build():
    """A build of the commit that an upgrade begins with. Ends this process with status 77 if there is none."""
    commit = (HERE / "upgrade_from").read_text().strip()
    return _made_by("lib/old-build", [commit], f"the build of {commit}")


def quarry_image(build, folder, *tag, gateway=False):
    """The archive of this build's image, without the time of the commit: the same build gives the same bytes. tag: other
    than its version. gateway: whether it has the S3 gateway."""
    script = REPOSITORY / "scripts" / "lib" / "oci_image.py"
    argv = [sys.executable, str(script), "--build", str(build), "--output", str(folder)]
    if gateway:
        argv += ["--gateway", str(s3_gateway())]
    argv += [word for one in tag for word in ("--name", f"quarry.csi.local/quarryd:{one}")]
    environment = dict(os.environ, SOURCE_DATE_EPOCH="1")
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, env=environment)
    return folder / "quarry.oci.tar"
