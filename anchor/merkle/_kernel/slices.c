/* SHA-256 of many messages of any lengths, several of them at a time.
 *
 * A lane takes the next message as soon as its own is done, so that long and short messages mix
 * without waiting for each other.
 */
#include "sha256.h"

#include <string.h>

/* A fourth lane would spill more registers than it fills gaps: it is slower by 5 % on a core of its
 * own, by 15 % on one whose other hardware thread is busy. */
enum { STREAMS = 3 };

typedef struct {
    uint32_t state[8];
    const uint8_t *next;            /* where its data goes on: in the message, then in the tail */
    size_t blocks;                  /* how many blocks are there */
    size_t tail_blocks;             /* blocks of tail still to come, after those */
    uint8_t tail[2 * SHA256_BLOCK]; /* the message's last bytes, padded */
    uint8_t *out;                   /* NULL: the lane is free */
} Lane;

static size_t slice_length(const Slices *s, size_t i)
{
    if (s->lengths)
        return s->lengths[i];
    size_t left = s->total - i * s->leaf_size;
    return left < s->leaf_size ? left : s->leaf_size;
}

/* FIPS 180-4 §5.1.1: a one bit, zeros, and the length in bits, big-endian. */
static void pad_tail(Lane *lane, const uint8_t *rest, size_t length)
{
    size_t n = length % SHA256_BLOCK;
    lane->tail_blocks = n < SHA256_BLOCK - 8 ? 1 : 2;
    size_t end = lane->tail_blocks * SHA256_BLOCK;
    if (n)
        memcpy(lane->tail, rest, n);
    lane->tail[n] = 0x80;
    memset(lane->tail + n + 1, 0, end - 8 - (n + 1));
    for (unsigned i = 0; i < 8; i++)
        lane->tail[end - 1 - i] = (uint8_t)((uint64_t)length * 8 >> 8 * i);
}

static void enter_tail(Lane *lane)
{
    lane->next = lane->tail;
    lane->blocks = lane->tail_blocks;
    lane->tail_blocks = 0;
}

static void start_message(Lane *lane, uint8_t *out, const uint8_t *message, size_t length)
{
    memcpy(lane->state, SHA256_IV, sizeof lane->state);
    lane->out = out;
    lane->next = message;
    lane->blocks = length / SHA256_BLOCK;
    pad_tail(lane, message + lane->blocks * SHA256_BLOCK, length);
    if (lane->blocks == 0)
        enter_tail(lane);
}

static void advance(Lane *lane, size_t steps)
{
    lane->next += steps * SHA256_BLOCK;
    lane->blocks -= steps;
    if (lane->blocks)
        return;
    if (lane->tail_blocks) {
        enter_tail(lane);
    } else {
        sha256_store(lane->out, lane->state);
        lane->out = NULL;
    }
}

/* Run the busy lanes until the first of them has to change. Returns 0 if none is busy. */
static int run_lanes(const Sha256 *sha, Lane *lanes)
{
    Lane *busy[STREAMS];
    uint32_t *states[STREAMS];
    const uint8_t *data[STREAMS];
    size_t steps = SIZE_MAX;
    int count = 0;
    for (int l = 0; l < STREAMS; l++) {
        if (!lanes[l].out)
            continue;
        busy[count] = &lanes[l];
        states[count] = lanes[l].state;
        data[count++] = lanes[l].next;
        steps = lanes[l].blocks < steps ? lanes[l].blocks : steps;
    }
    if (count == 0)
        return 0;
    sha->compress(states, data, steps, count);
    for (int i = 0; i < count; i++)
        advance(busy[i], steps);
    return 1;
}

void sha256_slices(const Sha256 *sha, uint8_t *out, const Slices *slices)
{
    Lane lanes[STREAMS];
    const uint8_t *message = slices->data;
    size_t started = 0;
    for (int l = 0; l < STREAMS; l++)
        lanes[l].out = NULL;
    do {
        for (int l = 0; l < STREAMS && started < slices->count; l++) {
            if (lanes[l].out)
                continue;
            size_t length = slice_length(slices, started);
            start_message(&lanes[l], out + SHA256_DIGEST * started++, message, length);
            message += length;
        }
    } while (run_lanes(sha, lanes));
}
