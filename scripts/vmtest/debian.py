"""Debian packages that are unpacked somewhere, and never installed."""

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
    for words in (["update"], ["download", *packages]):
        cache.checked([*apt, *words], cwd=work, timeout=SECONDS)
    for package in work.glob("*.deb"):
        cache.checked(["dpkg-deb", "-x", str(package), str(place)])
