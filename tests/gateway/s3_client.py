"""A small S3 client: signature version 4, one request a call, and the answer as it is. It retries nothing and hides nothing, so
that a test sees each status. boto3 is for tests that ask what users see.
"""

import datetime
import hashlib
import hmac
import http.client
import re
import socket
import ssl
from typing import NamedTuple
from urllib.parse import quote

EMPTY = hashlib.sha256(b"").hexdigest()
ALGORITHM = "AWS4-HMAC-SHA256"


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict

    @property
    def code(self):
        """S3's word for the error, empty if there is none."""
        found = re.search(rb"<Code>([^<]+)</Code>", self.body)
        return found[1].decode() if found else ""

    def all(self, tag):
        return [one.decode() for one in re.findall(rb"<%s>([^<]*)</%s>" % (tag.encode(), tag.encode()), self.body)]


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class _UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.host)


class Client:
    def __init__(self, address, access="", secret="", tls=None, region="us-east-1"):
        """address: "HOST:PORT", or the path of a unix socket. tls: a file with the certificate to trust, or None. Without an
        access key requests are not signed."""
        self.address, self.access, self.secret, self.region = address, access, secret, region
        self.context = ssl.create_default_context(cafile=str(tls)) if tls else None

    def connection(self, timeout=60):
        if self.address.startswith("/"):
            return _UnixConnection(self.address, timeout=timeout)
        if self.context:
            return http.client.HTTPSConnection(self.address, timeout=timeout, context=self.context)
        return http.client.HTTPConnection(self.address, timeout=timeout)

    def headers(self, method, path, query="", body_hash=EMPTY, more=None):
        """The headers of a signed request. path is encoded; query is sorted and encoded."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        host = "localhost" if self.address.startswith("/") else self.address
        headers = {"host": host, "x-amz-content-sha256": body_hash, "x-amz-date": now} | (more or {})
        if not self.access:
            return headers
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = "\n".join((method, path, query, lines, names, body_hash))
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        key = b"AWS4" + self.secret.encode()
        for word in (now[:8], self.region, "s3", "aws4_request"):
            key = sign(key, word)
        text = "\n".join((ALGORITHM, now, scope, hashlib.sha256(request.encode()).hexdigest()))
        signature = sign(key, text).hex()
        headers["authorization"] = f"{ALGORITHM} Credential={self.access}/{scope}, SignedHeaders={names}, Signature={signature}"
        return headers

    def request(self, method, path, query=None, body=b"", headers=None):
        path = quote(path, safe="/-_.~")
        words = sorted((query or {}).items())
        text = "&".join(f"{quote(key, safe='-_.~')}={quote(str(value), safe='-_.~')}" for key, value in words)
        signed = self.headers(method, path, text, hashlib.sha256(body).hexdigest(), headers)
        connection = self.connection()
        try:
            connection.request(method, f"{path}?{text}" if text else path, body or None, signed)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()})
        finally:
            connection.close()

    def put(self, bucket, key, body=b"content"):
        return self.request("PUT", f"/{bucket}/{key}", body=body)

    def get(self, bucket, key):
        return self.request("GET", f"/{bucket}/{key}")

    def head(self, bucket, key):
        return self.request("HEAD", f"/{bucket}/{key}")

    def delete(self, bucket, key):
        return self.request("DELETE", f"/{bucket}/{key}")

    def list(self, bucket):
        return self.request("GET", f"/{bucket}", {"list-type": 2})

    def begin_upload(self, bucket, key):
        answer = self.request("POST", f"/{bucket}/{key}", {"uploads": ""})
        return (answer.all("UploadId") or [answer])[0]

    def put_part(self, bucket, key, upload, number, body):
        return self.request("PUT", f"/{bucket}/{key}", {"partNumber": number, "uploadId": upload}, body)

    def complete_upload(self, bucket, key, upload, tags):
        parts = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        return self.request("POST", f"/{bucket}/{key}", {"uploadId": upload}, body)
