"""Debian packages that are unpacked somewhere, and never installed."""

import subprocess

import cache
import image

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# A network that lets nothing through must not cost each test minutes.
SECONDS = 300
OPTIONS = ("-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=2")


def unpack(suite, packages, place):
    """Downloads these packages of a suite, and unpacks them into a folder. Uses the folder's parent meanwhile.

    Has lists and sources of its own: it needs none of the machine's, and changes none. HarnessError if it fails.
    """
    work = place.parent / "debian"
    (work / "lists/partial").mkdir(parents=True)
    (work / "archives/partial").mkdir(parents=True)
    source = work / "debian.sources"
    source.write_text(
        f"Types: deb\nURIs: {image.host_mirror()}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"
    )
    apt = ["apt-get", *OPTIONS, "-o", f"Dir::Etc::SourceList={source}", "-o", "Dir::Etc::SourceParts=/dev/null"]
    apt += ["-o", f"Dir::State::Lists={work / 'lists'}", "-o", f"Dir::Cache={work}"]
    _checked([*apt, "update"], work)
    _checked([*apt, "download", *packages], work)
    for package in work.glob("*.deb"):
        _checked(["dpkg-deb", "-x", str(package), str(place)], work)


def _checked(argv, folder):
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise cache.HarnessError(f"{argv[0]} {argv[-1]}: {error}") from error
    if done.returncode != 0:
        raise cache.HarnessError(f"{argv[0]} {argv[-1]} failed: {done.stderr.strip()[-500:]}")
