/* The equations of one step solved by a damped Newton method; see newton.py. */

#include "platform.h"

#include <math.h>

typedef long long size;

/* Equations, their Jacobian by columns, and what follows from the unknowns, all where `evaluate` leaves them. */
typedef struct {
  void (*evaluate)(void);
  size n, velocities, following;
  const double *equations, *jacobian, *follows;
  double *unknowns;
  double tolerance, rounding, least_share;
  size most;
  double left;
} problem;

static double largest(size n, const double *x) {
  double most = 0;
  for (size i = 0; i < n; ++i) {
    double here = fabs(x[i]);
    if (isnan(here)) return here;
    if (here > most) most = here;
  }
  return most;
}

static int all_finite(size n, const double *x) {
  for (size i = 0; i < n; ++i)
    if (!isfinite(x[i])) return 0;
  return 1;
}

static double length(size n, const double *x) {
  double sum = 0;
  for (size i = 0; i < n; ++i) sum += x[i] * x[i];
  return sqrt(sum);
}

/* The Newton step by elimination with pivots of each column; 0 if there is none. */
static int newton(const problem *p, double *matrix, double *delta) {
  size n = p->n;
  if (!all_finite(n, p->equations) || !all_finite(n * n, p->jacobian)) return 0;
  for (size i = 0; i < n * n; ++i) matrix[i] = p->jacobian[i];
  for (size i = 0; i < n; ++i) delta[i] = -p->equations[i];
  for (size c = 0; c < n; ++c) {
    double *column = matrix + c * n, swap;
    size pivot = c;
    for (size i = c + 1; i < n; ++i)
      if (fabs(column[i]) > fabs(column[pivot])) pivot = i;
    if (column[pivot] == 0) return 0;
    if (pivot != c) {
      for (size j = c; j < n; ++j) swap = matrix[j * n + c], matrix[j * n + c] = matrix[j * n + pivot], matrix[j * n + pivot] = swap;
      swap = delta[c], delta[c] = delta[pivot], delta[pivot] = swap;
    }
    for (size i = c + 1; i < n; ++i) column[i] /= column[c];
    for (size j = c + 1; j < n; ++j) {
      double *other = matrix + j * n, factor = other[c];
      if (factor)
        for (size i = c + 1; i < n; ++i) other[i] -= column[i] * factor;
    }
    for (size i = c + 1; i < n; ++i) delta[i] -= column[i] * delta[c];
  }
  for (size c = n - 1; c >= 0; --c) {
    delta[c] /= matrix[c * n + c];
    for (size i = 0; i < c; ++i) delta[i] -= matrix[c * n + i] * delta[c];
  }
  return 1;
}

/* 1 if a share of a correction is at the rounding of positions in velocities, and harmless in impulses. */
static int is_small(const problem *p, double share, const double *delta, const double *unknowns) {
  size v = p->velocities, rest = p->n - v;
  return share * largest(v, delta) <= p->tolerance * (0.1 + largest(v, unknowns)) &&
         share * largest(rest, delta + v) <= 100 * p->tolerance * (1e-3 + largest(rest, unknowns + v));
}

static void evaluate(problem *p, const double *from, double share, const double *delta) {
  for (size i = 0; i < p->n; ++i) p->unknowns[i] = from[i] + share * delta[i];
  p->evaluate();
}

/* Backtracking on the norm of the equations; 0 if no share lowers it. */
static int search(problem *p, const double *from, const double *delta) {
  double norm = length(p->n, p->equations);
  for (double share = 1; share > p->least_share; share /= 2) {
    evaluate(p, from, share, delta);
    if (is_small(p, p->rounding * share, delta, from) || length(p->n, p->equations) <= (1 - 1e-4 * share) * norm)
      return 1;
  }
  return 0;
}

/* Solves from the unknowns that stand there, with room for n (n + 2) numbers; 1 if it does not get there, `left` then
   being the residual that is left. */
EXPORT int solve_step(problem *p, double *room) {
  size n = p->n;
  double *delta = room, *from = room + n, *matrix = room + 2 * n, last = INFINITY;
  p->evaluate();
  for (size i = 0; i < p->most; ++i) {
    p->left = largest(n, p->equations);
    if (!newton(p, matrix, delta)) return 1;
    for (size j = 0; j < n; ++j) from[j] = p->unknowns[j];
    double here = largest(n, delta);
    /* Corrections that no longer shrink are rounding: positions have few digits left for h v. */
    int rounding = here > last / 2 && is_small(p, p->rounding, delta, from);
    last = here;
    if (rounding || is_small(p, 1, delta, from)) {
      evaluate(p, from, 1, delta);
      return !all_finite(p->following, p->follows);
    }
    if (!search(p, from, delta)) return 1;
  }
  return 1;
}
