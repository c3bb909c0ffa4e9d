#!/usr/bin/env python3
"""Runs clang's thread-safety analysis over the sources of src/ that use base/mutex.h.

Usage: thread_safety.py BUILD [FILE…], with a build folder that has compile_commands.json, and source files below the
repository (default: all that include base/mutex.h, directly or not). Exit status 77: there is no clang.

The product is compiled by g++, which has no such analysis. Only what tells clang how to read a source is taken from
g++'s command lines: macros, include folders, the language. Nothing is written.
"""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

CLANG = "clang++-19"
REPOSITORY = Path(__file__).resolve().parents[3]
HEADER = "base/mutex.h"
SKIPPED = 77
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Of thread safety only; clang-tidy and g++ have the other warnings. No beta: it checks ABSL_ACQUIRED_BEFORE, which
# nothing here has.
ANALYSIS = ["-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
KEPT = re.compile(r"-(std=|D|U|I|isystem)")
WITH_VALUE = ("-D", "-U", "-I", "-isystem")


def flags_of(command):
    """The flags of a compiler's command line that clang needs."""
    kept = []
    words = iter(shlex.split(command))
    for word in words:
        if KEPT.match(word):
            kept.append(word)
            if word in WITH_VALUE:
                kept.append(next(words))
    return kept


def check(file, flags, folder="."):
    """What clang says of one source; empty if it finds nothing."""
    done = subprocess.run([CLANG, *ANALYSIS, *flags, str(file)], cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode != 0 or done.stderr else ""


def sources(build, repository=REPOSITORY):
    """{source of src/ that uses the header: (its flags, the folder that they are relative to)}."""
    source = repository / "src"
    known = {}

    def uses(file):
        if file not in known:
            known[file] = False  # for headers that include each other
            included = INCLUDE.findall(file.read_text())
            known[file] = HEADER in included or any(uses(source / name) for name in included if (source / name).is_file())
        return known[file]

    entries = json.loads((Path(build) / "compile_commands.json").read_text())
    found = {}
    for entry in entries:
        file = Path(entry["file"])
        if file.is_relative_to(source) and file.is_file() and uses(file):
            found[file] = (flags_of(entry["command"]), entry["directory"])
    return found


def run(tool, found, wanted, look):
    """Calls look(file, flags, folder) for each file of found(), or of `wanted`, and prints what it says. The exit
    status: 1 if it said something or there is no file, 77 if the tool is missing."""
    if shutil.which(tool) is None:
        print(f"skipped: there is no {tool} (scripts/deps tools)")
        return SKIPPED
    files = found()
    if wanted:
        files = {file: files[file] for file in (Path(name).resolve() for name in wanted)}
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        running = {pool.submit(look, file, flags, folder): file for file, (flags, folder) in files.items()}
        for done in concurrent.futures.as_completed(running):
            if words := done.result():
                bad += 1
                print(f"{running[done].relative_to(REPOSITORY)}:\n{words}", flush=True)
    print(f"{len(files)} files read, {bad} with findings")
    return 1 if bad or not files else 0


def main(arguments):
    build, *wanted = arguments
    return run(CLANG, lambda: sources(build), wanted, check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
