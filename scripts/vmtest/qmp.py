"""QEMU's control protocol over a connected socket: commands and events."""

import json
import threading
import time

import cache

# Generous: on an overloaded machine QEMU may take long even to start.
ANSWER_SECONDS = 60


class Gone(cache.HarnessError):
    """QEMU closed the connection: it has ended."""


class Qmp:
    """One connection. execute() may be called from any thread, one command at a time."""

    def __init__(self, sock, timeout=ANSWER_SECONDS):
        self._sock = sock
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._greeted = False
        self._last = 0
        self._replies = {}
        self._events = []
        self._gone = False
        threading.Thread(target=self._read, name="qmp", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: self._greeted or self._gone, timeout)
        if not self._greeted:
            raise Gone("QEMU did not greet")
        self.execute("qmp_capabilities", timeout=timeout)

    def execute(self, command, timeout=ANSWER_SECONDS, **arguments):
        """The command's return value; HarnessError with QEMU's message if it fails."""
        message = {"execute": command}
        if arguments:
            message["arguments"] = arguments
        with self._turn:
            self._last += 1
            message["id"] = self._last
            try:
                self._sock.sendall(json.dumps(message).encode() + b"\n")
            except OSError as error:
                raise Gone(f"QEMU has ended ({error})") from error
            with self._changed:
                if not self._changed.wait_for(lambda: self._last in self._replies or self._gone, timeout):
                    raise cache.HarnessError(f"QEMU did not answer {command} within {timeout} s")
                if self._last not in self._replies:
                    raise Gone(f"QEMU ended during {command}")
                reply = self._replies[self._last]
                # Also drops replies that came after their callers' timeout.
                self._replies.clear()
        if "error" in reply:
            raise cache.HarnessError(f"QEMU refused {command}: {reply['error'].get('desc')}")
        return reply["return"]

    def wait_event(self, name, timeout, **data):
        """Waits for an event of this name whose data has these values, and takes it. None if it does not come."""
        deadline = time.monotonic() + timeout

        def take():
            for event in self._events:
                if event["event"] == name and data.items() <= event.get("data", {}).items():
                    self._events.remove(event)
                    return event
            return None

        with self._changed:
            while True:
                event = take()
                left = deadline - time.monotonic()
                if event or self._gone or left <= 0:
                    return event
                self._changed.wait(left)

    def _read(self):
        try:
            for line in self._sock.makefile("r", encoding="utf-8"):
                message = json.loads(line)
                with self._changed:
                    if "QMP" in message:
                        self._greeted = True
                    elif "event" in message:
                        self._events.append(message)
                    else:
                        self._replies[message.get("id")] = message
                    self._changed.notify_all()
        except (OSError, ValueError):
            pass
        with self._changed:
            self._gone = True
            self._changed.notify_all()
