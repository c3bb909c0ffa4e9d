"""Finds a QEMU to boot guests with.

Debian 12's QEMU 7.2 spends most of an emulated guest's time in itself: version 10 needs two thirds of its processor
time for the same commands. So where the machine's own is older than NEEDED, Debian's backport of a newer one is
unpacked into the cache, beside the machine's own and without installing anything. It uses the libraries that the
machine's own QEMU has brought along.
"""

import functools
import os
import re
import subprocess
import time

import cache
import debian

NAME = "qemu-system-x86_64"
NEEDED = 10
PACKAGES = ("qemu-system-x86", "qemu-system-data", "seabios")
SUITE = "bookworm-backports"
# How long the harness does not try again after it could not fetch the backport.
PATIENCE_SECONDS = 3600


@functools.cache
def command():
    """The program, and the arguments that it always needs. $QUARRY_VM_QEMU names another program."""
    chosen = os.environ.get("QUARRY_VM_QEMU")
    if chosen:
        return (chosen,)
    if _number((NAME,)) >= NEEDED:
        return (NAME,)
    return _backport() or (NAME,)


def _number(argv):
    """The first number of its version. HarnessError if the program does not start."""
    text = version(argv)
    found = re.search(r"version (\d+)", text)
    if found is None:
        raise cache.HarnessError(f"{argv[0]} --version does not say a version: {text[:200]}")
    return int(found[1])


def version(argv):
    """What the program says about its version. HarnessError if it does not start."""
    try:
        done = subprocess.run([*argv, "--version"], capture_output=True, text=True)
    except OSError as error:
        raise cache.HarnessError(f"QEMU is needed (package qemu-system-x86): {error}") from error
    if done.returncode != 0:
        raise cache.HarnessError(f"{argv[0]} does not start: {done.stderr.strip()[-500:]}")
    return done.stdout


def _backport():
    """The command of the backport in the cache; None if it cannot be fetched, or does not run here."""
    name = f"qemu-{cache.digest(SUITE, *PACKAGES)}"
    refused = cache.cache_root() / f"{name}.refused"
    if _is_recent(refused):
        return None

    def fetch(place):
        if _is_recent(refused):
            raise cache.HarnessError("another process has just tried in vain to fetch a newer one")
        _fetch(place)

    try:
        found = _unpacked(cache.entry(name, fetch))
        version(found)  # what another machine has put into the cache may not run here
        return found
    except (cache.HarnessError, OSError) as error:
        cache.note(f"guests run with the machine's own QEMU, which is slower: {error}")
        refused.touch()
        return None


def _is_recent(refused):
    try:
        return refused.stat().st_mtime > time.time() - PATIENCE_SECONDS
    except FileNotFoundError:
        return False


def _unpacked(place):
    """The command of a QEMU whose packages are unpacked in this folder."""
    data = (option for folder in ("qemu", "seabios") for option in ("-L", str(place / "usr/share" / folder)))
    return (str(place / "usr/bin" / NAME), *data)


def _fetch(place):
    cache.note(f"fetching a newer QEMU from {SUITE} (once)")
    debian.unpack(SUITE, PACKAGES, place)
    found = _number(_unpacked(place))
    if found < NEEDED:
        raise cache.HarnessError(f"{SUITE} has version {found} only")
