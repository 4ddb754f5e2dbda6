"""Measurements: ratios to what others do, in one run (`make bench`)."""
