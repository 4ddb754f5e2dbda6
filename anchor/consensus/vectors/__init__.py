"""Runs the consensus specification's test vectors (consensus-specs, tests/formats).

`cases` finds and reads them, one module a family checks them, `runner` puts it together. A check is a pure
function from a case to the first difference from what the case says, or None.
"""
