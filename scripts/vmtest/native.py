"""The harness's own small C++ programs, compiled when they are first needed.

They are not part of the project's build: the harness has to work without a build,
and must not change with the build's flags.
"""

import subprocess
from pathlib import Path

import cache

HERE = Path(__file__).resolve().parent
COMPILER = "g++"
FLAGS = ("-std=c++23", "-O2", "-Wall", "-Wextra", "-static", "-pthread", "-s")


def program(name):
    """The path of the static program built from the folder `name` beside this file."""
    folder = HERE / name
    sources = sorted(folder.glob("*.cc"))
    parts = [" ".join(FLAGS), _compiler_version()]
    for path in sources + sorted(folder.glob("*.h")):
        parts += [path.name, path.read_bytes()]

    def make(place):
        cache.note(f"compiling {name} (once)")
        argv = [COMPILER, *FLAGS, "-o", str(place / name), *map(str, sources)]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise cache.HarnessError(f"{name} does not compile:\n{done.stderr[-3000:]}")

    made = cache.entry(f"{name}-{cache.digest(*parts)}", make)
    cache.prune(name, keep=3, older_than=86400)
    return made / name


def _compiler_version():
    try:
        return subprocess.run([COMPILER, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise cache.HarnessError(f"{COMPILER} is needed: {error}") from error
