"""What is set in the environment of a Ray that we start or join."""

import stat

import pytest

from tuner import ray_compat
from tuner.cluster import access
from tuner.trial.context import INTERFACES


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in (access.AUTH_MODE, access.TOKEN, access.TOKEN_PATH, *INTERFACES):
        monkeypatch.delenv(name, raising=False)


def test_for_local_ray_makes_a_private_token(tmp_path, monkeypatch):
    monkeypatch.setenv(access.TOKEN, "another cluster's")
    tokens = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        changes = access.create_local_environment(tmp_path / name)
        assert changes[access.AUTH_MODE] == "token"
        assert changes[access.TOKEN] is None
        assert changes[ray_compat.CLUSTERS] == "0"
        file = tmp_path / name / "auth_token"
        assert changes[access.TOKEN_PATH] == str(file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        tokens.add(file.read_text())
        with pytest.raises(FileExistsError):  # a file that lies there is not used
            access.create_local_environment(tmp_path / name)
    assert [len(token) for token in tokens] == [64, 64]


def test_for_local_ray_keeps_user_settings(tmp_path, monkeypatch):
    monkeypatch.setenv(access.AUTH_MODE, "disabled")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    changes = access.create_local_environment(tmp_path)
    assert changes[access.AUTH_MODE] == "disabled"
    assert changes["GLOO_SOCKET_IFNAME"] == "eth7"
    assert changes["NCCL_SOCKET_IFNAME"] in ("=lo", "=lo0")


@pytest.fixture
def no_token(monkeypatch, tmp_path):
    """A user without a token; the folder in which Ray would look for one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (access.AUTH_MODE, access.TOKEN, access.TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".ray").mkdir()
    return tmp_path / ".ray"


@pytest.mark.parametrize("name", [access.TOKEN, access.TOKEN_PATH])
def test_for_joining_uses_the_token_of_the_user(monkeypatch, no_token, name):
    assert access.create_join_environment() == {}
    assert access.describe_refusal().startswith(
        "asks for a token, and none was shown: set RAY_AUTH_TOKEN_P"
    )
    monkeypatch.setenv(name, "x")
    assert access.create_join_environment() == {access.AUTH_MODE: "token"}
    with access.set_environment(access.create_join_environment()):
        source = "RAY_AUTH_TOKEN" if name == access.TOKEN else "x"
        assert access.describe_refusal().startswith(
            f"has another token than that of {source}: "
        )
    monkeypatch.setenv(access.AUTH_MODE, "disabled")
    assert access.create_join_environment() == {}
    monkeypatch.delenv(access.AUTH_MODE)
    monkeypatch.delenv(name)
    (no_token / "auth_token").write_text("x")  # where Ray keeps it
    assert access.create_join_environment() == {access.AUTH_MODE: "token"}


def test_token_problem_names_the_file_that_lacks_a_token(monkeypatch, no_token):
    assert access.find_token_problem() is None
    monkeypatch.setenv(access.AUTH_MODE, "token")
    assert f"no token in {no_token}" in access.find_token_problem()
    token_file = no_token / "mine"
    monkeypatch.setenv(access.TOKEN_PATH, str(token_file))
    for text, has_problem in ((None, True), ("\n", True), ("x", False)):
        if text:
            token_file.write_text(text)
        assert (access.find_token_problem() is not None) == has_problem
    monkeypatch.setenv(access.TOKEN, "x")
    monkeypatch.setenv(access.TOKEN_PATH, "/nowhere")
    assert access.find_token_problem() is None
