"""What holds for each of the Debian packages. A test case that mixes this in has `deb`, the package, and `root`, what is in it."""

import re
import shutil
import subprocess
import unittest


class DebChecks:
    # What no command of the package's scripts may contain, as a regular expression.
    forbidden = None

    def test_its_scripts_name_no_tool_that_could_touch_data(self):
        for script in ("postinst", "prerm", "postrm"):
            text = (self.root / "DEBIAN" / script).read_text()
            commands = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
            self.assertNotRegex(commands, self.forbidden, script)
            done = subprocess.run(["sh", "-n", self.root / "DEBIAN" / script], capture_output=True, text=True)
            self.assertEqual(done.stderr, "")

    @unittest.skipUnless(shutil.which("lintian"), "there is no lintian")
    def test_lintian_finds_nothing(self):
        argv = ["lintian", "--allow-root", "--display-info", "--tag-display-limit", "0", self.deb]
        done = subprocess.run(argv, capture_output=True, text=True)
        self.assertEqual([line for line in done.stdout.splitlines() if not line.startswith("N:")], [])
