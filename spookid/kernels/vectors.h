/* What all code along a chain has in common; see chain.py, window.py. */

#include "platform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 4
typedef long long size;

#ifdef __AVX512F__
#define GROUP 4
#define PAIR 2
#else
#define GROUP 1
#define PAIR 1
#endif

/* What is taken from memory stays in a register of AVX: gcc would take it again each time that it is used. */
#if PARTS == 2
#define KEEP(x) __asm__("" : "+x"(x))
#else
#define KEEP(x)
#endif

static const lanes ZERO = {0};

static inline size vectors(size count) { return (count + LANES - 1) / LANES; }

INLINE double total(lanes sum) {
  return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}
