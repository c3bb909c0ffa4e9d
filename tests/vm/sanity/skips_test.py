"""The gate of the csi-sanity runs notices every problem."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import skips  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[3]
TABLE = """
| Not advertised | Specs beginning with | Why |
|---|---|---|
| controller CLONE_VOLUME | `Controller / CreateVolume / from a volume` | later |
| upstream PENDING | `Controller / ListVolumes / pagination` | never runs |
"""
ROWS = skips.allowed(TABLE)
OLDER_TABLE = """
| CSI | Not advertised | Specs beginning with |
|---|---|---|
| 0.2 | node STAGE_UNSTAGE_VOLUME | `Node / Stage` |
| 0.3 | controller LIST_SNAPSHOTS | `ListSnapshots` |
"""
OLDER_ROWS = skips.older_allowed(OLDER_TABLE)


def spec(name, state="passed", kind="It", message=""):
    *containers, leaf = name.split(" / ")
    failure = {"Failure": {"Message": message}} if message else {}
    return {"ContainerHierarchyTexts": containers, "LeafNodeText": leaf, "LeafNodeType": kind, "State": state} | failure


SKIP = spec("Controller / CreateVolume / from a volume", "skipped", message="Volume Cloning not supported")
PENDING = spec("Controller / ListVolumes / pagination", "pending")


def problems(*specs, advertised=(), passed=95):
    filler = [spec(f"Node / works {i}") for i in range(passed)]
    return skips.problems([{"SpecReports": [*filler, *specs]}], ROWS, set(advertised))


class Gate(unittest.TestCase):
    def assert_one(self, found, words):
        self.assertEqual(1, len(found[0]), found[0])
        self.assertIn(words, found[0][0])

    def test_a_good_run_is_good(self):
        self.assertEqual(([], {"passed": 95, "skipped": 1, "pending": 1}), problems(SKIP, PENDING))

    def test_a_failure_is_a_problem(self):
        for state in ("failed", "panicked", "timedout", "interrupted"):
            self.assert_one(problems(SKIP, PENDING, spec("Node / breaks", state, message="why")), f"{state}: Node / breaks: why")

    def test_a_failed_setup_is_a_problem(self):
        self.assert_one(problems(SKIP, PENDING, spec("", "failed", kind="BeforeSuite")), "BeforeSuite")

    def test_an_unlisted_skip_is_a_problem(self):
        self.assert_one(problems(SKIP, PENDING, spec("Node / odd", "skipped")), "not in docs/conformance.md")

    def test_a_skip_of_an_advertised_capability_is_a_problem(self):
        self.assert_one(problems(SKIP, PENDING, advertised=["controller CLONE_VOLUME"]), "is advertised")

    def test_a_listed_skip_that_does_not_happen_is_a_problem(self):
        self.assert_one(problems(PENDING), "does not happen")

    def test_pending_is_not_skipped(self):
        self.assert_one(problems(SKIP, PENDING, spec(skips.full_name(SKIP), "pending")), "says 'controller CLONE_VOLUME'")

    def test_a_short_run_is_a_problem(self):
        self.assert_one(problems(SKIP, PENDING, passed=10), "only 12 specs")

    def test_the_real_table_can_be_read(self):
        rows = skips.allowed((REPOSITORY / "docs/conformance.md").read_text())
        self.assertIn("controller MODIFY_VOLUME", {row[0] for row in rows})
        with self.assertRaises(ValueError):
            skips.allowed("# nothing here")


class OlderGate(unittest.TestCase):
    def problems(self, *specs, version="0.2", advertised=()):
        return skips.older_problems(version, specs, OLDER_ROWS, set(advertised))

    def test_each_version_has_its_own_rows(self):
        self.assertEqual([], self.problems(("skipped", "Node / Stage / works", "")))
        self.assertEqual([], self.problems(("skipped", "ListSnapshots / works", ""), version="0.3"))
        found = self.problems(("skipped", "Node / Stage / works", ""), ("skipped", "ListSnapshots / works", ""))
        self.assertEqual(1, len(found))
        self.assertIn("not in docs/conformance.md: ListSnapshots", found[0])

    def test_every_mistake_is_a_problem(self):
        good = ("skipped", "Node / Stage / works", "")
        for specs, advertised, words in (
            ((good, ("failed", "Node / breaks", "why")), (), "failed: Node / breaks: why"),
            ((good, ("failed", "Node / Stage / breaks", "why")), (), "failed: Node / Stage"),
            ((), (), "does not happen"),
            ((good,), ("node STAGE_UNSTAGE_VOLUME",), "is advertised"),
        ):
            found = self.problems(*specs, advertised=advertised)
            self.assertIn(words, found[0])

    def test_the_tables_do_not_mix(self):
        self.assertNotIn("node STAGE_UNSTAGE_VOLUME", {row[0] for row in skips.allowed(TABLE + OLDER_TABLE)})
        rows = skips.older_allowed((REPOSITORY / "docs/conformance.md").read_text())
        self.assertEqual({"0.2", "0.3"}, {row[0] for row in rows})
        with self.assertRaises(ValueError):
            skips.older_allowed(TABLE)


if __name__ == "__main__":
    unittest.main()
