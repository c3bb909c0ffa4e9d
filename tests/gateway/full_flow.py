"""What versitygw's own test client must say of a gateway that is started as quarry-gateway starts it."""

import os
import re

FEWEST_PASSED = 590
# Cases that need what Quarry turns off, by name and message: ACLs, and the admin interface on the port of the clients.
EXPECTED = re.compile(
    # Its client makes accounts by the program `versitygw admin`, at the address of the clients.
    r": exit status 1$|^IAM_CreateBucket_\w+: .* instead got 405$"
    # --disable-acl, and the cases that make a bucket with another ownership for the sake of ACLs.
    r"|ACL|Acl|^\w*_acl\w*: |_canned_acl: "
    # Buckets that a failed case left behind.
    r"|^ListBuckets_empty_success: "
)


def command(program, keys, address, what=("full-flow", "--parallel")):
    """It starts ./versitygw, so it must run in the folder of the program. keys: of root. what: or the name of one case; then
    the exit status says whether it passed."""
    access, secret = keys
    return [program, "test", "-a", access, "-s", secret, "-e", f"http://{address}", *what]


def environment():
    """AWS_CA_BUNDLE would make its client want TLS."""
    return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}


def judge(output):
    """(the line with the counts, what is wrong). Only the expected cases may fail, and no count may be missing."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", output.decode(errors="replace"))
    counts = re.search(r"RAN: (\d+) PASS: (\d+) FAIL: (\d+)", text)
    if not counts:
        return "", [f"there are no counts: {text[-4000:]}"]
    failed = [line.removeprefix("FAIL").strip() for line in text.splitlines() if line.startswith("FAIL ")]
    wrong = [line for line in failed if not EXPECTED.search(line)]
    if int(counts[2]) < FEWEST_PASSED:
        wrong.append(f"fewer than {FEWEST_PASSED} cases passed")
    if len(failed) != int(counts[3]):
        wrong.append(f"{len(failed)} failures were shown")
    return counts[0], wrong
