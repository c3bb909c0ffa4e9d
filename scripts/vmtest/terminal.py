"""The user's end of a command in the guest: standard streams, and a terminal in raw mode."""

import contextlib
import os
import shutil
import signal
import termios
import threading
import tty


def writer(fd):
    """A function that writes all of some bytes to fd."""

    def write(data):
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    return write


def feed(command, fd=0):
    """Copies fd to the command's standard input, in a thread of its own, until either ends."""

    def copy():
        with contextlib.suppress(OSError):
            while data := os.read(fd, 65536):
                if not command.write(data):
                    return
        command.close_input()

    if _in_background(fd):
        command.close_input()
    else:
        threading.Thread(target=copy, name="stdin", daemon=True).start()


def _in_background(fd):
    """True if reading fd would stop this process, because fd is a terminal of another job."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) != os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def raw(command, fd=0):
    """Gives the terminal to a command on a pty: the command gets every key, and the pty follows its size."""
    before = termios.tcgetattr(fd)

    def resize(*_):
        columns, rows = shutil.get_terminal_size()
        command.resize(rows, columns)

    previous = signal.signal(signal.SIGWINCH, resize)
    tty.setraw(fd)
    resize()
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, previous)
