"""The coordinator's keys: every admitted silo is registered once, however often the start is interrupted."""

import json
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

need("cryptography", "flower")
need("flwr", "flower")

# ruff: noqa: E402 (nothing below can be imported without it)
from dualfl.deploy import coordinator, keys
from dualfl.deploy.membership import revoke
from dualfl.deploy.project import Project, ProjectSettings, init
from dualfl.deploy.registration import node_of, register
from dualfl.errors import InputError
from dualfl.federation.flower import runtime

NAMES = ("a", "b", "c")


class Flower:
    """`flwr supernode`, on the state that a SuperLink keeps in its database."""

    def __init__(self, database: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Flower uses what others have deprecated
            from flwr.server.superlink.linkstate import LinkStateFactory
            from flwr.supercore.object_store import ObjectStoreFactory
            from flwr.superlink.federation import NoOpFederationManager

            path = str(database)
            self.state = LinkStateFactory(path, NoOpFederationManager(), ObjectStoreFactory(path)).state()
        self.interrupt_after: str | None = None

    def __call__(self, arguments, flower_home):
        if arguments[1] == "list":
            return {"nodes": [{"node-id": str(node.node_id)} for node in self.state.get_node_info()]}
        if arguments[1] == "unregister":
            self.state.delete_node("me", int(arguments[2]))
            return {}
        path = Path(arguments[2])
        try:
            node = self.state.create_node("me", "me", keys.pem(path.read_text()), 30.0)
        except ValueError as error:
            raise runtime.RunFailed("flwr supernode failed: [code: 23] Public key already in use.") from error
        if path.stem == self.interrupt_after:
            raise KeyboardInterrupt
        return {"node-id": node}


@pytest.fixture
def project(tmp_path):
    made = init(tmp_path / "my study", ProjectSettings(host="example.org", silos=NAMES))
    made.admit([keys.make_card(name, *keys.new_key_pair(), keys.new_key_pair()[1]) for name in NAMES])
    return made


@pytest.fixture
def flower(project, monkeypatch):
    made = Flower(project.folder / "state.db")
    monkeypatch.setattr(runtime, "flwr", made)
    return made


def in_database(project: Project) -> dict[str, str | None]:
    return {name: node_of(project.folder / "state.db", key)[0] for name, key in project.logins.items()}


@pytest.mark.parametrize("last", NAMES)
def test_a_start_that_is_interrupted_while_it_registers_can_be_given_again(last, project, flower):
    flower.interrupt_after = last
    with pytest.raises(KeyboardInterrupt):
        register(project)
    noted = NAMES[: NAMES.index(last)]
    assert tuple(project.nodes) == noted  # what was done before is not lost
    flower.interrupt_after = None
    register(project)
    assert {name: entry["node"] for name, entry in project.nodes.items()} == in_database(project)
    assert len(flower.state.get_node_info()) == 3


def test_a_lost_list_of_nodes_is_made_again(project, flower):
    register(project)
    before = project.nodes
    (project.flower_home / "nodes.json").unlink()
    register(project)
    assert project.nodes == before and all(json.loads(entry["node"]) > 0 for entry in before.values())


def test_a_revoked_key_is_never_taken_again_and_a_new_one_is(project, flower):
    """Flower takes a key only once, so who was admitted with it again would be locked out for ever, without a word."""
    cards = [keys.make_card("b", *keys.new_key_pair(), keys.new_key_pair()[1]) for _ in range(2)]
    revoke(project, "b")
    project.admit(cards[:1])
    register(project)
    revoke(project, "b")
    register(project)
    assert set(project.nodes) == {"a", "c"}
    with pytest.raises(InputError, match=r"'b' was revoked here, and a revoked key is never taken again.*rotate"):
        project.admit(cards[:1])
    assert "b" not in project.logins
    project.admit(cards[1:])
    register(project)
    assert {name: entry["node"] for name, entry in project.nodes.items()} == in_database(project)
    # A folder of before that was noted has the old key on its roster: it is told, and keeps nobody else out.
    revoke(project, "b")
    revoke(project, "c")
    register(project)
    (project.folder / "revoked.json").unlink()
    project.admit([cards[1], keys.make_card("c", *keys.new_key_pair(), keys.new_key_pair()[1])])
    with pytest.raises(InputError, match=r"The key of silo 'b' was taken out before.*revoke.*rotate.*card\.txt"):
        register(project)
    assert set(project.nodes) == {"a", "c"}


def test_another_failure_is_told_as_it_is(project, flower, monkeypatch):
    def refuse(arguments, flower_home, cwd=None):
        raise runtime.RunFailed("flwr supernode failed: nobody answers")

    monkeypatch.setattr(runtime, "flwr", refuse)
    with pytest.raises(runtime.RunFailed, match="nobody answers"):
        register(project)
    assert node_of(project.folder / "nothing.db", project.logins["a"]) == (None, "")
    assert not (project.folder / "nothing.db").exists()


def test_registration_goes_on_until_the_superlink_answers(project, monkeypatch):
    """On a busy machine it may not, at first."""
    service, tried = coordinator.Coordinator(project.folder), []

    def register():
        tried.append(1)
        if len(tried) < 3:
            raise runtime.RunFailed("Connection to the SuperLink is unavailable.")

    monkeypatch.setattr(service, "register", register)
    monkeypatch.setattr(coordinator.time, "sleep", lambda seconds: None)
    service.register_within(60.0)
    assert len(tried) == 3
    tried.clear()
    with pytest.raises(runtime.RunFailed, match="unavailable"):
        service.register_within(-1.0)
    assert len(tried) == 1
