/* Small dense linear algebra, the same for every step of a horizon, eight steps at once; see native.py. */

#include <math.h>
#include <stdlib.h>

#define LANES 8
typedef double lanes __attribute__((vector_size(8 * LANES)));
typedef long long masks __attribute__((vector_size(8 * LANES)));
typedef long long size;

#define PICK(mask, a, b) ((lanes)(((masks)(a) & (mask)) | ((masks)(b) & ~(mask))))

static const lanes ZERO = {0};

static lanes *room(size count) { return allocate((count + 1) * sizeof(lanes)); }

/* Householder's triangular factor of T (m, k), m >= k, in place as LAPACK's dgeqr2 leaves it. */
static void factorize(lanes *T, lanes *tau, size m, size k) {
  for (size j = 0; j < k; ++j) {
    lanes below = ZERO, alpha = T[j * k + j], norm;
    for (size i = j + 1; i < m; ++i) below += T[i * k + j] * T[i * k + j];
    norm = alpha * alpha + below;
    for (int l = 0; l < LANES; ++l) norm[l] = sqrt(norm[l]);
    masks none = below == 0.0;
    lanes beta = PICK(alpha < 0.0, norm, -norm);
    beta = PICK(none, alpha, beta);
    tau[j] = PICK(none, ZERO, (beta - alpha) / beta);
    lanes scale = PICK(none, ZERO, 1.0 / (alpha - beta));
    for (size i = j + 1; i < m; ++i) T[i * k + j] *= scale;
    T[j * k + j] = beta;
    for (size p = j + 1; p < k; ++p) {
      lanes sum = T[j * k + p];
      for (size i = j + 1; i < m; ++i) sum += T[i * k + j] * T[i * k + p];
      sum *= tau[j];
      T[j * k + p] -= sum;
      for (size i = j + 1; i < m; ++i) T[i * k + p] -= T[i * k + j] * sum;
    }
  }
}

static void reflect(const lanes *T, const lanes *tau, size m, size k, size j, lanes *x) {
  lanes sum = x[j];
  for (size i = j + 1; i < m; ++i) sum += T[i * k + j] * x[i];
  sum *= tau[j];
  x[j] -= sum;
  for (size i = j + 1; i < m; ++i) x[i] -= T[i * k + j] * sum;
}

static void rotate(const lanes *T, const lanes *tau, size m, size k, lanes *x) {
  for (size j = k - 1; j >= 0; --j) reflect(T, tau, m, k, j, x);
}

/* x (m) = Q R^-T b (k), the shortest solution of T' x = b; b may be the first part of x. */
static void shortest(const lanes *T, const lanes *tau, size m, size k, lanes *x) {
  for (size j = 0; j < k; ++j) {
    for (size i = 0; i < j; ++i) x[j] -= T[i * k + j] * x[i];
    x[j] /= T[j * k + j];
  }
  for (size i = k; i < m; ++i) x[i] = ZERO;
  rotate(T, tau, m, k, x);
}

/* The first k of x (m) become the least-squares solution of T y = x. */
static void nearest(const lanes *T, const lanes *tau, size m, size k, lanes *x) {
  for (size j = 0; j < k; ++j) reflect(T, tau, m, k, j, x);
  for (size j = k - 1; j >= 0; --j) {
    for (size i = j + 1; i < k; ++i) x[j] -= T[j * k + i] * x[i];
    x[j] /= T[j * k + j];
  }
}

/* Entries of up to eight steps; the last step fills what is left. */
static void gather(lanes *T, const double *a, size stride, size here, size m, size k, size row, size column) {
  const double *from[LANES];
  for (size l = 0; l < LANES; ++l) from[l] = a + (l < here ? l : here - 1) * stride;
  for (size i = 0; i < m; ++i)
    for (size j = 0; j < k; ++j)
      for (size l = 0; l < LANES; ++l) T[i * k + j][l] = from[l][i * row + j * column];
}

static void scatter(const lanes *x, double *out, size stride, size here, size count, size step) {
  for (size l = 0; l < here; ++l)
    for (size i = 0; i < count; ++i) out[l * stride + i * step] = x[i][l];
}

/* Columns that T' takes to zero, of up to eight steps; x is room. */
static void unreached(const lanes *T, const lanes *tau, size m, size k, lanes *x, double *null, size here) {
  size left = m - k;
  for (size c = 0; c < left; ++c) {
    for (size i = 0; i < m; ++i) x[i] = ZERO + (i == k + c ? 1.0 : 0.0);
    rotate(T, tau, m, k, x);
    scatter(x, null + c, m * left, here, m, left);
  }
}

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

static double largest(const double *a, size stride, size here, size count) {
  double found = 0.0;
  for (size l = 0; l < here; ++l)
    for (size i = 0; i < count; ++i)
      if (!(fabs(a[l * stride + i]) <= found)) found = fabs(a[l * stride + i]);
  return found;
}

/* States (n, ambient) moved onto a surface by Newton's method, eight at a time. The kernel `rows` gives transposed
   Jacobians (wide, k), slopes to the parameters (parameters, k) and residuals (k); `move` takes states and steps
   (tangent) in the seen columns. Left there: null (n, wide, wide - k) and drag (n, wide, parameters). */
EXPORT int settle_along(size n, along rows, size arguments, const double **first, const size *stride, along move,
                        double *states, size ambient, size tangent, const size *seen, size wide, size k,
                        size parameters, size passes, const double *limits, double *null, double *drag) {
  size count = (wide + parameters + 1) * k, left = wide - k;
  lanes *T = room(wide * k + k + wide), *tau = T + wide * k, *x = tau + k;
  double *J = calloc(LANES * (count + tangent + ambient), sizeof(double)), *steps = J + LANES * count;
  const double **here_first = malloc((arguments + 1) * sizeof(double *));
  kernel f = {rows, arguments, count, first, here_first, stride};
  const size moved_stride[] = {ambient, tangent};
  int failed = !T || !J || !here_first;
  for (size s = 0; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    double *at = states + s * ambient, *to = steps + LANES * tangent, *residual = J + count - k;
    for (size pass = 0, last = 0;; ++pass) {
      failed |= evaluate(&f, s, here, J);
      gather(T, J, count, here, wide, k, k, 1);
      factorize(T, tau, wide, k);
      double error = largest(residual, count, here, k);
      if (last || pass == passes || error <= limits[0] || !isfinite(error)) break;
      gather(x, residual, count, here, k, 1, 1, 1);
      for (size i = 0; i < k; ++i) x[i] = -x[i];
      shortest(T, tau, wide, k, x);
      for (size i = 0; i < wide; ++i)
        for (size l = 0; l < here; ++l) steps[l * tangent + seen[i]] = x[i][l];
      const double *given[] = {at, steps};
      failed |= move(here, given, moved_stride, to, ambient);
      for (size i = 0; i < here * ambient; ++i) at[i] = to[i];
      last = error <= limits[1];
    }
    unreached(T, tau, wide, k, x, null + s * wide * left, here);
    for (size c = 0; c < parameters; ++c) {
      gather(x, J + (wide + c) * k, count, here, k, 1, 1, 1);
      for (size i = 0; i < k; ++i) x[i] = -x[i];
      shortest(T, tau, wide, k, x);
      scatter(x, drag + s * wide * parameters + c, wide * parameters, here, wide, parameters);
    }
  }
  free(here_first);
  free(J);
  release(T);
  return failed;
}

/* Entries (k) of states (n, ambient) fitted by least squares, eight at a time. The kernel `rows` gives transposed
   Jacobians (k, m) and residuals (m), to which `shift` (n, m) is added if there is one. More than one pass is for rows
   that are not linear. Left there: null (n, m, m - k), what the entries do not reach, and the residual (n, m). */
EXPORT int fit_along(size n, along rows, size arguments, const double **first, const size *stride, double *states,
                     size ambient, const size *entries, size m, size k, const double *shift, size passes,
                     const double *still, double *null, double *residual) {
  size count = (k + 1) * m, left = m - k;
  lanes *T = room(m * k + k + m), *tau = T + m * k, *x = tau + k;
  double *J = malloc(LANES * count * sizeof(double));
  const double **here_first = malloc((arguments + 1) * sizeof(double *));
  kernel f = {rows, arguments, count, first, here_first, stride};
  int failed = !T || !J || !here_first;
  for (size s = 0; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    double *at = states + s * ambient;
    int moved = 0;
    for (size pass = 0;; ++pass) {
      double size_of_all = *still, size_of_move = 0.0;
      failed |= evaluate(&f, s, here, J);
      gather(T, J, count, here, m, k, 1, m);
      factorize(T, tau, m, k);
      moved = pass < passes;
      if (!moved) break;
      for (size i = 0; i < m; ++i)
        for (size l = 0; l < LANES; ++l) {
          size step = l < here ? l : here - 1;
          x[i][l] = -J[step * count + k * m + i] - (shift ? shift[(s + step) * m + i] : 0.0);
        }
      nearest(T, tau, m, k, x);
      for (size i = 0; i < k; ++i)
        for (size l = 0; l < here; ++l) {
          double *entry = at + l * ambient + entries[i];
          *entry += x[i][l];
          if (fabs(*entry) > size_of_all) size_of_all = fabs(*entry);
          if (fabs(x[i][l]) > size_of_move) size_of_move = fabs(x[i][l]);
        }
      if (passes == 1 || !(size_of_move >= *still * size_of_all)) break;
    }
    for (size l = 0; l < here; ++l) {
      double *r = residual + (s + l) * m;
      for (size i = 0; i < m; ++i) r[i] = J[l * count + k * m + i];
      for (size j = 0; moved && j < k; ++j)
        for (size i = 0; i < m; ++i) r[i] += J[l * count + j * m + i] * x[j][l];
    }
    unreached(T, tau, m, k, x, null + s * m * left, here);
  }
  free(here_first);
  free(J);
  release(T);
  return failed;
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
