"""Makes the manual pages: the texts of deploy/man, with the options that the programs list themselves.

Usage: man_pages.py --bin FOLDER --output FOLDER [--version V] [--date D]
Options and commands are never written by hand, so the pages cannot differ from the programs.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TEMPLATES = REPOSITORY / "deploy" / "man"
# Options that are no settings, so the configuration file does not have them.
NO_KEYS = ("help", "version", "config", "pool", "check")


class Entry(NamedTuple):
    """A line of --list-options (src/daemon/settings/option_list.h)."""

    command: str
    kind: str
    names: str
    value: str
    text: str


def entries(program):
    listed = subprocess.run([program, "--list-options"], capture_output=True, text=True, check=True).stdout
    return [Entry(*line.split("\t")) for line in listed.splitlines()]


def roff(text):
    """Plain text as roff: hyphens as on a command line, and no control line."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").replace("'", "\\(aq").replace('"', "\\(dq")
    return f"\\&{text}" if text.startswith(".") else text


def tagged(names, value, text):
    value = f" \\fI{roff(value)}\\fR" if value else ""
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in names)
    return f".TP\n{names}{value}\n{roff(text)}."


def options(listed, command=""):
    return "\n".join(
        tagged(entry.names.split(","), entry.value, entry.text.rstrip("."))
        for entry in listed
        if entry.command == command and entry.kind == "option"
    )


def keys(listed):
    """The settings as keys of the configuration file, without the names of their environment variables."""
    found = []
    for entry in listed:
        name = entry.names.split(",")[-1].removeprefix("--")
        if entry.kind == "option" and name not in NO_KEYS:
            found.append(tagged([name], "", re.sub(r" \([A-Z_]+\)$", "", entry.text)))
    return "\n".join(found)


def commands(listed):
    parts = []
    for command in (entry for entry in listed if entry.kind == "command"):
        arguments = [entry for entry in listed if entry.command == command.command and entry.kind == "argument"]
        words = "".join(f" \\fI{roff(entry.names)}\\fR" for entry in arguments)
        parts.append(f".SS \\fB{roff(command.command)}\\fR{words}\n{roff(command.text)}.")
        parts += [tagged([], entry.names, entry.text) for entry in arguments]
        parts.append(options([entry for entry in listed if entry.names != "-h,--help"], command.command))
    return "\n".join(part for part in parts if part)


def pages(programs, version, date):
    """{name: text} of all pages."""
    quarryd, quarryctl = entries(programs / "quarryd"), entries(programs / "quarryctl")
    fill = {
        "quarryd.8": {"OPTIONS": options(quarryd)},
        "quarryctl.8": {"OPTIONS": options(quarryctl), "COMMANDS": commands(quarryctl)},
        "quarry.toml.5": {"KEYS": keys(quarryd)},
    }
    made = {}
    for name, parts in fill.items():
        text = (TEMPLATES / f"{name}.in").read_text()
        for word, value in (parts | {"VERSION": version, "DATE": date}).items():
            text = text.replace(f"@{word}@", value)
        made[name] = text
    return made


def gateway_page(version, date):
    """{name: text} of the page of quarry-gateway, whose few options tests/package compares with the program."""
    name = "quarry-gateway.8"
    return {name: (TEMPLATES / f"{name}.in").read_text().replace("@VERSION@", version).replace("@DATE@", date)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", type=Path, required=True, help="folder of quarryd and quarryctl")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--version", default="")
    parser.add_argument("--date", default="")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    for name, text in pages(asked.bin, asked.version, asked.date).items():
        (asked.output / name).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
