"""Bitcoin's headers: their rules, a run of them in bulk, and the tree of competing branches (specs/05).

A header chain is judged without its transactions: it shows which blocks the most work was spent on, not
that they are valid. Hashes are 32 bytes as SHA-256 gives them; people and tables see them reversed.
"""
