"""The node's HTTP: handlers that translate, and decide nothing."""
