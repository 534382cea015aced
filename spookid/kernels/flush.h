/* Numbers that fade along a horizon end as zero, not in the range below 1e-308, where a processor is a hundred times
   slower; for the rest of a block. */
#ifdef __SSE2__
#include <xmmintrin.h>
static unsigned flush(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  return before;
}
static void unflush(unsigned *before) { _mm_setcsr(*before); }
#define FLUSH unsigned mode __attribute__((cleanup(unflush))) = flush()
#else
#define FLUSH
#endif
