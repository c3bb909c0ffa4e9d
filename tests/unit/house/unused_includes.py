#!/usr/bin/env python3
"""Finds #include lines of src/ that the file itself does not need.

Usage: unused_includes.py BUILD [--remove] [FILE…], with a build folder that has compile_commands.json, and files below
src/ (default: all). --remove takes the lines out. Exit status 77: there is no clang-include-cleaner.

Lines that are missing are not looked for: a header may give what its own interface needs. An include that others need
from this file bears "// IWYU pragma: export", one that only a macro or a link needs "// IWYU pragma: keep".
"""

import json
import subprocess
import sys
from pathlib import Path

from thread_safety import REPOSITORY, SKIPPED, flags_of, run

CLEANER = "clang-include-cleaner-19"
# Headers that pass on what others of their library declare.
PASSED_OVER = r"fmt/.*,CLI/CLI\.hpp,nlohmann/json\.hpp,toml\+\+/toml\.h,sys/(prctl|mount)\.h"


def unused(file, flags, folder=".", remove=False):
    """The unused includes of one file, a line each."""
    action = ["--edit"] if remove else ["--print=changes"]
    done = subprocess.run(
        [CLEANER, "--insert=false", f"--ignore-headers={PASSED_OVER}", *action, str(file), "--", "-xc++", "-Wno-everything", *flags],
        cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr
    return "".join(f"{line}\n" for line in done.stdout.splitlines() if line.startswith("- "))


def files(build, repository=REPOSITORY):
    """{file of src/: (flags, the folder that they are relative to)}. A header has those of a source beside it."""
    source = repository / "src"
    found, folders = {}, {}
    for entry in json.loads((Path(build) / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if file.is_relative_to(source) and file.is_file():
            found[file] = (flags_of(entry["command"]), entry["directory"])
            folders.setdefault(file.parent, found[file])
    for header in source.rglob("*.h"):
        folder = header.parent
        while folder not in folders and folder != source:
            folder = folder.parent
        found[header] = folders.get(folder) or next(iter(folders.values()))
    return found


def main(arguments):
    remove = "--remove" in arguments
    build, *wanted = [word for word in arguments if word != "--remove"]
    return run(CLEANER, lambda: files(build), wanted, lambda *file: unused(*file, remove))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
