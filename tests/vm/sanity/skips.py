"""Which specs of csi-sanity may be skipped: compares the table of docs/conformance.md with a run's report."""

import re

ROW = re.compile(r"^\|\s*(plugin|controller|node|upstream)\s+(\w+)\s*\|\s*`([^`]+)`\s*\|", re.MULTILINE)
OLDER = re.compile(r"^\|\s*(0\.\d)\s*\|\s*(controller|node)\s+(\w+)\s*\|\s*`([^`]+)`\s*\|", re.MULTILINE)
# A run with fewer specs is incomplete: it was focused, filtered, or has crashed.
LEAST_SPECS = 90


def allowed(conformance):
    """The rows of the table: (capability, prefix of the specs' full names)."""
    rows = [(f"{service} {name}", prefix) for service, name, prefix in ROW.findall(conformance)]
    if not rows:
        raise ValueError("docs/conformance.md has no table of skips")
    return rows


def full_name(spec):
    return " / ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])


def problems(report, rows, advertised):
    """Returns the problems of a run, one on each line, and its counts by state.

    report: Ginkgo's JSON report. rows: allowed(). advertised: the plugin's capabilities, "controller GET_CAPACITY".
    """
    found = []
    counts = {}
    used = set()
    for spec in report[0]["SpecReports"]:
        if spec["LeafNodeType"] != "It":
            if spec["State"] != "passed":
                found.append(f"{spec['LeafNodeType']}: {spec['State']}: {_message(spec)}")
            continue
        state, name = spec["State"], full_name(spec)
        counts[state] = counts.get(state, 0) + 1
        if state == "passed":
            continue
        if state not in ("skipped", "pending"):
            found.append(f"{state}: {name}: {_message(spec)}")
            continue
        row = next((row for row in rows if name.startswith(row[1])), None)
        if row is None:
            found.append(f"{state}, but not in docs/conformance.md: {name}: {_message(spec)}")
        elif (row[0] == "upstream PENDING") != (state == "pending"):
            found.append(f"{state}, but docs/conformance.md says '{row[0]}': {name}")
        else:
            used.add(row)
            if row[0] in advertised:
                found.append(f"skipped, although '{row[0]}' is advertised: {name}: {_message(spec)}")
    for row in rows:
        if row not in used:
            found.append(f"docs/conformance.md allows a skip that does not happen: {row[0]}: {row[1]}")
    if sum(counts.values()) < LEAST_SPECS:
        found.append(f"only {sum(counts.values())} specs in the report, {LEAST_SPECS} or more are expected")
    return found, counts


def older_allowed(conformance):
    """The rows of the older versions' table: (version, capability, prefix of the specs' full names)."""
    rows = [(version, f"{service} {name}", prefix) for version, service, name, prefix in OLDER.findall(conformance)]
    if not rows:
        raise ValueError("docs/conformance.md has no table of the older versions' skips")
    return rows


def older_problems(version, specs, rows, advertised):
    """The problems of a run of an older suite. specs: from ginkgo1.outcome(). rows: from older_allowed()."""
    found = []
    rows = [row for row in rows if row[0] == version]
    used = set()
    for state, name, message in specs:
        row = next((row for row in rows if name.startswith(row[2])), None)
        if state != "skipped":
            found.append(f"{state}: {name}: {message}")
        elif row is None:
            found.append(f"skipped, but not in docs/conformance.md: {name}: {message}")
        else:
            used.add(row)
            if row[1] in advertised:
                found.append(f"skipped, although '{row[1]}' is advertised: {name}: {message}")
    for row in rows:
        if row not in used:
            found.append(f"docs/conformance.md allows a skip that does not happen: {row[1]}: {row[2]}")
    return found


def _message(spec):
    return (spec.get("Failure") or {}).get("Message", "").strip().replace("\n", " ")[:500]
