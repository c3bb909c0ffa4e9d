"""Makes those files of the Debian package that are not in the repository: manual pages, changelogs, and the list of the
libraries that the programs use. They get the time SOURCE_DATE_EPOCH and the maintainer DEBFULLNAME, DEBEMAIL, and the same build gives the same bytes.
"""

import argparse
import gzip
import os
import shutil
import sys
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path

import man_pages
from inventory import COMPILED_IN, InventoryError, libraries, owners, sbom, versions

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("quarryd", "quarryctl", "quarry-lvm")
NAME = "quarryd"


def packed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def changelog(version, suite, time):
    date = format_datetime(datetime.fromtimestamp(time, timezone.utc))
    maintainer = f"{os.environ['DEBFULLNAME']} <{os.environ['DEBEMAIL']}>"
    return f"{NAME} ({version}) {suite}; urgency=medium\n\n  * What changed is in changelog.gz.\n\n -- {maintainer}  {date}\n"


def lintian_overrides(suite):
    """The files with the overrides. lintian refuses names of checks that its own release does not have."""
    files = [REPOSITORY / "deploy/debian" / name for name in ("lintian-overrides", f"lintian-overrides.{suite}")]
    return [path for path in files if path.is_file()]


def linked(build):
    """The Debian packages of all libraries that the programs load, and of those that are compiled in."""
    loaded = libraries([build / "bin" / program for program in PROGRAMS])
    return owners(loaded.values()) | versions(COMPILED_IN)


def make(build, tree, version, suite):
    time = int(os.environ["SOURCE_DATE_EPOCH"])
    moment = datetime.fromtimestamp(time, timezone.utc)
    shutil.rmtree(tree, ignore_errors=True)
    upstream = version.rsplit("-", 1)[0]
    for name, text in man_pages.pages(build / "bin", upstream, moment.strftime("%Y-%m-%d")).items():
        packed(tree / f"share/man/man{name[-1]}" / f"{name}.gz", text)
    doc = tree / "share/doc" / NAME
    packed(doc / "changelog.Debian.gz", changelog(version, suite, time))
    packed(doc / "changelog.gz", (REPOSITORY / "CHANGELOG.md").read_text())
    inventory = sbom(version, linked(build), moment.strftime("%Y-%m-%dT%H:%M:%SZ"), "scripts/package")
    (doc / "sbom.spdx.json").write_bytes(inventory)
    overrides = "".join(path.read_text() for path in lintian_overrides(suite))
    (tree / "share/lintian/overrides").mkdir(parents=True)
    (tree / "share/lintian/overrides" / NAME).write_text(overrides)
    for library in COMPILED_IN:
        shutil.copyfile(f"/usr/share/doc/{library}/copyright", doc / f"copyright.{library}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--version", required=True, help="of the package, with its revision")
    parser.add_argument("--suite", required=True)
    asked = parser.parse_args()
    make(asked.build, asked.build / "package" / "tree", asked.version, asked.suite)


if __name__ == "__main__":
    try:
        main()
    except InventoryError as error:
        sys.exit(f"package: {error}")
