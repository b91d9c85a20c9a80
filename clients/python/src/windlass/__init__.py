"""Workers and a client for Windlass, a durable workflow engine.

A worker serves actions that are written in Python::

    from dataclasses import dataclass
    from windlass import Worker, Retriable

    worker = Worker("http://127.0.0.1:7400")

    @dataclass
    class Charge:
        customer: str
        cents: int

    @worker.action("billing.charge")
    def charge(order: Charge) -> dict[str, str]:
        if bank_is_closed():
            raise Retriable("the bank is closed", after=60)
        return {"receipt": bank.charge(order.customer, order.cents)}

    worker.run()

A client publishes workflows, starts runs and follows them; see `Client` and `AsyncClient`.
"""

from windlass.async_client import AsyncClient
from windlass.client import Client
from windlass.context import Context, current_context
from windlass.errors import (
    ActionError,
    ApiError,
    Cancelled,
    ParametersInvalid,
    Permanent,
    Retriable,
    RunNotSucceeded,
    Skip,
    Unreachable,
    WaitTimeout,
    WindlassError,
)
from windlass.logs import IdFilter
from windlass.shapes import Acted, Event, Execution, NodeState, Published, Started
from windlass.task import Task
from windlass.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Acted",
    "ActionError",
    "ApiError",
    "AsyncClient",
    "Cancelled",
    "Client",
    "Context",
    "Event",
    "Execution",
    "IdFilter",
    "NodeState",
    "ParametersInvalid",
    "Permanent",
    "Published",
    "Retriable",
    "RunNotSucceeded",
    "Skip",
    "Started",
    "Task",
    "Unreachable",
    "WaitTimeout",
    "WindlassError",
    "Worker",
    "current_context",
]
