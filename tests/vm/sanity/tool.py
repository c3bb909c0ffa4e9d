"""The suites' programs, as scripts/lib/csi-sanity builds them."""

import subprocess
from pathlib import Path

import cache

REPOSITORY = Path(__file__).resolve().parents[3]
SKIPPED = 77


def csi_sanity(version="v1"):
    """Returns the path of a CSI version's suite, or None if it is not available; then standard error has the reason."""
    done = subprocess.run([REPOSITORY / "scripts/lib/csi-sanity", version], stdout=subprocess.PIPE, text=True)
    if done.returncode == SKIPPED:
        return None
    if done.returncode != 0:
        raise cache.HarnessError(f"scripts/lib/csi-sanity {version} ended with {done.returncode}")
    return done.stdout.strip()
