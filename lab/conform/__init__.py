"""Conformance of connectors with contracts/lab-connector.md.

Start at `check`. `python3 -m conform NAME...` runs it from `lab/`.
"""

from conform.checks import Check, check
from conform.connector import BadConnector, Connector, Process

__all__ = ["BadConnector", "Check", "Connector", "Process", "check"]
