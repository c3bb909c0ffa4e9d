"""Proves that thread_safety.py finds what it is for. The check of src/ itself is the test house_thread_safety.

Exit status 77: there is no clang.
"""

import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import thread_safety  # noqa: E402

FLAGS = ["-std=c++23", "-I", str(thread_safety.REPOSITORY / "src")]
SOURCE = """
#include <condition_variable>
#include <stop_token>
#include "base/mutex.h"

class Counter {
 public:
  void Add() { %s }
  bool Wait(const std::stop_token& stop) {
    quarry::MutexLock lock(mutex_);
    return changed_.wait(lock, stop, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return value_ > 0; });
  }

 private:
  void AddLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ++value_; }
  quarry::Mutex mutex_;
  std::condition_variable_any changed_;
  int value_ ABSL_GUARDED_BY(mutex_) = 0;
};
"""


class Analysis(unittest.TestCase):
    def findings(self, add):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "counter.cc"
            file.write_text(SOURCE % add)
            return thread_safety.check(file, FLAGS)

    def test_takes_what_holds_the_mutex(self):
        self.assertEqual("", self.findings("quarry::MutexLock lock(mutex_); ++value_;"))
        self.assertEqual("", self.findings("quarry::MutexLock lock(mutex_); AddLocked();"))
        self.assertEqual("", self.findings("quarry::MutexLock lock(mutex_); lock.unlock(); lock.lock(); ++value_;"))

    def test_refuses_a_guarded_member_without_its_mutex(self):
        self.assertIn("requires holding mutex 'mutex_'", self.findings("++value_;"))

    def test_refuses_a_guarded_member_after_unlock(self):
        found = self.findings("quarry::MutexLock lock(mutex_); lock.unlock(); ++value_;")
        self.assertIn("requires holding mutex 'mutex_'", found)

    def test_refuses_a_call_that_needs_the_mutex(self):
        self.assertIn("requires holding mutex 'mutex_'", self.findings("AddLocked();"))

    def test_refuses_a_mutex_that_is_held_already(self):
        found = self.findings("quarry::MutexLock lock(mutex_); quarry::MutexLock again(mutex_);")
        self.assertIn("acquiring mutex 'mutex_' that is already held", found)

    def test_refuses_what_clang_cannot_compile(self):
        self.assertIn("error:", self.findings("no_such_name();"))


class Sources(unittest.TestCase):
    def test_are_those_that_include_the_mutex_directly_or_not(self):
        source = thread_safety.REPOSITORY / "src"
        names = ("base/call.cc", "engine/pool/gate.cc", "base/units.cc")
        entries = [
            {"directory": "/", "file": str(source / name), "command": f"c++ -DX=1 -O2 -fPIC -Wall -std=c++23 -o x.o -c {name}"}
            for name in (*names, "../tests/fakes/fake_lvm.cc")
        ]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "compile_commands.json").write_text(json.dumps(entries))
            found = thread_safety.sources(folder)
        self.assertEqual({source / name for name in names[:2]}, set(found))
        self.assertEqual((["-DX=1", "-std=c++23"], "/"), found[source / names[0]])

    def test_keep_the_flags_that_have_a_value(self):
        flags = thread_safety.flags_of("ccache c++ -I a -Ib -isystem c -D 'D=\"x y\"' -fsanitize=thread -march=native -c e.cc")
        self.assertEqual(["-I", "a", "-Ib", "-isystem", "c", "-D", 'D="x y"'], flags)


if __name__ == "__main__":
    if shutil.which(thread_safety.CLANG) is None:
        print(f"skipped: there is no {thread_safety.CLANG} (scripts/deps tools)")
        sys.exit(thread_safety.SKIPPED)
    unittest.main()
