"""Reads the output of Ginkgo 1 with -ginkgo.v -ginkgo.noColor: the suites of CSI 0.2 and 0.3 write no report."""

import re

NOT_PASSED = {"S [SKIPPING]": "skipped", "P [PENDING]": "pending", "• Failure": "failed", "•! Panic": "panicked"}
NODE = re.compile(r" \[(?:It|BeforeEach|JustBeforeEach|AfterEach|BeforeSuite|AfterSuite|Measurement)\](?= |$)")
COUNTS = re.compile(r"(\d+) Passed \| (\d+) Failed \| (?:\d+ Flaked \| )?(\d+) Pending \| (\d+) Skipped")
RAN = re.compile(r"^Ran \d+ of (\d+) Specs", re.MULTILINE)
# The suites connect again for each spec. If a connection is ready before a suite begins to wait for it, the suite
# waits in vain. The plugin has no part in that.
RACE = "Connection timed out"


def outcome(output):
    """Returns a run's counts, {"specs", "passed", "failed", "pending", "skipped"}, and the specs that did not pass:
    (state, full name, message). Raises ValueError if the output is not that of a whole run."""
    counts, ran = COUNTS.search(output), RAN.search(output)
    if not counts or not ran:
        raise ValueError("the output ends without Ginkgo's summary")
    numbers = dict(zip(("passed", "failed", "pending", "skipped"), map(int, counts.groups())), specs=int(ran[1]))
    specs = []
    for block in re.split(r"^-{30}$", output[: ran.start()], flags=re.MULTILINE):
        lines = block.splitlines()
        for at, line in enumerate(lines):
            state = next((state for mark, state in NOT_PASSED.items() if line.startswith(mark)), None)
            if state:
                specs.append((state, *_spec(lines[at + 1 :])))
                break
    for state, names in (("skipped", ("skipped",)), ("failed", ("failed", "panicked")), ("pending", ("pending",))):
        seen = sum(1 for spec in specs if spec[0] in names)
        if seen != numbers[state]:
            raise ValueError(f"{seen} {state} specs are in the output, its summary says {numbers[state]}")
    if sum(numbers.values()) != 2 * numbers["specs"]:
        raise ValueError(f"the counts do not add up: {numbers}")
    return numbers, specs


def raced(specs):
    """True if the suite's connection race is the only failure."""
    bad = [spec for spec in specs if spec[0] in ("failed", "panicked")]
    return bool(bad) and all(RACE in message for _, _, message in bad)


def _spec(lines):
    """Full name and message. Texts and places alternate, each level further indented, up to an empty line."""
    end = lines.index("") if "" in lines else len(lines)
    texts = [NODE.sub("", line.strip()) for line in lines[:end:2]]
    return " / ".join(texts), " ".join(line.strip() for line in lines[end:] if line.strip())[:500]
