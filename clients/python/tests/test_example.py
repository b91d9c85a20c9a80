"""The example in `examples/workers`: one run with actions in Rust, Python and TypeScript."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fake_server import PATIENCE
from real_server import real_server
from windlass import Client

EXAMPLE = Path(__file__).parents[3] / "examples" / "workers"


def test_one_run_goes_through_three_languages(tmp_path: Path) -> None:
    node, script = os.environ.get("WINDLASS_NODE"), os.environ.get("WINDLASS_NODE_WORKER")
    if not node or not script:
        pytest.fail("WINDLASS_NODE and WINDLASS_NODE_WORKER are set by cargo xtask clients")
    commands = [[sys.executable, str(EXAMPLE / "worker.py")], [node, script]]
    with real_server(tmp_path) as server, Client(server.url) as client:
        environment = {**os.environ, "WINDLASS_SERVER": server.url}
        workers = [subprocess.Popen(command, env=environment) for command in commands]
        try:
            client.publish((EXAMPLE / "invoice.json").read_bytes())
            trigger = {
                "customer": "Ada",
                "country": "CH",
                "items": [{"cents": 1000}, {"cents": 250}],
            }
            run = client.start("invoice", trigger).execution_id
            output = client.result(run, timeout=60)
            execution = client.execution(run)
            failed = client.start("invoice", {**trigger, "country": "XX"}).execution_id
            other = client.wait(failed, timeout=60)
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            codes = [worker.wait(PATIENCE) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    assert output == {"text": "Dear Ada, please pay 13.51.", "gross": 1351}
    assert execution.nodes["tax"].attempts == 2
    assert other.nodes["tax"].error is not None
    assert other.nodes["tax"].error["code"] == "NO_TAX_RATE"
    assert codes == [0, 0]
