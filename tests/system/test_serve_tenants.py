"""`streamgp serve` with tokens and a certificate, as a process; and the options that make and need them."""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn")

import streamgp
from streamgp.app.cli import app


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """Yield the address of a service; end it by SIGTERM, and check that it ends well."""
    command = [sys.executable, "-m", "streamgp.app.cli", "serve", *words, "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(Path(streamgp.__file__).parents[1])}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"https?://\S+?(?=;)", line)
        assert found, line + process.stderr.read()
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        assert (code, process.stderr.read()) == (0, "")


def made(*words: str) -> str:
    result = CliRunner().invoke(app, ["serve", *words])
    assert result.exit_code == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tokens_are_replaced_while_a_service_runs_over_tls(tmp_path: Path):
    certificate, key, file, log = (tmp_path / name for name in ("cert.pem", "key.pem", "tokens.toml", "audit.jsonl"))
    options = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    openssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run([*openssl, *files, *options], check=True, capture_output=True)
    words = (str(tmp_path / "live"), "--token-file", str(file))
    first = made(*words, "--add-token", "plant:admin:plant-*")
    trusting = ssl.create_default_context(cafile=str(certificate))
    tls = ("--certificate", str(certificate), "--key-file", str(key), "--audit-log", str(log))
    with serving(*words, *tls) as address:
        assert address.startswith("https://127.0.0.1:")

        def status(secret: str) -> int:
            asked = urllib.request.Request(f"{address}/v1/streams", headers={"Authorization": f"Bearer {secret}"})
            try:
                with urllib.request.urlopen(asked, context=trusting, timeout=20) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                error.close()
                return error.code

        assert status(first) == 200
        second = made(*words, "--add-token", "plant", "--expires", "2999-01-01")
        assert status(first) == status(second) == 200
        text = file.read_text()
        start = text.index("[[plant.tokens]]")
        file.write_text(text[:start] + text[text.index("[[plant.tokens]]", start + 1) :])  # without the first
        assert (status(first), status(second)) == (401, 200)
        subprocess.run([*openssl, *files, *options], check=True, capture_output=True)
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            status(second)
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert status(second) == 200
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(address.replace("https", "http") + "/livez", timeout=20)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    expected = [("plant", 200)] * 3 + [(None, 401), ("plant", 200), ("plant", 200)]
    assert [(line["who"], line["status"]) for line in lines] == expected
    assert first not in log.read_text() and second not in log.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--host", "0.0.0.0"], "--host: expected 127.0.0.1 without tokens, got 0.0.0.0"),
        (["--audit-log", "a.jsonl"], "--audit-log: expected --token-file FILE with it"),
        (["--certificate", "none.pem"], "--certificate, --key-file: expected both, or neither"),
        (
            ["--certificate", "none.pem", "--key-file", "none.pem"],
            "expected a certificate and its key as PEM, got none",
        ),
        (["--token-file", "none.toml", "--audit-log", "a/b"], "none.toml: could not be read"),
        (["--expires", "2027-01-31"], "--expires: expected --add-token NAME with it"),
        (["--add-token", "plant:read:*"], "--add-token: expected --token-file FILE as well"),
        (["--token-file", "none.toml"], "none.toml: could not be read (No such file or directory)"),
        (["--token-file", "new.toml", "--add-token", "plant"], "expected NAME:SCOPES, as the file has no such name"),
        (
            ["--token-file", "new.toml", "--add-token", "plant:learn:*"],
            "expected scopes of ROLE:NAME or ROLE:PREFIX*",
        ),
    ],
)
def test_options_that_cannot_be_used(words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["serve", "live", *words])
    assert result.exit_code == 1
    assert says in result.stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []
