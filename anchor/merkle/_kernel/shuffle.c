/* Swap-or-not over a whole list (consensus specification, `compute_shuffled_index`).
 *
 * The specification moves one index through all rounds. A round swaps positions i and pivot - i or
 * leaves both, so over a whole list it is a pass of conditional swaps, and the hash that decides
 * serves 256 positions. Rounds run from last to first: then the list holds, at each place i, the
 * index to which the specification takes i.
 */
#include "sha256.h"

#include <stdlib.h>
#include <string.h>

enum { POSITIONS_PER_HASH = 256, ROUND_AT = 32, WINDOW_AT = 33, SOURCE_LENGTH = 37 };

/* Pad hash(seed ++ round ++ window), whose first `length` bytes are written, to its one block. */
static void pad_source(uint8_t block[SHA256_BLOCK], size_t length)
{
    memset(block + length, 0, SHA256_BLOCK - length);
    block[length] = 0x80;
    block[62] = (uint8_t)(length * 8 >> 8);
    block[63] = (uint8_t)(length * 8);
}

static uint32_t get_pivot(const Sha256 *sha, const uint8_t seed[32], unsigned round, uint32_t count)
{
    uint8_t block[SHA256_BLOCK];
    const uint8_t *data = block;
    uint32_t state[8], *states = state;
    memcpy(block, seed, 32);
    block[ROUND_AT] = (uint8_t)round;
    pad_source(block, WINDOW_AT);
    memcpy(state, SHA256_IV, sizeof state);
    sha->compress(&states, &data, 1, 1);

    uint8_t digest[SHA256_DIGEST];
    uint64_t number = 0;
    sha256_store(digest, state);
    for (int i = 7; i >= 0; i--)
        number = number << 8 | digest[i];
    return (uint32_t)(number % count);
}

/* One bit for each position: whether it is swapped in this round. */
static void get_decisions(const Sha256 *sha, uint8_t *bits, const uint8_t seed[32], unsigned round,
                          uint32_t windows)
{
    uint8_t blocks[SHA256_LANES][SHA256_BLOCK];
    uint32_t state[SHA256_LANES][8], *states[SHA256_LANES];
    const uint8_t *data[SHA256_LANES];
    for (int l = 0; l < SHA256_LANES; l++) {
        memcpy(blocks[l], seed, 32);
        blocks[l][ROUND_AT] = (uint8_t)round;
        pad_source(blocks[l], SOURCE_LENGTH);
        data[l] = blocks[l];
        states[l] = state[l];
    }
    for (uint32_t first = 0; first < windows; first += SHA256_LANES) {
        int lanes = windows - first < SHA256_LANES ? (int)(windows - first) : SHA256_LANES;
        for (int l = 0; l < lanes; l++) {
            for (int i = 0; i < 4; i++)
                blocks[l][WINDOW_AT + i] = (uint8_t)((first + (uint32_t)l) >> 8 * i);
            memcpy(state[l], SHA256_IV, sizeof state[l]);
        }
        sha->compress(states, data, 1, lanes);
        for (int l = 0; l < lanes; l++)
            sha256_store(bits + (size_t)SHA256_DIGEST * (first + (uint32_t)l), state[l]);
    }
}

/* Swap low + k with high - k wherever the bit of the higher one is set, until they meet. */
static void swap_pairs(uint32_t *list, const uint8_t *bits, size_t low, size_t high)
{
    for (; low < high; low++, high--) {
        uint32_t mask = -(uint32_t)(bits[high >> 3] >> (high & 7) & 1); /* no branch to mispredict */
        uint32_t difference = (list[low] ^ list[high]) & mask;
        list[low] ^= difference;
        list[high] ^= difference;
    }
}

int shuffle_permutation(const Sha256 *sha, uint32_t *indices, uint32_t count,
                        const uint8_t seed[32], unsigned rounds)
{
    uint32_t windows = count / POSITIONS_PER_HASH + (count % POSITIONS_PER_HASH != 0);
    for (uint32_t i = 0; i < count; i++)
        indices[i] = i;
    if (count < 2)
        return 0;
    uint8_t *bits = malloc((size_t)windows * SHA256_DIGEST);
    if (!bits)
        return -1;
    while (rounds--) {
        uint32_t pivot = get_pivot(sha, seed, rounds, count);
        get_decisions(sha, bits, seed, rounds, windows);
        swap_pairs(indices, bits, 0, pivot);                     /* i and pivot - i */
        swap_pairs(indices, bits, (size_t)pivot + 1, count - 1); /* i and pivot + count - i */
    }
    free(bits);
    return 0;
}
