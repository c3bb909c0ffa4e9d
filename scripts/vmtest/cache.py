"""The cache directory: where images live between runs, and how they are made.

The name of an entry has a hash of what it was made from. An entry is made in a
temporary directory beside its place and renamed, under a lock. So an entry that
exists is complete, and two processes that need the same one make it once.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class HarnessError(Exception):
    """The harness itself failed, as opposed to the command that it ran."""


def note(text):
    """Prints one line of progress."""
    print(f"vmtest: {text}", file=sys.stderr, flush=True)


def cache_root():
    """${QUARRY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quarry}/vmtest, created if missing."""
    chosen = os.environ.get("QUARRY_CACHE")
    if not chosen:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        chosen = Path(base) / "quarry"
    root = Path(chosen).absolute() / "vmtest"
    root.mkdir(parents=True, exist_ok=True)
    return root


def checked(argv, **more):
    """Runs a tool. Returns its standard output; HarnessError with its message if it cannot be run, or fails."""
    more.setdefault("env", with_sbin())
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        raise HarnessError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip()[-2000:]}")
    return done.stdout


def digest(*parts):
    """A short name for these strings or bytes; stable across runs."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:16]


@contextlib.contextmanager
def locked(name):
    """Holds the cache's lock of this name; says so if it has to wait."""
    path = cache_root() / f"{name}.lock"
    with open(path, "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"waiting for another process that is making {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(name, make, rebuild=False):
    """The cached directory `name` (KIND-HASH), made by make(directory) if it is missing.

    If make() fails, nothing is left behind. The entry's modification time is
    the time of its last use, for prune().
    """
    place = cache_root() / name
    if not rebuild and _touch(place):
        return place
    kind = name.rpartition("-")[0]
    with locked(kind):
        if not rebuild and _touch(place):
            return place
        if place.exists() and in_use(place):
            raise HarnessError(f"{place} cannot be replaced while a guest uses it")
        for abandoned in cache_root().glob(f"making-{kind}-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f"making-{kind}-", dir=cache_root()))
        try:
            made = work / "entry"
            made.mkdir()
            make(made)
            if place.exists():
                place.rename(work / "old")
            made.rename(place)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return place


def _touch(place):
    try:
        os.utime(place)
    except FileNotFoundError:
        return False
    return True


def hold(place):
    """Marks an entry as used until the returned file is closed."""
    handle = open(place / "users", "a", encoding="ascii")
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def in_use(place):
    """True if a process holds this entry."""
    with contextlib.suppress(FileNotFoundError), open(place / "users", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def remove(place):
    """Removes an entry that no process holds. Returns True if it did."""
    if in_use(place):
        return False
    shutil.rmtree(place, ignore_errors=True)
    return True


def prune(kind, keep, older_than):
    """Removes entries of this kind beyond the newest `keep`, unless used within older_than seconds."""
    found = []
    for path in cache_root().glob(f"{kind}-*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_dir():
                found.append((path.stat().st_mtime, path))
    found.sort(reverse=True)
    for used, path in found[keep:]:
        if used < time.time() - older_than:
            remove(path)


def with_sbin():
    """This environment with the administrator's programs on the PATH, for other users too."""
    return dict(os.environ, PATH=os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin")
