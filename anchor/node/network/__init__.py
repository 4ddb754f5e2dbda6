"""A ledger that several nodes keep together: what they say to each other, and what each does with it."""
