#!/usr/bin/env bash
# Installs Lodestar 1.5.1, a full beacon node, into tests/real/.cache (two to four minutes, 600 MB).
# Later releases cannot be installed from the registry: packages that they need are missing.
#
# Exit codes: 0 it is there; 3 it cannot be had here, for the reason that is printed; others are faults.
set -euo pipefail
cd "$(dirname "$0")"
DEADLINE=$((SECONDS + 300)) # for all of it
ATTEMPT=200                 # seconds that one attempt may take
ATTEMPTS=2                  # for each of the two steps

unavailable() {
  printf 'Lodestar cannot be had here: %s\n' "$1" >&2
  exit 3
}

command -v node >/dev/null || unavailable "there is no Node.js."
command -v npm >/dev/null || unavailable "there is Node.js, and no npm."
node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' ||
  unavailable "Node.js is older than 20: $(node --version)."
# One package is compiled: with the headers that came with Node.js, where they did, and not with fetched ones.
prefix="$(dirname "$(dirname "$(command -v node)")")"
[ -f "$prefix/include/node/node.h" ] && export npm_config_nodedir="${npm_config_nodedir:-$prefix}"
mkdir -p .cache && cd .cache
[ -f .ready ] && exit 0

# Whatever hangs is ended; what was half-written is written again.
attempt() {
  local left=$((DEADLINE - SECONDS))
  [ "$left" -gt 0 ] || return 124
  timeout --kill-after=10 "$((left < ATTEMPT ? left : ATTEMPT))" "$@" >>install.log 2>&1
}

retry() {
  local what="$1" number
  shift
  for number in $(seq "$ATTEMPTS"); do
    attempt "$@" && return
    printf '%s: attempt %s of %s failed.\n' "$what" "$number" "$ATTEMPTS" >&2
  done
  tail -n 15 install.log >&2
  unavailable "$what failed; the registry is out of reach, or has changed (all of it: $PWD/install.log)."
}

: >install.log
npm_options=(--no-audit --no-fund --fetch-retries=2 --fetch-timeout=60000 --fetch-retry-maxtimeout=20000)
[ -f pnpm/node_modules/pnpm/bin/pnpm.cjs ] ||
  retry "npm install pnpm" npm install "${npm_options[@]}" --prefix pnpm pnpm@9

mkdir -p lodestar
cat >lodestar/package.json <<'JSON'
{
  "name": "lodestar-for-tests",
  "private": true,
  "dependencies": { "@chainsafe/lodestar": "1.5.1" },
  "pnpm": {
    "overrides": {
      "@lodestar/api": "1.5.1",
      "@lodestar/beacon-node": "1.5.1",
      "@lodestar/config": "1.5.1",
      "@lodestar/db": "1.5.1",
      "@lodestar/fork-choice": "1.5.1",
      "@lodestar/light-client": "1.5.1",
      "@lodestar/params": "1.5.1",
      "@lodestar/reqresp": "1.5.1",
      "@lodestar/state-transition": "1.5.1",
      "@lodestar/types": "1.5.1",
      "@lodestar/utils": "1.5.1",
      "@lodestar/validator": "1.5.1",
      "@multiformats/mafmt": "11.1.2",
      "@multiformats/multiaddr": "11.6.1"
    }
  }
}
JSON
# Node.js 20 lacks Promise.withResolvers, which a dependency uses.
cat >lodestar/polyfill.mjs <<'JS'
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new Promise((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
};
JS

pnpm_options=(--config.node-linker=hoisted --config.strict-peer-dependencies=false)
pnpm_options+=(--config.fetch-retries=2 --config.fetch-timeout=60000 --reporter=append-only)
retry "pnpm install" node pnpm/node_modules/pnpm/bin/pnpm.cjs --dir lodestar install "${pnpm_options[@]}"

LODESTAR_PRESET=minimal node --import ./lodestar/polyfill.mjs \
  lodestar/node_modules/@chainsafe/lodestar/lib/index.js --version >>install.log 2>&1 ||
  { tail -n 15 install.log >&2; unavailable "it was installed, and does not start."; }
touch .ready
