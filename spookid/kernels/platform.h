/* What depends on the processor and on the operating system. */

#include <stdlib.h>

/* Functions that Python calls, and room for vectors. */
#ifdef _WIN32
#include <malloc.h>
#define EXPORT __declspec(dllexport)
static inline void *allocate(size_t bytes) { return _aligned_malloc(bytes, 64); }
static inline void release(void *at) { _aligned_free(at); }
#else
#define EXPORT __attribute__((visibility("default")))
static inline void *allocate(size_t bytes) {
  void *at;
  return posix_memalign(&at, 64, bytes) ? NULL : at;
}
static inline void release(void *at) { free(at); }
#endif

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
