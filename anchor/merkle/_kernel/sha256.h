/* SHA-256 (FIPS 180-4) for Merkle trees: many independent messages at a time.
 *
 * One message is a chain of dependent rounds, so a core that hashes one message mostly waits.
 * A tree has many messages; every routine here works on several at once, in "lanes".
 *
 *   sha256.c        constants, the portable implementation, the choice among implementations
 *   sha256_x86.c    x86 SHA instructions
 *   sha256_arm.c    ARMv8 SHA instructions
 *   sha256_avx2.c   AVX2, for x86 machines without SHA instructions
 *   slices.c        SHA-256 of many messages of any lengths
 *   tree.c          the root of a subtree
 *   shuffle.c       swap-or-not
 *   py_*.c module.c what Python sees
 */
#ifndef ANCHOR_SHA256_H
#define ANCHOR_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum {
    SHA256_BLOCK = 64,
    SHA256_DIGEST = 32,
    SHA256_LANES = 4,    /* enough to fill the pipeline of every SHA unit measured */
    SHA256_MAX_DEPTH = 64
};

/* One way to compute SHA-256 on this machine. */
typedef struct {
    const char *name;

    /* Whether it uses SHA instructions: only then is it faster than OpenSSL on long messages. */
    int has_sha_instructions;

    /* Digest of each of `count` 64-byte messages: one level of a tree.
     * `out` may be `in`, or start before it: results never overtake the input. */
    void (*pairs)(uint8_t *out, const uint8_t *in, size_t count);

    /* Advance `lanes` (1 to SHA256_LANES) states of eight words, each over `blocks` 64-byte blocks
     * of its own data. */
    void (*compress)(uint32_t *const *states, const uint8_t *const *data, size_t blocks, int lanes);
} Sha256;

extern const uint32_t SHA256_IV[8];
extern const uint32_t SHA256_K[64];

/* K[i] + W[i] for the block that pads a 64-byte message: it is always the same. */
extern const uint32_t SHA256_PADDING_KW[64];

extern const Sha256 sha256_portable;

/* Those that this machine can run, or NULL; the best comes first. */
const Sha256 *sha256_x86(void);
const Sha256 *sha256_arm(void);
const Sha256 *sha256_avx2(void);

/* Fill `found` (room for SHA256_IMPLEMENTATIONS), best first; returns how many there are. */
enum { SHA256_IMPLEMENTATIONS = 4 };
int sha256_implementations(const Sha256 **found);

/* Write a state as the digest it stands for. */
void sha256_store(uint8_t out[SHA256_DIGEST], const uint32_t state[8]);

/* Consecutive messages in one buffer. Without `lengths`, each is `leaf_size` long, and the last
 * is what is left of `total`. */
typedef struct {
    const uint8_t *data;
    size_t total;
    size_t count;
    const size_t *lengths;
    size_t leaf_size;
} Slices;

/* Digest of every message, 32 bytes each. */
void sha256_slices(const Sha256 *sha, uint8_t *out, const Slices *slices);

/* Roots of all-zero subtrees by depth; filled by sha256_init_zero_hashes, once, before use. */
extern uint8_t sha256_zero_hashes[SHA256_MAX_DEPTH + 1][SHA256_DIGEST];
void sha256_init_zero_hashes(const Sha256 *sha);

/* Root over `count` 32-byte chunks, which fit in `depth`. Returns 0, or -1 without memory. */
int sha256_merkle_root(const Sha256 *sha, uint8_t out[SHA256_DIGEST], const uint8_t *chunks,
                       size_t count, unsigned depth);

/* Spec `compute_shuffled_index(i, count, seed)` for every i < count, into indices[i].
 * Returns 0, or -1 without memory. */
int shuffle_permutation(const Sha256 *sha, uint32_t *indices, uint32_t count,
                        const uint8_t seed[32], unsigned rounds);

#endif
