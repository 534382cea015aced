/* Sparse matrices of one pattern at every step: their factors, and products with them, eight steps at once; see
   reflections.py and condensing.py. */

#include "along.h"

#define TILE 4

/* What ``Reflections`` says of T (m, k), entries of it and of what fills in numbered from 0 on. The reflection j turns
   rows[j] of T, the first of which is a row of R; `entry` are those of its own column there, `other` those of every
   column to come that it changes, `count` at a time. Above the diagonal of R column j has `above`, in the rows of R of
   earlier reflections, `before`. */
typedef struct {
  size m, k, entries, numbers, left;
  const int *number, *place;                 /* a kernel's numbers, and the entries that they are, (numbers) */
  const int *residual;                       /* the numbers of the residual */
  const int *column;                         /* of T, by reflection, (k) */
  const int *begin, *row, *entry;            /* (k + 1), and lists */
  const int *changed, *other;                /* (k + 1) in columns, and a list */
  const int *over, *before, *above;          /* (k + 1), and lists */
  const int *free, *low, *high;              /* rows that are not R's, (left); columns of the null space, (k) */
  const int *at;                             /* where the changed columns' entries begin, (k) */
  const int *origin;                         /* row and column of T of each of the numbers, (numbers, 2) */
} plan;

static plan plan_of(const size *sizes, const int *const *lists) {
  return (plan){sizes[0], sizes[1], sizes[2], sizes[3], sizes[0] - sizes[1], lists[0],  lists[1],  lists[2],
                lists[3], lists[4], lists[5], lists[6], lists[7],            lists[8],  lists[9],  lists[10],
                lists[11], lists[12], lists[13], lists[14], lists[15], lists[16]};
}

static void choose(lanes *to, const lanes *J, size count, const int *which) {
  for (size i = 0; i < count; ++i) to[i] = J[which[i]];
}

static void put(const lanes *x, double *out, size stride, size here, size count, size step) {
  for (size l = 0; l < here; ++l)
    for (size i = 0; i < count; ++i) out[l * stride + i * step] = x[i][l];
}

/* start and the products of entries of a and b in two lists; those of b are `apart`. */
INLINE lanes along(lanes start, const lanes *a, const int *i, const lanes *b, const int *j, size apart, size count) {
  part sum[PARTS];
  memcpy(sum, &start, sizeof sum);
  for (size n = 0; n < count; ++n) {
    const part *left = (const part *)(a + i[n]), *right = (const part *)(b + j[n] * apart);
    UNROLL for (int p = 0; p < PARTS; ++p) sum[p] += left[p] * right[p];
  }
  memcpy(&start, sum, sizeof sum);
  return start;
}

/* b[j] -= a[i] factor, likewise. */
INLINE void less(lanes *b, const int *j, size apart, const lanes *a, const int *i, lanes factor, size count) {
  part times[PARTS];
  memcpy(times, &factor, sizeof times);
  for (size n = 0; n < count; ++n) {
    const part *from = (const part *)(a + i[n]);
    part *to = (part *)(b + j[n] * apart);
    UNROLL for (int p = 0; p < PARTS; ++p) to[p] -= from[p] * times[p];
  }
}

/* Householder's triangular factor of the entries of T, in place: reflections as LAPACK's dgeqr2 leaves them. */
static void factorize(const plan *p, const lanes *J, lanes *T, lanes *tau) {
  for (size i = 0; i < p->entries; ++i) T[i] = ZERO;
  for (size i = 0; i < p->numbers; ++i) T[p->place[i]] = J[p->number[i]];
  for (size j = 0; j < p->k; ++j) {
    const int *e = p->entry + p->begin[j], *o = p->other + p->at[j];
    size count = p->begin[j + 1] - p->begin[j];
    lanes below = along(ZERO, T, e + 1, T, e + 1, 1, count - 1), alpha = T[e[0]], norm;
    norm = alpha * alpha + below;
    for (int l = 0; l < LANES; ++l) norm[l] = sqrt(norm[l]);
    masks none = below == 0.0;
    lanes beta = PICK(alpha < 0.0, norm, -norm);
    beta = PICK(none, alpha, beta);
    tau[j] = PICK(none, ZERO, (beta - alpha) / beta);
    lanes scale = PICK(none, ZERO, 1.0 / (alpha - beta));
    for (size i = 1; i < count; ++i) T[e[i]] *= scale;
    T[e[0]] = beta;
    for (size c = p->changed[j]; c < p->changed[j + 1]; ++c, o += count) {
      lanes sum = along(T[o[0]], T, e + 1, T, o + 1, 1, count - 1) * tau[j];
      T[o[0]] -= sum;
      less(T, o + 1, 1, T, e + 1, sum, count - 1);
    }
  }
}

/* 1 if a row of R is empty at some of the steps, as that of a contact which is open there, and was mixed with others;
   `size_of_row` (m) is room. */
static int is_mixed(const plan *p, const lanes *J, const lanes *tau, lanes *size_of_row) {
  masks mixed = {0};
  for (size i = 0; i < p->m; ++i) size_of_row[i] = ZERO;
  for (size i = 0; i < p->numbers; ++i) size_of_row[p->origin[2 * i]] += J[p->number[i]] * J[p->number[i]];
  for (size j = 0; j < p->k; ++j) mixed |= (size_of_row[p->row[p->begin[j]]] == 0.0) & (tau[j] != 0.0);
  return any(mixed);
}

static void reflect(const plan *p, const lanes *T, const lanes *tau, size j, lanes *x) {
  const int *e = p->entry + p->begin[j], *r = p->row + p->begin[j];
  size count = p->begin[j + 1] - p->begin[j];
  lanes sum = along(x[r[0]], T, e + 1, x, r + 1, 1, count - 1) * tau[j];
  x[r[0]] -= sum;
  less(x, r + 1, 1, T, e + 1, sum, count - 1);
}

/* y over a pivot; 0 where that is 0, of a column that is empty there: a contact that is open has no impulse. */
static lanes over(lanes y, lanes pivot) { return PICK(pivot == 0.0, ZERO, y / pivot); }

/* x (m) = Q R^-T b (k), the shortest solution of T' x = b. */
static void shortest(const plan *p, const lanes *T, const lanes *tau, const lanes *b, lanes *x) {
  for (size i = 0; i < p->m; ++i) x[i] = ZERO;
  for (size j = 0; j < p->k; ++j) {
    lanes y = b[p->column[j]];
    for (size i = p->over[j]; i < p->over[j + 1]; ++i) y -= T[p->above[i]] * x[p->row[p->begin[p->before[i]]]];
    x[p->row[p->begin[j]]] = over(y, T[p->entry[p->begin[j]]]);
  }
  for (size j = p->k - 1; j >= 0; --j) reflect(p, T, tau, j, x);
}

/* y (k) becomes the least-squares solution of T y = x (m); x is lost. */
static void nearest(const plan *p, const lanes *T, const lanes *tau, lanes *x, lanes *y) {
  for (size j = 0; j < p->k; ++j) reflect(p, T, tau, j, x);
  for (size j = p->k - 1; j >= 0; --j) {
    lanes found = over(x[p->row[p->begin[j]]], T[p->entry[p->begin[j]]]);
    for (size i = p->over[j]; i < p->over[j + 1]; ++i) x[p->row[p->begin[p->before[i]]]] -= T[p->above[i]] * found;
    y[p->column[j]] = found;
  }
}

/* Columns that T' takes to zero, (n, m, left), of up to eight steps; N (m, left) is room. */
static void unreached(const plan *p, const lanes *T, const lanes *tau, lanes *N, double *null, size here) {
  size left = p->left;
  for (size i = 0; i < p->m * left; ++i) N[i] = ZERO;
  for (size c = 0; c < left; ++c) N[p->free[c] * left + c] += 1.0;
  for (size j = p->k - 1; j >= 0; --j) {
    const int *e = p->entry + p->begin[j], *r = p->row + p->begin[j];
    size count = p->begin[j + 1] - p->begin[j];
    for (size c = p->low[j]; c < p->high[j]; ++c) {
      lanes sum = along(ZERO, T, e + 1, N + c, r + 1, left, count - 1) * tau[j];
      N[r[0] * left + c] = -sum;  /* the row of R was untouched so far */
      less(N + c, r + 1, left, T, e + 1, sum, count - 1);
    }
  }
  put(N, null, p->m * left, here, p->m * left, 1);
}

static double largest(const lanes *a, size here, size count) {
  double found = 0.0;
  for (size l = 0; l < here; ++l)
    for (size i = 0; i < count; ++i)
      if (!(fabs(a[i][l]) <= found)) found = fabs(a[i][l]);
  return found;
}

/* States (n, ambient) moved onto a surface by Newton's method, a block of steps at a time. The program `rows` gives
   numbers of the transposed Jacobian T (wide, k), of the slopes to parameters, in whole columns of which some number is
   `slope`, and of the residual; `move` takes states and steps (tangent) in the seen columns. Left there: null
   (n, wide, wide - k) and drag (n, wide, parameters). */
EXPORT int settle_along(size n, const program *rows, const double **first, const size *stride, const program *move,
                        double *states, size ambient, size tangent, const size *seen, const size *sizes,
                        const int *const *lists, size parameters, const int *slope, size passes, const double *limits,
                        double *null, double *drag) {
  plan p = plan_of(sizes, lists);
  lanes *T = room(p.entries + 2 * p.k + p.m * (p.left + 1)), *tau = T + p.entries, *b = tau + p.k;
  lanes *x = b + p.k, *N = x + p.m;
  evaluation e, moved;
  int failed = (T == NULL) | open_evaluation(&e, rows, first, stride, n);
  size block = LANES * e.width;
  double *steps = calloc(block * tangent + 1, sizeof(double));
  const double *given[2] = {states, steps};
  const size moved_stride[] = {ambient, tangent};
  failed |= open_evaluation(&moved, move, given, moved_stride, n) | (steps == NULL);
  for (size s = 0; s < n && !failed; s += block) {
    size here = n - s < block ? n - s : block;
    given[0] = states + s * ambient;
    for (size pass = 0, last = 0;; ++pass) {
      evaluate_block(&e, s, here);
      double error = 0.0;
      for (size at = 0; at < here; at += LANES) {
        choose(b, e.numbers + at / LANES * e.apart, p.k, p.residual);
        double most = largest(b, here - at < LANES ? here - at : LANES, p.k);
        if (!(most <= error)) error = most;
      }
      if (last || pass == passes || error <= limits[0] || !isfinite(error)) break;
      for (size at = 0; at < here; at += LANES) {
        const lanes *J = e.numbers + at / LANES * e.apart;
        factorize(&p, J, T, tau);
        choose(b, J, p.k, p.residual);
        for (size i = 0; i < p.k; ++i) b[i] = -b[i];
        shortest(&p, T, tau, b, x);
        for (size i = 0; i < p.m; ++i)
          for (size l = 0; l < LANES; ++l) steps[(at + l) * tangent + seen[i]] = x[i][l];
      }
      evaluate_block(&moved, 0, here);
      for (size at = 0; at < here; at += LANES)
        put(moved.numbers + at / LANES * moved.apart, (double *)given[0] + at * ambient, ambient,
            here - at < LANES ? here - at : LANES, ambient, 1);
      last = error <= limits[1];
    }
    for (size at = 0; at < here; at += LANES) {
      const lanes *J = e.numbers + at / LANES * e.apart;
      size some = here - at < LANES ? here - at : LANES;
      factorize(&p, J, T, tau);
      unreached(&p, T, tau, N, null + (s + at) * p.m * p.left, some);
      for (size c = 0; c < parameters; ++c) {
        for (size i = 0; i < p.k; ++i) {
          int number = slope[c * p.k + i];
          b[i] = number < 0 ? ZERO : -J[number];
        }
        shortest(&p, T, tau, b, x);
        put(x, drag + (s + at) * p.m * parameters + c, p.m * parameters, some, p.m, parameters);
      }
    }
  }
  close_evaluation(&e), close_evaluation(&moved);
  free(steps);
  release(T);
  return failed;
}

/* Entries (k) of states (n, ambient) fitted by least squares, a block of steps at a time. The program `rows` gives
   numbers of transposed Jacobians T' (k, m) and residuals (m). More than one pass is for rows that are not linear. Left there: null (n, m, m - k), what the entries do not reach, and the
   residual (n, m), to first order where the last move is not followed by another pass. It all ends, `mixed` being 1,
   where empty rows would be mixed with others. */
EXPORT int fit_along(size n, const program *rows, const double **first, const size *stride, double *states,
                     size ambient, const size *entries, const size *sizes, const int *const *lists,
                     size passes, const double *still, double *null, double *residual, size *mixed) {
  plan p = plan_of(sizes, lists);
  size m = p.m, k = p.k;
  lanes *T = room(p.entries + 2 * k + m * (p.left + 2)), *tau = T + p.entries, *y = tau + k, *x = y + k;
  lanes *r = x + m, *N = r + m;
  evaluation e;
  int failed = (T == NULL) | open_evaluation(&e, rows, first, stride, n);
  size block = LANES * e.width;
  for (size s = 0; s < n && !failed && !*mixed; s += block) {
    size here = n - s < block ? n - s : block;
    for (size pass = 0, again = 1; again && !*mixed; ++pass) {
      double size_of_all = *still, size_of_move = 0.0;
      evaluate_block(&e, s, here);
      for (size at = 0; at < here; at += LANES) {
        const lanes *J = e.numbers + at / LANES * e.apart;
        size some = here - at < LANES ? here - at : LANES;
        factorize(&p, J, T, tau);
        if (is_mixed(&p, J, tau, x)) {
          *mixed = 1;
          break;
        }
        choose(r, J, m, p.residual);
        if (pass < passes) {
          for (size i = 0; i < m; ++i) x[i] = -r[i];
          nearest(&p, T, tau, x, y);
          for (size i = 0; i < k; ++i)
            for (size l = 0; l < some; ++l) {
              double *entry = states + (s + at + l) * ambient + entries[i];
              *entry += y[i][l];
              if (fabs(*entry) > size_of_all) size_of_all = fabs(*entry);
              if (fabs(y[i][l]) > size_of_move) size_of_move = fabs(y[i][l]);
            }
          for (size i = 0; i < p.numbers; ++i) {
            int row = p.origin[2 * i], column = p.origin[2 * i + 1];
            r[row] += J[p.number[i]] * y[column];
          }
        }
        put(r, residual + (s + at) * m, m, some, m, 1);
        unreached(&p, T, tau, N, null + (s + at) * m * p.left, some);
      }
      again = pass < passes && passes > 1 && size_of_move >= *still * size_of_all;
    }
  }
  close_evaluation(&e);
  release(T);
  return failed;
}

/* What `Condensation` says of a factor's Jacobian J of so many numbers. Columns of its steps, at some offsets, become
   those of a basis (wide, tangent), and what drags them adds to others; `plain` columns stay as they are. */
typedef struct {
  size rows, numbers, columns, offsets, wide, tangent, dragged, plain;
  const int *offset;                  /* (offsets) */
  const int *begin, *column, *number; /* (offsets rows + 1), and lists of a row's columns and numbers */
  const int *start, *row, *own;       /* (plain + 1), and lists of a plain column's rows and numbers */
  const int *target;                  /* its place in the result, (plain) */
  const int *follows;                 /* that of what drags, (dragged) */
} sparse;

static sparse sparse_of(const size *sizes, const int *const *lists) {
  return (sparse){sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], lists[0],
                  lists[1], lists[2], lists[3], lists[4], lists[5], lists[6], lists[7], lists[8]};
}

/* w columns of sums of products: the numbers of a row with rows of Z, `width` columns wide. */
INLINE void along_row(const int w, const lanes *J, const int *column, const int *number, size count, const lanes *Z,
                      size width, lanes *out) {
  part sum[TILE][PARTS] = {{{0}}};
  for (size e = 0; e < count; ++e) {
    const part *z = (const part *)(Z + column[e] * width), *entry = (const part *)(J + number[e]);
    UNROLL for (int i = 0; i < w; ++i) {
      UNROLL for (int p = 0; p < PARTS; ++p) sum[i][p] += entry[p] * z[i * PARTS + p];
    }
  }
  for (int i = 0; i < w; ++i) memcpy(out + i, sum[i], sizeof sum[i]);
}

/* W (rows, width) = J Z for one offset. */
static void times(const sparse *s, size offset, const lanes *J, const lanes *Z, size width, lanes *W) {
  for (size r = 0; r < s->rows; ++r) {
    size from = s->begin[offset * s->rows + r], count = s->begin[offset * s->rows + r + 1] - from, c = 0;
    const int *column = s->column + from, *number = s->number + from;
    for (; c + TILE <= width; c += TILE) along_row(TILE, J, column, number, count, Z + c, width, W + r * width + c);
    for (; c < width; ++c) along_row(1, J, column, number, count, Z + c, width, W + r * width + c);
  }
}

INLINE void across(const int a, const int b, const lanes *C, size kept, const lanes *W, size width, size rows,
                   lanes *out) {
  UNROLL for (int p = 0; p < PARTS; ++p) {
    part sum[TILE][TILE] = {{{0}}};
    const part *c = (const part *)C + p, *w = (const part *)W + p;
    for (size r = 0; r < rows; ++r, c += kept * PARTS, w += width * PARTS)
      UNROLL for (int i = 0; i < a; ++i) {
        UNROLL for (int j = 0; j < b; ++j) sum[i][j] += w[i * PARTS] * c[j * PARTS];
      }
    for (int i = 0; i < a; ++i)
      for (int j = 0; j < b; ++j) ((part *)(out + i * kept + j))[p] = sum[i][j];
  }
}

/* out (width, kept) = W' C. */
static void complemented(const lanes *C, size kept, const lanes *W, size width, size rows, lanes *out) {
  size a = 0;
  for (; a + TILE <= width; a += TILE) {
    size b = 0;
    for (; b + TILE <= kept; b += TILE) across(TILE, TILE, C + b, kept, W + a, width, rows, out + a * kept + b);
    for (; b < kept; ++b) across(TILE, 1, C + b, kept, W + a, width, rows, out + a * kept + b);
  }
  for (; a < width; ++a) {
    size b = 0;
    for (; b + TILE <= kept; b += TILE) across(1, TILE, C + b, kept, W + a, width, rows, out + a * kept + b);
    for (; b < kept; ++b) across(1, 1, C + b, kept, W + a, width, rows, out + a * kept + b);
  }
}

static void plain_columns(const sparse *p, const lanes *J, const lanes *C, size kept, lanes *out) {
  for (size c = 0; c < p->plain; ++c) {
    lanes *to = out + p->target[c] * kept;
    for (int e = p->start[c]; e < p->start[c + 1]; ++e) {
      if (!C) {
        to[p->row[e]] += J[p->own[e]];
      } else {
        for (size i = 0; i < kept; ++i) to[i] += C[p->row[e] * kept + i] * J[p->own[e]];
      }
    }
  }
}

/* Transposes of C' J Z for each offset of a factor, C' (J D + the parameters' columns) and C' r, (n, columns, kept). J
   are numbers of a program; basis Z (wide, tangent) and drag D (wide, dragged) are those of all steps of a chain, and
   complement C (rows, kept) that of the factor's; null if there is none, then `kept` are all rows. */
EXPORT int condense_along(size n, const program *rows, const double **first, const size *stride, const size *sizes,
                          const int *const *lists, const double *basis, const double *drag,
                          const double *complement, size kept, double *out) {
  sparse p = sparse_of(sizes, lists);
  size width = p.tangent > p.dragged ? p.tangent : p.dragged;
  lanes *Z = room((p.wide + p.rows) * width + (p.rows + p.columns + p.dragged) * kept);
  lanes *W = Z + p.wide * width, *C = W + p.rows * width, *sums = C + p.rows * kept;
  lanes *pulled = sums + p.columns * kept;
  evaluation e;
  int failed = (Z == NULL) | open_evaluation(&e, rows, first, stride, n);
  for (size s = 0; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    const lanes *J = numbers_at(&e, s, n);
    if (complement) take(C, complement + s * p.rows * kept, p.rows * kept, here, p.rows * kept, 0);
    for (size i = 0; i < p.columns * kept; ++i) sums[i] = ZERO;
    plain_columns(&p, J, complement ? C : NULL, kept, sums);
    for (size o = 0; o < p.offsets; ++o) {
      if (basis) {
        size count = p.wide * p.tangent;
        lanes *to = sums + o * p.tangent * kept;
        take(Z, basis + (s + p.offset[o]) * count, count, here, count, 0);
        times(&p, o, J, Z, p.tangent, W);
        if (complement) {
          complemented(C, kept, W, p.tangent, p.rows, to);
        } else {
          for (size r = 0; r < p.rows; ++r)
            for (size c = 0; c < p.tangent; ++c) to[c * kept + r] = W[r * p.tangent + c];
        }
      }
      if (p.dragged) {
        size count = p.wide * p.dragged;
        take(Z, drag + (s + p.offset[o]) * count, count, here, count, 0);
        times(&p, o, J, Z, p.dragged, W);
        if (complement) complemented(C, kept, W, p.dragged, p.rows, pulled);
        for (size c = 0; c < p.dragged; ++c)
          for (size i = 0; i < kept; ++i)
            sums[p.follows[c] * kept + i] += complement ? pulled[c * kept + i] : W[i * p.dragged + c];
      }
    }
    put(sums, out + s * p.columns * kept, p.columns * kept, here, p.columns * kept, 1);
  }
  close_evaluation(&e);
  release(Z);
  return failed;
}

/* Weights A of Jacobians J from those K (n, offsets tangent, rows) of J Z: A = Z K at the places of the numbers of J, in
   `out`, `apart` numbers a step; without a basis Z is the identity. K J of all offsets is added to products
   (N, tangent, wide). Private columns, `hidden` of them, get -P J Z K for P (n, hidden, rows). */
EXPORT int lift_along(size n, const program *rows, const double **first, const size *stride, const size *sizes,
                      const int *const *lists, const double *basis, const double *weights, const double *inverse,
                      size hidden, const size *private, const size *place, double *products, double *out, size apart) {
  sparse p = sparse_of(sizes, lists);
  size t = p.tangent, wide = p.wide * t, m = p.rows, of_all = p.offsets * t * m;
  lanes *K = room(of_all + 2 * wide + m * t + 2 * hidden * m), *Z = K + of_all, *S = Z + wide, *W = S + wide;
  lanes *P = W + m * t, *V = P + hidden * m;
  evaluation e;
  int failed = (K == NULL) | open_evaluation(&e, rows, first, stride, n);
  for (size s = 0; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    const lanes *J = numbers_at(&e, s, n);
    take(K, weights + s * of_all, of_all, here, of_all, 0);
    if (hidden) take(P, inverse + s * hidden * m, hidden * m, here, hidden * m, 0);
    for (size i = 0; i < hidden * m; ++i) V[i] = ZERO;
    for (size o = 0; o < p.offsets; ++o) {
      const lanes *own = K + o * t * m;
      if (basis) take(Z, basis + (s + p.offset[o]) * wide, wide, here, wide, 0);
      for (size i = 0; i < wide + m * t; ++i) S[i] = ZERO;
      for (size r = 0; r < m; ++r)
        for (int n_r = p.begin[o * m + r]; n_r < p.begin[o * m + r + 1]; ++n_r) {
          size c = p.column[n_r], number = p.number[n_r];
          lanes found = basis ? ZERO : own[c * m + r];
          if (!basis) W[r * t + c] = J[number];
          for (size i = 0; basis && i < t; ++i) {
            found += Z[c * t + i] * own[i * m + r];
            S[i * p.wide + c] += own[i * m + r] * J[number];
            W[r * t + i] += Z[c * t + i] * J[number];
          }
          put(&found, out + s * apart + place[number], apart, here, 1, 1);
        }
      for (size l = 0; basis && l < here; ++l) {
        double *to = products + (s + l + p.offset[o]) * wide;
        for (size i = 0; i < wide; ++i) to[i] += S[i][l];
      }
      for (size h = 0; h < hidden; ++h)
        for (size i = 0; i < t; ++i) {
          lanes sum = ZERO;
          for (size r = 0; r < m; ++r) sum += P[h * m + r] * W[r * t + i];
          for (size r = 0; r < m; ++r) V[h * m + r] -= sum * own[i * m + r];
        }
    }
    for (size h = 0; h < hidden; ++h) put(V + h * m, out + s * apart + private[h] * m, apart, here, m, 1);
  }
  close_evaluation(&e);
  release(K);
  return failed;
}
