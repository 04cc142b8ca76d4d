"""The explorer's server refuses what is not its page; the static folder says when it lacks
WebAssembly; Node passes the vectors.
"""

import http.client
import importlib.util
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from static import running

from bongref.cli import main
from bongref.errors import InvalidValue
from bongref.explore import respond
from bongref.explore.server import FILES, LARGEST, server

ROOT = Path(__file__).parent.parent


def builder():
    path = ROOT / "docs" / "explorer_build.py"
    spec = importlib.util.spec_from_file_location("explorer_build", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def port():
    own = server(0)
    with running(own):
        yield own.server_address[1]


def ask(port, method, path, body=None, **headers):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    if method == "POST":
        headers.setdefault("Content-Type", "application/json")
    link.request(method, path, body, headers)
    answer = link.getresponse()
    out = answer.status, answer.read(), answer.headers
    link.close()
    return out


# --- what it serves -------------------------------------------------------------------------------


def test_it_serves_the_page_and_the_function(port):
    status, body, headers = ask(port, "GET", "/")
    assert status == 200 and b"<title>bongref explorer" in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for path, file in FILES.items():
        status, body, headers = ask(port, "GET", path)
        assert (
            status == 200
            and body == file.read_bytes()
            and headers["X-Content-Type-Options"] == "nosniff"
        )
    request = {"t": 2, "model": "poisson"}
    status, body, _ = ask(port, "POST", "/respond", json.dumps(request))
    assert status == 200 and json.loads(body) == json.loads(json.dumps(respond(request)))
    own = {"Origin": f"http://127.0.0.1:{port}"}
    assert ask(port, "POST", "/respond", "{}", **own)[0] == 200
    assert ask(port, "GET", "/", Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/answer.py",
        "/../answer.py",
        "/page/index.html",
        "/%2e%2e/answer.py",
        "//etc/passwd",
        "/index.html/",
    ],
)
def test_it_serves_no_other_file(port, path):
    status, body, _ = ask(port, "GET", path)
    assert status == 404 and json.loads(body)["error"]["argument"] == "path"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "", "localhost:1"]
)
def test_it_refuses_other_hosts(port, host):
    for method, body in (("GET", None), ("POST", "{}")):
        status, text, _ = ask(port, method, "/respond", body, Host=host)
        assert status == 403 and json.loads(text)["error"]["argument"] == "Host"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1"]
)
def test_it_refuses_other_origins(port, origin):
    status, text, _ = ask(port, "POST", "/respond", "{}", Origin=origin)
    assert status == 403 and json.loads(text)["error"]["argument"] == "Origin"


def test_it_refuses_large_and_broken_requests(port):
    assert ask(port, "POST", "/respond", " " * (LARGEST + 1))[0] == 413
    assert ask(port, "POST", "/respond", "{}", Content_Length="-5")[0] == 413
    assert ask(port, "POST", "/respond", "{")[0] == 400
    assert ask(port, "POST", "/respond", b"\xff\xfe")[0] == 400
    assert ask(port, "POST", "/respond", "[" * 50_000)[0] == 400
    assert ask(port, "POST", "/respond", "{}", Content_Type="text/plain")[0] == 415
    assert ask(port, "POST", "/other", "{}")[0] == 404
    assert ask(port, "PUT", "/respond", "{}")[0] == 501
    status, body, _ = ask(port, "POST", "/respond", '{"noise": NaN}')
    assert status == 200 and json.loads(body)["error"]["argument"] == "noise"


def test_it_listens_on_loopback_alone():
    own = server(0)
    assert own.server_address[0] == "127.0.0.1"
    own.server_close()


# --- the command ----------------------------------------------------------------------------------


def test_a_port_in_use_is_named(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        with pytest.raises(InvalidValue, match=f"port must be free, got {number}"):
            server(number)
        assert main(["explore", "--no-browser", "--port", str(number)]) == 2
    assert "--port 0" in capsys.readouterr().err
    assert main(["explore", "--port", "70000", "--no-browser"]) == 2


def test_ctrl_c_ends_it_with_a_message():
    code = "import sys; from bongref.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "explore", "--no-browser", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line and "Ctrl-C" in line
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        assert ask(port, "GET", "/")[0] == 200
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0 and "has stopped" in out and err == ""


# --- the static folder ----------------------------------------------------------------------------


def test_without_npm_the_folder_is_built_and_says_so(tmp_path, monkeypatch):
    module = builder()
    monkeypatch.setattr(module, "CACHE", tmp_path / "none")
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    said = module.build(tmp_path / "site")
    assert "without WebAssembly" in said and "npm is not on this machine" in said
    html = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert '<meta name="transport" content="none">' in html
    assert json.loads((tmp_path / "site" / "first.json").read_text())["t"] == 1
    assert not (tmp_path / "site" / "pyodide").exists()
    with pytest.raises(SystemExit, match="OUT must be a new"):
        module.build(ROOT / "docs")


def test_the_vectors_pass_in_webassembly_under_node(tmp_path, capfd):
    """One level of the vectors; all of them with `python docs/explorer_build.py OUT --check`."""
    module = builder()
    if shutil.which("node") is None:
        pytest.skip("node is not on this machine")
    said = module.build(tmp_path / "site", download=False)
    if "without WebAssembly" in said:
        pytest.skip(said)
    assert module.check(tmp_path / "site", ("--levels", "L0,L1")) == 0
    assert "CONFORMS" in capfd.readouterr().out
