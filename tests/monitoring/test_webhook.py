"""The webhook against real servers: alerts go to the hosts that were named, in bounded time, and nowhere else."""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest

from twinloop.errors import WrongUse
from twinloop.monitoring.alerts import Alert, send
from twinloop.monitoring.webhook import Webhook, post

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
LOCAL = ("127.0.0.1",)


class Server:
    """Answers each request with the next of its replies, in pieces if there are several, and keeps what it read."""

    def __init__(self, *replies, host="127.0.0.1", wait_s=0.0, tls=None):
        self.heard, self.replies, self.wait_s, self.tls = [], list(replies), wait_s, tls
        self.socket = socket.create_server((host, 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)

    def url(self, host="127.0.0.1", scheme="http"):
        return f"{scheme}://{host}:{self.port}/hook?a=b"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connected, _ = self.socket.accept()
                with (
                    contextlib.suppress(OSError),
                    connected,
                    self.tls.wrap_socket(connected, server_side=True) if self.tls else connected as stream,
                ):
                    self._answer(stream)

    def _answer(self, connected):
        connected.settimeout(5.0)
        head = b""
        while b"\r\n\r\n" not in head:
            head += connected.recv(1)
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        body = b""
        while len(body) < length:
            body += connected.recv(length)
        self.heard.append((head.decode().splitlines()[0], json.loads(body)))
        for piece in self.replies.pop(0):
            connected.sendall(piece if isinstance(piece, bytes) else bytes([piece]))
            time.sleep(self.wait_s)


def redirect(to, status=307):
    return [f"HTTP/1.1 {status} Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()]


def test_an_alert_is_posted_as_json():
    alert = Alert("aged actuator", "w", "e", "n", "c", changes_twin=True, dataset="d")
    with Server([OK]) as server:
        assert send(Webhook(server.url(), LOCAL), alert) is None
    assert server.heard[0][0] == "POST /hook?a=b HTTP/1.1"
    assert (
        server.heard[0][1]["kind"] == "aged actuator" and server.heard[0][1]["source"] == "twinloop monitor"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"])
def test_this_machine_is_posted_to_only_if_it_is_allowed(host):
    with Server([OK], [OK]) as server:
        error = post(Webhook(server.url(host)), {"a": 1})
        assert "is not a public address" in error and "--webhook-allow" in error
        assert server.heard == []
        assert post(Webhook(server.url(host), (host,)), {"a": 1}) is None
    assert len(server.heard) == 1


@pytest.mark.parametrize(
    "address",
    ["10.1.2.3", "192.168.0.9", "172.16.0.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "[fd00::1]",
     "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "224.0.0.1", "255.255.255.255"],
)  # fmt: skip
def test_local_and_reserved_networks_are_refused_before_connecting(address):
    assert "is not a public address" in post(Webhook(f"http://{address}/"), {}, timeout_s=0.2)


def test_a_redirect_to_another_host_is_refused_and_one_to_an_allowed_host_is_followed():
    with Server([OK]) as other:
        there = other.url("localhost")
        with Server(redirect(there), redirect("//localhost/x"), redirect(there)) as server:
            error = post(Webhook(server.url(), LOCAL), {"a": 1})
            assert "redirects to another host, localhost" in error and other.heard == []
            assert "another host" in post(Webhook(server.url(), LOCAL), {"a": 1})
            assert post(Webhook(server.url(), (*LOCAL, "localhost")), {"a": 1}) is None
    assert [body for _, body in other.heard] == [{"a": 1}]


def test_a_redirect_on_the_same_host_is_followed_a_few_times_and_other_redirects_deliver_nothing():
    with Server(redirect("/other"), [OK], *[redirect("/again")] * 9) as server:
        assert post(Webhook(server.url(), LOCAL), {"a": 1}) is None
        assert server.heard[1] == ("POST /other HTTP/1.1", {"a": 1})
        assert "more than 3 times" in post(Webhook(server.url(), LOCAL), {})
    for status in (301, 302, 303):
        with Server(redirect("/other", status)) as server:
            assert post(Webhook(server.url(), LOCAL), {}) == f"the webhook answered {status}"
    with Server(redirect("file:///etc/passwd")) as server:
        assert "not the address of a webhook" in post(Webhook(server.url(), LOCAL), {})


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(monkeypatch):
    """A name server that answers with a public address first and with this machine next leads nowhere."""
    asked, real = [], socket.getaddrinfo
    answers = iter([["8.8.8.8", "127.0.0.1"], ["8.8.8.8"], ["127.0.0.1"], ["127.0.0.1"]])

    def resolve(host, port, *rest, **more):
        if host != "hook.test":
            return real(host, port, *rest, **more)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(answers)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with Server([OK]) as server:
        mixed = Webhook(server.url("hook.test"))
        assert "hook.test is 127.0.0.1, which is not a public address" in post(mixed, {})
        assert post(mixed, {}, timeout_s=0.2) and len(asked) == 2, "asked once for each delivery"
        assert server.heard == []
        assert post(Webhook(server.url("hook.test"), ("hook.test",)), {}) is None


@pytest.mark.parametrize(
    ("reply", "wait_s"),
    [(OK[:-4] + b"\r\nX: " + b"x" * 500, 0.01), ([b"x" * 4096] * 40, 0.0), ([b""], 1.0), ([b"nonsense\r\n\r\n"], 0.0)],
)  # fmt: skip
def test_a_reply_is_bounded_in_time_and_size(reply, wait_s):
    with Server(reply, wait_s=wait_s) as server:
        assert "cannot be reached" in post(Webhook(server.url(), LOCAL), {}, timeout_s=0.5)
    assert server.heard


def test_a_name_that_is_never_resolved_ends_with_the_deadline(monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(20))
    assert "no address of hook.test in time" in post(Webhook("http://hook.test/"), {}, timeout_s=0.1)
    released.set()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl is installed")
def test_a_certificate_must_be_for_the_name_of_the_host(tmp_path, monkeypatch):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]  # fmt: skip
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]  # fmt: skip
    subprocess.run(words, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    allowed = (*LOCAL, "localhost")
    with Server([OK], redirect("http://localhost/"), tls=context) as server:
        assert "certificate verify failed" in post(Webhook(server.url("localhost", "https"), allowed), {})
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert post(Webhook(server.url("localhost", "https"), allowed), {}) is None
        assert "IP address mismatch" in post(Webhook(server.url("127.0.0.1", "https"), allowed), {})
        assert "from https to http" in post(Webhook(server.url("localhost", "https"), allowed), {})


def test_an_unreachable_webhook_is_reported():
    assert "cannot be reached" in post(Webhook("http://127.0.0.1:9/hook", LOCAL), {})


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "https://", "http://127.0.0.1:port", "http://[x", "http://a/\r\nHost: b", "http://u:p@a/", "javascript:1", "http://a b/"],
)  # fmt: skip
def test_what_is_no_address_of_a_webhook_is_refused(url):
    with pytest.raises(WrongUse, match="webhook"):
        Webhook(url)
