/* Which of the prebuilt libraries a processor can run; see prebuilt.py. */

#ifdef __x86_64__
#include <cpuid.h>

/* Registers that the operating system keeps. */
static unsigned kept(void) {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

EXPORT int has_avx2(void) {
  const unsigned first = bit_AVX | bit_FMA | bit_OSXSAVE, registers = 6;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first || (kept() & registers) != registers) return 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#else
EXPORT int has_avx2(void) { return 0; }
#endif
