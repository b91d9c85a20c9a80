"""The Python worker of the example: serves `py.tax`.

Run it with `python worker.py`; WINDLASS_SERVER says where the server is.
"""

from dataclasses import dataclass

from windlass import Context, Permanent, Retriable, Worker

worker = Worker()

RATES = {"CH": 0.081, "DE": 0.19}


@dataclass
class Sale:
    cents: int
    country: str


@dataclass
class Tax:
    gross: int
    rate: float


@worker.action("py.tax")
def tax(sale: Sale, context: Context) -> Tax:
    """Adds the tax of a country to an amount."""
    if context.attempt == 1:
        # As a service would that is down for a moment: the node's retry policy tries again.
        raise Retriable("the tax office is closed", code="TAX_OFFICE_CLOSED", after=0.05)
    if sale.country not in RATES:
        raise Permanent(f"no rate for {sale.country}", code="NO_TAX_RATE")
    rate = RATES[sale.country]
    return Tax(gross=round(sale.cents * (1 + rate)), rate=rate)


if __name__ == "__main__":
    worker.run()
