"""A guest: boots, runs commands, and loses disks and power on request.

    with Guest(disks=4) as guest:
        guest.boot()
        print(guest.run(["lsblk"]).stdout)
        guest.pull_disk(2)
        guest.cut_power()
        guest.boot()
"""

import dataclasses
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import accel
import bundle
import cache
import control
import image
import machine
import workspace
from channel import Channel, GuestGone
from disks import Disks, disk_sizes
from qmp import Qmp

HANDED_IN = "/opt/quarry/bin:/opt/quarry/tests/bin:/opt/quarry/extra"
PATH = f"{HANDED_IN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "USER": "root", "SHELL": "/bin/bash"}
BOOT_SECONDS = 300
UNPLUG_SECONDS = 60
SHUTDOWN_SECONDS = 60

# A child dies with the thread that started it (see _spawn), so that thread must live as long as the process.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawn")


def _spawn(argv, **options):
    """subprocess.Popen of a child that is killed when this process ends, for whatever reason."""
    argv = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
    return _spawner.submit(subprocess.Popen, argv, start_new_session=True, **options).result()


def _left(deadline):
    """Seconds until the deadline; None if there is none."""
    return None if deadline is None else max(0, deadline - time.monotonic())


@dataclasses.dataclass
class Result:
    """How a command in the guest ended."""

    status: int
    stdout: str
    stderr: str


class Guest:
    """One virtual machine with disks 1..N, serial numbers quarry1..quarryN.

    size: of each disk, or as many sizes as disks, separated by commas. sector: bytes, 512 or 4096.
    build: folder to copy in (default $QUARRY_BUILD or build/release); extra: files and folders.
    kind: of the image (image.KINDS). image_folder: an image other than that, such as of commit(). network: the
    ADDRESS:PORTs of the host that lead to the same PORT of the guest, separated by commas; "" for none; None for no
    network device.

    Nothing of the guest outlives close(), or this process. Methods may be called
    from several threads; boot, cut_power, shutdown and close one at a time.
    """

    def __init__(
        self,
        disks=4,
        size="1G",
        bus="nvme",
        release="bookworm",
        build=None,
        extra=(),
        cpus=2,
        memory=1024,
        sector=512,
        kernel_options="",
        image_folder=None,
        network=None,
        kind="plain",
    ):
        if bus not in machine.BUSES:
            raise cache.HarnessError(f"bus {bus!r} is not one of {', '.join(machine.BUSES)}")
        if memory < machine.LEAST_MEMORY:
            raise cache.HarnessError(f"a guest needs at least {machine.LEAST_MEMORY} MiB of memory")
        if not 0 <= disks <= machine.MAX_DISKS:
            raise cache.HarnessError(f"a guest can have 0 to {machine.MAX_DISKS} disks")
        self.bus = bus
        self._sector = sector
        self._continuation = None
        self._cpus = cpus
        self._memory = memory
        self._network = network
        self._image = image_folder or image.image(release, kind)
        sonames = frozenset((self._image / "sonames").read_text().split())
        folder = bundle.build_folder(build)
        self._parts = [
            bundle.harness(),
            bundle.build(folder, sonames) if folder else None,
            bundle.extra(extra, sonames),
        ]
        self._options = machine.kernel_options(self._parts, kernel_options)
        # No process may replace or remove what a later boot() needs.
        self._holds = [cache.hold(self._image)] + [cache.hold(part.parent) for part in self._parts if part]
        self._accelerator = accel.accelerator(self._image / "vmlinuz")
        # Held by everything that changes disks or power, since a request of vmctl runs beside the caller's thread.
        self._lock = threading.RLock()
        self._qemu = None
        self._qmp = None
        self._channel = None
        self._pulled = set()
        self._backwards = False
        self._workspace = workspace.Workspace()
        self.folder = self._workspace.folder
        self.console = self.folder / "console.log"
        try:
            self.disks = Disks(self.folder, disk_sizes(disks, size))
            self._make_overlay()
        except BaseException:
            self._workspace.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Life

    def boot(self, timeout=BOOT_SECONDS):
        """Switches the guest on, with the disks as they are; returns the seconds until it was ready."""
        with self._lock:
            if self.running():
                raise cache.HarnessError("the guest is on already")
            self._off()
            self._continuation = None
            started = time.monotonic()
            monitor = self._start_machine()
            try:
                self._qmp = Qmp(monitor)
            except cache.HarnessError as error:
                raise self._failure(f"QEMU did not start ({error})") from error
            if not self._channel.wait_ready(timeout - (time.monotonic() - started)):
                ended = "ended while it booted" if self._channel.gone else f"was not up after {timeout:g} s"
                raise self._failure(f"the guest {ended}")
            return time.monotonic() - started

    def _start_machine(self):
        monitor, monitor_end = socket.socketpair()
        agent, agent_end = socket.socketpair()
        with open(self.folder / "qemu.log", "wb") as log:
            backends = self.disks.start(_spawn, log)
            for number in self._pulled:
                self.disks.tell("pull", number)
            inherited = [monitor_end, agent_end, *backends]
            argv = self._command_line(monitor_end.fileno(), agent_end.fileno(), [end.fileno() for end in backends])
            self._qemu = _spawn(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[end.fileno() for end in inherited],
            )
        for end in inherited:
            end.close()
        self._channel = Channel(agent, lambda arguments: control.obey(self, arguments))
        return monitor

    def running(self):
        return self._qemu is not None and self._qemu.poll() is None

    def cut_power(self, lose="all", seed=None, then=None):
        """Cuts the power: what the disks had not flushed is lost.

        lose: "all" of it, "none" (drives with power-loss protection), or "some", a random half of the
        4 KiB blocks, chosen by seed; None: another half each time. The guest's own root file system
        keeps what it had written.
        then: a command that follow() runs after it has booted again.
        """
        with self._lock:
            self._check_on()
            self._continuation = then
            self.disks.tell("cut", lose, random.randrange(1 << 30) if seed is None else seed)
            self._off()

    def shutdown(self, timeout=SHUTDOWN_SECONDS, then=None):
        """Switches the guest off in order: ends processes, writes everything back. then: as for cut_power()."""
        with self._lock:
            self._check_on()
            self._continuation = then
            self._channel.power_off()
            try:
                self._qemu.wait(timeout)
            except subprocess.TimeoutExpired:
                raise self._failure(f"the guest did not switch off within {timeout} s") from None
            self._off()

    def commit(self, place):
        """Makes an image folder of the guest's root file system as it is; the guest must be off."""
        if self.running():
            raise cache.HarnessError("the guest is on")
        for path in self._image.iterdir():
            if path.name not in ("root.img", "users"):
                shutil.copy(path, place)
        argv = ["qemu-img", "convert", "-q", "-f", "qcow2", "-O", "raw", str(self.folder / "root.qcow2")]
        argv.append(str(place / "root.img"))
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise cache.HarnessError(f"qemu-img failed: {done.stderr.strip()}")

    def close(self):
        """Ends the guest, and removes its disks and files."""
        if self.running():
            # Before the lock is taken: its holder may be waiting for the guest.
            self._qemu.kill()
        with self._lock:
            self._off()
        self._workspace.close()
        for hold in self._holds:
            hold.close()

    def keep_console(self):
        """Saves the console log so that it outlives the guest. Returns the copy's path."""
        return workspace.keep_log(self.console)

    def describe_end(self):
        """For a guest that ended by itself: the path of its console log, and its last lines."""
        kept = self.keep_console()
        return f"its console log is {kept}, and ends:\n{workspace.tail(kept)}"

    def _check_on(self):
        if not self.running():
            raise cache.HarnessError("the guest is off")

    def _off(self):
        if self._qemu is not None:
            self._qemu.kill()
            self._qemu.wait()
        self._qemu = self._qmp = None
        self.disks.stop()

    def _failure(self, what):
        self._off()
        qemu = (self.folder / "qemu.log").read_text(errors="replace").strip()[-1500:]
        return cache.HarnessError(f"{what}; {self.describe_end()}\n{qemu}".rstrip())

    def _make_overlay(self):
        overlay = self.folder / "root.qcow2"
        base = self._image / "root.img"
        argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(overlay)]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise cache.HarnessError(f"qemu-img failed: {done.stderr.strip()}")

    def _command_line(self, monitor_fd, agent_fd, disk_fds):
        argv = machine.command_line(
            self._accelerator, self._cpus, self._memory, self._image / "vmlinuz", self._options, self.console
        )
        argv += machine.connections(monitor_fd, agent_fd)
        if self._network is not None:
            argv += machine.network(filter(None, self._network.split(",")))
        argv += machine.system_disk(self.folder / "root.qcow2", self._parts)
        argv += machine.disks(self.bus, disk_fds, self._sector, self._pulled, self._backwards)
        return argv

    # Commands

    def start(self, argv, env=None, cwd="/root", pty=False, on_credit=None):
        """Starts a command as root; returns the RemoteCommand to wait for."""
        if self._channel is None:
            raise cache.HarnessError("the guest was never booted")
        environment = {**ENVIRONMENT, **(env or {})}
        return self._channel.start(argv, env=environment, cwd=cwd, pty=pty, on_credit=on_credit)

    def follow(self, argv, on_start, on_output, on_error, timeout=None, **options):
        """Runs a command. If it calls `vmctl cut` or `vmctl reboot`, boots again and runs the command named there.

        on_start(command) is called for each; options are those of start(). Returns the last one's
        exit status. TimeoutError at the timeout, with the command still running.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            command = self.start(argv, **options)
            on_start(command)
            try:
                return command.wait(_left(deadline), on_output, on_error)
            except GuestGone:
                with self._lock:
                    argv, self._continuation = self._continuation, None
                if argv is None:
                    raise
                self.boot(BOOT_SECONDS if deadline is None else min(BOOT_SECONDS, _left(deadline)))

    def run(self, argv, input=b"", timeout=None, check=False, env=None, cwd="/root"):
        """Runs a command to its end. Returns its status and all of its output.

        Kills the command at the timeout and raises TimeoutError. With check,
        raises HarnessError for a status other than 0.
        """
        command = self.start(argv, env=env, cwd=cwd)
        data = input.encode() if isinstance(input, str) else input

        def feed():
            if command.write(data):
                command.close_input()

        threading.Thread(target=feed, name="input", daemon=True).start()
        out, err = bytearray(), bytearray()
        try:
            status = command.wait(timeout, out.extend, err.extend)
        except TimeoutError:
            command.send_signal(signal.SIGKILL)
            raise
        result = Result(status, out.decode(errors="replace"), err.decode(errors="replace"))
        if check and status != 0:
            raise cache.HarnessError(f"{argv} ended with status {status}: {result.stderr or result.stdout}")
        return result

    # Disks

    def pull_disk(self, number):
        """Takes a disk out: its I/O fails, it loses what was not flushed, and it leaves the bus.

        It stays out over boots until return_disk(). Both may be called while the guest is off.
        """
        with self._lock:
            self._check_disk(number)
            if number in self._pulled:
                raise cache.HarnessError(f"disk {number} is out already")
            if self.running():
                self.disks.tell("pull", number)
                self._unplug(machine.disk_id(number))
            self._pulled.add(number)

    def return_disk(self, number):
        """Puts a pulled disk back, with its contents."""
        with self._lock:
            self._check_disk(number)
            if number not in self._pulled:
                raise cache.HarnessError(f"disk {number} is not out")
            if self.running():
                self.disks.tell("return", number)
                self._qmp.execute("device_add", **machine.disk_device(self.bus, number, self._sector))
            self._pulled.discard(number)

    def shuffle_disks(self):
        """From the next boot on the disks have the opposite order on the bus."""
        with self._lock:
            self._backwards = not self._backwards

    def stall_disk(self, number):
        """All I/O of this disk hangs until unstall_disk()."""
        self._tell_disk("stall", number)

    def unstall_disk(self, number):
        self._tell_disk("unstall", number)

    def slow_disk(self, number, milliseconds, *what):
        """Delays each I/O of this disk, one after the other; what "zeroes": only zeroing, while other I/O goes on."""
        self._tell_disk("slow", number, milliseconds, *what)

    def fail_disk(self, number, kinds, *extent):
        """Fails I/O. kinds: read, half (of the reads, at random), write, flush, all or off. extent: first byte, length."""
        self._tell_disk("error", number, kinds, *extent)

    def disk_info(self, number):
        """diskd's line about a disk: state, size, bytes not flushed, counts of I/O."""
        return self._tell_disk("info", number)

    def warn_disk(self, number, bits):
        """Sets the critical warnings of an NVMe disk's health log (the specification's bits; 0: none)."""
        with self._lock:
            self._check_disk(number)
            self._check_on()
            if self.bus != "nvme" or not str(bits).isdigit() or int(bits) > 255:
                raise cache.HarnessError("critical warnings are 0 to 255, of an NVMe disk")
            path = f"/machine/peripheral/{machine.disk_id(number)}"
            self._qmp.execute("qom-set", path=path, property="smart_critical_warning", value=int(bits))

    def _tell_disk(self, verb, number, *more):
        self._check_disk(number)
        return self.disks.tell(verb, number, *more)

    def _check_disk(self, number):
        if not 1 <= number <= len(self.disks):
            raise cache.HarnessError(f"there is no disk {number}; there are {len(self.disks)}")

    def _unplug(self, device):
        """Asks the guest to remove a device until it has; a guest may miss the first request."""
        deadline = time.monotonic() + UNPLUG_SECONDS
        while time.monotonic() < deadline:
            try:
                self._qmp.execute("device_del", id=device)
            except cache.HarnessError as error:
                if "in the process of unplug" not in str(error):
                    raise
            if self._qmp.wait_event("DEVICE_DELETED", timeout=5, device=device):
                return
        raise cache.HarnessError(f"the guest did not let go of {device} within {UNPLUG_SECONDS} s")
