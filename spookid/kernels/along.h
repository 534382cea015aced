/* What code that works on eight steps at once has in common: native.c, condense.c. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

typedef long long masks __attribute__((vector_size(8 * LANES)));

#define PICK(mask, a, b) ((lanes)(((masks)(a) & (mask)) | ((masks)(b) & ~(mask))))
#ifdef __clang__
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(a, b, ...) __builtin_shuffle(a, b, (choice){__VA_ARGS__})
#endif

static const lanes ZERO = {0};
static const masks COUNT = {0, 1, 2, 3, 4, 5, 6, 7};

static inline lanes *room(size count) { return allocate((count + 1) * sizeof(lanes)); }

static inline int any(masks bits) {
  long long found = 0;
  for (int l = 0; l < LANES; ++l) found |= bits[l];
  return found != 0;
}

/* Some numbers of up to eight steps, `stride` apart, those at some places if these are given; the last step fills what is
   left. */
static inline void take(lanes *to, const double *a, size stride, size here, size count, const size *place) {
  const double *from[LANES];
  for (size l = 0; l < LANES; ++l) from[l] = a + (l < here ? l : here - 1) * stride;
  for (size i = 0; i < count; ++i)
    for (size l = 0; l < LANES; ++l) to[i][l] = from[l][place ? place[i] : i];
}
