#include "common/util/processor.h"

#include <cpuid.h>
#include <stddef.h>

#include "common/util/fnv1a.h"

#define LEAF_XSAVE 0xdu
#define HAS_OSXSAVE (1u << 27) /* of leaf 1, ecx */

enum part { EAX, EBX, ECX, EDX };

/* Words of CPUID, and their bits that name instructions. Others tell of mitigations, management, the core. */
static const struct {
    uint32_t leaf, subleaf;
    enum part part;
    uint32_t mask;
} words[] = {
    {1, 0, ECX,
     0x76d83203}, /* SSE3 to SSE4.2, CLMUL, FMA, CX16, MOVBE, POPCNT, AES, XSAVE, AVX, F16C, RDRAND */
    {1, 0, EDX, 0x07808101},          /* x87, CX8, CMOV, MMX, FXSR, SSE, SSE2 */
    {7, 0, EBX, 0xfdaf0938},          /* BMI, HLE, AVX2, RTM, AVX-512, RDSEED, ADX, CLFLUSHOPT, CLWB, SHA */
    {7, 0, ECX, 0x1a405f63},          /* VBMI, WAITPKG, GFNI, VAES, VNNI, BITALG, RDPID, MOVDIRI */
    {7, 0, EDX, 0x03c0410c},          /* 4VNNIW, 4FMAPS, VP2INTERSECT, SERIALIZE, AMX, FP16 */
    {7, 1, EAX, 0x00800030},          /* AVX-VNNI, BF16, AVX-IFMA */
    {0x80000001, 0, ECX, 0x00210961}, /* LAHF, LZCNT, SSE4A, PREFETCHW, XOP, FMA4, TBM */
    {0x80000001, 0, EDX, 0xc8000000}, /* RDTSCP, 3DNow */
    {LEAF_XSAVE, 0, EBX, UINT32_MAX}, /* bytes of the states that the kernel has enabled */
    {LEAF_XSAVE, 1, EAX, 0x0000000f}, /* XSAVEOPT, XSAVEC, XGETBV with ECX 1, XSAVES */
};

static uint32_t read_word(uint32_t leaf, uint32_t subleaf, enum part part)
{
    uint32_t word[4] = {0};
    if (!__get_cpuid_count(leaf, subleaf, &word[EAX], &word[EBX], &word[ECX], &word[EDX]))
        return 0;
    return word[part];
}

/* The states that the kernel has enabled; each has its place in what XSAVE writes. */
static uint64_t read_enabled(void)
{
    uint32_t low, high;
    if (!(read_word(1, 0, ECX) & HAS_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

uint64_t processor_kind(void)
{
    uint64_t enabled = read_enabled();
    uint64_t kind = fnv1a(FNV1A_START, &enabled, sizeof enabled);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint32_t word = read_word(words[i].leaf, words[i].subleaf, words[i].part) & words[i].mask;
        kind = fnv1a(kind, &word, sizeof word);
    }
    for (uint32_t state = 2; state < 64; state++) {
        uint32_t offset = enabled >> state & 1 ? read_word(LEAF_XSAVE, state, EBX) : 0;
        kind = fnv1a(kind, &offset, sizeof offset);
    }
    return kind ? kind : 1;
}
