/* Dense matrices of every step, small ones, whose rows may depend on one another; see batched.py. */

#include "platform.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef long long size;

/* The reflection that takes x (count, `apart`) to its first entry, which becomes `-+ length`: x keeps it, scaled. */
static double reflect(size count, double *x, size apart) {
  double sum = 0.0;
  for (size i = 0; i < count; ++i) sum += x[i * apart] * x[i * apart];
  double length = sqrt(sum), alpha = x[0], beta = alpha < 0.0 ? length : -length;
  if (length == 0.0) return 0.0;
  for (size i = 1; i < count; ++i) x[i * apart] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

/* The reflection with x applied to y, the first entry of x being taken for 1. */
static void apply(size count, const double *x, size apart, double tau, double *y, size step) {
  double sum = y[0];
  for (size i = 1; i < count; ++i) sum += x[i * apart] * y[i * step];
  sum *= tau, y[0] -= sum;
  for (size i = 1; i < count; ++i) y[i * step] -= sum * x[i * apart];
}

/* A' (k, m) in `a` = Q R P' by columns, the longest of those that are left first; `order` (m) is P. It ends after `rank`
   columns, or where what is left is below some share of the first; how many there are. */
static size triangle(size k, size m, size rank, double least, double *a, double *tau, size *order) {
  double first = 0.0;
  for (size j = 0; j < m; ++j) order[j] = j;
  for (size r = 0; r < rank; ++r) {
    size best = r;
    double most = -1.0;
    for (size j = r; j < m; ++j) {
      double sum = 0.0;
      for (size i = r; i < k; ++i) sum += a[i * m + j] * a[i * m + j];
      if (sum > most) most = sum, best = j;
    }
    if (r == 0) first = most;
    if (!(most > least * least * first)) return r;
    size other = order[best];
    order[best] = order[r], order[r] = other;
    for (size i = 0; i < k && best != r; ++i) {
      double entry = a[i * m + r];
      a[i * m + r] = a[i * m + best], a[i * m + best] = entry;
    }
    tau[r] = reflect(k - r, a + r * m + r, m);
    for (size j = r + 1; j < m; ++j) apply(k - r, a + r * m + r, m, tau[r], a + r * m + j, m);
  }
  return rank;
}

/* The largest rank of matrices (n, m, k) as far as rows above some share of the first say, in `rank`; 1 if there is no
   memory. */
EXPORT int rank_along(size n, size m, size k, const double *matrices, const double *least, size *rank) {
  size full = m < k ? m : k;
  double *a = malloc((k * m + full + 1) * sizeof(double));
  size *order = malloc((m + 1) * sizeof(size));
  int failed = !a || !order;
  *rank = 0;
  for (size s = 0; s < n && !failed && *rank < full; ++s, matrices += m * k) {
    for (size i = 0; i < k; ++i)
      for (size j = 0; j < m; ++j) a[i * m + j] = matrices[j * k + i];
    size found = triangle(k, m, full, *least, a, a + k * m, order);
    if (found > *rank) *rank = found;
  }
  free(a), free(order);
  return failed;
}

/* Of matrices A (n, m, k) of one rank: orthonormal columns with A null = 0, (n, k, k - rank), and the pseudo-inverse
   (n, k, m), by A' = Q1 W P' and W' = U T, two triangular factorizations of rows that are not squared (G. H. Golub and
   C. F. Van Loan, Matrix Computations, 5.4); NaN where the rank is less: the inverse also where it is so but for
   roundings. Either may be null. 1 if there is no memory. */
EXPORT int decompose_along(size n, size m, size k, size rank, const double *matrices, double *null, double *inverse) {
  double *a = malloc((k * m + rank * m + 2 * rank + m + k + 1) * sizeof(double));
  size *order = malloc((m + 1) * sizeof(size));
  if (!a || !order) {
    free(a), free(order);
    return 1;
  }
  double *w = a + k * m, *tau = w + rank * m, *turn = tau + rank, *column = turn + rank;
  for (size s = 0; s < n; ++s, matrices += m * k) {
    for (size i = 0; i < k; ++i)
      for (size j = 0; j < m; ++j) a[i * m + j] = matrices[j * k + i];
    if (triangle(k, m, rank, 0.0, a, tau, order) < rank) {
      for (size i = 0; null && i < k * (k - rank); ++i) null[s * k * (k - rank) + i] = NAN;
      for (size i = 0; inverse && i < k * m; ++i) inverse[s * k * m + i] = NAN;
      continue;
    }
    for (size c = 0; null && c < k - rank; ++c) {
      double *to = null + s * k * (k - rank) + c;
      for (size i = 0; i < k; ++i) to[i * (k - rank)] = i == rank + c;
      for (size r = rank - 1; r >= 0; --r)
        apply(k - r, a + r * m + r, m, tau[r], to + r * (k - rank), k - rank);
    }
    double whole = 0.0;
    if (!inverse) continue;
    if (rank) {  /* rows over noise of very different sizes differ in length as much: each is compared with itself */
      const double *last = matrices + order[rank - 1] * k;
      for (size i = 0; i < k; ++i) whole += last[i] * last[i];
    }
    if (rank && !(fabs(a[(rank - 1) * (m + 1)]) > (m > k ? m : k) * DBL_EPSILON * sqrt(whole))) {
      for (size i = 0; i < k * m; ++i) inverse[s * k * m + i] = NAN;
      continue;
    }
    for (size r = 0; r < rank; ++r)  /* W' by its columns: the rows of R */
      for (size j = 0; j < m; ++j) w[r * m + j] = j < r ? 0.0 : a[r * m + j];
    for (size r = 0; r < rank; ++r) {
      turn[r] = reflect(m - r, w + r * m + r, 1);
      for (size c = r + 1; c < rank; ++c) apply(m - r, w + r * m + r, 1, turn[r], w + c * m + r, 1);
    }
    for (size j = 0; j < m; ++j) {  /* Q1 T^-1 U' P' for each unit vector */
      double *x = column, *to = inverse + s * k * m + j;
      for (size i = 0; i < m; ++i) x[i] = order[i] == j;
      for (size r = 0; r < rank; ++r) apply(m - r, w + r * m + r, 1, turn[r], x + r, 1);
      for (size r = rank - 1; r >= 0; --r) {
        for (size c = r + 1; c < rank; ++c) x[r] -= w[c * m + r] * x[c];
        x[r] /= w[r * m + r];
      }
      for (size i = 0; i < k; ++i) to[i * m] = i < rank ? x[i] : 0.0;
      for (size r = rank - 1; r >= 0; --r) apply(k - r, a + r * m + r, m, tau[r], to + r * m, m);
    }
  }
  free(a), free(order);
  return 0;
}

/* Orthonormal columns (n, m, k) of the same span, in place, by Gram and Schmidt, twice and the longest of those that are
   left first: columns that are longer than others by many orders of magnitude cost these no digits. */
EXPORT int orthonormal_along(size n, size m, size k, double *columns) {
  for (size s = 0; s < n; ++s, columns += m * k)
    for (size c = 0; c < k; ++c) {
      size best = c;
      double most = -1.0;
      for (size j = c; j < k; ++j) {
        double sum = 0.0;
        for (size i = 0; i < m; ++i) sum += columns[i * k + j] * columns[i * k + j];
        if (sum > most) most = sum, best = j;
      }
      for (size i = 0; i < m && best != c; ++i) {
        double entry = columns[i * k + c];
        columns[i * k + c] = columns[i * k + best], columns[i * k + best] = entry;
      }
      for (int twice = 0; twice < 2; ++twice)
        for (size j = 0; j < c; ++j) {
          double sum = 0.0;
          for (size i = 0; i < m; ++i) sum += columns[i * k + c] * columns[i * k + j];
          for (size i = 0; i < m; ++i) columns[i * k + c] -= sum * columns[i * k + j];
        }
      double sum = 0.0;
      for (size i = 0; i < m; ++i) sum += columns[i * k + c] * columns[i * k + c];
      for (size i = 0; i < m; ++i) columns[i * k + c] /= sqrt(sum);
      for (size j = c + 1; j < k; ++j)
        for (int twice = 0; twice < 2; ++twice) {
          double inner = 0.0;
          for (size i = 0; i < m; ++i) inner += columns[i * k + c] * columns[i * k + j];
          for (size i = 0; i < m; ++i) columns[i * k + j] -= inner * columns[i * k + c];
        }
    }
  return 0;
}
