/* Small linear algebra, the same for every step of a horizon, eight steps at once; see native.py. */

#include <math.h>
#include <stdlib.h>

#define LANES 8
typedef double lanes __attribute__((vector_size(8 * LANES)));
typedef long long size;

static const lanes ZERO = {0};

static lanes *room(size count) { return allocate((count + 1) * sizeof(lanes)); }

/* A compiled kernel, and its arguments at the first step; at the next they stand stride numbers further on. */
typedef int (*along)(size n, const double **first, const size *stride, double *out, size count);
typedef struct {
  along function;
  size arguments, count;
  const double **first, **here;
  const size *stride;
} kernel;

/* The kernel at `here` steps from step s on, count numbers each. */
static int evaluate(const kernel *f, size s, size here, double *out) {
  for (size i = 0; i < f->arguments; ++i) f->here[i] = f->first[i] + s * f->stride[i];
  return f->function(here, f->here, f->stride, out, f->count);
}

/* Covariances (n, w, w) of each step's t unknowns and the r = w - t that follow, the last step first, from
   G = L_ik L_kk^-1 (n, r, t) and D = (L_kk L_kk')^-1 (n, t, t); those of the step behind them stand there already. */
EXPORT int selected_inverse_along(size n, size t, size w, const double *G, const double *D, double *out) {
  FLUSH;
  size r = w - t;
  double *across = calloc(r * t + 1, sizeof(double));
  if (!across) return 1;
  for (size k = n - 1; k >= 0; --k) {
    const double *known = out + (k + 1) * w * w, *g = G + k * r * t;
    double *here = out + k * w * w;
    for (size i = 0; i < r; ++i) {
      double *sums = across + i * t;
      for (size j = 0; j < t; ++j) sums[j] = 0.0;
      for (size c = 0; c < r; ++c)
        for (size j = 0; j < t; ++j) sums[j] += known[i * w + c] * g[c * t + j];
      for (size j = 0; j < r; ++j) here[(t + i) * w + t + j] = known[i * w + j];
      for (size j = 0; j < t; ++j) here[(t + i) * w + j] = here[j * w + t + i] = -sums[j];
    }
    for (size i = 0; i < t; ++i) {
      for (size j = 0; j < t; ++j) here[i * w + j] = D[(k * t + i) * t + j];
      for (size c = 0; c < r; ++c)
        for (size j = 0; j < t; ++j) here[i * w + j] += g[c * t + i] * across[c * t + j];
    }
    for (size i = 0; i < t; ++i)  /* what rounding leaves of the other part would grow */
      for (size j = 0; j < i; ++j) here[i * w + j] = here[j * w + i] = (here[i * w + j] + here[j * w + i]) / 2;
  }
  free(across);
  return 0;
}

/* L^-1 times right-hand sides, given in whole columns, (n, columns); L lower triangular, stored as (n, width) with
   entry [j][d] for row j + d and column j. Sums for the rows to come wait in a ring. */
EXPORT int forward_along(size n, size width, const double *L, size columns, const double *right, double *out) {
  FLUSH;
  lanes *ring = room(2 * width);
  if (!ring) return 1;
  for (size c = 0; c < columns; c += 2 * LANES) {
    size here = columns - c < 2 * LANES ? columns - c : 2 * LANES, at = 0;
    for (size i = 0; i < 2 * width; ++i) ring[i] = ZERO;
    for (size j = 0; j < n; ++j, L += width) {
      lanes y[2] = {ring[2 * at], ring[2 * at + 1]};
      double *values = (double *)y;
      for (size i = 0; i < here; ++i) {
        values[i] = (right[(c + i) * n + j] - values[i]) / L[0];
        out[j * columns + c + i] = values[i];
      }
      ring[2 * at] = ring[2 * at + 1] = ZERO;
      for (size d = 1; d < width - at; ++d) {
        ring[2 * (at + d)] += L[d] * y[0];
        ring[2 * (at + d) + 1] += L[d] * y[1];
      }
      for (size d = width - at; d < width; ++d) {
        ring[2 * (at + d - width)] += L[d] * y[0];
        ring[2 * (at + d - width) + 1] += L[d] * y[1];
      }
      at = at + 1 == width ? 0 : at + 1;
    }
    L -= n * width;
  }
  release(ring);
  return 0;
}

/* True if an entry of J (n, count) that was zero so far is not; it is then set in `seen`. Zeros of both signs are alike. */
static int grown(const double *J, size n, size count, unsigned long long *seen) {
  const unsigned long long *bits = (const unsigned long long *)J;
  unsigned long long found = 0;
  for (size s = 0; s < n; ++s)
    for (size i = 0; i < count; ++i) found |= (bits[s * count + i] << 1) & ~seen[i];
  if (!found) return 0;
  for (size s = 0; s < n; ++s)
    for (size i = 0; i < count; ++i)
      if (bits[s * count + i] << 1) seen[i] = ~0ULL;
  return 1;
}

/* Sums of products of entries of transposed Jacobians (n, count), added to bands and borders step by step, and to
   corners over all. The kernel `rows` gives the Jacobians eight at a time if there is one; else they are in `matrix`.
   Where an entry differs from zero that is not `seen` it all ends: `done` is the number of steps before. The bands of
   the steps that are `fresh` steps ahead are cleared first, if it is not negative. */
EXPORT int products_along(size n, along rows, size arguments, const double **first, const size *stride,
                          const double *matrix, size count, unsigned long long *seen, size entries, const int *entry,
                          const int *begin, const int *left, const int *right, size bands, const size *band_at,
                          double *band, size band_stride, size borders, const size *border_at, double *border,
                          size border_stride, size corners, double *corner, size *done, size fresh) {
  lanes *values = room(entries + corners + (rows ? count : 0)), *sums = values + entries;
  const double **here_first = malloc((arguments + 1) * sizeof(double *));
  kernel f = {rows, arguments, count, first, here_first, stride};
  size targets = bands + borders + corners, s = 0;
  int failed = !values || !here_first;
  for (size t = 0; t < corners && !failed; ++t) sums[t] = ZERO;
  for (; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    const double *J = rows ? (double *)(sums + corners) : matrix + s * count;
    if (rows && (failed = evaluate(&f, s, here, (double *)J))) break;
    if (grown(J, here, count, seen)) break;
    for (size i = 0; fresh >= 0 && i < here * band_stride; ++i) band[(s + fresh) * band_stride + i] = 0.0;
    for (size l = 0; l < LANES; ++l)
      for (size e = 0; e < entries; ++e) values[e][l] = l < here ? J[l * count + entry[e]] : 0.0;
    for (size t = 0; t < targets; ++t) {
      lanes sum = ZERO;
      for (int p = begin[t]; p < begin[t + 1]; ++p) sum += values[left[p]] * values[right[p]];
      if (t < bands) {
        for (size l = 0; l < here; ++l) band[band_at[t] + (s + l) * band_stride] += sum[l];
      } else if (t < bands + borders) {
        for (size l = 0; l < here; ++l) border[border_at[t - bands] + (s + l) * border_stride] += sum[l];
      } else {
        sums[t - bands - borders] += sum;
      }
    }
  }
  *done = s < n ? s : n;
  for (size t = 0; t < corners && !failed; ++t)
    for (int l = 0; l < LANES; ++l) corner[t] += sums[t][l];
  free(here_first);
  release(values);
  return failed;
}
