#!/usr/bin/env python3
"""Tests how the upstream suite is run, with a list of specs made here and a program that plays e2e.test."""

import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path
from types import SimpleNamespace

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "scripts" / "vmtest")]

import suite  # noqa: E402

# Plays e2e.test: lists SPECS, or reports the state that the spec's name ends with, and ends with 1 if the name says so.
PROGRAM = """#!{python}
import json, re, sys
specs = {specs!r}
options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
if "--list-tests" in sys.argv:
    print("".join(f"    file.go:1: {title}{{name}}\\n" for name in specs))
else:
    focus = options["--ginkgo.focus"].replace("\\\\", "")
    name = next(name for name in specs if focus == "{title}" + name + "$")
    with open("{calls}", "a") as calls:
        calls.write(name + "\\n")
    state = name.split()[-1]
    report = [{{"SpecReports": [
        {{"State": "skipped", "LeafNodeText": "another"}},
        {{"State": state, "ContainerHierarchyTexts": ["{title}".strip(), ""], "LeafNodeText": name,
         "Failure": {{"Message": "why"}}}},
    ]}}]
    if state != "dies":
        open(options["--ginkgo.json-report"], "w").write(json.dumps(report))
    sys.exit("status 1" in name)
"""
# Lists as in suite/, and the specs that they name.
SKIPPED = {
    "not run": {"Windows": "no such node"},
    "skip themselves": {"different node|with data": {"says": "^why", "why": "Quarry cannot"}},
}
LISTED = ["[Feature:Windows]", "different node skipped", "with data source (a+b) skipped"]


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.calls = self.folder / "calls"
        self.lists = self.folder / "lists"
        self.lists.mkdir()
        self.write_skipped(SKIPPED)
        self.addCleanup(setattr, suite, "HERE", suite.HERE)
        suite.HERE = self.lists
        self.left = ""  # what the cluster has left

    def write_skipped(self, skipped):
        (self.lists / "skipped.json").write_text(json.dumps(skipped))

    def wait_empty(self):
        if self.left:
            raise AssertionError(self.left)

    def kubectl(self, *words):
        with open(self.calls, "a") as calls:
            calls.write(" ".join(words) + "\n")

    def run_suite(self, *names, focus="", tested=("build", "chart"), driver=None):
        """Whether it passes."""
        specs = [*LISTED, *names]
        program = self.folder / "e2e.test"
        program.write_text(
            PROGRAM.format(python=sys.executable, specs=specs, title=suite.TITLE, calls=self.calls)
        )
        program.chmod(0o755)
        plane = SimpleNamespace(kubeconfig="none", kubectl=self.kubectl)
        cluster = SimpleNamespace(plane=plane, nodes={"n1": None, "n2": None}, wait_empty=self.wait_empty)
        return suite.Suite(cluster, self.folder, tested, self.folder / "results", driver).run(focus)

    def called(self):
        return sorted(self.calls.read_text().splitlines()) if self.calls.exists() else []

    def test_passed_and_listed_skips_pass_and_are_not_run_again(self):
        self.assertTrue(self.run_suite("most passed"))
        self.assertIn("most passed", self.called())
        self.calls.unlink()
        self.assertTrue(self.run_suite("most passed", "another passed"))
        self.assertEqual(self.called(), ["another passed"])

    def test_specs_of_snapshots_run_last_and_on_one_node(self):
        of_snapshots = "a restore [Feature:VolumeSnapshotDataSource] passed"
        self.assertTrue(self.run_suite(of_snapshots, "most passed", focus="most|restore"))
        self.assertEqual(self.calls.read_text().splitlines(), ["most passed", "cordon n1", of_snapshots, "uncordon n1"])

    def test_all_nodes_are_back_if_a_spec_of_snapshots_leaves_something(self):
        self.left = "a volume"
        with self.assertRaises(AssertionError):
            self.run_suite("a restore [Feature:VolumeSnapshotDataSource] passed", focus="restore")
        self.assertEqual(self.called()[-1], "uncordon n1")

    def test_a_failure_fails_and_is_run_again(self):
        self.assertFalse(self.run_suite("most passed", "it failed"))
        self.calls.unlink()
        self.assertFalse(self.run_suite("most passed", "it failed"))
        self.assertEqual(self.called(), ["it failed"])

    def test_what_fails_once_does_not_count_as_passed_later(self):
        self.assertFalse(self.run_suite("most passed", "it dies"))
        luckier = PROGRAM.replace("state = name.split()[-1]", 'state = "passed"')
        with unittest.mock.patch(f"{__name__}.PROGRAM", luckier):
            self.assertFalse(self.run_suite("most passed", "it dies"))
        (summary,) = self.folder.glob("results/*/summary.txt")
        self.assertIn("passed, but failed before", summary.read_text())

    def test_a_program_that_ends_early_fails(self):
        self.assertFalse(self.run_suite("most passed", "it dies"))

    def test_an_unlisted_skip_fails(self):
        self.assertFalse(self.run_suite("most passed", "it skipped"))

    def test_a_listed_skip_that_passes_fails(self):
        self.assertFalse(self.run_suite("most passed", "different node passed"))

    def test_a_spec_may_run_with_one_definition_of_the_driver_and_skip_itself_with_another(self):
        entry = {**SKIPPED["skip themselves"]["different node|with data"], "but with": [suite.THIN.name]}
        self.write_skipped({**SKIPPED, "skip themselves": {**SKIPPED["skip themselves"], "most": entry}})
        self.assertTrue(self.run_suite("most passed", driver=suite.THIN))
        self.assertFalse(self.run_suite("most passed"))
        self.assertTrue(self.run_suite("most skipped"))
        self.assertFalse(self.run_suite("most skipped", driver=suite.THIN))

    def test_a_skip_for_another_reason_than_the_listed_one_fails(self):
        entry = {"says": "because", "why": "Quarry cannot"}
        self.write_skipped({**SKIPPED, "skip themselves": {"different node|with data": entry}})
        self.assertFalse(self.run_suite("most passed"))

    def test_a_spec_may_be_listed_with_several_reasons(self):
        other = {"says": "because", "why": "Quarry cannot"}
        self.write_skipped({**SKIPPED, "skip themselves": {"different": other, **SKIPPED["skip themselves"]}})
        self.assertTrue(self.run_suite("most passed"))

    def test_kept_results_are_judged_by_the_lists_of_today(self):
        self.assertFalse(self.run_suite("most passed", "it skipped"))
        self.calls.unlink()
        entry = {"says": "^why", "why": "Quarry cannot"}
        self.write_skipped({**SKIPPED, "skip themselves": {"different node|with data|it": entry}})
        self.assertTrue(self.run_suite("most passed", "it skipped"))
        self.write_skipped({**SKIPPED, "skip themselves": {"different node|with data|it|most": entry}})
        self.assertFalse(self.run_suite("most passed", "it skipped"))
        self.assertEqual(self.called(), [])

    def test_results_of_another_installation_do_not_count(self):
        self.assertTrue(self.run_suite("most passed"))
        self.calls.unlink()
        self.assertTrue(self.run_suite("most passed", tested=("build", "another chart")))
        self.assertIn("most passed", self.called())

    def test_specs_that_leave_something_have_failed(self):
        self.left = "a volume is left"
        with self.assertRaisesRegex(AssertionError, self.left):
            self.run_suite("most passed")
        self.left = ""
        self.calls.unlink()
        self.assertFalse(self.run_suite("most passed"))
        self.assertIn("most passed", self.called())

    def test_a_program_that_reports_success_and_ends_with_an_error_fails(self):
        self.assertFalse(self.run_suite("most passed", "status 1 passed"))

    def test_the_report_of_an_earlier_process_does_not_count(self):
        self.assertFalse(self.run_suite("most passed", "it dies", focus="it dies"))
        (log,) = self.folder.glob("results/*/it-dies-*.log")
        report = [{"SpecReports": [{"State": "passed", "LeafNodeText": suite.TITLE + "it dies"}]}]
        log.with_suffix(".json").write_text(json.dumps(report))
        self.assertFalse(self.run_suite("most passed", "it dies", focus="it dies"))

    def test_a_pattern_that_matches_nothing_fails(self):
        self.write_skipped({**SKIPPED, "not run": {"gone": "no such spec"}})
        with self.assertRaisesRegex(AssertionError, "gone"):
            self.run_suite("it passed")

    def test_only_what_matches_the_focus_runs(self):
        self.assertTrue(self.run_suite("most passed", "it failed", focus="most"))
        self.assertEqual(self.called(), ["most passed"])

    def test_names_with_signs_are_found_in_the_report(self):
        report = self.folder / "report.json"
        spec = {"State": "passed", "ContainerHierarchyTexts": [suite.TITLE.strip(), "a (b)"], "LeafNodeText": "c [d]"}
        report.write_text(json.dumps([{"SpecReports": [spec]}]))
        self.assertEqual(suite.outcome(report, "a (b) c [d]")["state"], "passed")
        self.assertEqual(suite.outcome(report, "other")["state"], "failed")
        self.assertEqual(suite.quoted("a (b) [c]: d-e/f"), r"a \(b\) \[c\]: d-e/f")


if __name__ == "__main__":
    unittest.main(verbosity=2)
