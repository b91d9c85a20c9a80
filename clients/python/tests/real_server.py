"""The real server binary, on a free port and a directory of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


def binary() -> str:
    """The binary; its absence fails, so that nothing is left out in silence."""
    path = os.environ.get("WINDLASS_BINARY")
    if not path:
        pytest.fail("set WINDLASS_BINARY to a windlass binary, or run cargo xtask clients")
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RealServer:
    """One data directory and one port, and a server that can be killed and started again."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._folder = folder
        self._options = options
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with (self._folder / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    binary(),
                    "serve",
                    "--listen",
                    f"127.0.0.1:{self._port}",
                    "--json",
                    *self._options,
                ],
                cwd=self._folder,
                env={
                    **os.environ,
                    "WINDLASS_DATA_DIR": "data",
                    "WINDLASS_RATE_PER_MINUTE": "0",
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self._folder / "server.log").read_text()
        assert json.loads(line)["url"] == self.url

    def kill(self) -> None:
        """As a machine that loses its power."""
        self._end(lambda process: process.kill())

    def stop(self) -> None:
        self._end(lambda process: process.terminate())

    def _end(self, how: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert callable(how)
            how(process)
            process.communicate(timeout=60)

    def cli(self, *arguments: str) -> str:
        command = [binary(), *arguments, "--server", self.url]
        done = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def token(folder: Path, *scopes: str, tenant: str | None = None) -> str:
    """A token of the keys in `keys.json`, which are made with the first one."""
    command = [binary(), "token", "--key", "keys.json", "--scope", ",".join(scopes), "--json"]
    if tenant is not None:
        command += ["--tenant", tenant]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    made: str = json.loads(done.stdout)["token"]
    return made


@contextmanager
def real_server(folder: Path, options: Sequence[str] = ()) -> Iterator[RealServer]:
    server = RealServer(folder, options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
