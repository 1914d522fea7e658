"""Keys are kept apart, and nobody else can read them."""

import json
import os
import shutil
import subprocess

import pytest

from tests.promotion.conftest import make
from tests.promotion.signed.people import (
    become,
    stranger,
    with_champions,
)
from twinloop.errors import WrongUse
from twinloop.promotion.keys import (
    find_signing_key,
    list_keys,
    make_key,
)
from twinloop.promotion.registry import PolicyRegistry

pytestmark = pytest.mark.filterwarnings("ignore")


def test_keys_are_kept_apart_and_chosen_by_name(tmp_path, user, monkeypatch, twinloop):
    assert "none; registries are unsigned" in twinloop("key", "ls")[1]
    assert find_signing_key("eve") is None
    code, out, err = twinloop("key", "new", "ann")
    assert code == 0 and "ssh-ed25519 AAAA" in out, err
    assert "there is a key 'ann' already" in twinloop("key", "new", "ann")[2]
    assert "bad name of a key" in twinloop("key", "new", "../ann")[2]
    assert find_signing_key("eve").name == "ann", "the only one"
    make_key("lab-pc")
    assert find_signing_key("ann").name == "ann"
    with pytest.raises(WrongUse, match="several keys to sign with; available: ann, lab-pc"):
        find_signing_key("eve")
    monkeypatch.setenv("TWINLOOP_KEY", "lab-pc")
    assert find_signing_key("ann").name == "lab-pc"
    private = user / "keys" / "lab-pc.pem"
    private.chmod(0o640)
    with pytest.raises(WrongUse, match="others can read this private key"):
        find_signing_key("ann")
    private.chmod(0o600)
    line = twinloop("key", "show", "ann")[1]
    (tmp_path / "ann.pub").write_text(line)
    become("ben", tmp_path, monkeypatch)
    assert "trusted ann" in twinloop("key", "trust", tmp_path / "ann.pub")[1]
    assert json.loads(twinloop("key", "ls", "--json")[1])[0]["public"] == line.strip()
    monkeypatch.delenv("TWINLOOP_KEY")
    make_key("ben")
    (tmp_path / "other.pub").write_text(stranger().public.line)
    assert "another key is trusted as 'ann'" in twinloop("key", "trust", tmp_path / "other.pub")[2]
    (tmp_path / "bad.pub").write_text("ssh-rsa AAAA ann")
    assert "is not a public key" in twinloop("key", "trust", tmp_path / "bad.pub")[2]
    assert twinloop("key", "distrust", "ann")[0] == 0 and [k.name for k in list_keys()] == ["ben"]
    assert "no trusted key is called 'ann'" in twinloop("key", "distrust", "ann")[2]


def test_openssh_reads_the_public_key(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("needs ssh-keygen")
    (tmp_path / "ann.pub").write_text(make_key("ann").line)
    done = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "ann.pub"], capture_output=True, text=True)
    assert done.returncode == 0 and "ED25519" in done.stdout


def test_keys_inside_the_workspace_are_refused(tmp_path, policies, empty, monkeypatch):
    monkeypatch.setenv("TWINLOOP_CONFIG", str(tmp_path / "cell" / ".twinloop"))
    with pytest.raises(WrongUse, match="is inside the workspace: whoever can write it could sign"):
        make(tmp_path / "cell", empty)


@pytest.mark.parametrize(("umask", "allowed"), [(0o000, 0o770), (0o022, 0o750), (0o077, 0o700)])
def test_others_can_read_neither_the_registry_nor_keys_whatever_the_umask(
    tmp_path, policies, user, umask, allowed
):
    before = os.umask(umask)
    try:
        make_key("ann")
        (tmp_path / "cell").mkdir()
        with_champions(PolicyRegistry(tmp_path / "cell"), policies[:1]).verify()
    finally:
        os.umask(before)
    assert (user / "keys" / "ann.pem").stat().st_mode & 0o777 == 0o600
    for path in (user, user / "keys", user / "trusted", user / "registries"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert (tmp_path / "cell" / "mlflow.db").stat().st_mode & 0o007 == 0
    found = [tmp_path / "cell" / "registry", *(tmp_path / "cell" / "registry").rglob("*")]
    assert len(found) > 6
    for path in found:
        assert path.stat().st_mode & 0o777 & ~allowed == 0, (path, oct(path.stat().st_mode))
