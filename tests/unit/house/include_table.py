"""Who may include whom: the table of docs/design.md, applied to every #include of src/ and tests/fakes.

A room is a folder of src/. Between rooms only the named headers may be seen; C libraries and gRPC are seen by the
rooms that wrap them. Whatever the table does not know is a violation, so a new room or library has to be entered.
"""

import dataclasses
import re
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)

# What a room shows to the rooms that may see its interface. Everything else in it is its own.
INTERFACES = {
    "lvm": {"change.h", "geometry.h", "group_locks.h", "lvm_api.h", "layout.h", "names.h", "ownership.h", "pv_reader.h", "snapshot.h", "thin_pool.h"},
    "dm": {"dm_api.h", "erase_api.h", "raid_legs_api.h", "suspension.h", "thin_api.h"},
    "mount": {"mount_api.h"},
    "udev": {"disk_health.h", "udev_api.h"},
    "thin": {"pool_reader_api.h", "repair_api.h"},
    # What COSI's edge shares with CSI's: the way of an RPC, and the codes of errors.
    "csi": {"call_history.h", "cancel_watch.h", "edge.h", "errors.h", "fields.h", "private_socket.h"},
    "bucket": {"bucket_api.h"},
    "engine": {"adoption.h", "disks.h", "engine.h", "lifecycle.h", "model/config.h", "upkeep.h", "volumes.h", "world.h"},
}
SEAMS = ("lvm", "dm", "mount", "udev", "thin")
# Pure values and functions beside it that a fake shares with the implementation it stands for.
VALUES = {
    "lvm": {"lvm_command.h"},
    "dm": {"thin_message.h"},
    "mount": {"options.h"},
    # What quarryctl plans with, and which disks quarryd's rules would take: the same functions as in quarryd.
    "engine": {
        "disks/join.h",
        "model/catalog.h",
        "model/profile.h",
        "model/severity.h",
        "model/sizing.h",
        "model/thin_space.h",
        "model/volume_requests.h",
        "plan/metadata_budget.h",
        "plan/plan_thin.h",
        "plan/plan_volume.h",
        "plan/thin_capacity.h",
    },
}
WHOLE, INTERFACE, WITH_VALUES = "all of it", "its interface", "its interface and values"

# Rooms within a room, from the ground up: a file may include its own folder and those before it. The headers beside the
# folders are what the room shows and stands on, so every folder may include them; the sources beside them wire the
# folders, so they may include all.
FLOORS = {"engine": ("model", "raid", "plan", "pool", "disks", "erase", "repair", "calls")}

# room: {other room: how much of it}. A room may always include itself.
ROOMS = {
    "base": {},
    "lvm": {"base": WHOLE},
    "dm": {"base": WHOLE},
    "mount": {"base": WHOLE},
    "udev": {"base": WHOLE},
    "thin": {"base": WHOLE},
    "engine": {"base": WHOLE} | {room: INTERFACE for room in SEAMS},
    "bucket": {"base": WHOLE, "engine": INTERFACE},
    "csi": {"base": WHOLE, "engine": INTERFACE, "bucket": INTERFACE},
    "cosi": {"base": WHOLE, "bucket": INTERFACE, "csi": INTERFACE},
    "daemon": {room: WHOLE for room in ("base", *SEAMS, "csi", "cosi", "bucket")} | {"engine": WITH_VALUES},
    "ctl": {room: WHOLE for room in ("base", *SEAMS, "daemon")} | {"engine": WITH_VALUES},
    "gateway": {"base": WHOLE},
    "fakes": {"base": WHOLE, "engine": INTERFACE} | {room: WITH_VALUES for room in SEAMS},
}

# Libraries by what their headers begin with: {room: the ends of the files that may include them}. A header that wraps
# a C library for its own room is named in full.
SOURCE, ANY = (".cc",), (".cc", ".h")
LIBRARIES = {
    "absl/base/thread_annotations.h": {"base": ("src/base/mutex.h",)},
    "libdevmapper.h": {"dm": (".cc", "src/dm/dm_task.h")},
    "libdevmapper-event.h": {"dm": SOURCE},
    "lvm2cmd.h": {"lvm": ("src/lvm/run/zygote_main.cc",)},
    "libmount": {"mount": SOURCE},
    "blkid": {"mount": SOURCE},
    "libudev.h": {"udev": SOURCE},
    "libnvme.h": {"udev": SOURCE},
    "grpc/": {"csi": ANY, "cosi": ANY, "daemon": ANY, "ctl": ANY},
    "grpcpp/": {"csi": ANY, "cosi": ANY, "daemon": ANY, "ctl": ANY},
    "google/protobuf/": {"csi": ANY, "cosi": ANY, "daemon": ANY, "ctl": ANY},
    "CLI/": {"daemon": ANY, "ctl": ANY, "gateway": ("src/gateway/main.cc",)},
    "toml++/": {"daemon": ANY, "ctl": SOURCE},
    "nlohmann/": {"udev": SOURCE, "lvm": (".cc", "src/lvm/read/report_fields.h"), "daemon": SOURCE, "bucket": SOURCE,
                  "ctl": (".cc", "src/ctl/json_text.h")},
    "prometheus/": {"daemon": SOURCE},
    "httplib.h": {"daemon": SOURCE},
    "openssl/": {"bucket": SOURCE},
    "zlib.h": {"lvm": SOURCE},
    "fmt/": {room: ANY for room in ROOMS},
}
# Code generated from proto/, included as csi/v1/csi.pb.h and the like.
GENERATED = re.compile(r"^(cosi|csi|pluginregistration|quarry)/.*\.pb\.h$")
GENERATED_FOR = {"csi", "cosi", "daemon", "ctl"}
# Of the system: the kernel's interface and libc.
SYSTEM = ("sys/", "linux/", "netinet/", "arpa/", "asm/", "bits/")
LIBC = set(
    "dirent.h dlfcn.h endian.h err.h errno.h fcntl.h fnmatch.h fts.h ftw.h getopt.h glob.h grp.h libgen.h limits.h malloc.h"
    " mntent.h net/if.h netdb.h poll.h pthread.h pwd.h sched.h signal.h spawn.h stdio.h stdlib.h string.h"
    " syslog.h termios.h time.h unistd.h utime.h".split()
)


@dataclasses.dataclass(frozen=True)
class Violation:
    file: str
    included: str
    reason: str

    def __str__(self):
        return f"{self.file}: {self.included}: {self.reason}"


def violations(repository):
    """Every include that the table forbids, in the order of the files."""
    found = []
    for room, file in _files(Path(repository)):
        name = str(file.relative_to(repository))
        if room not in ROOMS:
            found.append(Violation(name, "", f"the table has no room '{room}'"))
            continue
        for quoted, angled in INCLUDE.findall(file.read_text()):
            reason = _check_own(repository, room, quoted) if quoted else None
            if quoted and reason is None:
                reason = _check_floors(name, quoted)
            if reason is None and (angled or GENERATED.match(quoted)):
                reason = _check_foreign(room, name, angled or quoted)
            if reason:
                found.append(Violation(name, quoted or angled, reason))
    return found


def _files(repository):
    for room in sorted(path for path in (repository / "src").iterdir() if path.is_dir()):
        for file in sorted(room.rglob("*")):
            if file.suffix in ANY:
                yield room.name, file
    for file in sorted((repository / "tests/fakes").rglob("*")):
        if file.suffix in ANY:
            yield "fakes", file


def _check_own(repository, room, included):
    """Why a quoted include is forbidden, or None."""
    if GENERATED.match(included):
        return None
    if included.startswith("tests/fakes/"):
        return None if room == "fakes" else "fakes are for tests"
    other, _, header = included.partition("/")
    if not header or not (Path(repository) / "src" / included).is_file():
        return 'quotes are for headers of this project, by their path below src/ (or "tests/fakes/…")'
    if other == room:
        return None
    seen = ROOMS[room].get(other)
    if seen is None:
        return f"{room} must not know {other}"
    shown = INTERFACES.get(other, set()) | (VALUES.get(other, set()) if seen == WITH_VALUES else set())
    if seen != WHOLE and header not in shown:
        return f"{room} may see of {other} only {', '.join(sorted(shown))}"
    return None


def _check_floors(file, included):
    """Why an include within a room of several floors is forbidden, or None."""
    room, floor, _ = (file.removeprefix("src/") + "//").split("/", 2)
    other_room, other, *rest = included.split("/")
    floors = FLOORS.get(room, ())
    if not floors or room != other_room:
        return None
    is_source_beside = floor.endswith(".cc")
    if rest and other not in floors:
        return f"the table has no floor '{other}' of {room}"
    if floor not in floors and "." not in floor:
        return f"the table has no floor '{floor}' of {room}"
    if not rest or is_source_beside:
        return None
    if floor.endswith(".h"):
        return None if other == floors[0] else f"what {room} shows may include of its floors only {floors[0]}"
    if floors.index(other) > floors.index(floor):
        return f"{floor} must not know {other}: floors are {', '.join(floors)}, from the ground up"
    return None


def _check_foreign(room, file, included):
    """Why a system, library or generated header is forbidden, or None."""
    if GENERATED.match(included):
        return None if room in GENERATED_FOR else f"{room} must not know CSI messages"
    for prefix, rooms in LIBRARIES.items():
        if included.startswith(prefix):
            if room not in rooms:
                return f"{room} must not know this library"
            if not file.endswith(rooms[room]):
                return "this library is for .cc files only"
            return None
    if included.startswith(SYSTEM) or included in LIBC or re.fullmatch(r"[a-z_0-9]+", included):
        return None
    return "the table does not know this library"
