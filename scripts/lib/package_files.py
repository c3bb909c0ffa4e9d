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
from inventory import COMPILED_IN, InventoryError, go_modules, libraries, owners, sbom, versions

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("quarryd", "quarryctl", "quarry-lvm")
NAME, GATEWAY = "quarryd", "quarry-s3-gateway"


def packed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def changelog(name, version, suite, time):
    date = format_datetime(datetime.fromtimestamp(time, timezone.utc))
    maintainer = f"{os.environ['DEBFULLNAME']} <{os.environ['DEBEMAIL']}>"
    return f"{name} ({version}) {suite}; urgency=medium\n\n  * What changed is in changelog.gz.\n\n -- {maintainer}  {date}\n"


def lintian_overrides(folder, suite):
    """The files with the overrides. lintian refuses names of checks that its own release does not have."""
    files = [REPOSITORY / folder / name for name in ("lintian-overrides", f"lintian-overrides.{suite}")]
    return [path for path in files if path.is_file()]


def linked(build, programs, compiled_in):
    """The Debian packages of all libraries that the programs load, and of those that are compiled in."""
    loaded = libraries([build / "bin" / program for program in programs])
    return owners(loaded.values()) | versions(compiled_in)


class Tree:
    """The files of one package that are not in the repository, below a new folder."""

    def __init__(self, folder, name, version, suite):
        self.folder, self.name, self.version, self.suite = folder, name, version, suite
        self.time = int(os.environ["SOURCE_DATE_EPOCH"])
        self.moment = datetime.fromtimestamp(self.time, timezone.utc)
        self.doc = folder / "share/doc" / name
        shutil.rmtree(folder, ignore_errors=True)

    def pages(self, made):
        for name, text in made(self.version.rsplit("-", 1)[0], self.moment.strftime("%Y-%m-%d")).items():
            packed(self.folder / f"share/man/man{name[-1]}" / f"{name}.gz", text)

    def changelogs(self):
        packed(self.doc / "changelog.Debian.gz", changelog(self.name, self.version, self.suite, self.time))
        packed(self.doc / "changelog.gz", (REPOSITORY / "CHANGELOG.md").read_text())

    def inventory(self, packages, modules=()):
        created = self.moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        (self.doc / "sbom.spdx.json").write_bytes(sbom(self.version, packages, created, "scripts/package", modules))

    def overrides(self, folder):
        place = self.folder / "share/lintian/overrides"
        place.mkdir(parents=True)
        texts = [path.read_text() for path in lintian_overrides(folder, self.suite)]
        (place / self.name).write_text("".join(texts))


def make(build, tree, version, suite):
    made = Tree(tree, NAME, version, suite)
    made.pages(lambda upstream, date: man_pages.pages(build / "bin", upstream, date))
    made.changelogs()
    made.inventory(linked(build, PROGRAMS, COMPILED_IN))
    made.overrides("deploy/debian")
    for library in COMPILED_IN:
        shutil.copyfile(f"/usr/share/doc/{library}/copyright", made.doc / f"copyright.{library}")


def make_gateway(build, tree, version, suite, gateway):
    """gateway: the folder that scripts/gateway made."""
    made = Tree(tree, GATEWAY, version, suite)
    made.pages(man_pages.gateway_page)
    made.changelogs()
    made.inventory(linked(build, ["quarry-gateway"], ["libcli11-dev"]), go_modules(gateway / "modules"))
    made.overrides("deploy/debian/gateway")
    shutil.copyfile("/usr/share/doc/libcli11-dev/copyright", made.doc / "copyright.libcli11-dev")
    packed(made.doc / "copyright.versitygw.gz", (gateway / "copyright").read_text())
    program = tree / "libexec/quarry/versitygw"
    program.parent.mkdir(parents=True)
    shutil.copyfile(gateway / "versitygw", program)
    program.chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--version", required=True, help="of the package, with its revision")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--gateway", type=Path, help="folder of scripts/gateway: the files of quarry-s3-gateway instead")
    asked = parser.parse_args()
    if asked.gateway:
        make_gateway(asked.build, asked.build / "package" / "gateway-tree", asked.version, asked.suite, asked.gateway)
        return
    make(asked.build, asked.build / "package" / "tree", asked.version, asked.suite)


if __name__ == "__main__":
    try:
        main()
    except InventoryError as error:
        sys.exit(f"package: {error}")
