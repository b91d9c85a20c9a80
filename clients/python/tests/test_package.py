"""The package as users get it: what it needs, and what its page shows."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import windlass

README = Path(__file__).parents[1] / "README.md"

WITHOUT = """
import sys
for name in ("pydantic", "opentelemetry"):
    sys.modules[name] = None  # importing it fails

from dataclasses import dataclass
from windlass import Client, Worker
from windlass.testing import run_action

@dataclass
class Sum:
    left: int
    right: int

worker = Worker("http://127.0.0.1:1")

@worker.action("py.add")
def add(numbers: Sum) -> int:
    return numbers.left + numbers.right

print(run_action(worker, "py.add", {"left": 1, "right": 2}).output)
"""


def test_it_works_without_pydantic_and_opentelemetry() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_it_needs_httpx_alone() -> None:
    needed = importlib.metadata.requires("windlass") or []
    assert [each for each in needed if "extra ==" not in each] == ["httpx<1,>=0.27"]
    assert importlib.metadata.version("windlass") == windlass.__version__
    assert (Path(windlass.__file__).parent / "py.typed").exists()


def test_the_examples_of_the_page_compile() -> None:
    blocks = README.read_text().split("```python\n")[1:]
    assert len(blocks) == 3
    for block in blocks:
        compile(block.split("```")[0], "README.md", "exec")
