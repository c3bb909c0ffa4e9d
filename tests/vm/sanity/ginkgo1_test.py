"""The output of Ginkgo 1 is read correctly."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import ginkgo1  # noqa: E402

RULE = "-" * 30 + "\n"
PASSED = """Controller Service GetCapacity 
  should return capacity
  x/controller.go:138
STEP: connecting to CSI driver
•
"""
SLOW = """Controller Service CreateVolume 
  should be slow
  x/controller.go:254

• [SLOW TEST:9.739 seconds]
Controller Service
x/tests.go:44
  CreateVolume
  x/controller.go:174
    should be slow
    x/controller.go:254
"""
SKIPPED = """Controller Service ControllerPublishVolume 
  should fail when no node id is provided
  x/controller.go:664
STEP: connecting to CSI driver

S [SKIPPING] in Spec Setup (BeforeEach) [0.109 seconds]
Controller Service
x/tests.go:44
  ControllerPublishVolume
  x/controller.go:642
    should fail when no node id is provided [BeforeEach]
    x/controller.go:664

    ControllerPublishVolume not supported

    x/controller.go:645
"""
FAILED = """NodeGetCapabilities [Node Server] 
  should return appropriate capabilities
  x/node.go:60

• Failure [0.012 seconds]
NodeGetCapabilities [Node Server]
x/node.go:52
  should return appropriate capabilities [It]
  x/node.go:60

  Expected
      <[]*csi.NodeServiceCapability | len:0, cap:0>: nil
  not to be <nil>

  x/node.go:68
"""
RACED = """  should fail when the volume does not exist
  x/controller.go:785
STEP: connecting to CSI driver

• Failure in Spec Setup (BeforeEach) [60.074 seconds]
Controller Service
x/tests.go:44
  ControllerPublishVolume [BeforeEach]
  x/controller.go:642
    should fail when the volume does not exist
    x/controller.go:785

    Unexpected error:
            s: "Connection timed out",
    occurred

    x/sanity.go:97
"""


def run(*blocks, passed, failed=0, skipped=0):
    total = passed + failed + skipped
    return (
        "Running Suite: CSI Driver Test Suite\n" + RULE.join(blocks) + "\n"
        f"Ran {total - skipped} of {total} Specs in 1.000 seconds\n"
        f"FAIL! -- {passed} Passed | {failed} Failed | 0 Pending | {skipped} Skipped\n--- FAIL: TestSanity (1.00s)\n"
    )


class Output(unittest.TestCase):
    def test_a_spec_that_did_not_pass_is_found_by_its_full_name(self):
        counts, specs = ginkgo1.outcome(run(PASSED, SKIPPED, SLOW, FAILED, passed=2, failed=1, skipped=1))
        self.assertEqual({"specs": 4, "passed": 2, "failed": 1, "pending": 0, "skipped": 1}, counts)
        self.assertEqual(["skipped", "failed"], [spec[0] for spec in specs])
        self.assertEqual(
            "Controller Service / ControllerPublishVolume / should fail when no node id is provided", specs[0][1]
        )
        self.assertIn("not supported", specs[0][2])
        self.assertEqual("NodeGetCapabilities [Node Server] / should return appropriate capabilities", specs[1][1])
        self.assertIn("not to be <nil>", specs[1][2])

    def test_an_aborted_run_is_refused(self):
        with self.assertRaises(ValueError):
            ginkgo1.outcome(PASSED)

    def test_a_wrong_count_is_refused(self):
        with self.assertRaises(ValueError):
            ginkgo1.outcome(run(PASSED, passed=1, skipped=1))
        with self.assertRaises(ValueError):
            ginkgo1.outcome(run(PASSED, SKIPPED, passed=2))

    def test_only_the_suites_connection_race_is_retried(self):
        _, specs = ginkgo1.outcome(run(PASSED, RACED, SKIPPED, passed=1, failed=1, skipped=1))
        self.assertTrue(ginkgo1.raced(specs))
        _, specs = ginkgo1.outcome(run(RACED, FAILED, passed=0, failed=2))
        self.assertFalse(ginkgo1.raced(specs))
        self.assertFalse(ginkgo1.raced([]))


if __name__ == "__main__":
    unittest.main()
