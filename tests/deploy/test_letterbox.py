"""Letters and answers in the coordinator's memory: none is lost, none counts twice, nobody waits in vain."""

import asyncio
import sys
import warnings
from pathlib import Path

import pytest

from dualfl.deploy.letterbox import SILENT, Letterbox

sys.path.insert(0, str(Path(__file__).parents[1] / "federation"))
from needs import need

RUN, OTHER = 1, 2


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def take(box, node):
    return asyncio.run(box.take(node, 0.0))


def collect(box, run, ids):
    return asyncio.run(box.collect(run, ids, 0.0))


def answer(box, node, id, body):
    return box.answer(node, id, 0, len(body), body)


def test_a_letter_lies_in_its_box_until_it_is_answered():
    box = Letterbox()
    ids = box.post(RUN, [7, 8], b"question")
    assert take(box, 7) == take(box, 7) == (ids[7], RUN, b"question")  # whoever took it may have been killed
    answer(box, 7, ids[7], b"answer")
    assert take(box, 7) is None and take(box, 8).id == ids[8]
    wanted = list(ids.values())
    assert (
        collect(box, RUN, wanted) == collect(box, RUN, wanted) == {ids[7]: b"answer"}
    )  # who asked may not have got it
    assert collect(box, RUN, [ids[8]]) == {} and box.answers[RUN] == {}  # and now he has


def test_an_answer_counts_once_and_only_from_the_one_who_was_asked():
    box = Letterbox()
    ids = box.post(RUN, [7, 8], b"question")
    answer(box, 8, ids[7], b"somebody else's")
    assert take(box, 7) is not None
    answer(box, 7, ids[7], b"first")
    answer(box, 7, ids[7], b"second")
    assert collect(box, RUN, ids.values()) == {ids[7]: b"first"}
    assert collect(box, OTHER, ids.values()) == {}  # another run's


def test_the_same_question_keeps_its_letter_and_another_replaces_it():
    box = Letterbox()
    (first,) = box.post(RUN, [7], b"question").values()
    (other,) = box.post(OTHER, [7], b"of another run").values()
    assert box.post(RUN, [7], b"question") == {7: first}
    (next_,) = box.post(RUN, [7], b"next").values()
    answer(box, 7, first, b"late")
    assert [take(box, 7).id, *box.letters[7]] == [other, other, next_]
    answer(box, 7, other, b"x")
    assert take(box, 7).id == next_


def test_pieces_are_put_together_wherever_they_were_cut():
    box, body = Letterbox(), bytes(range(10))
    (id,) = box.post(RUN, [7], b"question").values()
    assert box.answer(7, id, 0, 10, body[:4]) == 4
    assert box.answer(7, id, 0, 10, body[:4]) == 4  # again, since nobody said that it had come
    assert box.answer(7, id, 6, 10, body[6:]) == 4  # not the one that is missing
    assert box.answer(7, id, 4, 10, body[4:] + b"too much") == 4
    assert collect(box, RUN, [id]) == {}
    assert box.answer(7, id, 4, 10, body[4:]) == 10
    assert collect(box, RUN, [id]) == {id: body} and box.pieces == {}
    assert box.answer(7, "unknown", 0, 1 << 60, b"") == 1 << 60  # nothing is kept of it


def test_what_an_ended_run_has_left_is_thrown_away():
    clock = Clock()
    box = Letterbox(clock)
    (id,) = box.post(RUN, [7], b"question").values()
    (other,) = box.post(OTHER, [8], b"question").values()
    answer(box, 8, other, b"answer")
    clock.now = SILENT + 1
    assert take(box, 7) is None
    box.post(3, [9], b"question")
    assert box.letters[7] == {} and set(box.heard) == {3} and OTHER not in box.answers
    answer(box, 7, id, b"late")
    assert collect(box, RUN, [id]) == {}


def test_whoever_waits_is_woken():
    async def scene():
        box = Letterbox()
        silos = [asyncio.create_task(box.take(node, 30.0)) for node in (7, 8)]
        await asyncio.sleep(0)
        ids = box.post(RUN, [7, 8], b"question")
        letters = await asyncio.wait_for(asyncio.gather(*silos), 5)
        all_of_them = asyncio.create_task(box.collect(RUN, ids.values(), 30.0))
        answer(box, 7, letters[0].id, b"a")
        await asyncio.sleep(0.01)
        assert not all_of_them.done()
        answer(box, 8, letters[1].id, b"b")
        assert sorted((await asyncio.wait_for(all_of_them, 5)).values()) == [b"a", b"b"]
        assert await box.take(7, 0.01) is None and await box.collect(RUN, ["x"], 0.01) == {}

    asyncio.run(scene())


# -- the doors, before Flower's own ----------------------------------------------------------------------------


@pytest.fixture
def superlink(tmp_path):
    """Flower's app with a node and no run, and our doors before it."""
    need("flwr", "flower")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from flwr.superlink.main import create_app
        from starlette.testclient import TestClient

        from dualfl.deploy.post import Post
        from dualfl.federation.flower.fleet import Headers

        app = create_app()
    from cryptography.hazmat.primitives.asymmetric import ec
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    private = ec.generate_private_key(ec.SECP384R1())
    public = public_key_to_bytes(private.public_key())
    node = app.state.linkstate_factory.state().create_node("a", "b", public, 0)
    post = Post(app)
    return post, TestClient(post, raise_server_exceptions=False), node, Headers(private, public, {})


def test_a_silo_is_let_in_by_its_signature_alone(superlink):
    from dualfl.federation.flower.envelope import TALK, pack, unpack

    post, client, node, headers = superlink
    (id,) = post.box.post(RUN, [node], b"question").values()
    words = {"node": str(node), "wait": 0.0}
    said = client.post(TALK, content=pack(words), headers=headers.signed())
    assert said.status_code == 200 and unpack(said.content) == ({"letter": id}, b"question")
    mine = {"answer": id, "place": 0, "size": 6}
    assert client.post(TALK, content=pack(words | mine, b"answer")).status_code == 401  # unsigned
    stranger = headers.signed() | {"flwr-signature": headers.signed()["flwr-signature"][:-8] + "AAAAAAA="}
    assert client.post(TALK, content=pack(words | mine, b"answer"), headers=stranger).status_code == 401
    elsewhere = {"node": str(node + 1), "wait": 0.0}
    assert client.post(TALK, content=pack(elsewhere), headers=headers.signed()).status_code == 401
    assert post.box.answers == {}
    assert client.post(TALK, content=pack(words | mine, b"answer"), headers=headers.signed()).status_code == 200
    assert collect(post.box, RUN, [id]) == {id: b"answer"}


@pytest.mark.parametrize(
    "body", [b"", b"\0\0\0\7{}", b"\0\0\0\2[]", b"\xff\xff\xff\xff{}", b'\0\0\0\x0e{"node": "x"} ']
)
def test_what_is_no_letter_is_refused(superlink, body):
    from dualfl.federation.flower.envelope import TALK

    _, client, _, headers = superlink
    assert client.post(TALK, content=body, headers=headers.signed()).status_code == 400


def test_only_a_run_with_its_token_posts_and_collects(superlink):
    from dualfl.federation.flower.envelope import COLLECT, POST, pack

    post, client, node, headers = superlink
    (id,) = post.box.post(RUN, [node], b"question").values()
    answer(post.box, node, id, b"secret")
    for door, words in ((POST, {"nodes": [node]}), (COLLECT, {"ids": [id], "wait": 0.0})):
        for tried in ({}, {"flwr-task-token": "guess"}, headers.signed()):
            assert client.post(door, content=pack(words, b"x"), headers=tried).status_code == 401
    assert collect(post.box, RUN, [id]) == {id: b"secret"}


def test_a_silo_that_was_revoked_is_out_at_once(superlink):
    from dualfl.federation.flower.envelope import TALK, pack

    post, client, node, headers = superlink
    post.box.post(RUN, [node], b"question")
    post.app.state.linkstate_factory.state().delete_node("a", node)
    said = client.post(TALK, content=pack({"node": str(node), "wait": 0.0}), headers=headers.signed())
    assert said.status_code == 401


def test_whoever_looks_for_runs_is_told_of_a_new_one():
    from dualfl.deploy.post import LOOK_FOR_RUNS, NEW_RUN, Post

    passed = []

    async def flower(scope, receive, send):
        passed.append(scope["path"])

    async def scene():
        post = Post(flower)
        asks = {"type": "http", "method": "POST"}
        look = asyncio.create_task(post(asks | {"path": LOOK_FOR_RUNS}, None, None))
        await asyncio.sleep(0.01)
        assert not passed
        for _ in range(2):
            await post(asks | {"path": NEW_RUN}, None, None)
        await asyncio.wait_for(look, 1)
        await asyncio.wait_for(post(asks | {"path": LOOK_FOR_RUNS}, None, None), 1)  # the second is found at once
        assert passed == [NEW_RUN, NEW_RUN, LOOK_FOR_RUNS, LOOK_FOR_RUNS]

    asyncio.run(scene())


def test_other_paths_are_flowers(superlink):
    from dualfl.federation.flower.envelope import TALK

    _, client, _, _ = superlink
    assert client.get(TALK).status_code in (404, 405)
    assert client.post("/v1/fleet/pull-messages", content=b"").status_code in (400, 401, 415)
