/* What a processor can run, by the number of a level in library.py. */

#include "platform.h"

#ifdef __x86_64__
#include <cpuid.h>

/* Registers that the operating system keeps. */
static unsigned kept(void) {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/* 0: anything; 1: AVX2 and FMA; 2: AVX-512 as well. */
EXPORT int processor_level(void) {
  const unsigned first = bit_AVX | bit_FMA | bit_OSXSAVE, wide = bit_AVX512F | bit_AVX512VL | bit_AVX512DQ | bit_AVX512BW;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first || (kept() & 6) != 6) return 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
  return (b & wide) == wide && (kept() & 0xe6) == 0xe6 ? 2 : 1;
}
#else
EXPORT int processor_level(void) { return 0; }
#endif

/* What the source was when this was compiled. */
EXPORT unsigned long long source_digest(void) { return SOURCE_DIGEST; }
