#!/usr/bin/env bash
# Installs Lodestar 1.5.1, a full beacon node, into tests/real/.cache (about two minutes, 600 MB).
# Later releases cannot be installed from the registry: packages that they need are missing.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p .cache && cd .cache
[ -f .ready ] && exit 0

[ -d pnpm/node_modules/pnpm ] || npm install --silent --no-audit --no-fund --prefix pnpm pnpm@9

mkdir -p lodestar && cd lodestar
cat > package.json <<'JSON'
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
node ../pnpm/node_modules/pnpm/bin/pnpm.cjs install \
  --silent --config.node-linker=hoisted --config.strict-peer-dependencies=false

# Node.js 20 lacks Promise.withResolvers, which a dependency uses.
cat > polyfill.mjs <<'JS'
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new Promise((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
};
JS
LODESTAR_PRESET=minimal node --import ./polyfill.mjs node_modules/@chainsafe/lodestar/lib/index.js --version >/dev/null
touch ../.ready
