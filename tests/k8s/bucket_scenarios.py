"""Buckets in a cluster, by COSI's own controller and sidecar."""

import json

from kit.buckets import Keys, access_class, bucket_access, bucket_claim, bucket_class
from kit.cluster import NAMESPACE
from kit.scenario import Scenario, together


class Buckets(Scenario):
    @together(1)
    def test_a_claim_gets_a_bucket_and_the_keys_of_its_secret_open_it_until_they_are_revoked(self):
        node, other = self.cluster.nodes["n1"], self.cluster.nodes["n2"]
        self.make(
            bucket_class("quarry-n1", "n1", size="320MiB", ondelete="erase"),
            access_class("quarry-n1", "n1"),
            access_class("quarry-n1-ro", "n1", access="ro"),
            bucket_claim("photos", "quarry-n1"),
        )
        self.becomes_ready("photos")
        self.make(bucket_access("writer", "photos", "quarry-n1"), bucket_access("reader", "photos", "quarry-n1-ro"))
        writer, reader = self.keys("writer"), self.keys("reader")
        self.assertEqual(writer.request(node, "PUT", "cat", "meow")[0], 200)
        self.assertEqual(reader.request(node, "GET", "cat"), (200, "meow"))
        self.assertEqual(reader.request(node, "PUT", "cat", "other")[0], 403)
        # The sidecar of the other node sees every access, and must not end one that it cannot revoke.
        self.drop("BucketAccess", "writer")
        self.assertIsNone(self.api.find("Secret", "writer"))
        self.assertEqual(writer.request(node, "GET", "cat")[0], 403)
        self.assertEqual(reader.request(node, "GET", "cat"), (200, "meow"))
        self.drop("BucketAccess", "reader")
        self.drop("BucketClaim", "photos")
        self.assertEqual(self.volumes_of(node, writer.bucket), [])
        self.assertEqual(self.volumes_of(other, writer.bucket), [])

    @together(1)
    def test_no_other_nodes_sidecar_drops_a_bucket_that_must_not_be_deleted_yet(self):
        node = self.cluster.nodes["n2"]
        self.make(
            bucket_class("refusing-n2", "n2", size="320MiB"),
            access_class("refusing-n2", "n2"),
            bucket_claim("kept", "refusing-n2"),
        )
        self.becomes_ready("kept")
        self.make(bucket_access("first", "kept", "refusing-n2"))
        keys = self.keys("first")
        self.assertEqual(keys.request(node, "PUT", "cat", "meow")[0], 200)
        self.drop("BucketAccess", "first")
        self.api.delete("BucketClaim", "kept")
        # n1's sidecar tries to take the Bucket's finalizers: upstream's does so for every driver.
        self.until("the other node's sidecar is refused", lambda: "belongs to driver" in self.log("s3", "n1", "cosi-sidecar"))
        self.until("quarryd says why it keeps it", lambda: "has 1 objects" in self.log("node", "n2", "quarryd"))
        self.assertIsNotNone(self.api.find("Bucket", keys.bucket))
        self.assertEqual(len(self.volumes_of(node, keys.bucket)), 1)
        # The accesses of a claim go with it, so an administrator empties the bucket.
        granted = json.loads(self.quarryctl(node, "bucket", "grant", "admin", keys.bucket, "--json"))
        admin = Keys(keys.bucket, keys.endpoint, granted["access_key_id"], granted["secret_access_key"])
        self.assertEqual(admin.request(node, "DELETE", "cat")[0], 204)
        self.drop("BucketClaim", "kept")
        self.until("the Bucket is gone", lambda: self.api.find("Bucket", keys.bucket) is None)
        self.assertEqual(self.volumes_of(node, keys.bucket), [])

    def becomes_ready(self, claim):
        self.until(
            f"claim {claim} has its bucket",
            lambda: self.api.get("BucketClaim", claim).get("status", {}).get("bucketReady"),
        )

    def keys(self, access):
        self.until(
            f"access {access} is granted", lambda: self.api.get("BucketAccess", access).get("status", {}).get("accessGranted")
        )
        return Keys.in_secret(self.api.get("Secret", access))

    def volumes_of(self, node, bucket):
        """The logical volumes of a bucket that are not being erased."""
        lines = node.sh("lvs --noheadings -o lv_name,lv_tags quarry").splitlines()
        return [line for line in lines if bucket in line and "quarry.erasing" not in line]

    def log(self, component, node, container):
        pods = self.cluster.api.list("Pod", NAMESPACE, f"app.kubernetes.io/component={component}")
        pod = next(one["metadata"]["name"] for one in pods if one["spec"].get("nodeName") == node)
        return self.cluster.plane.kubectl("logs", "-n", NAMESPACE, pod, "-c", container)
