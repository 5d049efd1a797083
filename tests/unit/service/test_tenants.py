"""The file of tenants: what it may hold, how a token gets into it, and that it is read again."""

import hashlib
import json
import logging
import os
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from streamgp.service.web import audit, tokens
from streamgp.service.web.tenants import ROLES, Scope, Tenant, TenantError, parse

DIGEST = "0" * 64


def tenant(*scopes: str) -> Tenant:
    return Tenant("a", tuple(map(Scope.parse, scopes)))


@pytest.mark.parametrize(
    ("scope", "may", "may_not"),
    [
        ("read:power", "power", ("power2", "powe", "", "Power")),
        ("read:p-*", "p-", ("p", "q-1", "xp-1")),
        ("read:*", "anything", ()),
    ],
)
def test_a_scope_covers_a_name_or_names_that_begin_alike(scope: str, may: str, may_not: tuple[str, ...]):
    assert tenant(scope).sees(may)
    assert not [name for name in may_not if tenant(scope).sees(name)]


def test_a_role_has_those_before_it_on_its_own_streams_alone():
    one = tenant("admin:a", "write:w-*", "read:r")
    found = {role: [name for name in ("a", "w-1", "r", "other") if one.may(role, name)] for role in ROLES}
    assert found == {"read": ["a", "w-1", "r"], "write": ["a", "w-1"], "admin": ["a"]}
    assert not one.sees_all and tenant("read:*").sees_all


def test_a_token_is_in_its_file_by_its_hash(tmp_path: Path):
    path = tmp_path / "tokens.toml"
    first = tokens.add(path, "plant", ["admin:plant-*", "read:shared"])
    screen = tokens.add(path, "screen", ["read:*"], "2027-01-31")
    second = tokens.add(path, "plant", [], "2027-01-31T12:00:00+02:00")
    text = path.read_text()
    assert not any(secret in text for secret in (first, screen, second))
    assert all(hashlib.sha256(secret.encode()).hexdigest() in text for secret in (first, screen, second))
    known, found = parse(text)
    assert [each.name for each in known] == ["plant", "screen"]
    ends = {each.digest: each.expires for each in found}
    assert ends[tokens.digest_of(first)] is None
    assert str(ends[tokens.digest_of(screen)]) == "2027-01-31 00:00:00+00:00"
    assert str(ends[tokens.digest_of(second)]) == "2027-01-31 12:00:00+02:00"
    assert DIGEST not in repr(parse(f'[a]\nscopes = ["read:*"]\ntokens = [{{sha256 = "{DIGEST}"}}]')[1])
    assert os.name == "nt" or path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "scopes", "expires", "says"),
    [
        ("plant", ["read:*"], None, "expected no scopes, as the file has them"),
        ("other", [], None, "expected NAME:SCOPES, as the file has no such name"),
        ("other", ["learn:*"], None, "expected scopes of ROLE:NAME or ROLE:PREFIX"),
        ("other", ["read"], None, "expected scopes of ROLE:NAME or ROLE:PREFIX"),
        ("a b", ["read:*"], None, "expected TOML"),
        ("a.b", ["read:*"], None, "expected scopes, max_rate"),
        ("plant", [], "tomorrow", "expected TOML"),
        ("plant", [], "2027-01-31T12:00:00", "expires: expected a date such as"),
    ],
)
def test_what_cannot_be_added_leaves_the_file(
    tmp_path: Path, name: str, scopes: list[str], expires: str | None, says: str
):
    path = tmp_path / "tokens.toml"
    tokens.add(path, "plant", ["read:*"])
    before = path.read_bytes()
    with pytest.raises(TenantError, match=says):
        tokens.add(path, name, scopes, expires)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"name": "a"}]', "expected TOML"),
        ("a = 1", r"\[a\]: expected a table"),
        ("['a b']\nscopes = ['read:*']", "expected a name of 1 to 64"),
        ("[a]\nscopes = []", "expected scopes, a list"),
        ("[a]\nscopes = ['read:']", "got 'read:'"),
        ("[a]\nscopes = ['read:a*b']", r"got 'read:a\*b'"),
        ("[a]\nscopes = [1]", "got 1"),
        ("[a]\nscopes = ['read:*']\nrate = 1", "got 'rate'"),
        ("[a]\nscopes = ['read:*']\nmax_rate = 0", "max_rate: expected a number above 0, got 0"),
        ("[a]\nscopes = ['read:*']\nmax_rate = nan", "max_rate: expected a number above 0, got nan"),
        ("[a]\nscopes = ['read:*']\nmax_rows = 1.5", "max_rows: expected a number above 0, got 1.5"),
        ("[a]\nscopes = ['read:*']\nmax_streams = true", "max_streams: expected a number above 0, got True"),
        ("[a]\nscopes = ['read:*']\ntokens = ['x']", "tokens: expected tables"),
        ("[a]\nscopes = ['read:*']\ntokens = [{sha256 = 'short'}]", "sha256: expected 64 digits"),
        (f"[a]\nscopes = ['read:*']\ntokens = [{{sha256 = '{DIGEST}', until = 1}}]", "got 'until'"),
        (f"[a]\nscopes = ['read:*']\ntokens = [{{sha256 = '{DIGEST}', expires = 1}}]", "got 1"),
        (
            "".join(f"[{n}]\nscopes = ['read:*']\ntokens = [{{sha256 = '{DIGEST}'}}]\n" for n in "ab"),
            r"\[b\]: expected tokens that are there once",
        ),
    ],
)
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, text: str, says: str):
    path = tmp_path / "tokens.toml"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(TenantError, match=says) as found:
        tokens.read(path)
    assert str(found.value).startswith(str(path)) and DIGEST not in str(found.value)


def test_a_file_of_tokens_is_for_its_owner_alone(tmp_path: Path):
    path = tmp_path / "tokens.toml"
    with pytest.raises(TenantError, match="could not be read"):
        tokens.TokenFile(path)
    tokens.add(path, "screen", ["read:*"])
    if os.name != "nt":
        path.chmod(0o644)
        with pytest.raises(TenantError, match="chmod 600"):
            tokens.TokenFile(path)


def test_the_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "tokens.toml"
    first = tokens.digest_of(tokens.add(path, "plant", ["write:p-*"]))
    file = tokens.TokenFile(path)
    second = tokens.digest_of(tokens.add(path, "plant", []))
    assert file.find(first) and file.find(second) and not file.find(DIGEST)
    path.write_text(path.read_text().replace(first, DIGEST))
    assert not file.find(first) and file.find(second) and file.find(DIGEST)
    good = path.read_text()
    with caplog.at_level(logging.ERROR, "streamgp.service"):
        path.write_text(good + "[b]\n")
        assert file.find(second)
        path.unlink()
        assert file.find(second)
    assert [record.message.count("the tokens stay as they were") for record in caplog.records] == [1, 1]
    tokens.add(path, "other", ["read:*"])
    assert not file.find(second)


def test_the_audit_log_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit, "MAX_BYTES", 100)
    path = tmp_path / "audit.jsonl"
    log = audit.AuditLog(path)
    for i in range(61):
        log.write({"number": i, "text": "x" * 10})
    log.close()
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["audit.jsonl", *(f"audit.jsonl.{n}" for n in range(1, audit.KEPT + 1))]
    lines = [line for name in [*reversed(names[1:]), names[0]] for line in (tmp_path / name).read_text().splitlines()]
    found = [json.loads(line)["number"] for line in lines]
    assert found == list(range(61))[-len(found) :] and len(found) >= 3 * audit.KEPT
    assert all(each.stat().st_size < 100 + 40 for each in tmp_path.iterdir())
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
