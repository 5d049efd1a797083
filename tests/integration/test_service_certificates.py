"""A certificate that is replaced while a server runs, over real connections."""

import asyncio
import logging
import shutil
import ssl
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from streamgp.service.web.certificates import Certificate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates"),
]


def make(folder: Path, name: str) -> tuple[Path, Path, str]:
    """Make a certificate and its key; return their files, and what a client sees of it."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}", "-days", "2"]
    subprocess.run([*words, *files], check=True, capture_output=True)
    return certificate, key, sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


async def shown(port: int, name: str | None) -> str:
    """Connect, with a name of the server or by its address alone; return what is shown."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=name or "127.0.0.1")
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return sha256(found).hexdigest()


@pytest.mark.parametrize("name", ["localhost", None])
def test_a_new_certificate_is_shown_once_both_files_are_new(
    name: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    first, second = make(tmp_path, "first"), make(tmp_path, "second")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(first[0], certificate)
    shutil.copy(first[1], key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    Certificate(certificate, key).show_by(context)

    async def replaced() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        assert await shown(port, name) == first[2]
        shutil.copy(second[0], certificate)
        with caplog.at_level(logging.ERROR):
            assert await shown(port, name) == await shown(port, name) == first[2]
        assert len(caplog.records) == 1 and "the former one stays" in caplog.text
        shutil.copy(second[1], key)
        assert await shown(port, name) == second[2]
        key.unlink()
        assert await shown(port, name) == second[2]
        server.close()

    asyncio.run(replaced())
