"""Objects that tests create: claims and pods."""

from .images import BUSYBOX

DRIVER = "quarry.csi.local"
SNAPSHOTS = "snapshot.storage.k8s.io"
IDLE = "trap exit TERM; sleep 1d & wait"


def claim(name, size, mode="Filesystem", storage_class="quarry", access="ReadWriteOnce", source=None, restored=None):
    """`source`: the claim that this one becomes a copy of. `restored`: the snapshot that it is made of."""
    copied = {"dataSource": {"kind": "PersistentVolumeClaim", "name": source}} if source else {}
    if restored:
        copied = {"dataSource": {"apiGroup": SNAPSHOTS, "kind": "VolumeSnapshot", "name": restored}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": [access],
            "volumeMode": mode,
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
            **copied,
        },
    }


def snapshot(name, source, snapshot_class="quarry"):
    """`source`: the claim."""
    return {
        "apiVersion": f"{SNAPSHOTS}/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name},
        "spec": {"volumeSnapshotClassName": snapshot_class, "source": {"persistentVolumeClaimName": source}},
    }


def storage_class(name, **parameters):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER,
        "parameters": parameters,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def of_claim(name):
    return {"persistentVolumeClaim": {"claimName": name}}


def generic(size, storage_class="quarry"):
    """A claim that lives as long as its pod."""
    return {"ephemeral": {"volumeClaimTemplate": {"spec": claim("", size, storage_class=storage_class)["spec"]}}}


def inline(size):
    return {"csi": {"driver": DRIVER, "fsType": "ext4", "volumeAttributes": {"size": size}}}


def pod(name, volume, command=IDLE, raw=False, node=None, more=()):
    """A pod with a volume at /data and more volumes {name: volume} at /NAME; raw: as /dev/volume and /dev/NAME."""
    volumes = {"data": volume, **dict(more)}
    container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", command]}
    if raw:
        devices = {one: "/dev/volume" if one == "data" else f"/dev/{one}" for one in volumes}
        container["volumeDevices"] = [{"name": one, "devicePath": path} for one, path in devices.items()]
    else:
        container["volumeMounts"] = [{"name": one, "mountPath": f"/{one}"} for one in volumes]
    spec = {
        "terminationGracePeriodSeconds": 2,
        # A network of its own would cost seconds in an emulated guest, and these pods have no use for it.
        "hostNetwork": True,
        "containers": [container],
        "volumes": [{"name": one, **what} for one, what in volumes.items()],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def stateful_set(name, size, command):
    """One pod, NAME-0, with the claim data-NAME-0, made again wherever it may run."""
    labels = {"app": name}
    spec = pod(name, {}, command)["spec"]
    spec.pop("volumes")
    template = claim("data", size)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            "volumeClaimTemplates": [{"metadata": template["metadata"], "spec": template["spec"]}],
        },
    }


def moved(volume, node):
    """The PersistentVolume anew, for the same volume on another node, and for the next claim of the same name."""
    spec = {key: volume["spec"][key] for key in ("accessModes", "capacity", "csi", "storageClassName", "volumeMode")}
    term = {"key": f"{DRIVER}/node", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume["metadata"]["name"], "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            **spec,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {key: volume["spec"]["claimRef"][key] for key in ("namespace", "name")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        },
    }


def is_ready(one):
    """Whether a pod or a node says that it is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in one.get("status", {}).get("conditions", ()))
