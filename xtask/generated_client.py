"""What a stranger does with the OpenAPI document: generates a Python client from it with
openapi-python-client, and starts, follows and cancels a run with nothing else.

`cargo xtask clients` runs it with the tools of xtask/openapi-python-client.txt, the server's
binary in WINDLASS_BINARY and an empty folder as its only argument.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

DEFINITION = {
    "id": "generated",
    "nodes": [
        {"id": "first", "name": "First step", "actionType": "core.echo", "parameters": {"n": 1}},
        {"id": "wait", "dependsOn": ["first"], "waitForSignal": {"name": "go"}},
    ],
}


def main(folder: Path) -> None:
    server = subprocess.Popen(
        [os.environ["WINDLASS_BINARY"], "serve", "--listen", "127.0.0.1:0", "--json"],
        cwd=folder,
        env={**os.environ, "WINDLASS_DATA_DIR": "data"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stdout.readline() if server.stdout else ""
        url = json.loads(line)["url"]
        generate(url, folder)
        use(url)
    finally:
        server.terminate()
        server.wait(timeout=60)


def generate(url: str, folder: Path) -> None:
    """Generates the package `client`; a document that the tool refuses fails here."""
    tool = Path(sys.executable).parent / "openapi-python-client"
    document = folder / "openapi.json"
    with urllib.request.urlopen(f"{url}/api/openapi.json") as answer:
        document.write_bytes(answer.read())
    subprocess.run(
        [tool, "generate", "--path", document, "--output-path", folder / "client", "--meta", "none"],
        check=True,
        env={**os.environ, "PATH": f"{tool.parent}:{os.environ.get('PATH', '')}"},
    )
    sys.path.insert(0, str(folder))


def use(url: str) -> None:
    """Starts a run, follows it to its wait, and cancels it, by the generated classes alone."""
    package = importlib.import_module("client")
    client = package.Client(base_url=url)

    def call(name: str, **arguments: object) -> object:
        module = importlib.import_module(f"client.api.{name}")
        answer = module.sync(client=client, **arguments)
        expected = f"{name} answered {answer!r}"
        assert answer is not None and type(answer).__name__ != "ErrorBody", expected
        return answer

    models = importlib.import_module("client.models")
    # The tool has no support for a body of several media types; the definition goes as it is.
    request = urllib.request.Request(
        f"{url}/api/v1/workflows",
        data=json.dumps(DEFINITION).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201, answer.status
    body = models.ExecuteBody.from_dict({"trigger": {"order": 7}, "requestId": "one"})
    started = call("workflows.starting_execute", id="generated", body=body)
    assert isinstance(started, models.Started), started
    run = started.execution_id

    deadline = time.monotonic() + 60
    while True:
        execution = call("executions.executions_show", id=run)
        assert isinstance(execution, models.Execution), execution
        wait = execution.nodes.to_dict().get("wait", {})
        if wait.get("status") == "Waiting":
            break
        assert time.monotonic() < deadline, execution
        time.sleep(0.05)
    assert execution.trigger == {"order": 7}, execution.trigger

    events = call("executions.inspect_events", id=run)
    kinds = [event.kind for event in events.items]
    assert "NodeSucceeded" in kinds, kinds
    named = [event for event in events.items if event.node == "first"]
    assert named and all(event.name == "First step" for event in named), named

    acted = call("executions.acting_cancel", id=run, body=models.CancelBody.from_dict({}))
    assert isinstance(acted, models.Acted), acted
    while True:
        execution = call("executions.executions_show", id=run)
        if execution.status == "Cancelled":
            break
        assert time.monotonic() < deadline, execution
        time.sleep(0.05)
    page = call("executions.executions_list")
    assert [item.execution_id for item in page.items] == [run], page
    print(f"generated client: run {run} started, followed and cancelled")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
