"""A network of real processes on this machine, to try things on: it can be stopped, cut, and made to lie."""
