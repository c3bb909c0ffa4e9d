"""The temporary directory of one guest, and the logs that outlive it.

The directory's lock is held as long as its process lives. Each new process
removes the directories that no process holds, so that a killed harness leaves
nothing for long.
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

import cache

PREFIX = "quarry-vm-"
LOGS_KEPT = 20
_TELLING = re.compile("Kernel panic|Oops|BUG:|general protection|sysrq: Trigger|vmtest")


class Workspace:
    """folder exists until close()."""

    def __init__(self):
        sweep()
        while not self._make():
            self._lock.close()

    def _make(self):
        """Returns True if the new folder still exists once it is locked: another sweep() may have removed it."""
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = self.folder / "lock"
        self._lock = open(lock, "w", encoding="ascii")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return lock.exists()

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def sweep():
    """Removes what killed harnesses left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with open(folder / "lock", "r+", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def keep_log(path):
    """Copies a log to $QUARRY_VM_LOGS, or to the cache. Returns the path of the copy."""
    folder = Path(os.environ.get("QUARRY_VM_LOGS") or cache.cache_root() / "logs")
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"console-{time.strftime('%Y%m%d-%H%M%S')}-{path.parent.name.removeprefix(PREFIX)}.log"
    path.touch()
    shutil.copyfile(path, kept)
    logs = sorted(folder.glob("console-*.log"), key=lambda log: log.stat().st_mtime)
    for old in logs[:-LOGS_KEPT]:
        old.unlink(missing_ok=True)
    return kept


def tail(path, lines=15):
    """The last lines of a console log, after the earlier lines that report a crash."""
    text = Path(path).read_text(errors="replace").splitlines()
    telling = [line for line in text[:-lines] if _TELLING.search(line)]
    return "\n".join(telling[-5:] + text[-lines:])
