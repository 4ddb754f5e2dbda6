"""What to pass on of the messages of a network's peers (p2p-interface of each fork); no socket is here."""
