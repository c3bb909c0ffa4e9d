"""The requests that vmctl in the guest, or an attached user's --ctl, may send to the host."""

# (verb, number of words after it) → the Guest's method. The first word is the disk's number.
_DISK_METHODS = {
    ("info", 1): "disk_info",
    ("pull", 1): "pull_disk",
    ("return", 1): "return_disk",
    ("stall", 1): "stall_disk",
    ("unstall", 1): "unstall_disk",
    ("slow", 2): "slow_disk",
    ("slow", 3): "slow_disk",
    ("error", 2): "fail_disk",
    ("error", 4): "fail_disk",
    ("warn", 2): "warn_disk",
}


def obey(guest, arguments):
    """Executes a vmctl command line. Returns its exit status and text; HarnessError if it fails."""
    verb, *rest = arguments or [""]
    if verb == "info" and not rest:
        lines = [f"disk {number}: {guest.disk_info(number)}\n" for number in range(1, len(guest.disks) + 1)]
        return 0, "".join(lines)
    if verb in ("cut", "reboot"):
        return _power(guest, verb, rest)
    method = _DISK_METHODS.get((verb, len(rest)))
    if method is None or not rest[0].isdigit():
        return 2, f"vmctl: {' '.join(arguments)}: not understood; see vmctl --help\n"
    text = getattr(guest, method)(int(rest[0]), *rest[1:])
    return 0, f"{text}\n" if text else ""


def _power(guest, verb, rest):
    lose = "all"
    shuffle = verb == "reboot" and rest[:1] == ["--shuffle"]
    if shuffle:
        rest = rest[1:]
    if verb == "cut" and rest[:1] == ["--lose"] and len(rest) > 1:
        lose, rest = rest[1], rest[2:]
    if lose not in ("all", "none", "some"):
        return 2, "vmctl: cut --lose needs all, none or some\n"
    if rest and (rest[0] != "--" or len(rest) == 1):
        return 2, f"vmctl: {verb}: the command to run afterwards must follow --\n"
    then = rest[1:] or None
    if verb == "cut":
        guest.cut_power(lose, then=then)
    else:
        if shuffle:
            guest.shuffle_disks()
        guest.shutdown(then=then)
    return 0, ""
