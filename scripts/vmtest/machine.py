"""QEMU's command line, and the names of a guest's parts in it."""

import image
import qemu

MAX_DISKS = 24
LEAST_MEMORY = 256
BUSES = ("nvme", "virtio", "scsi")

# Without cmpxchg16b: QEMU 7.2 computes the flags after it from stale state, so
# that bits of an operand become EFLAGS. The kernel's slab allocator uses the
# instruction if the processor has it, and an interrupt right after it ended one
# boot in ten of a 6.12 kernel with a double fault.
#
# Without ERMS and FSRM: with them the kernel copies and clears memory with byte
# instructions, and TCG does those one byte at a time. Words are five times as fast.
TCG_CPU = "max,-cx16,-erms,-fsrm"

# One processor until init switches the others on. A running kernel changes its
# code by means of a breakpoint, and in QEMU 7.2's TCG another processor sometimes
# runs into a breakpoint that is already removed. That ended one boot in forty of a
# 6.12 kernel, each time at the end of its initialisation, where it begins to trust
# its clock: all processors run through that code all the time.
#
# A disk that is stalled on purpose must stay stalled. When the NVMe driver gives
# up after its usual 30 s it resets the controller, and QEMU's model of that waits
# for the backend with the whole guest stopped.
KERNEL_OPTIONS = (
    "console=ttyS0 rw panic=-1 maxcpus=1 mitigations=off nokaslr random.trust_cpu=on no_timer_check cryptomgr.notests"
    " raid=noautodetect net.ifnames=0 nvme_core.io_timeout=3600"
)


def disk_id(number):
    return f"disk{number}"


def serial(number):
    return f"quarry{number}"


def disk_device(bus, number, sector):
    """The arguments of QMP's device_add for disk `number`."""
    common = {"id": disk_id(number), "drive": f"{disk_id(number)}-data", "serial": serial(number)}
    common |= {"logical_block_size": sector, "physical_block_size": 4096}
    if bus == "nvme":
        return common | {"driver": "nvme", "bus": f"port{number}"}
    if bus == "virtio":
        return common | {"driver": "virtio-blk-pci", "bus": f"port{number}"} | _REPORT_ERRORS
    return common | {"driver": "scsi-hd", "bus": "hba.0", "scsi-id": number} | _REPORT_ERRORS


# By default these two stop the whole guest when the host's file system is full.
_REPORT_ERRORS = {"werror": "report", "rerror": "report"}


def command_line(accelerator, cpus, memory, kernel, options, console):
    """QEMU without its disks and connections."""
    argv = [*qemu.command(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    argv += ["-M", "q35,usb=off,smm=off,vmport=off,sata=off,i8042=off", "-smp", str(cpus), "-m", f"{memory}M"]
    if accelerator == "kvm":
        argv += ["-accel", "kvm", "-cpu", "host"]
    else:
        argv += ["-accel", "tcg,thread=multi", "-cpu", TCG_CPU]
    argv += ["-chardev", f"file,id=console,path={escaped(console)}", "-serial", "chardev:console"]
    argv += ["-kernel", str(kernel), "-append", options]
    return argv


def kernel_options(images, more=""):
    """The kernel's command line; images as for system_disk()."""
    parts = ",".join(str(nsid) for nsid, path in enumerate(images, 2) if path is not None)
    root = f"root=PARTUUID={image.ROOT_PARTUUID} rootwait rootfstype=ext4 init=/sbin/init"
    return f"{KERNEL_OPTIONS} {root} quarry_parts={parts} {more}".strip()


def escaped(path):
    """A path inside one of QEMU's comma-separated arguments."""
    return str(path).replace(",", ",,")


def blockdev(**node):
    return ["-blockdev", _keyval(node)]


def device(**properties):
    return ["-device", _keyval({"driver": properties.pop("driver"), **properties})]


def _keyval(pairs):
    return ",".join(f"{key}={escaped(value)}" for key, value in pairs.items())


def connections(control_fd, agent_fd):
    """QMP and the agent's port, on sockets that QEMU inherits."""
    return [
        "-chardev", f"socket,id=control,fd={control_fd}", "-mon", "chardev=control,mode=control",
        "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=agent,fd={agent_fd}", "-device", "virtserialport,chardev=agent,name=quarry.agent",
    ]  # fmt: skip


def network(forwarded):
    """A network card behind QEMU's own NAT: 10.0.2.15 in the guest, whose 10.0.2.2 is the host's loopback.

    forwarded: ADDRESS:PORTs of the host that lead to the same PORT of the guest."""
    leads = "".join(f",hostfwd=tcp:{place}-:{place.rpartition(':')[2]}" for place in forwarded)
    return ["-netdev", f"user,id=net0,ipv6=off{leads}", *device(driver="virtio-net-pci", netdev="net0", romfile="")]


def system_disk(overlay, images):
    """Root, harness, build and extra files: namespaces 1 to 4 of one NVMe controller. An image may be None."""
    argv = device(driver="nvme", id="system", serial="quarry-system")
    # The host does not crash with the guest, so a flush need only reach its page cache.
    argv += ["-blockdev", f"qcow2,node-name=root,file.driver=file,file.filename={escaped(overlay)},"
             "cache.no-flush=on,file.cache.no-flush=on,discard=unmap"]  # fmt: skip
    argv += device(driver="nvme-ns", drive="root", bus="system", nsid=1)
    for nsid, path in enumerate(images, 2):
        if path is not None:
            argv += ["-blockdev", f"raw,node-name=part{nsid},read-only=on,file.driver=file,"
                     f"file.filename={escaped(path)},file.read-only=on"]  # fmt: skip
            argv += device(driver="nvme-ns", drive=f"part{nsid}", bus="system", nsid=nsid)
    return argv


def disks(bus, fds, sector, pulled, backwards=False):
    """The disks under test. fds: sockets on which diskd speaks NBD. pulled: numbers of the disks that are out.

    backwards: the last disk is plugged in at the first place, and so on."""
    argv = []
    if bus == "scsi":
        argv += device(driver="virtio-scsi-pci", id="hba")
    numbered = list(enumerate(fds, 1))
    for number, fd in reversed(numbered) if backwards else numbered:
        if bus != "scsi":
            # A PCI disk can be removed only if it has a port of its own.
            argv += device(driver="pcie-root-port", id=f"port{number}", chassis=number, slot=number)
        argv += ["-blockdev", f"nbd,node-name={disk_id(number)}-data,server.type=fd,server.str={fd},discard=unmap"]
        if number not in pulled:
            argv += device(**disk_device(bus, number, sector))
    return argv
