"""A client of the Kubernetes API, for tests: objects are dictionaries, and all waiting is for objects."""

import copy
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE = 300  # seconds; the same pod may take 13 or 55
PAUSE = 0.3

# Where the objects of a kind are: their group and version, their plural, and whether they have a namespace.
KINDS = {
    "Pod": ("api/v1", "pods", True),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", True),
    "PersistentVolume": ("api/v1", "persistentvolumes", False),
    "Node": ("api/v1", "nodes", False),
    "Namespace": ("api/v1", "namespaces", False),
    "ServiceAccount": ("api/v1", "serviceaccounts", True),
    "ConfigMap": ("api/v1", "configmaps", True),
    "Event": ("api/v1", "events", True),
    "DaemonSet": ("apis/apps/v1", "daemonsets", True),
    "StatefulSet": ("apis/apps/v1", "statefulsets", True),
    "Deployment": ("apis/apps/v1", "deployments", True),
    "StorageClass": ("apis/storage.k8s.io/v1", "storageclasses", False),
    "CSINode": ("apis/storage.k8s.io/v1", "csinodes", False),
    "CSIStorageCapacity": ("apis/storage.k8s.io/v1", "csistoragecapacities", True),
    "VolumeSnapshot": ("apis/snapshot.storage.k8s.io/v1", "volumesnapshots", True),
    "VolumeSnapshotClass": ("apis/snapshot.storage.k8s.io/v1", "volumesnapshotclasses", False),
    "VolumeSnapshotContent": ("apis/snapshot.storage.k8s.io/v1", "volumesnapshotcontents", False),
    "SnapshotMetadataService": ("apis/cbt.storage.k8s.io/v1beta1", "snapshotmetadataservices", False),
    "Secret": ("api/v1", "secrets", True),
    "Bucket": ("apis/objectstorage.k8s.io/v1alpha1", "buckets", False),
    "BucketClass": ("apis/objectstorage.k8s.io/v1alpha1", "bucketclasses", False),
    "BucketClaim": ("apis/objectstorage.k8s.io/v1alpha1", "bucketclaims", True),
    "BucketAccessClass": ("apis/objectstorage.k8s.io/v1alpha1", "bucketaccessclasses", False),
    "BucketAccess": ("apis/objectstorage.k8s.io/v1alpha1", "bucketaccesses", True),
}


class Missing(Exception):
    """There is no such object."""


class Refused(Exception):
    """The server's words about a request that it did not obey."""


class Api:
    """One server, as one user. namespace: of the objects for which none is named. Thread-safe."""

    def __init__(self, url, token, authority, namespace="default"):
        self.namespace = namespace
        self._url = url
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(authority))

    def within(self, namespace):
        """The same client, for another namespace."""
        other = copy.copy(self)
        other.namespace = namespace
        return other

    def request(self, method, path, body=None, content="application/json"):
        """The answer, decoded if it is JSON."""
        asked = urllib.request.Request(f"{self._url}/{path}", method=method)
        asked.add_header("Authorization", f"Bearer {self._token}")
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            asked.add_header("Content-Type", content)
        try:
            with urllib.request.urlopen(asked, data, context=self._tls, timeout=30) as answer:
                text = answer.read().decode()
                return json.loads(text) if answer.headers.get_content_type() == "application/json" else text
        except urllib.error.HTTPError as error:
            words = error.read().decode(errors="replace")
            if error.code == 404:
                raise Missing(path) from None
            raise Refused(f"{method} {path}: {error.code} {words}") from None

    def get(self, kind, name, namespace=None):
        return self.request("GET", self._path(kind, namespace, name))

    def find(self, kind, name, namespace=None):
        """The object, or None."""
        try:
            return self.get(kind, name, namespace)
        except Missing:
            return None

    def list(self, kind, namespace=None, labels=None):
        """All of a kind: in one namespace, or in all of them."""
        query = "?" + urllib.parse.urlencode({"labelSelector": labels}) if labels else ""
        return self.request("GET", _path(kind, namespace) + query)["items"]

    def create(self, *objects):
        for one in objects:
            self.request("POST", self._path(one["kind"], one["metadata"].get("namespace")), one)

    def refusal(self, one):
        """Why the server would not take an object; empty if it would."""
        place = self._path(one["kind"], one["metadata"].get("namespace"))
        try:
            self.request("POST", f"{place}?dryRun=All", one)
            return ""
        except Refused as error:
            return str(error)

    def patch(self, kind, name, change, namespace=None):
        """Merges the change into the object (RFC 7396)."""
        content = "application/merge-patch+json"
        return self.request("PATCH", self._path(kind, namespace, name), change, content)

    def delete(self, kind, name, namespace=None, seconds=None):
        """Asks for the removal; seconds: of grace. An object that is gone already is all right."""
        body = {} if seconds is None else {"gracePeriodSeconds": seconds}
        try:
            self.request("DELETE", self._path(kind, namespace, name), body)
        except Missing:
            pass

    def events_about(self, name, kind=None):
        """What was said of the objects of this name, or of that kind: "Reason: message", the latest last."""
        objects = ((event["involvedObject"], event) for event in self.list("Event", self.namespace))
        about = [event for one, event in objects if one["name"] == name and kind in (None, one["kind"])]
        about.sort(key=lambda event: event["lastTimestamp"] or event["eventTime"] or "")
        return [f"{event['reason']}: {event['message']}" for event in about]

    def _path(self, kind, namespace, name=None):
        return _path(kind, namespace or self.namespace, name)


def _path(kind, namespace, name=None):
    place, plural, spaced = KINDS[kind]
    inside = f"namespaces/{namespace}/" if spaced and namespace else ""
    return f"{place}/{inside}{plural}" + (f"/{name}" if name else "")


def until(what, look, seconds=PATIENCE, describe=None):
    """Calls look() until it returns something true, and returns that. Errors of a busy server count as "not yet".

    describe(): what an AssertionError at the deadline says more.
    """
    deadline = time.monotonic() + seconds
    while True:
        trouble = ""
        try:
            if found := look():
                return found
        except (Refused, urllib.error.URLError, OSError, Missing) as error:
            trouble = f" ({error})"
        if time.monotonic() > deadline:
            more = f": {describe()}" if describe else ""
            raise AssertionError(f"not within {seconds} s: {what}{trouble}{more}")
        time.sleep(PAUSE)
