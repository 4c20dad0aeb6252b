"""What a service says: a sentence on the terminal, and a line of JSON in a log that is rotated."""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import sys
import time
from pathlib import Path

from dualfl.lines import said_to

LARGEST, KEPT = 5 << 20, 5  # bytes of the log before it is rotated, and how many old ones are kept


class Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        return json.dumps({"time": when, "level": record.levelname.lower(), "says": record.getMessage()})


class Quiet(logging.handlers.RotatingFileHandler):
    """A full disk is no reason to end, and no reason for a traceback either."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass


class Logbook:
    """`say` tells the terminal and the log."""

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = Quiet(path, maxBytes=largest, backupCount=KEPT, encoding="utf-8", delay=True)
        handler.setFormatter(Line())
        self.log = logging.Logger("dualfl.service", logging.INFO)  # of its own: no other library's settings reach it
        self.log.addHandler(handler)

    def say(self, sentence: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone
            print(said_to(sys.stderr, sentence), file=sys.stderr, flush=True)
        self.log.info("%s", sentence)

    def close(self) -> None:
        for handler in self.log.handlers:
            with contextlib.suppress(OSError):  # what a full disk did not take is tried once more
                handler.close()
