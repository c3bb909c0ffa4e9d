"""Objects that tests create: claims and pods."""

from .images import BUSYBOX

DRIVER = "quarry.csi.local"
IDLE = "trap exit TERM; while :; do sleep 1 & wait; done"


def claim(name, size, mode="Filesystem", storage_class="quarry", access="ReadWriteOnce"):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": [access],
            "volumeMode": mode,
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
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
    """A pod with a volume at /data, or as the device /dev/volume, and with more volumes {name: volume}."""
    volumes = {"data": volume, **dict(more)}
    container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", command]}
    if raw:
        container["volumeDevices"] = [{"name": "data", "devicePath": "/dev/volume"}]
    else:
        container["volumeMounts"] = [{"name": one, "mountPath": f"/{one}"} for one in volumes]
    spec = {
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
        "volumes": [{"name": one, **what} for one, what in volumes.items()],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def is_ready(one):
    """Whether a pod or a node says that it is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in one.get("status", {}).get("conditions", ()))
