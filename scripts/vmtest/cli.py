"""The command line of scripts/vmtest/run."""

import argparse
import contextlib
import os
import shlex
import signal
import sys

import cache
import image
import keeper
import machine
import terminal
from channel import GuestGone
from guest import Guest

TIMED_OUT, HARNESS_FAILED = 124, 125
DEFAULT_SECONDS = 600

DESCRIPTION = "Boots a guest with the build's programs on its PATH and blank disks, and runs CMD in it as root."
EPILOG = """\
Returns CMD's exit status; 124 if the time was up, 125 if the harness failed.
Disk N has the serial number quarryN; in the guest `vmctl dev N` prints its device
node, and `vmctl --help` lists what a test can do to disks and power from inside.

  scripts/vmtest/run -- lsblk
  scripts/vmtest/run --disks 2 --size 4G --release trixie -- sh -c 'pvcreate $(vmctl dev 1)'
  scripts/vmtest/run --shell
  scripts/vmtest/run --keep -- true; scripts/vmtest/run --attach ID -- CMD
"""


def parse(argv):
    """The options. Ends the process with a usage message if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="scripts/vmtest/run",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [options] -- CMD…",
    )
    guest = parser.add_argument_group("the guest")
    guest.add_argument("--disks", type=int, default=4, metavar="N", help="blank disks (default 4)")
    guest.add_argument("--size", default="1G", metavar="S", help="size of each, sparse (default 1G), or S1,S2,…")
    guest.add_argument("--bus", choices=machine.BUSES, default="nvme", help="bus of the disks (default nvme)")
    guest.add_argument("--sector", type=int, choices=(512, 4096), default=512, help="logical sectors (default 512)")
    guest.add_argument("--release", choices=image.RELEASES, default="bookworm", help="of Debian (default bookworm)")
    guest.add_argument("--kind", choices=image.KINDS, default="plain", help="of image: plain, node, server (default plain)")
    guest.add_argument(
        "--network",
        metavar="ADDRESS:PORT,…",
        help="give it a network card behind NAT; these addresses of the host lead to the guest's ports ('': none)",
    )
    guest.add_argument("--build", metavar="DIR", help="build to copy in (default $QUARRY_BUILD, else build/release)")
    guest.add_argument(
        "--with",
        dest="extra",
        action="append",
        default=[],
        metavar="PATH",
        help="copy a file or folder in too, as /opt/quarry/extra/NAME, which is on the PATH; repeatable",
    )
    guest.add_argument("--cpus", type=int, default=2, metavar="N", help="processors (default 2)")
    guest.add_argument("--memory", type=int, default=1024, metavar="MIB", help="memory (default 1024)")
    command = parser.add_argument_group("the command")
    command.add_argument("--timeout", type=float, metavar="S", help="end CMD after S seconds (default 600)")
    command.add_argument("--env", action="append", default=[], metavar="K=V", help="set a variable for CMD; repeatable")
    command.add_argument("--shell", action="store_true", help="run an interactive shell, or CMD on a terminal")
    command.add_argument("command", nargs="*", metavar="CMD", help="the command and its arguments, after --")
    keep = parser.add_argument_group("guests that stay")
    keep.add_argument("--keep", action="store_true", help="leave the guest running, and print how to reach it")
    keep.add_argument("--attach", metavar="ID", help="run CMD in a kept guest")
    keep.add_argument(
        "--ctl", metavar="WORDS", help="with --attach: a vmctl command from outside, or `boot` after a cut, or `stop`"
    )
    keep.add_argument("--list", action="store_true", help="show the IDs of kept guests")
    options = parser.parse_args(argv)
    if options.shell and not options.command:
        options.command = ["/bin/bash", "-l"]
    if options.ctl and not options.attach:
        parser.error("--ctl needs --attach")
    if not (options.command or options.ctl or options.list or options.keep):
        parser.error("no command: give one after --, or --shell")
    if options.shell and not sys.stdin.isatty():
        parser.error("--shell needs a terminal")
    if any("=" not in pair for pair in options.env):
        parser.error("--env needs K=V")
    if options.timeout is None and not options.shell:
        options.timeout = DEFAULT_SECONDS
    return options


def main():
    options = parse(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    try:
        return _main(options)
    except cache.HarnessError as error:
        print(f"vmtest: {error}", file=sys.stderr)
        return HARNESS_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of the output has gone. The interpreter must not try to flush to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE


def _main(options):
    if options.list:
        for ident in keeper.kept():
            print(ident)
        return 0
    if options.attach:
        return _control(options) if options.ctl else _in_kept(options.attach, options)
    settings = {
        name: getattr(options, name)
        for name in "disks size bus sector release kind network build extra cpus memory".split()
    }
    if options.keep:
        ident = keeper.launch(settings)
        status = _in_kept(ident, options) if options.command else 0
        _explain(ident)
        return status
    with Guest(**settings) as guest:
        return _in_own(guest, options)


def _explain(ident):
    this = sys.argv[0]
    cache.note(f"guest {ident} stays; to use, disturb and stop it:")
    for line in ("-- CMD…", "--shell", "--ctl 'pull 2'", "--ctl stop"):
        cache.note(f"  {this} --attach {ident} {line}")


def _control(options):
    status, text = keeper.attach(options.attach).request(shlex.split(options.ctl))
    print(text, end="", file=sys.stdout if status == 0 else sys.stderr)
    return status


def _environment(options):
    given = dict(pair.split("=", 1) for pair in options.env)
    if options.shell:
        given.setdefault("TERM", os.environ.get("TERM", "linux"))
    return given


def _in_own(guest, options):
    """Runs the command in a new guest. A command that still runs at the deadline ends with the guest."""
    guest.boot()
    with contextlib.ExitStack() as stack:

        def on_start(command):
            if options.shell:
                stack.close()
                stack.enter_context(terminal.raw(command))
            terminal.feed(command)

        try:
            return guest.follow(
                options.command,
                on_start,
                terminal.writer(1),
                terminal.writer(2),
                timeout=options.timeout,
                env=_environment(options),
                pty=options.shell,
            )
        except TimeoutError:
            stack.close()
            print(f"vmtest: not done after {options.timeout:g} s; {guest.describe_end()}", file=sys.stderr)
            return TIMED_OUT
        except GuestGone as error:
            stack.close()
            raise cache.HarnessError(f"{error}; {guest.describe_end()}") from error


def _in_kept(ident, options):
    """Runs the command in a kept guest. At the deadline the command is killed and the guest stays."""
    mode = {"env": _environment(options), "pty": options.shell}
    command = keeper.attach(ident).start(options.command, **mode)
    with contextlib.ExitStack() as stack:
        if options.shell:
            stack.enter_context(terminal.raw(command))
        terminal.feed(command)
        try:
            return command.wait(options.timeout, terminal.writer(1), terminal.writer(2))
        except TimeoutError:
            command.send_signal(signal.SIGKILL)
            print(f"vmtest: not done after {options.timeout:g} s; the command was killed", file=sys.stderr)
            return TIMED_OUT
