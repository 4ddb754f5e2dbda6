/* x86 SHA instructions, up to four lanes interleaved.
 *
 * `sha256rnds2` has a latency of four cycles and more, but several can be in flight: one lane
 * alone leaves the unit idle most of the time. The lane count is a compile-time constant in every
 * inlined copy, so that the loops over lanes vanish and the states live in registers.
 */
#include "sha256.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <immintrin.h>

/* With AVX, GCC writes the same instructions with three operands: 8 % faster. Clang also moves 256
 * bits at a time then, after which SHA instructions, which have no AVX form, are ten times slower. */
#ifdef __clang__
#define TARGET __attribute__((target("sha,sse4.1")))
#define UNROLL _Pragma("unroll")
#else
#define TARGET __attribute__((target("sha,avx")))
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE TARGET __attribute__((always_inline)) static inline

/* The eight words in the order that the instructions want. */
typedef struct {
    __m128i abef, cdgh;
} State;

INLINE __m128i swap_bytes(__m128i x)
{
    return _mm_shuffle_epi8(x, _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL));
}

INLINE __m128i load(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
INLINE void store(void *p, __m128i x) { _mm_storeu_si128((__m128i *)p, x); }

INLINE State state_from_words(const uint32_t words[8])
{
    __m128i cdab = _mm_shuffle_epi32(load(words), 0xB1);
    __m128i efgh = _mm_shuffle_epi32(load(words + 4), 0x1B);
    return (State){_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xF0)};
}

INLINE void state_to_words(__m128i *abcd, __m128i *efgh, State s)
{
    __m128i feba = _mm_shuffle_epi32(s.abef, 0x1B);
    __m128i dchg = _mm_shuffle_epi32(s.cdgh, 0xB1);
    *abcd = _mm_blend_epi16(feba, dchg, 0xF0);
    *efgh = _mm_alignr_epi8(dchg, feba, 8);
}

INLINE void add_state(State *s, State t)
{
    s->abef = _mm_add_epi32(s->abef, t.abef);
    s->cdgh = _mm_add_epi32(s->cdgh, t.cdgh);
}

INLINE void four_rounds(State *s, __m128i kw)
{
    s->cdgh = _mm_sha256rnds2_epu32(s->cdgh, s->abef, kw);
    s->abef = _mm_sha256rnds2_epu32(s->abef, s->cdgh, _mm_shuffle_epi32(kw, 0x0E));
}

/* The four words of the schedule that follow w0..w3, four words each. */
INLINE __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
    __m128i t = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
    return _mm_sha256msg2_epu32(t, w3);
}

/* One block for each lane: `w` holds its words and is used up. */
INLINE void compress_block(State *states, __m128i (*w)[4], const int lanes)
{
    State before[SHA256_LANES];
    UNROLL for (int l = 0; l < lanes; l++) before[l] = states[l];
    UNROLL for (int i = 0; i < 16; i++) {
        __m128i k = load(SHA256_K + 4 * i);
        UNROLL for (int l = 0; l < lanes; l++) {
            __m128i *x = w[l];
            four_rounds(&states[l], _mm_add_epi32(x[i & 3], k));
            if (i < 12)
                x[i & 3] = next_words(x[i & 3], x[(i + 1) & 3], x[(i + 2) & 3], x[(i + 3) & 3]);
        }
    }
    UNROLL for (int l = 0; l < lanes; l++) add_state(&states[l], before[l]);
}

INLINE void load_block(__m128i w[4], const uint8_t *block)
{
    UNROLL for (int i = 0; i < 4; i++) w[i] = swap_bytes(load(block + 16 * i));
}

INLINE void compress_lanes(uint32_t *const *states, const uint8_t *const *data, size_t blocks,
                           const int lanes)
{
    State s[SHA256_LANES];
    const uint8_t *next[SHA256_LANES];
    UNROLL for (int l = 0; l < lanes; l++) {
        s[l] = state_from_words(states[l]);
        next[l] = data[l];
    }
    while (blocks--) {
        __m128i w[SHA256_LANES][4];
        UNROLL for (int l = 0; l < lanes; l++) {
            load_block(w[l], next[l]);
            next[l] += SHA256_BLOCK;
        }
        compress_block(s, w, lanes);
    }
    UNROLL for (int l = 0; l < lanes; l++) {
        __m128i abcd, efgh;
        state_to_words(&abcd, &efgh, s[l]);
        store(states[l], abcd);
        store(states[l] + 4, efgh);
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
        __m128i kw = load(SHA256_PADDING_KW + 4 * i);
        UNROLL for (int l = 0; l < lanes; l++) four_rounds(&states[l], kw);
    }
    UNROLL for (int l = 0; l < lanes; l++) add_state(&states[l], before[l]);
}

INLINE void pairs_lanes(uint8_t *out, const uint8_t *in, const int lanes)
{
    State s[SHA256_LANES];
    __m128i w[SHA256_LANES][4];
    UNROLL for (int l = 0; l < lanes; l++) {
        s[l] = state_from_words(SHA256_IV);
        load_block(w[l], in + SHA256_BLOCK * l);
    }
    compress_block(s, w, lanes);
    compress_padding(s, lanes);
    UNROLL for (int l = 0; l < lanes; l++) {
        __m128i abcd, efgh;
        state_to_words(&abcd, &efgh, s[l]);
        store(out + SHA256_DIGEST * l, swap_bytes(abcd));
        store(out + SHA256_DIGEST * l + 16, swap_bytes(efgh));
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

const Sha256 *sha256_x86(void)
{
    static const Sha256 implementation = {"SHA-NI", 1, pairs, compress};
    unsigned a, b, c, d;
    int has_sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
    return has_sha && __builtin_cpu_supports("avx") ? &implementation : NULL; /* all but some Atoms */
}

#else

const Sha256 *sha256_x86(void) { return NULL; }

#endif
