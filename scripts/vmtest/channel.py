"""The connection to the agent in the guest: runs commands there, answers its requests.

The frames and their numbers are those of agent/wire.h.
"""

import contextlib
import queue
import signal
import socket
import struct
import threading
import time

import cache

HEADER = struct.Struct("<IIB3x")
START, INPUT, INPUT_END, SIGNAL, CREDIT, RESIZE, REPLY, POWER_OFF = range(1, 9)
READY, OUTPUT, ERROR, EXIT, INPUT_CREDIT, REQUEST = range(65, 71)
WINDOW = 256 * 1024
MAX_PAYLOAD = 64 * 1024
SEND_SECONDS = 20


class GuestGone(cache.HarnessError):
    """The guest ended (power cut, crash, deadline) while a command or request was under way in it."""


class Channel:
    """One agent. A thread reads; writers take turns. A thread of its own runs on_request(arguments) -> (status, text).

    gone: the other end has closed the connection.
    """

    def __init__(self, sock, on_request):
        self._sock = sock
        self._on_request = on_request
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._commands = {}
        self._requests = {}
        self._next = 1
        self.gone = False
        self._ready = threading.Event()
        # A hanging guest reads nothing, and the sender must not hang with it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_SECONDS, 0))
        threading.Thread(target=self._read, name="agent", daemon=True).start()

    def wait_ready(self, timeout):
        """True when the agent has reported that it listens; False at the timeout or the guest's end."""
        return self._ready.wait(timeout) and not self.gone

    def start(self, argv, env=None, cwd="/root", pty=False, on_credit=None):
        """Starts a command. The caller then calls wait(), which also consumes the output.

        on_credit(payload), if given, is called when input was handed over, instead of waking write().
        """
        fields = ["pty" if pty else "pipe", cwd, str(len(argv)), *argv]
        fields += [f"{key}={value}" for key, value in (env or {}).items()]
        payload = pack_strings(fields)
        with self._lock:
            number = self._next
            self._next += 1
            command = RemoteCommand(self, number, on_credit)
            self._commands[number] = command
            gone = self.gone
        if gone:
            command.take(None, b"")
        self.send(START, number, payload)
        return command

    def power_off(self):
        self.send(POWER_OFF, 0, b"")

    def send(self, kind, number, payload):
        """Sends a frame. If the guest has ended or reads no more, closes the connection, which wakes all that wait."""
        try:
            with self._sending:
                self._sock.sendall(HEADER.pack(len(payload), number, kind) + payload)
        except OSError:
            # Only a part of the frame may have been sent, so nothing can follow it.
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def request(self, arguments):
        """On a connection to a keeper: the (status, text) of a request like vmctl's."""
        answer = queue.SimpleQueue()
        with self._lock:
            number = self._next
            self._next += 1
            self._requests[number] = answer
            gone = self.gone
        if gone:
            raise GuestGone("the keeper has ended")
        self.send(REQUEST, number, pack_strings(arguments))
        reply = answer.get()
        if reply is None:
            raise GuestGone("the keeper has ended")
        return reply[0], reply[1:].decode(errors="surrogateescape")

    def _read(self):
        try:
            stream = self._sock.makefile("rb")
            while head := stream.read(HEADER.size):
                length, number, kind = HEADER.unpack(head)
                self._take(kind, number, stream.read(length))
        except (OSError, struct.error):
            pass
        with self._lock:
            self.gone = True
            left = list(self._commands.values())
            unanswered = list(self._requests.values())
        for command in left:
            command.take(None, b"")
        for answer in unanswered:
            answer.put(None)
        self._ready.set()

    def _take(self, kind, number, payload):
        if kind == READY:
            self._ready.set()
        elif kind == REPLY:
            with self._lock:
                answer = self._requests.pop(number, None)
            if answer:
                answer.put(payload)
        elif kind == REQUEST:
            threading.Thread(target=self._serve, args=(number, payload), name="request", daemon=True).start()
        else:
            with self._lock:
                command = self._commands.get(number)
                if kind == EXIT:
                    self._commands.pop(number, None)
            if command:
                command.take(kind, payload)

    def _serve(self, number, payload):
        self.send(REPLY, number, reply_to(self._on_request, payload))


def pack_strings(strings):
    """Strings that end with NUL, as in the agent's frames."""
    if any("\0" in text for text in strings):
        raise ValueError("a NUL in an argument")
    return "".join(text + "\0" for text in strings).encode(errors="surrogateescape")


def unpack_strings(payload):
    return payload.decode(errors="surrogateescape").split("\0")[:-1]


def reply_to(serve, payload):
    """The payload of a REPLY frame: the answer of serve(arguments) to this REQUEST's payload."""
    try:
        status, text = serve(unpack_strings(payload))
    except cache.HarnessError as error:
        status, text = 1, f"vmctl: {error}\n"
    return bytes([status]) + text.encode(errors="surrogateescape")


class RemoteCommand:
    """A command that runs in the guest."""

    def __init__(self, channel, number, on_credit):
        self._channel = channel
        self._number = number
        self._on_credit = on_credit
        self._frames = queue.SimpleQueue()
        self._input_left = WINDOW
        self._input_changed = threading.Condition()
        self._ended = False
        self.status = None

    def wait(self, timeout=None, on_output=None, on_error=None):
        """Passes output to the two functions until the command ends. Returns its exit status.

        TimeoutError at the timeout, with the command still running; GuestGone if the guest ends first.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.status is None:
            left = None if deadline is None else max(0, deadline - time.monotonic())
            try:
                kind, payload = self._frames.get(timeout=left)
            except queue.Empty:
                raise TimeoutError(f"the command did not end within {timeout} s") from None
            if kind is None:
                raise GuestGone("the guest ended before the command did")
            if kind == EXIT:
                self.status = struct.unpack("<I", payload)[0]
                continue
            sink = on_output if kind == OUTPUT else on_error
            if sink:
                sink(payload)
            self._channel.send(CREDIT, self._number, struct.pack("<I", len(payload)))
        return self.status

    def write(self, data):
        """Sends input; waits while the command does not take it. False if the command has ended."""
        view = memoryview(data)
        while view:
            with self._input_changed:
                self._input_changed.wait_for(lambda: self._input_left > 0 or self._ended)
                if self._ended:
                    return False
                part = view[: min(len(view), self._input_left, MAX_PAYLOAD)]
                self._input_left -= len(part)
            self._channel.send(INPUT, self._number, bytes(part))
            view = view[len(part) :]
        return True

    def close_input(self):
        self._channel.send(INPUT_END, self._number, b"")

    def send_signal(self, number=signal.SIGTERM):
        """To the command's whole process group."""
        self._channel.send(SIGNAL, self._number, bytes([number]))

    def resize(self, rows, columns):
        self._channel.send(RESIZE, self._number, struct.pack("<HH", rows, columns))

    def relay(self, kind, payload):
        """Passes on a frame of a client that counts its own credit."""
        self._channel.send(kind, self._number, payload)

    def take(self, kind, payload):
        """The channel's reader calls this. kind None means that the guest has ended."""
        if kind == INPUT_CREDIT and self._on_credit:
            self._on_credit(payload)
        elif kind in (INPUT_CREDIT, EXIT, None):
            with self._input_changed:
                if kind == INPUT_CREDIT:
                    self._input_left += struct.unpack("<I", payload)[0]
                else:
                    self._ended = True
                self._input_changed.notify_all()
        if kind != INPUT_CREDIT:
            self._frames.put((kind, payload))
