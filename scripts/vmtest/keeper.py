"""A kept guest: a process of its own keeps it, and others attach to it.

The keeper listens on a socket in the guest's directory. An attached client speaks
to it as the harness speaks to the agent (channel.py), so that Channel serves
both. Only requests go the other way: from the client to the keeper.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import channel
import control
import workspace
from cache import HarnessError
from channel import Channel
from guest import Guest

READY_PREFIX = "ready "
HARNESS_FAILED = 125


def launch(settings):
    """Starts a keeper with Guest(**settings) booted. Returns its ID."""
    argv = [sys.executable, "-B", str(Path(__file__).resolve())]
    keeper = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.write(json.dumps(settings))
            keeper.stdin.close()
        line = keeper.stdout.readline().strip()
    except BaseException:
        keeper.terminate()
        raise
    if not line.startswith(READY_PREFIX):
        raise HarnessError("the guest could not be started")
    return line.removeprefix(READY_PREFIX)


def attach(ident):
    """A Channel to the keeper of this ID."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(str(_socket_path(ident)))
    except OSError as error:
        raise HarnessError(f"there is no guest {ident} ({error.strerror}); --list shows those there are") from error
    return Channel(sock, lambda arguments: (2, ""))


def kept():
    """The IDs of all kept guests."""
    found = []
    for path in Path(tempfile.gettempdir()).glob(f"{workspace.PREFIX}*/attach"):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            found.append(path.parent.name.removeprefix(workspace.PREFIX))
    return sorted(found)


def _socket_path(ident):
    return Path(tempfile.gettempdir()) / f"{workspace.PREFIX}{ident}" / "attach"


class _Session:
    """One attached client."""

    def __init__(self, guest, sock, stop):
        self._guest = guest
        self._sock = sock
        self._stop = stop
        self._sending = threading.Lock()
        self._commands = {}

    def serve(self):
        with contextlib.suppress(OSError), self._sock.makefile("rb") as stream:
            while head := stream.read(channel.HEADER.size):
                length, number, kind = channel.HEADER.unpack(head)
                self._take(kind, number, stream.read(length))
        # The client has gone, as when a terminal is closed.
        for command in list(self._commands.values()):
            command.send_signal(signal.SIGHUP)
        self._sock.close()

    def _take(self, kind, number, payload):
        if kind == channel.START:
            # Input may follow at once, so the command must exist before the next frame is read.
            started = threading.Event()
            threading.Thread(target=self._run, args=(number, payload, started), daemon=True).start()
            started.wait()
        elif kind == channel.REQUEST:
            threading.Thread(target=self._request, args=(number, payload), daemon=True).start()
        elif kind in (channel.INPUT, channel.INPUT_END, channel.SIGNAL, channel.RESIZE):
            if command := self._commands.get(number):
                command.relay(kind, payload)

    def _send(self, kind, number, payload):
        with contextlib.suppress(OSError), self._sending:
            self._sock.sendall(channel.HEADER.pack(len(payload), number, kind) + payload)

    def _run(self, number, payload, started):
        mode, cwd, count, *strings = channel.unpack_strings(payload)
        argv, environment = strings[: int(count)], strings[int(count) :]

        def on_start(command):
            if started.is_set():
                # This command runs after a reboot. The input was the previous command's.
                command.close_input()
            self._commands[number] = command
            started.set()

        try:
            status = self._guest.follow(
                argv,
                on_start,
                lambda data: self._send(channel.OUTPUT, number, data),
                lambda data: self._send(channel.ERROR, number, data),
                env=dict(pair.split("=", 1) for pair in environment),
                cwd=cwd,
                pty=mode == "pty",
                on_credit=lambda credit: self._send(channel.INPUT_CREDIT, number, credit),
            )
        except HarnessError as error:
            self._send(channel.ERROR, number, f"vmtest: {error}\n".encode())
            status = HARNESS_FAILED
        finally:
            started.set()
        self._commands.pop(number, None)
        self._send(channel.EXIT, number, struct.pack("<I", status))

    def _request(self, number, payload):
        self._send(channel.REPLY, number, channel.reply_to(self._obey, payload))

    def _obey(self, arguments):
        if arguments == ["stop"]:
            self._stop.set()
            return 0, ""
        if arguments == ["boot"]:
            return 0, f"up after {self._guest.boot():.1f} s\n"
        return control.obey(self._guest, arguments)


def _listen(path):
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener.bind(str(path))
    listener.listen(16)
    return listener


def _accept(listener, guest, stop):
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_Session(guest, sock, stop).serve, daemon=True).start()


def main():
    """The keeper process: settings as JSON on standard input, its ID on standard output."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(128 + number))
    try:
        with Guest(**json.load(sys.stdin)) as guest:
            guest.boot()
            listener = _listen(guest.folder / "attach")
            threading.Thread(target=_accept, args=(listener, guest, stop), daemon=True).start()
            print(READY_PREFIX + guest.folder.name.removeprefix(workspace.PREFIX), flush=True)
            # From here on there may be no reader of the output.
            with open(guest.folder / "keeper.log", "ab") as log, open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), 0)
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            stop.wait()
            # The client that sent the stop gets its answer first.
            time.sleep(0.2)
    except HarnessError as error:
        print(f"vmtest: {error}", file=sys.stderr)
        return HARNESS_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
