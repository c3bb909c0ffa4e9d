"""The command line of scripts/vmtest/run."""

import argparse
import os
import signal
import sys
import threading
import time

import cache
import image
import machine
from channel import GuestGone
from guest import Guest

TIMED_OUT, HARNESS_FAILED = 124, 125

EPILOG = """\
The command's exit status is returned; 124: the time was up; 125: the harness failed.
Disk N has the serial number quarryN; `vmctl dev N` in the guest prints its device node,
and `vmctl --help` what else a test can do from inside.

  scripts/vmtest/run -- lsblk
  scripts/vmtest/run --disks 2 --size 4G --release trixie -- sh -c 'pvcreate $(vmctl dev 1)'
  scripts/vmtest/run --shell
"""


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="scripts/vmtest/run", description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--disks", type=int, default=4, metavar="N", help="blank disks (default 4)")
    parser.add_argument("--size", default="1G", metavar="S", help="size of each, sparse (default 1G)")
    parser.add_argument("--bus", choices=machine.BUSES, default="nvme", help="what they are attached to (default nvme)")
    parser.add_argument("--release", choices=image.RELEASES, default="bookworm", help="Debian release (default bookworm)")
    parser.add_argument("--build", metavar="DIR", help="build to hand in (default $QUARRY_BUILD, else build/release)")
    parser.add_argument(
        "--with", dest="extra", action="append", default=[], metavar="PATH", help="hand in a file or folder, in /opt/quarry/extra"
    )
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="set a variable for CMD")
    parser.add_argument("--cpus", type=int, default=2, metavar="N", help="processors (default 2)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="memory (default 1024)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="kill the guest after S seconds (default 600)")
    parser.add_argument("--shell", action="store_true", help="an interactive shell, or CMD on a terminal")
    parser.add_argument("command", nargs="*", metavar="CMD", help="after --: the command and its arguments")
    options = parser.parse_args(argv)
    if options.shell and not options.command:
        options.command = ["/bin/bash", "-l"]
    if not options.command:
        parser.error("no command: give one after --, or --shell")
    return options


def main():
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    deadline = time.monotonic() + options.timeout
    try:
        with Guest(
            disks=options.disks,
            size=options.size,
            bus=options.bus,
            release=options.release,
            build=options.build,
            extra=options.extra,
            cpus=options.cpus,
            memory=options.memory,
        ) as guest:
            return _run(guest, options.command, options, deadline)
    except cache.HarnessError as error:
        print(f"vmtest: {error}", file=sys.stderr)
        return HARNESS_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(guest, argv, options, deadline):
    env = dict(pair.split("=", 1) for pair in options.env)
    guest.boot()
    command = guest.start(argv, env=env)
    threading.Thread(target=_feed, args=(command,), daemon=True).start()
    try:
        return command.wait(deadline - time.monotonic(), _writer(1), _writer(2))
    except TimeoutError:
        print(f"vmtest: the command took more than {options.timeout} s; console log: {guest.keep_console()}", file=sys.stderr)
        return TIMED_OUT


def _feed(command):
    while data := os.read(0, 65536):
        if not command.write(data):
            return
    command.close_input()


def _writer(fd):
    def write(data):
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    return write
