"""An unmodified control plane on the loopback of a network namespace of its own, so its ports disturb nobody."""

import base64
import os
import subprocess
from pathlib import Path

from .api import Api, until

API_PORT = 6443
# QEMU's address for the host's loopback. The certificate of the API server names it.
SEEN_BY_GUESTS = "10.0.2.2"
ADMIN_TOKEN = "admin-token"
SERVICES = "10.96.0.0/24"
API_SERVICE = "10.96.0.1"


class ControlPlane:
    """etcd, API server, scheduler and all controllers. The processes end with this process's namespace."""

    def __init__(self, folder, programs, nodes, cosi=None):
        """nodes: {name: the loopback address that leads to its kubelet}. cosi: the folder of COSI's programs, if they run."""
        self.folder = Path(folder)
        self._programs = Path(programs)
        self._cosi = cosi
        self._nodes = nodes
        self._processes = {}
        self.logs = self.folder / "log"
        self.logs.mkdir(parents=True)
        self.kubeconfig = self.folder / "admin.conf"
        self.authority = self.folder / "certs" / "apiserver.crt"
        self.api = None

    def start(self):
        folder = self.folder
        key = folder / "service-accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        users = [f'{ADMIN_TOKEN},admin,1,"system:masters"']
        users += [f'{self.token(name)},system:node:{name},{name},"system:nodes"' for name in self._nodes]
        (folder / "tokens.csv").write_text("\n".join(users) + "\n")
        self._start("etcd", "--name=q", f"--data-dir={folder}/etcd", "--unsafe-no-fsync")
        self._start(
            "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=127.0.0.1",
            f"--secure-port={API_PORT}",
            f"--cert-dir={folder}/certs",
            f"--advertise-address={SEEN_BY_GUESTS}",
            "--endpoint-reconciler-type=none",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=Hostname",
        )
        until("the API server's certificate", self.authority.exists, 60, self._ends)
        self.kubeconfig.write_text(self.config(ADMIN_TOKEN, "127.0.0.1"))
        self.api = Api(f"https://127.0.0.1:{API_PORT}", ADMIN_TOKEN, self.authority)
        until("the API server is ready", lambda: self.api.request("GET", "readyz") == "ok", 120, self._ends)
        common = [f"--kubeconfig={self.kubeconfig}", f"--authentication-kubeconfig={self.kubeconfig}"]
        common += [f"--authorization-kubeconfig={self.kubeconfig}", "--bind-address=127.0.0.1", "--leader-elect=false"]
        self._start(
            "kube-controller-manager",
            *common,
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={self.authority}",
            "--controllers=*,-bootstrap-signer-controller,-token-cleaner-controller",
        )
        self._start("kube-scheduler", *common)
        self._serve_snapshots()
        if self._cosi:
            self._serve_buckets()

    def _serve_snapshots(self):
        """What the chart expects of a cluster that has snapshots."""
        self.kubectl("apply", "--filename", str(self._programs / "snapshot-crds"))
        for kind in ("VolumeSnapshotClass", "VolumeSnapshotContent", "VolumeSnapshot"):
            # The API server begins to serve a new kind a moment later.
            until(f"the kind {kind} is served", lambda: self.api.list(kind) == [], 60, self._ends)
        # The node of a volume makes its snapshots.
        self._start("snapshot-controller", f"--kubeconfig={self.kubeconfig}", "--enable-distributed-snapshotting")

    def _serve_buckets(self):
        """What the chart expects of a cluster that has buckets."""
        self.kubectl("apply", "--filename", str(self._cosi / "cosi-crds"))
        for kind in ("BucketClass", "BucketClaim", "Bucket", "BucketAccessClass", "BucketAccess"):
            until(f"the kind {kind} is served", lambda: self.api.list(kind) == [], 60, self._ends)
        self._start(self._cosi / "cosi-controller", f"--kubeconfig={self.kubeconfig}")

    @staticmethod
    def token(node):
        return f"kubelet-{node}"

    def config(self, token, host=SEEN_BY_GUESTS):
        """A kubeconfig."""
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        return KUBECONFIG.format(server=f"https://{host}:{API_PORT}", token=token, data=authority)

    def kubectl(self, *arguments, check=True, text=None, seconds=120):
        """Runs kubectl as the administrator; returns its output."""
        argv = [str(self._programs / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        # Through websockets the end of a command's output sometimes counts as an abnormal closure on a busy node.
        environment = dict(os.environ, KUBECTL_REMOTE_COMMAND_WEBSOCKETS="false")
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=seconds, env=environment)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout

    def helm(self, *arguments):
        environment = dict(os.environ, HOME=str(self.folder), KUBECONFIG=str(self.kubeconfig))
        argv = [str(self._programs / "helm"), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=300)
        if done.returncode != 0:
            raise AssertionError(f"helm {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout

    def _start(self, name, *arguments):
        """name: of one of the programs, or its path."""
        argv = [str(self._programs / name), *arguments]
        name = argv[0].rsplit("/", 1)[1]
        if name == "kube-apiserver":
            # The names of the nodes lead to their kubelets only for the API server.
            hosts = self.folder / "hosts"
            hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for n, a in self._nodes.items()))
            argv = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts), *argv]
        with open(self.logs / f"{name}.log", "wb") as log:
            self._processes[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _ends(self):
        """The last words of the processes that have ended."""
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        return "\n".join(f"{name} has ended: {(self.logs / f'{name}.log').read_text()[-1500:]}" for name in ended)

    def stop(self):
        # The API server would wait long for an etcd that is gone.
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()


KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "{server}", certificate-authority-data: {data}}}}}]
users: [{{name: test, user: {{token: {token}}}}}]
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
current-context: test
"""
