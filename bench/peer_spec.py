"""The executable spec for bench/blocks.py, in the environment that has it: a case a line, seconds back.

python peer_spec.py; a job is {"path": folder of pre.ssz and blocks_N.ssz, "count": blocks, "signed": flag}.
"""

import json
import sys
import time
from pathlib import Path

from eth_consensus_specs.altair import minimal as spec
from eth_consensus_specs.utils import bls
from eth_consensus_specs.utils.ssz.ssz_impl import ssz_deserialize

for line in sys.stdin:
    job = json.loads(line)
    folder, bls.bls_active = Path(job["path"]), job["signed"]
    state = ssz_deserialize(spec.BeaconState, (folder / "pre.ssz").read_bytes())
    blocks = [
        ssz_deserialize(spec.SignedBeaconBlock, (folder / f"blocks_{number}.ssz").read_bytes())
        for number in range(job["count"])
    ]
    cpu, wall = time.process_time(), time.perf_counter()
    for block in blocks:
        spec.state_transition(state, block)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu}), flush=True)
