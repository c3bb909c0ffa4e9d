"""quarry-gateway as a whole, with a fake versitygw. Usage: gateway_program_test.py PROGRAM [unittest's arguments]

As root it also proves that the rights of root are given up. Without root, quarry-gateway runs as the user that it is.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else "quarry-gateway"
ROOT = os.geteuid() == 0
USER = 12345 if ROOT else os.geteuid()
GROUP = 12346 if ROOT else os.getegid()
SECRET = "s3cr3t-of-root"

# Of versitygw; quarry-gateway runs no other one.
PINNED = re.search(r"versity/versitygw (\S+)", (Path(__file__).parents[3] / "deploy/gateway/go.mod").read_text())[1]

# Writes what it is into a file of its own, then waits. FAKE_ in its environment says how it behaves.
FAKE = """#!/usr/bin/python3
import json, os, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("Version  : PINNED")
    sys.exit()
folder = os.environ["FAKE_FOLDER"]
def note(what):
    with open(f"{folder}/{os.getpid()}.{what}", "w") as file:
        file.write("x")
signal.signal(signal.SIGHUP, lambda *_: note("hup"))
if os.environ.get("FAKE_STUBBORN"):
    signal.signal(signal.SIGTERM, lambda *_: note("term"))
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
state = {
    "pid": os.getpid(), "parent": os.getppid(), "argv": sys.argv, "env": dict(os.environ), "uid": os.getresuid(),
    "gid": os.getresgid(), "groups": os.getgroups(), "nnp": status["NoNewPrivs"].strip(), "capabilities":
    [status[name].strip() for name in ("CapPrm", "CapEff", "CapAmb")], "blocked": status["SigBlk"].strip(),
    "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd")), "umask": status["Umask"].strip(),
}
with open(f"{folder}/new", "w") as file:
    json.dump(state, file)
os.rename(f"{folder}/new", f"{folder}/{os.getpid()}.state")
if os.environ.get("FAKE_EXIT"):
    sys.exit(int(os.environ["FAKE_EXIT"]))
while True:
    time.sleep(60)
""".replace("PINNED", PINNED)


def eventually(what, probe, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = probe()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {seconds} s: {what}")


def alive(pid):
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Program(unittest.TestCase):
    def setUp(self):
        self.base = Path(tempfile.mkdtemp(prefix="quarry-gateway-"))
        self.base.chmod(0o755)
        self.notes = self.base / "notes"
        self.notes.mkdir(mode=0o700)
        os.chown(self.notes, USER, GROUP)
        self.folder = self.base / "s3"
        self.fake = self.base / "versitygw"
        self.fake.write_text(FAKE)
        self.fake.chmod(0o755)
        self.log = self.base / "log"
        self.process = None

    def tearDown(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.base)

    def start(self, *more, **options):
        arguments = [PROGRAM, "--dir", str(self.folder), *(more or ["--versitygw", str(self.fake)])]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **options)

    def write(self, owner=None, mode=0o600, **variables):
        """gateway.env, as quarryd writes it: by rename."""
        self.folder.mkdir(mode=0o755, exist_ok=True)
        values = {"ROOT_ACCESS_KEY": "root", "ROOT_SECRET_KEY": SECRET, "VGW_PORT": "127.0.0.1:1", "QUARRY_GENERATION": "1"}
        values |= {"FAKE_FOLDER": str(self.notes)} | variables
        new = self.folder / "new"
        new.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        new.chmod(mode)
        os.chown(new, USER if owner is None else owner, GROUP)
        new.rename(self.folder / "gateway.env")

    def states(self):
        found = [json.loads(path.read_text()) for path in self.notes.glob("*.state")]
        return {state["pid"]: state for state in found}

    def next(self, known=()):
        """The state of a gateway that is not among the known."""
        new = eventually(f"a gateway starts: {self.messages()}", lambda: set(self.states()) - set(known))
        return self.states()[new.pop()]

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def messages(self):
        return [line["msg"] for line in self.lines()]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)


class Starting(Program):
    def test_it_waits_for_the_file_even_if_the_folder_is_missing(self):
        self.start()
        eventually("it says that it waits", lambda: any("waiting for quarryd" in one for one in self.messages()))
        self.assertEqual(self.states(), {})
        self.write()
        self.next()
        self.assertEqual(self.stop(), 0)

    def test_the_secret_is_in_the_environment_and_neither_in_arguments_nor_in_the_log(self):
        self.write()
        self.start()
        state = self.next()
        self.assertEqual(state["env"]["ROOT_SECRET_KEY"], SECRET)
        self.assertNotIn(SECRET, " ".join(state["argv"]))
        self.assertEqual(state["argv"][-1], str(self.folder / "root"))
        self.stop()
        self.assertNotIn(SECRET, self.log.read_text())

    def test_it_gets_only_the_environment_of_the_file(self):
        self.write()
        self.start(env=dict(os.environ, AWS_SECRET_ACCESS_KEY="of-the-caller"))
        known = {"ROOT_ACCESS_KEY", "ROOT_SECRET_KEY", "VGW_PORT", "QUARRY_GENERATION", "FAKE_FOLDER", "LC_CTYPE"}
        self.assertLessEqual(set(self.next()["env"]), known)

    def test_it_gets_three_descriptors_and_no_blocked_signal(self):
        self.write()
        spare = os.open("/dev/null", os.O_RDONLY)
        os.set_inheritable(spare, True)
        self.start(close_fds=False)
        os.close(spare)
        state = self.next()
        # 3 is the directory that it lists.
        self.assertEqual(state["descriptors"], [0, 1, 2, 3])
        self.assertEqual(int(state["blocked"], 16), 0)
        self.assertEqual(state["umask"], "0077")

    @unittest.skipUnless(ROOT, "only root can give up its rights")
    def test_it_becomes_the_owner_of_the_file_for_good(self):
        self.write()
        self.start()
        state = self.next()
        self.assertEqual(state["uid"], [USER] * 3)
        self.assertEqual(state["gid"], [GROUP] * 3)
        self.assertEqual(state["groups"], [])
        self.assertEqual(state["nnp"], "1")
        self.assertEqual({int(one, 16) for one in state["capabilities"]}, {0})
        # The keeper itself, too.
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        self.assertIn(f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}\n", status)
        self.assertIn("CapPrm:\t0000000000000000\n", status)
        self.assertIn("NoNewPrivs:\t1\n", status)

    @unittest.skipUnless(ROOT, "only root can run it as another user")
    def test_as_the_gateways_user_it_needs_no_root(self):
        self.write()
        self.start(user=USER, group=GROUP, extra_groups=[])
        self.assertEqual(self.next()["uid"], [USER] * 3)

    @unittest.skipUnless(ROOT, "only root can run it as another user")
    def test_as_a_third_user_it_says_so_and_ends(self):
        self.write(owner=USER + 7)
        self.start(user=USER, group=GROUP, extra_groups=[])
        eventually("it cannot read the file of another user", lambda: "cannot use gateway.env" in self.messages())
        self.assertEqual(self.states(), {})

    @unittest.skipUnless(ROOT, "only root can make a file of root's")
    def test_it_never_serves_as_root(self):
        self.write(owner=0)
        self.start()
        eventually("it refuses", lambda: any("never runs as root" in str(line.get("error")) for line in self.lines()))
        self.assertEqual(self.states(), {})
        self.write()
        self.next()

    def test_a_bad_file_is_logged_once_and_the_next_good_one_serves(self):
        self.write(mode=0o644)
        self.start()
        eventually("it refuses", lambda: "cannot use gateway.env" in self.messages())
        time.sleep(1.2)
        self.assertEqual(self.messages().count("cannot use gateway.env"), 1)
        self.write()
        self.next()

    def test_without_versitygw_it_says_who_brings_it(self):
        alone = self.base / "bin"
        alone.mkdir()
        program = alone / "quarry-gateway"
        shutil.copy(PROGRAM, program)
        done = subprocess.run([program], capture_output=True, text=True, env={"PATH": "/usr/bin"}, timeout=20)
        self.assertEqual(done.returncode, 2)
        self.assertIn("quarry-s3-gateway", done.stderr)
        self.assertIn("scripts/gateway", done.stderr)

    def test_a_bad_flag_is_a_bad_setting(self):
        for arguments in (["--dir", "relative"], ["--versitygw", "relative"], ["--log-format", "xml"], ["--no-such"]):
            done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(arguments[0], done.stderr)


class Keeping(Program):
    def setUp(self):
        super().setUp()
        self.write()
        self.start()
        self.first = self.next()

    def test_one_that_was_killed_is_started_again(self):
        os.kill(self.first["pid"], signal.SIGKILL)
        self.next([self.first["pid"]])
        ended = next(line for line in self.lines() if line["msg"] == "versitygw ended")
        self.assertEqual(ended["how"], "signal 9")
        # No zombie stays.
        self.assertFalse(Path(f"/proc/{self.first['pid']}").exists())

    def test_a_new_generation_restarts_it(self):
        self.write(QUARRY_GENERATION="2")
        second = self.next([self.first["pid"]])
        self.assertEqual(second["env"]["QUARRY_GENERATION"], "2")
        self.assertFalse(alive(self.first["pid"]))
        self.assertNotIn("versitygw ended", self.messages())

    def test_lock_files_of_an_earlier_gateway_go_and_nothing_else(self):
        locks = self.folder / "root/.vgwlocks"
        (locks / "hash").mkdir(parents=True)
        (locks / "hash/0a").write_text("")
        outside = self.base / "outside"
        outside.mkdir()
        (outside / "kept").write_text("x")
        (locks / "link").symlink_to(outside)
        (self.folder / "root/photos").symlink_to(outside)
        for path in (locks, locks / "hash"):
            os.chown(path, USER, GROUP)
        self.folder.chmod(0o755)
        self.stop()
        self.start()
        self.next([self.first["pid"]])
        self.assertEqual(list(locks.iterdir()), [])
        self.assertEqual((self.folder / "root/photos/kept").read_text(), "x")

    def test_the_same_content_restarts_nothing(self):
        self.write()
        self.write()
        time.sleep(1)
        self.assertEqual(set(self.states()), {self.first["pid"]})
        self.assertTrue(alive(self.first["pid"]))

    def test_it_goes_on_when_the_file_goes_or_is_bad(self):
        (self.folder / "gateway.env").unlink()
        time.sleep(0.5)
        self.write(mode=0o644)
        eventually("it logs the bad file", lambda: "cannot use gateway.env" in self.messages())
        self.assertTrue(alive(self.first["pid"]))
        self.assertEqual(set(self.states()), {self.first["pid"]})

    def test_it_follows_a_folder_that_was_made_again(self):
        shutil.rmtree(self.folder)
        self.write(QUARRY_GENERATION="7")
        self.assertEqual(self.next([self.first["pid"]])["env"]["QUARRY_GENERATION"], "7")

    def test_hangup_is_passed_on(self):
        self.process.send_signal(signal.SIGHUP)
        eventually("it got it", lambda: (self.notes / f"{self.first['pid']}.hup").exists())
        self.assertTrue(alive(self.first["pid"]))

    def test_stopping_ends_it_and_leaves_none(self):
        self.assertEqual(self.stop(), 0)
        self.assertFalse(alive(self.first["pid"]))

    def test_it_dies_with_a_keeper_that_was_killed(self):
        self.process.kill()
        self.process.wait()
        eventually("the gateway is gone", lambda: not alive(self.first["pid"]))

    @unittest.skipUnless(ROOT, "only root can give the file to another user")
    def test_another_user_needs_another_process(self):
        self.write(owner=USER + 7)
        # After the first start it reads as the user that it became, which may not read the file of another.
        eventually("it says so", lambda: any(m in ("cannot continue", "cannot use gateway.env") for m in self.messages()))
        self.assertEqual(set(self.states()), {self.first["pid"]})


class Failing(Program):
    def test_one_that_keeps_ending_is_started_less_and_less_often(self):
        self.write(FAKE_EXIT="3")
        self.start()
        waits = lambda: [line["restart_in_ms"] for line in self.lines() if line["msg"] == "versitygw ended"]
        eventually("four ends", lambda: len(waits()) >= 4)
        self.assertEqual(waits()[:4], [100, 200, 400, 800])
        self.assertEqual(self.lines()[-1].get("how", "exit status 3"), "exit status 3")
        # A change starts it at once.
        began = time.monotonic()
        self.write()
        eventually("it runs", lambda: any(alive(pid) and not state["env"].get("FAKE_EXIT") for pid, state in self.states().items()))
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(self.stop(), 0)

    def test_a_stubborn_one_is_killed_after_two_seconds(self):
        self.write(FAKE_STUBBORN="yes")
        self.start()
        first = self.next()
        began = time.monotonic()
        self.assertEqual(self.stop(), 0)
        self.assertGreater(time.monotonic() - began, 1.9)
        self.assertTrue((self.notes / f"{first['pid']}.term").exists())
        self.assertFalse(alive(first["pid"]))

    def test_a_program_that_is_gone_is_named_and_tried_again(self):
        self.fake.rename(self.base / "away")
        self.write()
        self.start()
        eventually("it says so", lambda: any(str(self.fake) in str(line.get("error")) for line in self.lines()))
        (self.base / "away").rename(self.fake)
        self.next()


class Versions(Program):
    def problem(self):
        path = self.folder / "private/problem"
        return path.read_text() if path.exists() else ""

    def setUp(self):
        super().setUp()
        self.write()
        (self.folder / "private").mkdir(mode=0o700)
        os.chown(self.folder / "private", USER, GROUP)
        self.good = self.fake.read_text()

    def put(self, text):
        new = self.base / "new-versitygw"
        new.write_text(text)
        new.chmod(0o755)
        new.rename(self.fake)

    def test_another_version_does_not_run_and_the_right_one_does_at_once(self):
        self.put(self.good.replace(PINNED, "v0.1.0"))
        self.start()
        told = eventually("it tells quarryd", self.problem)
        self.assertIn("v0.1.0", told)
        self.assertIn(PINNED, told)
        self.assertIn("--any-versitygw", told)
        time.sleep(1.5)
        self.assertEqual(self.states(), {})
        self.assertEqual(self.messages().count("cannot start versitygw"), 1)
        self.put(self.good)
        self.next()
        self.assertEqual(self.problem(), "")

    def test_another_version_runs_if_the_administrator_says_so(self):
        self.put(self.good.replace(PINNED, "v0.1.0"))
        self.start("--versitygw", str(self.fake), "--any-versitygw")
        self.next()
        eventually("it warns", lambda: any("was not tested with Quarry" in one for one in self.messages()))

    def test_why_it_ended_is_told_to_quarryd(self):
        self.write(FAKE_EXIT="3")
        self.start()
        eventually("it tells", lambda: "exit status 3" in self.problem())


class Certificates(Program):
    def test_a_renewed_certificate_is_read_again_without_a_restart(self):
        files = {"VGW_CERT": self.base / "cert.pem", "VGW_KEY": self.base / "key.pem"}
        for path in files.values():
            path.write_text("old")
            os.chown(path, USER, GROUP)
        self.write(**{key: str(path) for key, path in files.items()})
        self.start()
        first = self.next()
        time.sleep(0.5)
        self.assertFalse((self.notes / f"{first['pid']}.hup").exists())
        (self.base / "new").write_text("new")
        (self.base / "new").rename(files["VGW_CERT"])
        eventually("it got SIGHUP", lambda: (self.notes / f"{first['pid']}.hup").exists())
        self.assertEqual(set(self.states()), {first["pid"]})

    @unittest.skipUnless(ROOT, "only root can make a file that the gateway cannot read")
    def test_one_that_its_user_cannot_read_is_named(self):
        key = self.base / "key.pem"
        key.write_text("x")
        key.chmod(0o600)
        self.write(VGW_CERT="/no/such/cert.pem", VGW_KEY=str(key))
        self.start()
        self.next()
        told = [line["error"] for line in self.lines() if "cannot read a file for TLS" in line["msg"]]
        self.assertEqual(len(told), 2)
        self.assertIn("/no/such/cert.pem", told[0])
        self.assertIn(str(key), told[1])


if __name__ == "__main__":
    unittest.main()
