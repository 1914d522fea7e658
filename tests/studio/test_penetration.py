"""What strangers try on a studio: other names, other sites, paths, tokens, sizes, patience. The browser's part is in test_browser_attacks."""

import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import httpx
import pytest

from tests.studio.live import TOKEN, serving
from twinloop.errors import WrongUse
from twinloop.studio import server
from twinloop.studio.context import confine
from twinloop.studio.settings import make_settings
from twinloop.workspace import find_workspace

SECRET = "what-only-the-owner-may-read"
HOSTILE = (
    "../secret", "../secret/secret.txt", "/etc/passwd", "data/../../secret", "data/link/secret.txt", "data/link", "..%2fsecret",
    "%2e%2e/secret", "..\\secret", "data\\..\\..\\secret", "~/secret", "file:///etc/passwd", "a\0b", "....//secret", ".", "", "a" * 5000,
    "<script>x</script>", "'; drop table episodes --", "data/sim\n", "\u202e", "-1", "1e999", "nan",
)  # fmt: skip


@pytest.fixture(scope="module")
def target(studio_workspace, tmp_path_factory):
    """A studio, a secret beside its workspace, and a link that leads there."""
    import shutil

    folder = tmp_path_factory.mktemp("target")
    root = shutil.copytree(studio_workspace, folder / "cell")
    (folder / "secret").mkdir()
    (folder / "secret/secret.txt").write_text(SECRET)
    (root / "data/link").symlink_to(folder / "secret")
    with serving(root) as address:
        yield address, root


def ask(address, request, reads=30.0):
    """What a server answers to these bytes, and whether it then closed the connection."""
    host, port = address.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as connection:
        connection.sendall(request)
        connection.settimeout(reads)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            return answer, False
        except ConnectionResetError:
            return answer, True
        return answer, True


def status(answer):
    return int(answer.split(b" ", 2)[1])


def get(path, host="127.0.0.1:1", **headers):
    lines = [f"GET {path} HTTP/1.1", *([f"Host: {host}"] if host is not None else []), "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1@evil.example", "localhost.",
        "evil.example#127.0.0.1", "127.0.0.1, evil.example", "", "[::1", "127.0.0.1:0", "127.0.0.1:99999999", "0x7f.1", "2130706433",
    ],
)  # fmt: skip
def test_a_name_that_was_pointed_at_this_machine_is_no_name_of_the_studio(target, host):
    answer, _ = ask(target[0], get("/api/overview", host, **BEARER))
    assert status(answer) in (400, 421) and b"next_step" not in answer


def test_requests_without_or_with_two_names_are_refused(target):
    for request in (
        get("/api/overview", None, **BEARER),
        b"GET /api/overview HTTP/1.0\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n",
        get("/api/overview", "127.0.0.1\r\nHost: evil.example", **BEARER),
    ):
        answer, _ = ask(target[0], request)
        assert status(answer) in (400, 421) and b"next_step" not in answer
    assert status(ask(target[0], get("/api/overview", "[::1]:80", **BEARER))[0]) == 200


def test_another_sites_page_changes_and_reads_nothing(target):
    address, _ = target
    with httpx.Client(base_url=address, headers={"x-twinloop": "1"}) as browser:
        assert browser.get(f"/?token={TOKEN}").status_code == 303
        job = {"command": ["data", "verify", "data/sim"]}
        own = {"origin": address, "sec-fetch-site": "same-origin"}
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": address.replace("127.0.0.1", "localhost")},
            {"origin": "http://127.0.0.1:1", "sec-fetch-site": "same-site"},
            {"sec-fetch-site": "cross-site"},
            {**own, "x-twinloop": ""},
        ):
            refused = browser.post("/api/jobs", json=job, headers=headers)
            assert refused.status_code == 403, headers
        for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"):
            refused = browser.post(
                "/api/jobs", content=json.dumps(job), headers={**own, "content-type": kind}
            )
            assert refused.status_code in (415, 422), "only JSON is read"
        reading = browser.get(
            "/api/overview", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        )
        assert reading.status_code == 403
        preflight = browser.options("/api/jobs", headers={"origin": "http://evil.example"})
        assert preflight.status_code == 403
        assert not [name for name in preflight.headers if name.startswith("access-control")]
        assert browser.get("/api/jobs").json()["total"] == 0, "nothing was started"


def test_what_is_guessed_is_compared_only_so_often(studio_workspace):
    with serving(studio_workspace) as address, httpx.Client(base_url=address) as owner:
        assert owner.get(f"/?token={TOKEN}").status_code == 303
        codes = [
            httpx.get(
                f"{address}/api/overview/studio", headers={"authorization": f"Bearer guess-{k}"}
            ).status_code
            for k in range(40)
        ]
        assert codes[:30] == [401] * 30 and codes[30:] == [429] * 10
        right = httpx.get(f"{address}/api/overview/studio", headers=BEARER)
        assert right.status_code == 429, "a guess that is right is not told from others"
        assert httpx.get(f"{address}/?token={TOKEN}").status_code == 429
        assert owner.get("/api/overview/studio").status_code == 200, "who is in stays in"
        for forged in (TOKEN, "", "x" * 43, '"', "a=b; c"):
            stranger = httpx.get(
                f"{address}/api/overview/studio", headers={"cookie": f"twinloop_studio_1={forged}"}
            )
            assert stranger.status_code in (401, 429)


def test_the_token_is_nowhere_but_in_the_address_that_was_printed(target):
    address, _ = target
    with httpx.Client(base_url=address) as browser:
        entered = browser.get(f"/episode/data%2Fsim/0?token={TOKEN}&t=3")
        assert entered.headers["location"] == "/episode/data%2Fsim/0?t=3" and TOKEN not in str(
            entered.headers
        )
        assert TOKEN not in entered.headers["set-cookie"]
        assert entered.headers["referrer-policy"] == "no-referrer"
        for path in ("//evil.example/", "/%5C%5Cevil.example/", "/\\evil.example/", "///evil.example/%2e%2e"):
            again, _ = ask(address, get(f"{path}?token={TOKEN}"))
            found = re.search(rb"location: (\S+)", again)[1].decode()
            assert re.match(r"/[^/\\]", found), f"never to another host: {found}"
        for path in ("/", "/api/overview/studio", "/api/openapi.json"):
            assert TOKEN not in browser.get(path).text


def test_settings_that_let_strangers_in_are_refused(tmp_path):
    with pytest.raises(WrongUse, match="needs a token"):
        make_settings(tmp_path, host="0.0.0.0")
    with pytest.raises(WrongUse, match="too short"):
        make_settings(tmp_path, host="0.0.0.0", token="secret")
    assert TOKEN not in repr(make_settings(tmp_path, token=TOKEN))
    assert len(make_settings(tmp_path).token) > 40


@pytest.mark.parametrize("path", HOSTILE)
def test_no_path_leads_out_of_the_workspace(target, path):
    workspace = find_workspace(target[1])
    try:
        found = confine(workspace, path)
    except WrongUse as error:
        assert "workspace" in str(error)
    else:
        assert found.is_relative_to(workspace.root.resolve())


@pytest.mark.parametrize(
    "texts", [HOSTILE[:4], pytest.param(HOSTILE[4:], marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_no_operation_reads_outside_the_workspace_whatever_it_is_sent(target, texts):
    """Every operation, every text in its address, its query and its body."""
    address, root = target
    headers = BEARER | {"x-twinloop": "1"}
    broken: list[str] = []
    before = sorted(path for path in root.parent.rglob("*") if "/jobs" not in str(path))
    with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
        document = client.get("/api/openapi.json").json()
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["operationId"] in ("watch_events", "start_job"):
                    continue
                for request in hostile_requests(path, operation, document, texts):
                    answer = client.request(method, **request)
                    told = f"{method} {request}: {answer.status_code} {answer.text[:300]}"
                    assert SECRET not in answer.text and "root:" not in answer.text, told
                    assert answer.status_code != 500, told
                    if answer.status_code >= 400 and answer.headers["content-type"] == "application/json":
                        assert answer.json()["error"]["what"], told
    after = sorted(path for path in root.parent.rglob("*") if "/jobs" not in str(path))
    outside = [path for path in set(after) - set(before) if not path.is_relative_to(root)]
    assert not outside, outside
    assert not broken, "\n".join(broken)


def hostile_requests(path, operation, document, hostiles):
    """Requests in which each text is hostile in turn; the rest is what is expected."""
    from urllib.parse import quote

    usual = {
        "dataset": "data/sim",
        "episode": "0",
        "sql": "select 1",
        "camera": "front",
        "signal": "observation.state",
    }
    parameters = operation.get("parameters", ())
    queries = {
        one["name"]: usual.get(one["name"], "x")
        for one in parameters
        if one["in"] == "query" and one.get("required")
    }
    places = [one["name"] for one in parameters if one["in"] == "path"]
    texts = [one["name"] for one in parameters if one["in"] == "query"]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    body = example(content, document) if content else None
    for hostile in hostiles:
        address = (
            re.sub(r"{(\w+)}", lambda _, text=hostile: quote(text, safe="") or "%20", path)
            if places
            else path
        )
        if places:
            yield {"url": address, "params": queries, **({"json": body} if content else {})}
        plain = re.sub(r"{(\w+)}", "x", path)
        for name in texts:
            yield {"url": plain, "params": queries | {name: hostile}, **({"json": body} if content else {})}
        if isinstance(body, dict):
            for name, value in body.items():
                if isinstance(value, str | list):
                    sent = hostile if isinstance(value, str) else [hostile]
                    yield {"url": plain, "params": queries, "json": body | {name: sent}}


def example(schema, document):
    """A value of a JSON schema."""
    if "$ref" in schema:
        return example(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return example(schema[choice][0], document)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        return {name: example(one, document) for name, one in schema.get("properties", {}).items()}
    return {"string": "x", "integer": 0, "number": 0.5, "boolean": False, "array": [], "null": None}.get(kind)


@pytest.mark.parametrize(
    "path",
    [
        "/../../secret/secret.txt", "/assets/../../settings.py", "/..%2f..%2fsecret/secret.txt", "/%2e%2e/app.py", "/assets/%2e%2e/%2e%2e/app.py",
        "//etc/passwd", "/static/../app.py", "/data/link/secret.txt", "/assets/..\\..\\app.py", "/%00", "/api/../data/link/secret.txt",
        "/twinloop.yaml", "/registry/record.jsonl", "/sources.sha256",
    ],
)  # fmt: skip
def test_the_front_end_serves_its_own_files_only(target, path):
    answer, _ = ask(target[0], get(path, **BEARER))
    body = answer.partition(b"\r\n\r\n")[2]
    assert (
        SECRET.encode() not in body
        and b"root:" not in body
        and b"import" not in body.replace(b"important", b"")
    )
    assert status(answer) in (200, 400, 404)
    assert status(answer) != 200 or b"<!doctype html>" in body.lower()


def test_queries_read_nothing_but_the_datasets_they_name(target):
    address, root = target
    with httpx.Client(base_url=address, headers=BEARER, timeout=60) as client:
        for sql in (
            f"select * from read_text('{root.parent}/secret/secret.txt')",
            "select * from read_csv('/etc/passwd')",
            "copy (select 1) to '/tmp/x.csv'",
            "attach '/tmp/x.db'",
            "install httpfs",
            "pragma database_list",
            "select getenv('HOME')",
            "select 1; select 2",
        ):
            answer = client.get("/api/data/query", params={"sql": sql, "dataset": "data/sim"})
            assert answer.status_code in (400, 422) and SECRET not in answer.text, f"{sql}: {answer.text}"


def test_what_is_too_large_is_refused_before_it_is_read(target):
    address, _ = target
    changing = {**BEARER, "x-twinloop": "1", "content-type": "application/json"}
    with httpx.Client(base_url=address, headers=changing) as client:
        declared = client.post("/api/jobs", content=b" " * ((1 << 20) + 1))
        assert declared.status_code == 413 and declared.json()["error"]["expected"] == "at most 1048576"
        chunked = client.post("/api/jobs", content=(b" " * 65536 for _ in range(64)))
        assert chunked.status_code == 413
        for body in (
            b"[" * 100_000,
            b'{"command": ' + b'["x",' * 50_000,
            b'{"command": ["' + b"a" * 900_000 + b'"]}',
            b"\xff\xfe",
        ):
            answer = client.post("/api/jobs", content=body)
            assert answer.status_code in (400, 422), answer.text[:200]
            assert answer.json()["error"]["what"]
    huge = get("/api/overview/studio", **BEARER, x_padding="x" * 200_000)
    answer, closed = ask(address, huge)
    assert closed and (answer == b"" or status(answer) in (400, 431))
    lying = b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n"
    assert status(ask(address, lying)[0]) == 400
    forever = (
        f"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Twinloop: 1\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Length: 99999999999\r\n\r\n"
    )
    answer, closed = ask(address, forever.encode())
    assert status(answer) == 413 and closed, "at once, and the rest is not waited for"


def test_clients_that_keep_a_connection_without_asking_lose_it(studio_workspace, monkeypatch):
    monkeypatch.setattr(server, "HEADERS_S", 0.5)
    with serving(studio_workspace, slowest_s=0.5) as address:
        silent = b""
        slow_headers = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        after_another = (
            get("/api/overview/studio", **BEARER).replace(b"Connection: close\r\n", b"") + slow_headers
        )
        body = f"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Twinloop: 1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 50\r\n\r\n{{"
        requests = [silent, slow_headers, after_another, body.encode()] * 10
        with ThreadPoolExecutor(40) as everybody:
            answers = [everybody.submit(ask, address, request, 30.0) for request in requests]
            time.sleep(0.2)
            assert httpx.get(f"{address}/api/overview/studio", headers=BEARER).status_code == 200, (
                "others are served"
            )
            done = [one.result() for one in answers]
        assert all(closed for _, closed in done)
        assert done[0][0] == b"" and status(done[2][0]) == 200 and status(done[3][0]) == 408


def test_a_client_that_never_takes_its_answer_is_left(studio_workspace):
    with serving(studio_workspace, slowest_s=0.5) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect((host, int(port)))
            many = get("/api/openapi.json", **BEARER).replace(b"Connection: close\r\n", b"") * 200
            connection.settimeout(5)
            with suppress(TimeoutError, ConnectionError):
                connection.sendall(many)
            time.sleep(2)
            with httpx.Client(base_url=address, headers=BEARER) as client:
                assert client.get("/api/overview/studio").status_code == 200
            with pytest.raises((ConnectionError, TimeoutError)):
                for _ in range(100):
                    connection.sendall(b"x" * 65536)


def test_a_read_only_studio_refuses_every_change(studio_workspace):
    with serving(studio_workspace, read_only=True) as address:
        headers = BEARER | {"x-twinloop": "1"}
        with httpx.Client(base_url=address, headers=headers) as client:
            for path, methods in client.get("/api/openapi.json").json()["paths"].items():
                for method in methods.keys() - {"get"}:
                    refused = client.request(method, re.sub(r"{(\w+)}", "x", path), json={})
                    assert refused.status_code == 403 and "read-only" in refused.text, path


def test_sockets_of_other_protocols_are_closed(target):
    upgrade = get(
        "/api/overview/studio",
        Connection="Upgrade",
        Upgrade="websocket",
        Sec_WebSocket_Key="x",
        Sec_WebSocket_Version="13",
        **BEARER,
    )
    answer, _ = ask(target[0], upgrade.replace(b"Connection: close\r\n", b""))
    assert b"101" not in answer.split(b"\r\n")[0]
