"""versitygw's own test client against versitygw as quarry-gateway starts it: some 690 cases. Usage:
full_flow_test.py QUARRY-GATEWAY

Cases that need what Quarry turns off must fail, and no other: ACLs, and the admin interface on the port of the clients.
Exits with 77 if versitygw cannot be built.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from served_folder import ROOT, USER, ServedFolder

REPOSITORY = Path(__file__).resolve().parents[2]
FEWEST_PASSED = 590
# By name and message.
EXPECTED = re.compile(
    # Its client makes accounts by the program `versitygw admin`, at the address of the clients.
    r": exit status 1$|^IAM_CreateBucket_\w+: .* instead got 405$"
    # --disable-acl, and the cases that make a bucket with another ownership for the sake of ACLs.
    r"|ACL|Acl|^\w*_acl\w*: |_canned_acl: "
    # Buckets that a failed case left behind.
    r"|^ListBuckets_empty_success: "
)


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
        access, secret = served.root_keys
        argv = [program, "test", "-a", access, "-s", secret, "-e", f"http://{served.address}", "full-flow", "--parallel"]
        # AWS_CA_BUNDLE would make its client want TLS. It starts ./versitygw.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        ran = subprocess.run(argv, cwd=base, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1500)
        served.stop()
    text = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout.decode(errors="replace"))
    counts = re.search(r"RAN: (\d+) PASS: (\d+) FAIL: (\d+)", text)
    if not counts:
        print(text[-4000:])
        return 1
    failed = [line.removeprefix("FAIL").strip() for line in text.splitlines() if line.startswith("FAIL ")]
    surprising = [line for line in failed if not EXPECTED.search(line)]
    print(counts[0], *surprising, sep="\n")
    return 0 if not surprising and int(counts[2]) >= FEWEST_PASSED and len(failed) == int(counts[3]) else 1


if __name__ == "__main__":
    sys.exit(main())
