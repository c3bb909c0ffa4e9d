"""versitygw's own test client against versitygw as quarry-gateway starts it: some 690 cases. Usage:
full_flow_test.py QUARRY-GATEWAY

Only cases that need what Quarry turns off may fail (full_flow.py). Exits with 77 if versitygw cannot be built.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import full_flow
from served_folder import ROOT, USER, ServedFolder

REPOSITORY = Path(__file__).resolve().parents[2]


def main():
    done = subprocess.run([REPOSITORY / "scripts/gateway"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return done.returncode
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        base.chmod(0o755)
        program = shutil.copy(f"{done.stdout.strip()}/versitygw", base / "versitygw")
        served = ServedFolder(base / "s3", sys.argv[1], program)
        if ROOT:
            # Its cases make buckets, which in Quarry only quarryd does.
            os.chown(base / "s3/root", USER, USER)
        served.start()
        argv = full_flow.command(program, served.root_keys, served.address)
        ran = subprocess.run(
            argv, cwd=base, env=full_flow.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1500
        )
        served.stop()
    counts, wrong = full_flow.judge(ran.stdout)
    print(counts, *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
