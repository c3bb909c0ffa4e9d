"""Objects of COSI that tests create, and an S3 client on a node."""

import base64
import json

COSI = "objectstorage.k8s.io/v1alpha1"
# Runs on the node, which has no boto3. It gets what it needs from its standard input, so no argument has a key.
REQUEST = """
import json, sys
sys.path.insert(0, "/opt/quarry/extra")
from s3_client import Client
asked = json.load(sys.stdin)
client = Client(asked["address"], asked["access"], asked["secret"])
answer = client.request(asked["method"], asked["path"], body=asked["body"].encode())
json.dump({"status": answer.status, "body": answer.body.decode(errors="replace")}, sys.stdout)
"""


def driver(node):
    return f"n-{node}.s3.quarry.local"


def bucket_class(name, node, deletion="Delete", **parameters):
    return {
        "apiVersion": COSI,
        "kind": "BucketClass",
        "metadata": {"name": name},
        "driverName": driver(node),
        "deletionPolicy": deletion,
        "parameters": parameters,
    }


def access_class(name, node, **parameters):
    return {
        "apiVersion": COSI,
        "kind": "BucketAccessClass",
        "metadata": {"name": name},
        "driverName": driver(node),
        "authenticationType": "Key",
        "parameters": parameters,
    }


def bucket_claim(name, bucket_class_name):
    return {
        "apiVersion": COSI,
        "kind": "BucketClaim",
        "metadata": {"name": name},
        "spec": {"bucketClassName": bucket_class_name, "protocols": ["S3"]},
    }


def bucket_access(name, claim, access_class_name):
    """Its Secret has its name."""
    return {
        "apiVersion": COSI,
        "kind": "BucketAccess",
        "metadata": {"name": name},
        "spec": {
            "bucketClaimName": claim,
            "bucketAccessClassName": access_class_name,
            "protocol": "S3",
            "credentialsSecretName": name,
        },
    }


class Keys:
    """What opens a bucket."""

    def __init__(self, bucket, endpoint, access, secret):
        self.bucket, self.endpoint, self.access, self.secret = bucket, endpoint, access, secret

    @staticmethod
    def in_secret(secret):
        """Of the Secret of an access, as an application finds them."""
        spec = json.loads(base64.b64decode(secret["data"]["BucketInfo"]))["spec"]
        s3 = spec["secretS3"]
        return Keys(spec["bucketName"], s3["endpoint"], s3["accessKeyID"], s3["accessSecretKey"])

    def request(self, node, method, key, body=""):
        """(status, body) of a request for an object, made on a node."""
        asked = {
            "address": self.endpoint.removeprefix("http://"),
            "access": self.access,
            "secret": self.secret,
            "method": method,
            "path": f"/{self.bucket}/{key}",
            "body": body,
        }
        run = node.guest.run(["python3", "-B", "-c", REQUEST], input=json.dumps(asked), timeout=60, check=True)
        answer = json.loads(run.stdout)
        return answer["status"], answer["body"]
