"""A node's log: plain words, or one JSON object a line. Quiet: what an operator should know, once."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

LOGGER: Final = logging.getLogger("anchor.node")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


class _Words(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        text = f"{time}  {record.getMessage()}"
        shown = "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])
        return f"{shown}\n{self.formatException(record.exc_info)}" if record.exc_info else shown


def set_up_logs(*, as_json: bool, stream: TextIO | None = None) -> None:
    """Sends the node's log, and the warnings of the libraries below it, to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if as_json else _Words())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    LOGGER.setLevel(logging.INFO)


def tell(message: str, **fields: object) -> None:
    """Logs a sentence, and for programs the values in it."""
    LOGGER.info(message, extra={"fields": fields})


def warn(message: str, **fields: object) -> None:
    """Logs a sentence on what is wrong and what to do."""
    LOGGER.warning(message, extra={"fields": fields})
