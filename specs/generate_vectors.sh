#!/usr/bin/env bash
# Official vectors of a release, made by the specification's own generators; official-vectors.md tells more.
#
#   specs/generate_vectors.sh RELEASE FOLDER RUNNER… -- [pytest's options]
#   specs/generate_vectors.sh 1.7.0b4 /tmp/new networking -- --preset=minimal --fork=fulu --fork=gloas
#
# It needs Python 3.12 or newer (PYTHON names it), and installs `eth-consensus-specs[test]` in FOLDER. A RUNNER is
# the name of a folder of the specification's tests: block_processing (operations), epoch_processing, networking, …
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
release=$1 folder=$(realpath -m "$2")
shift 2
runners=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do runners+=("$1"); shift; done
[ $# -eq 0 ] || shift

python=$folder/venv/bin/python
[ -x "$python" ] || "${PYTHON:-python3.12}" -m venv "$folder/venv"
"$python" -m pip install --quiet --disable-pip-version-check "eth-consensus-specs[test]==$release"
package=$("$python" -c 'from pathlib import Path; import eth_consensus_specs as p; print(Path(p.__file__).parent)')

# Its tests look for themselves under the name that they have in the repository of the specifications.
mkdir -p "$folder/tests/core/pyspec"
ln -sfn "$package" "$folder/tests/core/pyspec/eth_consensus_specs"
cd "$folder"
PYTHONPATH=. exec "$python" -m pytest -q -p no:sugar --reftests --reftests-output="$folder/vectors/tests" \
  "$@" $(for runner in "${runners[@]}"; do echo "$package"/test/*/"$runner"; done)
