"""A guest with Nomad and Quarry on it: a server, and one or two clients."""

import json
import shlex
import sys
import time
from pathlib import Path

from guest import Guest

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
DEPLOY = REPOSITORY / "deploy" / "nomad"
MEMORY = 2048  # MiB
LOGS = "/var/log/nomad"
QUARRYD = "/opt/quarry/bin/quarryd"

# A server and the first client are one process, as with `nomad agent -dev`. Only lo is there. The tasks of the driver
# exec get a root folder with a few programs. By default Nomad copies most of /usr for each task, which takes 20 s here.
AGENT = """
name                 = "{name}"
data_dir             = "{data}"
bind_addr            = "127.0.0.1"
disable_update_check = true
log_level            = "INFO"
ports {{
  http = {port}
  rpc  = {rpc}
  serf = {serf}
}}
advertise {{
  http = "127.0.0.1:{port}"
  rpc  = "127.0.0.1:{rpc}"
  serf = "127.0.0.1:{serf}"
}}
server {{
  enabled          = {server}
  bootstrap_expect = {servers}
}}
client {{
  enabled           = true
  servers           = ["127.0.0.1:4647"]
  network_interface = "lo"
  chroot_env {{
    "/etc/group"      = "/etc/group"
    "/etc/passwd"     = "/etc/passwd"
    "/opt/root/bin"   = "/bin"
    "/opt/root/lib"   = "/lib"
    "/opt/root/lib64" = "/lib64"
  }}
}}
"""
ROOT = """
mkdir -p /opt/root/bin /opt/root/lib/x86_64-linux-gnu /opt/root/lib64 {logs}
for program in sh sleep date cat df; do cp "$(command -v $program)" /opt/root/bin/; done
cp /lib/x86_64-linux-gnu/libc.so.6 /opt/root/lib/x86_64-linux-gnu/
cp /lib64/ld-linux-x86-64.so.2 /opt/root/lib64/
"""


class Failed(Exception):
    """A command of Nomad's was refused; the text is its standard error."""


class Client:
    """One agent of Nomad. group: the volume group of its quarryd. disks: the numbers of its disks."""

    def __init__(self, name, port, group, disks, data, server=False):
        self.name, self.group, self.disks, self.data = name, group, disks, data
        self.plugin = f"quarry-{name}"
        numbers = {"port": port, "rpc": port + 1, "serf": port + 2}
        self.config = AGENT.format(name=name, data=data, server=str(server).lower(), servers=int(server), **numbers)


class Site:
    """The guest. first: the client whose quarryd is a job. second: that whose quarryd is a service of the host."""

    def __init__(self, build, release, nomad):
        self.began = time.monotonic()
        files = [nomad, *sorted(DEPLOY.glob("*.hcl"))]
        self.guest = Guest(disks=3, size="2G", bus="scsi", release=release, build=build, extra=files, memory=MEMORY)
        self.first = Client("worker-1", 4646, "vg-data", (1, 2), "/opt/nomad/data", server=True)
        self.second = Client("worker-2", 5646, "vg-two", (3,), "/opt/nomad/second")
        self.agents = {}

    def say(self, words):
        print(f"[{time.monotonic() - self.began:4.0f} s] {words}", flush=True)

    def until(self, what, check, seconds=180):
        """Waits until check() returns something true, and returns that."""
        deadline = time.monotonic() + seconds
        while True:
            found = check()
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}; {self.describe()}")
            time.sleep(0.5)

    # The guest

    def start(self):
        """Boots, and starts the server, the first client and its plugin."""
        self.guest.boot()
        self.sh("modprobe -a dm_mod dm_raid && " + ROOT.format(logs=LOGS))
        for client in (self.first, self.second):
            numbers = " ".join(map(str, client.disks))
            self.sh(f"vgcreate -q {client.group} $(for i in {numbers}; do vmctl dev $i; done)")
        self.start_agent(self.first)
        self.say("Nomad is ready")
        variables = {"node": self.first.name, "pool": f"default={self.first.group}", "quarryd": QUARRYD}
        self.run_job(text("quarryd.nomad.hcl"), variables)
        self.plugin_is_healthy(self.first)
        self.say("the plugin is healthy")

    def sh(self, command, check=True, timeout=120, input=b""):
        """Runs a shell command in the guest; returns its output."""
        return self.guest.run(["sh", "-c", command], check=check, timeout=timeout, input=input).stdout

    def spawn(self, log, command):
        """Starts a process that stays; returns its id."""
        return int(self.sh(f"setsid {command} >>{LOGS}/{log} 2>&1 & echo $!"))

    def volumes(self, client):
        """The names of the logical volumes in the client's group."""
        return self.sh(f"lvs --noheadings -o lv_name {client.group}").split()

    def mounts(self):
        """The mount points of CSI volumes."""
        return self.sh("cut -d' ' -f5 /proc/self/mountinfo | grep /client/csi/", check=False).split()

    # Nomad

    def start_agent(self, client):
        """Starts the client's agent, and waits until the client is ready. `agents` has its process id."""
        path = f"/etc/nomad-{client.name}.hcl"
        self.sh(f"mkdir -p {client.data} && cat >{path}", input=client.config)
        command = f"nomad agent -config {path} -config /opt/quarry/extra/client.hcl"
        self.agents[client.name] = self.spawn(f"{client.name}.log", command)
        self.until(f"{client.name} is ready", lambda: self.node_status(client) == "ready")

    def nomad(self, *arguments, input=b""):
        """The standard output of a command; Failed if it is refused."""
        done = self.guest.run(["nomad", *arguments], input=input, timeout=300)
        if done.status != 0:
            raise Failed(done.stderr + done.stdout)
        return done.stdout

    def get(self, path):
        """An object of Nomad's HTTP API; None if there is no such object or no server.

        By a shell: Nomad's own program takes a second to start in an emulated guest.
        """
        ask = f"exec 3<>/dev/tcp/127.0.0.1/4646; printf 'GET /v1/%s HTTP/1.0\\r\\n\\r\\n' '{path}' >&3; cat <&3"
        head, _, body = self.guest.run(["bash", "-c", ask], timeout=60).stdout.partition("\r\n\r\n")
        return json.loads(body) if head.startswith(("HTTP/1.0 200", "HTTP/1.1 200")) else None

    def node_status(self, client):
        nodes = [node for node in self.get("nodes") or [] if node["Name"] == client.name]
        return nodes[0]["Status"] if nodes else None

    def plugin_is_healthy(self, client, healthy=1):
        """Waits until this many clients, 1 or none, serve the plugin id."""

        def counts():
            plugin = self.get(f"plugin/csi/{client.plugin}") or {}
            return {plugin.get("ControllersHealthy", 0), plugin.get("NodesHealthy", 0)} == {healthy}

        self.until(f"plugin {client.plugin} has {healthy} healthy clients", counts)

    def run_job(self, specification, variables=None):
        words = [f"-var={name}={value}" for name, value in (variables or {}).items()]
        self.nomad("job", "run", "-detach", *words, "-", input=specification)

    def stop_job(self, job):
        self.nomad("job", "stop", "-purge", "-detach", job)

    def running(self, job):
        """Waits until all tasks of the job run; returns the id of its allocation."""
        found = []

        def runs():
            allocations = self.get(f"job/{job}/allocations") or []
            live = [one for one in allocations if one["DesiredStatus"] == "run"]
            if not live or any(one["ClientStatus"] == "failed" for one in live):
                return bool(live)
            found[:] = [one["ID"] for one in live if one["ClientStatus"] == "running"]
            return found and all(task["State"] == "running" for one in live for task in one["TaskStates"].values())

        self.until(f"job {job} runs", runs)
        if not found:
            raise AssertionError(f"job {job} has failed; {self.describe()}")
        return found[0]

    def run_in(self, allocation, task, command):
        """The output of a shell command in a task, once the task runs."""
        words = ("alloc", "exec", "-i=false", "-t=false", "-task", task, allocation, "/bin/sh", "-c", command)
        return self.nomad_until(f"task {task} runs", "is not running", *words)

    def nomad_until(self, what, excuse, *arguments, input=b""):
        """The standard output of a command, which is repeated while its refusal has these words."""

        def done():
            try:
                return [self.nomad(*arguments, input=input)]
            except Failed as error:
                if excuse not in str(error):
                    raise
                return None

        return self.until(what, done)[0]

    # What went wrong

    def describe(self):
        """The events of all tasks, and how the logs end."""
        lines = ["what there is:"]
        for one in self.get("allocations") or []:
            for name, task in (one.get("TaskStates") or {}).items():
                events = "; ".join(event["DisplayMessage"] for event in task["Events"][-4:])
                lines.append(f"  {one['Name']} {name}: {task['State']}: {events}")
        lines += ["  " + line for line in self.sh(f"tail -n 15 {LOGS}/*.log", check=False).splitlines()]
        return "\n".join(lines)

    def save_logs(self, folder):
        """Copies the logs of Nomad, of quarryd and of the tasks to this machine."""
        folder.mkdir(parents=True, exist_ok=True)
        places = f"{LOGS}/*.log {self.first.data}/alloc/*/alloc/logs/* {self.second.data}/alloc/*/alloc/logs/*"
        for path in self.sh(f"ls -d {places} 2>/dev/null", check=False).split():
            name = path.strip("/").replace("/", "_")
            (folder / name).write_text(self.sh(f"tail -c 2000000 {shlex.quote(path)}", check=False))
        print(f"logs: {folder}", file=sys.stderr)


def text(name):
    """The text of a file of deploy/nomad."""
    return (DEPLOY / name).read_text()
