"""Files from a data set's public home, into the user's cache: as a whole and with the right checksum, or not at all.

Pooch downloads to a temporary file, checks it, and only then gives it its name. Of an archive only the files that are
needed are kept. DUALFL_OFFLINE=1 forbids all downloads.
"""

from __future__ import annotations

import logging
import os
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from dualfl.data.folders import VARIABLE, data_folders
from dualfl.errors import InputError
from dualfl.files import cache_folder, write_atomically

OFFLINE = "DUALFL_OFFLINE"
CHUNK = 2**16
TIMEOUT = 30.0


@dataclass(frozen=True)
class Download:
    """A file at its public home.

    file : where it lies below a data folder; of an archive, the files that are kept.
    urls : where to get it, tried in this order.
    size : in bytes, as published.
    checksum : as published, with its kind: "sha256:..." or "md5:...".
    archive : whether it is a tar file that holds `file`.
    """

    file: str | tuple[str, ...]
    urls: tuple[str, ...]
    size: int
    checksum: str
    archive: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file,) if isinstance(self.file, str) else self.file

    @property
    def about(self) -> str:
        size = f"{self.size / 1e6:,.1f} MB" if self.size >= 1e5 else f"{self.size / 1e3:,.1f} kB"
        return f"{size}, {self.checksum}"


def fetch(download: Download, dataset: str) -> None:
    """Put the file into the cache, or say which file is missing, where to put it and where to get it."""
    if os.environ.get(OFFLINE, "") not in ("", "0"):
        raise InputError(missing(download, dataset, f"{OFFLINE} forbids downloads"))
    problems = []
    for url in download.urls:
        try:
            _fetch(download, dataset, url)
            return
        except (OSError, ValueError, tarfile.TarError) as error:  # requests' errors are OSErrors
            problems.append(f"{url.split('/')[2]}: {_short(error, download)}")
    raise InputError(missing(download, dataset, f"it could not be downloaded ({'; '.join(problems)})"))


def missing(download: Download, dataset: str, why: str) -> str:
    """One sentence: which file, where to put it, where to get it."""
    names = [name.removesuffix(".gz") for name in download.files]
    packed = "" if download.archive else f" (or {names[0]}.gz)"
    what = f"file {names[0]}{packed}" if len(names) == 1 else f"files {names[0]}, ... ({len(names)} of them)"
    where = " nor ".join(str(folder) for folder in data_folders())
    source = f"{download.urls[0]} ({download.about})"
    get = f"unpack {source}" if download.archive else f"get it from {source} and put it"
    return f"{dataset} needs the {what}, not found in {where}, and {why}; {get} into a folder that {VARIABLE} names."


def _fetch(download: Download, dataset: str, url: str) -> None:
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)  # we say it ourselves
    folder = cache_folder() / "data"
    folder.mkdir(parents=True, exist_ok=True)
    with _Bar(f"{dataset}: {url.rsplit('/', 1)[-1]}", download, url) as bar:
        downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT)
        if download.archive:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                packed = pooch.retrieve(url, download.checksum, "archive", scratch, downloader=downloader)
                _unpack(Path(packed), download.files, folder)
        else:
            target = folder / download.files[0]
            pooch.retrieve(url, download.checksum, target.name, target.parent, downloader=downloader)


def _unpack(packed: Path, files: tuple[str, ...], folder: Path) -> None:
    """Of an archive the files that are wanted, found by their last two names, each written as a whole."""
    wanted = {PurePosixPath(file).parts[-2:]: file for file in files}
    with tarfile.open(packed) as archive:
        for member in archive:
            file = wanted.pop(PurePosixPath(member.name).parts[-2:], None)
            content = None if file is None else archive.extractfile(member)
            if file is not None and content is not None:
                write_atomically(folder / file, content.read())
    if wanted:
        raise ValueError(f"the archive has no {next(iter(wanted.values()))}")


def _short(error: Exception, download: Download) -> str:
    text = str(error)
    if "does not match the known hash" in text:
        return f"what came does not have the checksum {download.checksum}"
    reason = getattr(error, "response", None)
    if reason is not None and getattr(reason, "status_code", None):
        return f"the server says {reason.status_code} {reason.reason}"
    kind = {"ConnectTimeout": "no answer", "ReadTimeout": "no answer", "ConnectionError": "no connection"}
    return kind.get(type(error).__name__, text.splitlines()[0] if text else type(error).__name__)


class _Bar:
    """A progress bar as Pooch wants one; where nobody watches, one line."""

    def __init__(self, label: str, download: Download, url: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        self.total = download.size
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._console.print(f"Downloading {url} ({download.about})", markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._view = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._task = self._view.add_task(label, total=download.size)

    def __enter__(self) -> _Bar:
        self._view.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._view.stop()

    def update(self, count: int) -> None:
        self._view.update(self._task, advance=count)

    def reset(self) -> None:
        self._view.update(self._task, completed=0)

    def close(self) -> None:
        """The bar ends with its context."""
