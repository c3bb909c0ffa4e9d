"""Manual pages and completion of the shell say what the programs do."""

import re
import shutil
import subprocess
import sys
import tomllib
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop(1))
REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "scripts" / "lib"))

import man_pages  # noqa: E402

QUARRYCTL = man_pages.entries(BUILD / "bin" / "quarryctl")
QUARRYD = man_pages.entries(BUILD / "bin" / "quarryd")
COMMANDS = [entry.command for entry in QUARRYCTL if entry.kind == "command"]
PAGES = man_pages.pages(BUILD / "bin", "1.2.3", "2026-01-01")
# Options of other programs that the pages mention.
OTHERS = {"--now"}


def names(entries):
    return {name for entry in entries if entry.kind == "option" for name in entry.names.split(",")}


def plain(page):
    """The words of a page, without its markup."""
    return re.sub(r"\\f.", "", page.replace("\\-", "-"))


class ManualPages(unittest.TestCase):
    def test_name_every_option_and_no_other(self):
        for page, entries in (("quarryd.8", QUARRYD), ("quarryctl.8", QUARRYCTL)):
            written = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", plain(PAGES[page])))
            known = {name for name in names(entries) if name.startswith("--")}
            self.assertEqual(known - written, set(), page)
            # quarryctl's texts name options of quarryd.
            self.assertEqual(written - known - OTHERS - names(QUARRYD), set(), page)

    def test_name_every_command(self):
        written = re.findall(r"^\.SS \\fB(.+?)\\fR", PAGES["quarryctl.8"], re.MULTILINE)
        self.assertEqual(written, COMMANDS)
        self.assertGreater(len(written), 5)

    def test_leave_nothing_to_fill_in(self):
        for name, page in PAGES.items():
            self.assertNotRegex(page, r"@[A-Z]+@", name)

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_are_proper_roff(self):
        for name, page in PAGES.items():
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True)
            self.assertEqual(done.stderr, "", name)

    def test_of_the_file_has_the_keys_that_the_example_has(self):
        example = (REPOSITORY / "deploy/debian/quarry.toml").read_text()
        self.assertEqual(tomllib.loads(example), {}, "everything is commented out")
        settings = tomllib.loads(re.sub(r"^#(?=\S)", "", example, flags=re.MULTILINE))
        self.assertEqual(len(settings.pop("pool")), 2)
        self.assertEqual(
            set(settings), {name.removeprefix("--") for name in names(QUARRYD)} - {"-h"} - set(man_pages.NO_KEYS)
        )
        for key in settings:
            self.assertIn(f".TP\n{key}\n", plain(PAGES["quarry.toml.5"]))


class Completion(unittest.TestCase):
    def complete(self, *words):
        """What bash would offer for the last word."""
        script = (
            f'. "{REPOSITORY}/deploy/bash/quarryctl"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _quarryctl;'
            ' printf "%s\\n" "${COMPREPLY[@]}"'
        )
        argv = ["bash", "-c", script, "bash", str(BUILD / "bin" / "quarryctl"), *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return set(done.stdout.split())

    def test_offers_every_command(self):
        self.assertEqual(self.complete(""), {words.split()[0] for words in COMMANDS})
        for first in ("volume", "bucket"):
            seconds = {words.split()[1] for words in COMMANDS if words.startswith(f"{first} ")}
            self.assertIn("create", seconds)
            self.assertEqual(self.complete(first, ""), seconds)
        self.assertEqual(self.complete("--json", "volume", "gr"), {"grow"})
        self.assertEqual(self.complete("--json", "evac"), {"evacuate"})

    def test_offers_the_options_of_a_command_and_of_all(self):
        common = names(entry for entry in QUARRYCTL if entry.command == "")
        self.assertIn("--json", common)
        for command in COMMANDS:
            own = names(entry for entry in QUARRYCTL if entry.command == command)
            self.assertEqual(self.complete(*command.split(), "-"), common | own, command)
        self.assertEqual(self.complete("--js"), {"--json"})

    def test_leaves_values_to_the_shell(self):
        self.assertEqual(self.complete("--config", ""), set())
        self.assertEqual(self.complete("map", "--width", "-"), set())
        self.assertEqual(self.complete("evacuate", ""), set())
        self.assertEqual(self.complete("--json", "-"), self.complete("-"), "it takes no value")


if __name__ == "__main__":
    unittest.main()
