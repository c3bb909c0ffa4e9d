"""Container images for the nodes, made by hand: no registry, no container runtime.

They have the names that the chart and the upstream suite ask for. An archive is what `docker save` writes, and the same
files give the same bytes.
"""

import hashlib
import io
import json
import subprocess
import tarfile

PAUSE = "quarry.test/pause:1"
BUSYBOX = "quarry.test/busybox:1"
LIST_BLOCKS = "quarry.test/list-blocks:1"
FOLDERS = {"bin": 0o755, "tmp": 0o1777, "etc": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755, "var": 0o755}


def archive(path, names, programs, links=(), files=(), **config):
    """Writes an image of programs {path in the image: path here}, links {path: target} and files {path: text}."""
    layer = _layer(programs, dict(links), dict(files))
    description = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], **config},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
            "history": [{"created_by": "tests/k8s"}],
        }
    ).encode()
    name = hashlib.sha256(description).hexdigest() + ".json"
    manifest = json.dumps([{"Config": name, "RepoTags": list(names), "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in ((name, description), ("layer.tar", layer), ("manifest.json", manifest)):
            _add(tar, member, data, 0o644)


def busybox(path, names, program):
    """A shell and all applets of this static busybox."""
    archive(path, names, {"bin/busybox": program}, *_applets(program), Cmd=["/bin/sh"])


def coreutils(path, names, shell):
    """A busybox with the dd of GNU coreutils, which has flags that busybox lacks. Both dd and the shell are of this
    machine: the shell of a busybox has a dd of its own."""
    own = {"bin/dd": "/bin/dd", "bin/sh": "/bin/dash"}
    libraries = ("lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6")
    programs = {"bin/busybox": shell, **own, **{name: f"/{name}" for name in libraries}}
    links, files = _applets(shell)
    links = {name: target for name, target in links.items() if name not in own}
    archive(path, names, programs, links, files, Cmd=["/bin/sh"])


def agnhost(path, names, shell, program):
    """The upstream tests' program for everything, with a busybox."""
    programs = {"bin/busybox": shell, "agnhost": program}
    archive(path, names, programs, *_applets(shell), Entrypoint=["/agnhost"], Cmd=["pause"])


def _applets(program):
    """The links to a busybox, and the files that it wants."""
    applets = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{name}": "busybox" for name in applets if name != "busybox"}
    users = {"etc/passwd": "root:x:0:0:root:/:/bin/sh\n", "etc/group": "root:x:0:\n"}
    return links, users


def pause(path, source):
    """The program that holds a pod's namespaces."""
    program = path.with_suffix(".elf")
    subprocess.run(["gcc", "-Os", "-static", "-s", "-o", str(program), str(source)], check=True)
    archive(path, [PAUSE], {"bin/pause": program}, Entrypoint=["/bin/pause"])
    program.unlink()


def single(path, name, program):
    """An image of one static program."""
    archive(path, [name], {f"bin/{program.name}": program}, Entrypoint=[f"/bin/{program.name}"])


def _layer(programs, links, files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, mode in FOLDERS.items():
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, mode
            tar.addfile(info)
        for name, source in programs.items():
            with open(source, "rb") as file:
                _add(tar, name, file.read(), 0o755)
        for name, text in files.items():
            _add(tar, name, text.encode(), 0o644)
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return out.getvalue()


def _add(tar, name, data, mode):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))
