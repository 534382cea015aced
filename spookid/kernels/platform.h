/* What depends on the processor and on the operating system. */

#ifndef PLATFORM_H
#define PLATFORM_H

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

/* Vectors of eight numbers, and those of the processor that they are made of: gcc keeps no longer ones in registers
   where a loop changes them. */
#define LANES 8
#ifdef __AVX512F__
#define PARTS 1
#elif defined(__AVX__)
#define PARTS 2
#else
#define PARTS 4
#endif
typedef double lanes __attribute__((vector_size(8 * LANES)));
typedef double loose __attribute__((vector_size(8 * LANES), aligned(8)));
typedef double part __attribute__((vector_size(8 * LANES / PARTS), may_alias));
typedef long long choice __attribute__((vector_size(8 * LANES / PARTS), may_alias));
typedef double loose_part __attribute__((vector_size(8 * LANES / PARTS), aligned(8), may_alias));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 4")

/* Numbers that fade along a horizon end as zero, not in the range below 1e-308, where a processor is a hundred times
   slower; for the rest of a block. */
#ifdef __SSE2__
#include <xmmintrin.h>
static inline unsigned flush(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  return before;
}
static inline void unflush(unsigned *before) { _mm_setcsr(*before); }
#define FLUSH unsigned mode __attribute__((cleanup(unflush))) = flush()
#else
#define FLUSH
#endif

#endif
