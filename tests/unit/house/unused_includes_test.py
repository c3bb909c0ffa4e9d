"""Proves that unused_includes.py finds what it is for. The check of src/ itself is the test house_unused_includes.

Exit status 77: there is no clang-include-cleaner.
"""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import unused_includes  # noqa: E402

FLAGS = ["-std=c++23", "-I", str(unused_includes.REPOSITORY / "src")]


class UnusedIncludes(unittest.TestCase):
    def found(self, text):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "example.cc"
            file.write_text(text)
            return unused_includes.unused(file, FLAGS)

    def test_an_include_that_is_used_is_not_found(self):
        self.assertEqual("", self.found('#include "base/units.h"\nquarry::Bytes size;\n'))

    def test_an_unused_include_is_found(self):
        self.assertIn("base/units.h", self.found('#include "base/units.h"\nint size;\n'))

    def test_a_pragma_keeps_an_include(self):
        self.assertEqual("", self.found('#include "base/units.h"  // IWYU pragma: keep\nint size;\n'))

    def test_a_file_that_does_not_compile_is_told(self):
        self.assertIn("error", self.found('#include "base/no_such_file.h"\n'))

    def test_headers_are_read_too(self):
        repository = unused_includes.REPOSITORY
        entry = f'[{{"file": "{repository}/src/base/units.cc", "directory": "/", "command": "c++ -std=c++23 -c units.cc"}}]'
        with tempfile.TemporaryDirectory() as build:
            (Path(build) / "compile_commands.json").write_text(entry)
            found = unused_includes.files(build)
        self.assertEqual((["-std=c++23"], "/"), found[repository / "src/base/units.h"])


if __name__ == "__main__":
    if shutil.which(unused_includes.CLEANER) is None:
        print(f"skipped: there is no {unused_includes.CLEANER} (scripts/deps tools)")
        sys.exit(unused_includes.SKIPPED)
    unittest.main()
