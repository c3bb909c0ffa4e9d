"""A guest's disks: sparse files, served by diskd, which can make them fail."""

import re
import selectors
import socket
import subprocess
import threading

import cache
import native

ANSWER_SECONDS = 20


def parse_size(text):
    """Bytes of "512M", "1G" or "10737418240"; units are powers of 1024, sizes multiples of 4096."""
    match = re.fullmatch(r"(\d+)([KMGT]?)(i?B)?", str(text).strip(), re.IGNORECASE)
    if not match:
        raise cache.HarnessError(f"{text!r} is not a size like 512M or 1G")
    size = int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]
    if size < 1 << 20 or size % 4096:
        raise cache.HarnessError(f"a disk of {text} is not possible: at least 1M, in steps of 4K")
    return size


def disk_sizes(count, text):
    """The size of each of `count` disks, from one size for all or a list with commas."""
    sizes = [parse_size(part) for part in str(text).split(",")]
    if len(sizes) == 1:
        return sizes * count
    if len(sizes) != count:
        raise cache.HarnessError(f"{len(sizes)} sizes for {count} disks")
    return sizes


class Disks:
    """The files live as long as the guest; start() serves them for one of its boots."""

    def __init__(self, folder, sizes):
        self.paths = []
        self._lock = threading.Lock()
        self._process = None
        for number, size in enumerate(sizes, 1):
            path = folder / f"disk{number}.img"
            with open(path, "wb") as file:
                file.truncate(size)
            self.paths.append(path)

    def __len__(self):
        return len(self.paths)

    def start(self, spawn, log):
        """Starts diskd; returns one connected socket for each disk, for QEMU to inherit.

        spawn: a function like subprocess.Popen whose child dies with the harness. log: file for diskd's errors.
        """
        theirs, ours = [], []
        for _ in self.paths:
            here, there = socket.socketpair()
            ours.append(here)
            theirs.append(there)
        argv = [str(native.program("diskd"))]
        argv += [f"{end.fileno()}:{path}" for end, path in zip(theirs, self.paths, strict=True)]
        self._process = spawn(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=[end.fileno() for end in theirs],
        )
        for end in theirs:
            end.close()
        return ours

    def tell(self, *words):
        """Sends one command to diskd. Returns its answer's text; HarnessError with its reason if it fails."""
        if any(len(str(word).split()) != 1 for word in words):
            raise cache.HarnessError(f"{words!r} are not single words")
        with self._lock:
            if self._process is None:
                raise cache.HarnessError("the guest is off")
            try:
                self._process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
                self._process.stdin.flush()
                answer = self._answer()
            except OSError as error:
                raise cache.HarnessError(f"diskd has ended: {error}") from error
        if not answer.startswith("ok"):
            raise cache.HarnessError(answer.removeprefix("error: ") or "diskd has ended")
        return answer.removeprefix("ok").strip()

    def _answer(self):
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            if not ready.select(ANSWER_SECONDS):
                raise OSError(f"no answer within {ANSWER_SECONDS} s")
        return self._process.stdout.readline().decode().strip()

    def stop(self):
        """Ends diskd after it has written back its caches."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
            process.stdin.close()
            try:
                process.wait(ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

    def remove(self):
        for path in self.paths:
            path.unlink(missing_ok=True)
