"""Which Debian packages files are from, and the list of them that users get (SPDX 2.3)."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

COMPILED_IN = ("libcli11-dev", "nlohmann-json3-dev")  # libraries that are headers alone


class InventoryError(Exception):
    """Why there is no list."""


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    if done.returncode != 0:
        raise InventoryError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip()[-1000:]}")
    return done.stdout


def is_program(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(programs):
    """All shared libraries that the programs load, and the loader: {name: path}."""
    found = {}
    for line in run("ldd", *map(str, programs)).splitlines():
        if match := re.match(r"\s+(\S+) => not found", line):
            raise InventoryError(f"this machine lacks the library {match[1]}")
        if match := re.match(r"\s+(\S+) => (/\S+) \(", line):
            found[match[1]] = Path(match[2])
        elif match := re.match(r"\s+(/\S+) \(", line):
            found[match[1]] = Path(match[1])
    return found


def owners(paths):
    """The Debian packages of these files: {(name, architecture, version)}."""
    names = {}
    for path in paths:
        # A package may list a file by its path before /bin and /lib became links into /usr.
        for one in {str(path), str(path.resolve())}:
            names[one] = names[one.removeprefix("/usr")] = path
    # The status is that of the worst name, so it says nothing.
    listed = subprocess.run(
        ["dpkg-query", "-S", *names], capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")
    ).stdout
    packages = {}
    for line in listed.splitlines():
        package, _, name = line.partition(": ")
        if name in names and not line.startswith("diversion by"):
            packages[names[name]] = package.split(", ")[0]
    if lost := sorted(str(path) for path in paths if path not in packages):
        raise InventoryError(f"no Debian package has {', '.join(lost)}")
    return versions(set(packages.values()))


def versions(packages):
    fields = run("dpkg-query", "-W", "-f", "${Package} ${Architecture} ${Version}\\n", *packages)
    return {tuple(line.split()) for line in fields.splitlines()}


def go_modules(path):
    """The modules in a Go program, from lines "NAME VERSION": [(name, version)]."""
    return sorted(tuple(line.split()) for line in path.read_text().splitlines())


def go_entry(name, version):
    return {
        "SPDXID": f"SPDXRef-go-{re.sub('[^a-zA-Z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:golang/{name}@{version}",
            }
        ],
    }


def sbom(version, packages, created, tool, modules=()):
    """The list as JSON. packages: {(name, architecture, version)}; modules: those of go_modules(); tool: what makes the
    list."""
    entries = [
        {
            "SPDXID": "SPDXRef-quarry", "name": "quarry", "versionInfo": version, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "primaryPackagePurpose": "APPLICATION",
        }
    ]  # fmt: skip
    for name, architecture, number in sorted(packages):
        entries.append(
            {
                "SPDXID": f"SPDXRef-deb-{re.sub('[^a-zA-Z0-9.-]', '-', name)}",
                "name": name,
                "versionInfo": number,
                "supplier": "Organization: Debian",
                "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False,
                "externalRefs": [
                    {
                        "referenceCategory": "PACKAGE-MANAGER",
                        "referenceType": "purl",
                        "referenceLocator": f"pkg:deb/debian/{name}@{number.replace('+', '%2B')}?arch={architecture}",
                    }
                ],
            }
        )
    entries += [go_entry(*module) for module in modules]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-quarry"}]
    relations += [
        {"spdxElementId": "SPDXRef-quarry", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": entry["SPDXID"]}
        for entry in entries[1:]
    ]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"quarry-{version}",
        "creationInfo": {"created": created, "creators": [f"Tool: {tool}"]},
        "packages": entries,
        "relationships": relations,
    }
    names = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
    document["documentNamespace"] = f"https://quarry.csi.local/sbom/{version}/{names}"
    return (json.dumps(document, indent=1) + "\n").encode()
