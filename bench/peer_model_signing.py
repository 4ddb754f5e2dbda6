"""`model-signing` for bench/hashing.py, in the environment that has it: a folder a line, seconds back."""

import json
import sys
import time

from model_signing import hashing

for line in sys.stdin:
    cpu, wall = time.process_time(), time.perf_counter()
    hashing.hash(json.loads(line)["path"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu}), flush=True)
