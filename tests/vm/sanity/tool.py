"""The suites' programs, as scripts/lib/csi-sanity makes them."""

import subprocess
from pathlib import Path

import cache

REPOSITORY = Path(__file__).resolve().parents[3]
SKIPPED = 77


def csi_sanity(version="v1"):
    """The path of the suite of a CSI version, or None if it cannot be had; the reason is on standard error then."""
    done = subprocess.run([REPOSITORY / "scripts/lib/csi-sanity", version], stdout=subprocess.PIPE, text=True)
    if done.returncode == SKIPPED:
        return None
    if done.returncode != 0:
        raise cache.HarnessError(f"scripts/lib/csi-sanity {version} ended with {done.returncode}")
    return done.stdout.strip()
