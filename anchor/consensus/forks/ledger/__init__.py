"""Ledger: Altair whose payload is model records. See specs/03-ledger."""

from anchor.consensus.forks.ledger.genesis import LedgerGenesis


class Ledger(LedgerGenesis):
    """The rules of the ledger, constructed with the preset `LEDGER` and the configuration of a genesis."""


__all__ = ["Ledger"]
