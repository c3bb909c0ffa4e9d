"""Decides whether KVM can be used here: only if it has booted a kernel.

Even if /dev/kvm exists and opens, a guest may hang at its first instructions, or
QEMU may abort. The cache keeps the answer for this host kernel, CPU and QEMU;
`image --probe-kvm` tries again.
"""

import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

import cache
import qemu

PROBE_SECONDS = 10
# What a kernel without any disk prints at the end of its boot.
PROOF = b"Unable to mount root fs"


def accelerator(kernel, again=False):
    """"kvm" or "tcg"; $QUARRY_VM_ACCEL decides if it is set to one of them."""
    chosen = os.environ.get("QUARRY_VM_ACCEL", "auto")
    if chosen in ("kvm", "tcg"):
        return chosen
    if chosen != "auto":
        raise cache.HarnessError(f"QUARRY_VM_ACCEL is {chosen!r}, not kvm, tcg or auto")
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    place = cache.cache_root() / f"kvm-{cache.digest(*_machine())}"
    with cache.locked("kvm"):
        if place.exists() and not again:
            return place.read_text().split()[0]
        cache.note(f"trying whether KVM works here (at most {PROBE_SECONDS} s, once)")
        works, reason = probe(kernel)
        answer = "kvm" if works else "tcg"
        cache.note(f"{answer}: {reason}")
        temporary = place.with_suffix(f".{os.getpid()}")
        temporary.write_text(f"{answer} {reason}\n")
        temporary.rename(place)
    return answer


def _machine():
    """The strings that the answer depends on."""
    seen = set()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "flags", "microcode")):
                seen.add(line)
    except OSError:
        pass
    return [platform.release(), platform.version(), *sorted(seen), qemu.version(qemu.command())]


def probe(kernel, seconds=PROBE_SECONDS, hang=False):
    """Boots the kernel with KVM and no disk. Returns (True if it works, reason).

    hang: uses a machine that never starts instead, to test the deadline.
    """
    how = ["-accel", "tcg", "-S"] if hang else ["-accel", "kvm", "-cpu", "host"]
    argv = [*qemu.command(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-M", "q35", *how, "-smp", "2", "-m", "512M", "-serial", "stdio"]
    argv += ["-kernel", str(kernel), "-append", "console=ttyS0 panic=-1 root=/dev/nothing"]
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = running.wait(seconds)
        except subprocess.TimeoutExpired:
            return False, f"a guest did not boot within {seconds} s"
        finally:
            running.kill()
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                cache.note(f"process {running.pid} hangs in the host's KVM and cannot be killed")
        output.seek(0)
        text = output.read()
    if PROOF in text:
        return True, f"a guest booted in {time.monotonic() - started:.1f} s"
    last = text.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
    return False, f"a guest ended with status {status}: {last[0].strip()[:200]}"
