/* The root of a subtree over 32-byte chunks, filled up with zero chunks on the right. */
#include "sha256.h"

#include <stdlib.h>
#include <string.h>

/* A block of 2^8 chunks (8 KiB) is reduced to its root while it is in the first-level cache; only
 * the blocks' roots go back to memory. Its scratch fits on the stack. */
enum { BLOCK_DEPTH = 8, BLOCK_CHUNKS = 1 << BLOCK_DEPTH };

uint8_t sha256_zero_hashes[SHA256_MAX_DEPTH + 1][SHA256_DIGEST];

void sha256_init_zero_hashes(const Sha256 *sha)
{
    for (int d = 0; d < SHA256_MAX_DEPTH; d++) {
        uint8_t pair[2 * SHA256_DIGEST];
        memcpy(pair, sha256_zero_hashes[d], SHA256_DIGEST);
        memcpy(pair + SHA256_DIGEST, sha256_zero_hashes[d], SHA256_DIGEST);
        sha->pairs(sha256_zero_hashes[d + 1], pair, 1);
    }
}

/* Parents of `count` nodes at height `low`; an odd last one is paired with a zero subtree. */
static size_t hash_level(const Sha256 *sha, uint8_t *out, const uint8_t *nodes, size_t count,
                         unsigned low)
{
    size_t whole = count / 2;
    uint8_t last[2 * SHA256_DIGEST];
    if (count % 2) { /* copied before `out`, which may be `nodes`, is written */
        memcpy(last, nodes + SHA256_DIGEST * (count - 1), SHA256_DIGEST);
        memcpy(last + SHA256_DIGEST, sha256_zero_hashes[low], SHA256_DIGEST);
    }
    sha->pairs(out, nodes, whole);
    if (count % 2)
        sha->pairs(out + SHA256_DIGEST * whole, last, 1);
    return whole + count % 2;
}

/* Root at height `low + depth` of 1 to BLOCK_CHUNKS nodes at height `low`. */
static void reduce_block(const Sha256 *sha, uint8_t out[SHA256_DIGEST], const uint8_t *nodes,
                         size_t count, unsigned low, unsigned depth)
{
    uint8_t level[SHA256_DIGEST * BLOCK_CHUNKS / 2];
    if (depth == 0) {
        memmove(out, nodes, SHA256_DIGEST);
        return;
    }
    count = hash_level(sha, level, nodes, count, low);
    for (unsigned d = 1; d < depth; d++)
        count = hash_level(sha, level, level, count, low + d);
    memcpy(out, level, SHA256_DIGEST);
}

/* Replace `count` nodes by the roots of their blocks. `out` may be `nodes`. */
static size_t reduce_blocks(const Sha256 *sha, uint8_t *out, const uint8_t *nodes, size_t count,
                            unsigned low)
{
    size_t blocks = 0;
    for (; count; blocks++) {
        size_t n = count < BLOCK_CHUNKS ? count : BLOCK_CHUNKS;
        reduce_block(sha, out + SHA256_DIGEST * blocks, nodes, n, low, BLOCK_DEPTH);
        nodes += SHA256_DIGEST * n;
        count -= n;
    }
    return blocks;
}

int sha256_merkle_root(const Sha256 *sha, uint8_t out[SHA256_DIGEST], const uint8_t *chunks,
                       size_t count, unsigned depth)
{
    if (count == 0) {
        memcpy(out, sha256_zero_hashes[depth], SHA256_DIGEST);
        return 0;
    }
    if (count <= BLOCK_CHUNKS) {
        reduce_block(sha, out, chunks, count, 0, depth);
        return 0;
    }
    uint8_t *roots = malloc(SHA256_DIGEST * (count / BLOCK_CHUNKS + 1));
    if (!roots)
        return -1;
    unsigned low = BLOCK_DEPTH;
    for (count = reduce_blocks(sha, roots, chunks, count, 0); count > BLOCK_CHUNKS;
         low += BLOCK_DEPTH)
        count = reduce_blocks(sha, roots, roots, count, low);
    reduce_block(sha, out, roots, count, low, depth - low);
    free(roots);
    return 0;
}
