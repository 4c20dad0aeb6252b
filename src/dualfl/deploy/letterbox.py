"""Letters to silos, and their answers, in the memory of the coordinator.

A letter lies in its silo's box until the silo has answered it. So nothing is lost with a silo that is killed, or with a
connection that is cut, after it took a letter: it takes the same letter again. Whoever waits for a letter or for
answers is woken when they come. If the coordinator itself is lost, its runs are lost too, and whoever waits for one
submits it again; letters need not outlive them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

T = TypeVar("T")
SILENT = 120.0  # seconds after which a run that no longer asks for answers has ended
LARGEST = 1 << 32  # bytes of an answer


class Letter(NamedTuple):
    """A question of one run to one node."""

    id: str
    run: int
    body: bytes


class Letterbox:
    """Everything happens in one event loop, so nothing is locked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.letters: dict[int, dict[str, Letter]] = {}  # of a node, oldest first
        self.answers: dict[int, dict[str, bytes]] = {}  # of a run
        self.pieces: dict[tuple[int, str], bytearray] = {}  # of an answer that comes in several
        self.heard: dict[int, float] = {}  # when a run was here last
        self.bells: dict[Hashable, asyncio.Event] = {}

    # -- the run's side --------------------------------------------------------------------------------

    def post(self, run: int, nodes: Iterable[int], body: bytes) -> dict[int, str]:
        """A letter into every box; returns their numbers. A letter that lies there already keeps its own."""
        self._keep(run)
        return {node: self._put(run, node, body) for node in nodes}

    def _put(self, run: int, node: int, body: bytes) -> str:
        box = self.letters.setdefault(node, {})
        for id, letter in list(box.items()):
            if letter.run == run:  # a run asks one thing at a time
                if letter.body == body:
                    return id
                del box[id]
        id = secrets.token_hex(16)
        box[id] = Letter(id, run, body)
        self._ring(node)
        return id

    async def collect(self, run: int, ids: Iterable[str], seconds: float) -> dict[str, bytes]:
        """The answers to these letters: when all are there, or what there is after so long.

        They are kept until they are not asked for any more, since who asked may not have got them.
        """
        self._keep(run)
        wanted = dict.fromkeys(ids)
        found = self.answers[run] = {id: body for id, body in self.answers.get(run, {}).items() if id in wanted}
        await self._until(("run", run), lambda: True if len(found) >= len(wanted) else None, seconds)
        self._keep(run)
        return dict(found)

    def _keep(self, run: int) -> None:
        """This run is alive; what belongs to runs that are not is thrown away."""
        now = self.clock()
        self.heard[run] = now
        for other in [other for other, when in self.heard.items() if now - when > SILENT]:
            del self.heard[other]
            self.answers.pop(other, None)
            self.bells.pop(("run", other), None)
            for box in self.letters.values():
                for id in [id for id, letter in box.items() if letter.run == other]:
                    del box[id]

    # -- the silo's side -------------------------------------------------------------------------------

    async def take(self, node: int, seconds: float) -> Letter | None:
        """The oldest letter in the box, which stays there; None if none came in so long."""
        return await self._until(node, lambda: self._first(node), seconds)

    def _first(self, node: int) -> Letter | None:
        now = self.clock()
        alive = (letter for letter in self.letters.get(node, {}).values() if now - self.heard[letter.run] <= SILENT)
        return next(alive, None)

    def answer(self, node: int, id: str, place: int, size: int, piece: bytes) -> int:
        """A piece of an answer. Returns how much of it is here, which says where the next piece begins.

        An answer to a letter that is not in this node's box is dropped: it came twice, or too late.
        """
        letter = self.letters.get(node, {}).get(id)
        if letter is None or not 0 <= size <= LARGEST:
            return size
        had = self.pieces.setdefault((node, id), bytearray())
        if place == len(had) and len(had) + len(piece) <= size:
            had += piece
        if len(had) < size:
            return len(had)
        del self.pieces[node, id], self.letters[node][id]
        for old in [key for key in self.pieces if key[0] == node]:  # of letters that were replaced
            del self.pieces[old]
        self.answers.setdefault(letter.run, {})[id] = bytes(had)
        self._ring(("run", letter.run))
        return size

    # -- waiting ---------------------------------------------------------------------------------------

    async def _until(self, bell: Hashable, find: Callable[[], T | None], seconds: float) -> T | None:
        end = self.clock() + seconds
        while (found := find()) is None and (left := end - self.clock()) > 0:
            event = self.bells.setdefault(bell, asyncio.Event())
            try:
                await asyncio.wait_for(event.wait(), left)
            except TimeoutError:
                break
        return find() if found is None else found

    def _ring(self, bell: Hashable) -> None:
        if event := self.bells.pop(bell, None):
            event.set()
