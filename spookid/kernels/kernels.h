/* Functions of one step that are compiled for eight steps at once; see generated.py. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef long long size;

/* The numbers of up to eight steps, (count, 8), from the first argument of each kind and how far the next are; what is
   left of the eight is of no meaning. `out` begins where a vector may. */
typedef int (*eight)(size here, const double **first, const size *stride, double *out);

/* A function's numbers of n steps, `apart` from one step to the next: at their places, or one after another. `numbers`
   has room for eight steps. */
static int evaluate_steps(eight function, size n, size arguments, const double **first, const size *stride, size count,
                          const size *place, double *numbers, double *out, size apart) {
  const double *at[arguments + 1];
  for (size s = 0; s < n; s += 8) {
    size here = n - s < 8 ? n - s : 8;
    for (size i = 0; i < arguments; ++i) at[i] = first[i] + s * stride[i];
    if (function(here, at, stride, numbers)) return 1;
    for (size l = 0; l < here; ++l)
      for (size i = 0; i < count; ++i) out[(s + l) * apart + (place ? place[i] : i)] = numbers[i * 8 + l];
  }
  return 0;
}
