"""The files that a guest gets, as read-only ext4 disk images cached by content.

There are three: the harness (agent and init), the build, and extra files. A
build's programs come with the shared libraries that the guest lacks. A library
that the guest has under the same soname is the guest's own. So libdevmapper,
liblvm2cmd and libc are those of the release under test. This works because a
newer release keeps an old soname's interface.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import cache
import native

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
EMPTY_FOLDERS = {"build": ("extra",)}


def harness():
    """The image with agent, vmctl and init."""
    agent = native.program("agent")
    return _disk("harness", {"agent": agent, "vmctl": agent, "init": HERE / "agent" / "init"})


def build_folder(chosen=None):
    """The build to use: chosen, else $QUARRY_BUILD, else build/release; None if there is none."""
    wanted = chosen or os.environ.get("QUARRY_BUILD")
    folder = Path(wanted) if wanted else REPOSITORY / "build" / "release"
    if folder.is_dir():
        return folder.absolute()
    if wanted:
        raise cache.HarnessError(f"there is no build in {folder}")
    return None


def build(folder, sonames):
    """The image with bin/, tests/bin/ and lib/ of a build; None if it has no programs."""
    files = {}
    for part in ("bin", "tests/bin"):
        for path in sorted((folder / part).rglob("*")):
            if path.is_file() and os.access(path, os.X_OK) and _is_elf_or_script(path):
                files[str(path.relative_to(folder))] = path
    if not files:
        return None
    for name, path in libraries(files.values(), sonames).items():
        files[f"lib/{name}"] = path
    return _disk("build", files)


def extra(paths, sonames):
    """The image with these files and folders, each under its own name; None if there are none."""
    files = {}
    for path in map(Path, paths):
        if path.is_dir():
            for inner in sorted(path.rglob("*")):
                if inner.is_file():
                    files[str(Path(path.absolute().name) / inner.relative_to(path))] = inner
        elif path.is_file():
            files[path.name] = path
        else:
            raise cache.HarnessError(f"there is no {path} to hand in")
    if not files:
        return None
    for name, path in libraries(files.values(), sonames).items():
        files[f".lib/{name}"] = path
    return _disk("extra", files)


def libraries(programs, sonames):
    """The shared libraries that these programs need and the guest lacks: {soname: path}.

    A library of the guest's own finds its dependencies in the guest, so the
    walk does not go through those.
    """
    found = {}
    wave = [path for path in programs if _is_elf(path)]
    places = _host_places(wave)
    while wave:
        wanted = _needed(wave) - sonames - found.keys()
        lost = sorted(name for name in wanted if name not in places)
        if lost:
            raise cache.HarnessError(f"neither host nor guest has {', '.join(lost)}")
        wave = [places[name] for name in wanted]
        found.update((name, places[name]) for name in wanted)
    return found


def _host_places(programs):
    """Where the host's loader finds the libraries of these programs, direct or not: {soname: path}."""
    places = {}
    if programs:
        # ldd's status is that of the worst file, and static programs count as bad.
        listed = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True).stdout
        for line in listed.splitlines():
            if match := re.match(r"\s+(\S+) => (/\S+)", line):
                places.setdefault(match[1], Path(match[2]))
    return places


def _needed(programs):
    """The sonames that these files name directly."""
    listed = subprocess.run(["readelf", "-dW", *map(str, programs)], capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", listed))


def _is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _is_elf_or_script(path):
    with open(path, "rb") as file:
        return file.read(4)[:2] in (b"\x7fE", b"#!")


def _disk(kind, files):
    """An image of {name in the image: path on the host}, without debugging symbols."""
    parts = []
    for name, path in sorted(files.items()):
        with open(path, "rb") as file:
            parts += [name, str(stat.S_IMODE(path.stat().st_mode)), hashlib.file_digest(file, "sha256").digest()]

    def make(place):
        tree = Path(tempfile.mkdtemp(dir=place.parent))
        tree.chmod(0o755)
        for folder in EMPTY_FOLDERS.get(kind, ()):
            (tree / folder).mkdir()
        for name, path in files.items():
            _copy(path, tree / name)
        size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
        _format(tree, place / "disk.img", size)

    name = f"{kind}-{cache.digest(*parts)}"
    image = cache.entry(name, make) / "disk.img"
    cache.prune(kind, keep=4, older_than=6 * 3600)
    return image


def _copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(stat.S_IMODE(source.stat().st_mode))
    if _is_elf(source):
        # Debugging symbols are most of a build's bytes. A backtrace needs only the symbol table, which stays.
        subprocess.run(["strip", "--strip-debug", str(target)], check=False, capture_output=True)


def _format(tree, target, size):
    # Generous, because the file is sparse. ext4's own need depends on the number and size of the files.
    kilobytes = size // 1024 * 5 // 4 + 32768
    with open(target, "wb") as disk:
        disk.truncate(kilobytes * 1024)
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal,^resize_inode", "-m", "0", "-d", str(tree), str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, env=cache.with_sbin())
    if done.returncode != 0:
        raise cache.HarnessError(f"mke2fs failed: {done.stderr.strip()}")
