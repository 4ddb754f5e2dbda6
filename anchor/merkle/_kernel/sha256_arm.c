/* ARMv8 SHA instructions, up to four lanes interleaved: the shape of sha256_x86.c. */
#include "sha256.h"

/* GCC compiles the instructions into single functions. Clang has them only where the whole build
 * may use them, as on every Apple machine. */
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__AARCH64EB__) && \
    (!defined(__clang__) || defined(__ARM_FEATURE_SHA2)) && \
    (defined(__linux__) || defined(__APPLE__))

#include <arm_neon.h>
#ifdef __linux__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#ifdef __clang__
#define TARGET
#define UNROLL _Pragma("unroll")
#else
#define TARGET __attribute__((target("+crypto")))
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE TARGET __attribute__((always_inline)) static inline

typedef struct {
    uint32x4_t abcd, efgh;
} State;

INLINE uint32x4_t swap_bytes(uint32x4_t x)
{
    return vreinterpretq_u32_u8(vrev32q_u8(vreinterpretq_u8_u32(x)));
}

INLINE State load_state(const uint32_t words[8])
{
    return (State){vld1q_u32(words), vld1q_u32(words + 4)};
}

INLINE void add_state(State *s, State t)
{
    s->abcd = vaddq_u32(s->abcd, t.abcd);
    s->efgh = vaddq_u32(s->efgh, t.efgh);
}

INLINE void four_rounds(State *s, uint32x4_t kw)
{
    uint32x4_t abcd = s->abcd;
    s->abcd = vsha256hq_u32(abcd, s->efgh, kw);
    s->efgh = vsha256h2q_u32(s->efgh, abcd, kw);
}

/* One block for each lane: `w` holds its words and is used up. */
INLINE void compress_block(State *states, uint32x4_t (*w)[4], const int lanes)
{
    State before[SHA256_LANES];
    UNROLL for (int l = 0; l < lanes; l++) before[l] = states[l];
    UNROLL for (int i = 0; i < 16; i++) {
        uint32x4_t k = vld1q_u32(SHA256_K + 4 * i);
        UNROLL for (int l = 0; l < lanes; l++) {
            uint32x4_t *x = w[l];
            four_rounds(&states[l], vaddq_u32(x[i & 3], k));
            if (i < 12)
                x[i & 3] = vsha256su1q_u32(vsha256su0q_u32(x[i & 3], x[(i + 1) & 3]),
                                           x[(i + 2) & 3], x[(i + 3) & 3]);
        }
    }
    UNROLL for (int l = 0; l < lanes; l++) add_state(&states[l], before[l]);
}

INLINE void load_block(uint32x4_t w[4], const uint8_t *block)
{
    UNROLL for (int i = 0; i < 4; i++)
        w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(block + 16 * i)));
}

INLINE void compress_lanes(uint32_t *const *states, const uint8_t *const *data, size_t blocks,
                           const int lanes)
{
    State s[SHA256_LANES];
    UNROLL for (int l = 0; l < lanes; l++) s[l] = load_state(states[l]);
    for (size_t n = 0; n < blocks; n++) {
        uint32x4_t w[SHA256_LANES][4];
        UNROLL for (int l = 0; l < lanes; l++) load_block(w[l], data[l] + SHA256_BLOCK * n);
        compress_block(s, w, lanes);
    }
    UNROLL for (int l = 0; l < lanes; l++) {
        vst1q_u32(states[l], s[l].abcd);
        vst1q_u32(states[l] + 4, s[l].efgh);
    }
}

TARGET static void compress(uint32_t *const *states, const uint8_t *const *data, size_t blocks,
                            int lanes)
{
    switch (lanes) {
    case 1: compress_lanes(states, data, blocks, 1); break;
    case 2: compress_lanes(states, data, blocks, 2); break;
    case 3: compress_lanes(states, data, blocks, 3); break;
    default: compress_lanes(states, data, blocks, 4); break;
    }
}

/* The second block of a pair is constant: its schedule is a table. */
INLINE void compress_padding(State *states, const int lanes)
{
    State before[SHA256_LANES];
    UNROLL for (int l = 0; l < lanes; l++) before[l] = states[l];
    UNROLL for (int i = 0; i < 16; i++) {
        uint32x4_t kw = vld1q_u32(SHA256_PADDING_KW + 4 * i);
        UNROLL for (int l = 0; l < lanes; l++) four_rounds(&states[l], kw);
    }
    UNROLL for (int l = 0; l < lanes; l++) add_state(&states[l], before[l]);
}

INLINE void pairs_lanes(uint8_t *out, const uint8_t *in, const int lanes)
{
    State s[SHA256_LANES];
    uint32x4_t w[SHA256_LANES][4];
    UNROLL for (int l = 0; l < lanes; l++) {
        s[l] = load_state(SHA256_IV);
        load_block(w[l], in + SHA256_BLOCK * l);
    }
    compress_block(s, w, lanes);
    compress_padding(s, lanes);
    UNROLL for (int l = 0; l < lanes; l++) {
        uint8_t *digest = out + SHA256_DIGEST * l;
        vst1q_u8(digest, vreinterpretq_u8_u32(swap_bytes(s[l].abcd)));
        vst1q_u8(digest + 16, vreinterpretq_u8_u32(swap_bytes(s[l].efgh)));
    }
}

TARGET static void pairs(uint8_t *out, const uint8_t *in, size_t count)
{
    for (; count >= 4; count -= 4, in += 4 * SHA256_BLOCK, out += 4 * SHA256_DIGEST)
        pairs_lanes(out, in, 4);
    switch (count) {
    case 3: pairs_lanes(out, in, 3); break;
    case 2: pairs_lanes(out, in, 2); break;
    case 1: pairs_lanes(out, in, 1); break;
    }
}

static int has_sha_instructions(void)
{
#ifdef __linux__
    return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0;
#else
    return 1; /* every 64-bit Apple processor */
#endif
}

const Sha256 *sha256_arm(void)
{
    static const Sha256 implementation = {"ARMv8", 1, pairs, compress};
    return has_sha_instructions() ? &implementation : NULL;
}

#else

const Sha256 *sha256_arm(void) { return NULL; }

#endif
