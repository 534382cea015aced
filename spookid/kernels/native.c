/* Small linear algebra, the same for every step of a horizon, eight steps at once; see native.py. */

#include "along.h"

/* Inverses of n matrices (t, t), by elimination with pivots of each column, and the logarithms of the magnitudes of
   their determinants: -inf, and an inverse of no meaning, of a singular one. */
EXPORT int invert_along(size n, size t, const double *matrices, double *inverses, double *logarithms) {
  double *A = malloc((t * t + 1) * sizeof(double));
  if (!A) return 1;
  for (size k = 0; k < n; ++k, matrices += t * t, inverses += t * t) {
    double determinant = 1.0, sum = 0.0;
    memcpy(A, matrices, t * t * sizeof(double));
    for (size i = 0; i < t * t; ++i) inverses[i] = i % (t + 1) == 0;
    for (size c = 0; c < t; ++c) {
      size pivot = c;
      for (size i = c + 1; i < t; ++i)
        if (fabs(A[i * t + c]) > fabs(A[pivot * t + c])) pivot = i;
      for (size j = 0; j < t && pivot != c; ++j) {
        double swap = A[c * t + j], other = inverses[c * t + j];
        A[c * t + j] = A[pivot * t + j], A[pivot * t + j] = swap;
        inverses[c * t + j] = inverses[pivot * t + j], inverses[pivot * t + j] = other;
      }
      double own = A[c * t + c], inverse = 1.0 / own;
      determinant *= fabs(own);
      if (own == 0.0) break;
      if (!(determinant > 1e-100 && determinant < 1e100)) sum += log(determinant), determinant = 1.0;
      for (size j = 0; j < t; ++j) A[c * t + j] *= inverse, inverses[c * t + j] *= inverse;
      for (size i = 0; i < t; ++i) {
        double factor = A[i * t + c];
        for (size j = 0; j < t && i != c; ++j) {
          A[i * t + j] -= factor * A[c * t + j];
          inverses[i * t + j] -= factor * inverses[c * t + j];
        }
      }
    }
    logarithms[k] = sum + log(determinant);
  }
  free(A);
  return 0;
}

/* Some numbers (rows, columns), transposed. */
static void turn(size rows, size columns, const double *from, double *to) {
  for (size i = 0; i < rows; ++i)
    for (size j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

/* Columns a (count, rows) times as many numbers, `apart` from one another, added to `out` in w of the rows. */
INLINE void some(const int w, size count, size rows, const double *a, const double *x, size apart, double *out) {
  double sum[LANES] = {0.0};
  for (size i = 0; i < count; ++i) {
    UNROLL for (int r = 0; r < w; ++r) sum[r] += a[i * rows + r] * x[i * apart];
  }
  for (int r = 0; r < w; ++r) out[r] += sum[r];
}

static void combine(size count, size rows, const double *a, const double *x, size apart, double *out) {
  size r = 0;
  for (; r + 8 <= rows; r += 8) some(8, count, rows, a + r, x, apart, out + r);
  for (; r + 4 <= rows; r += 4) some(4, count, rows, a + r, x, apart, out + r);
  for (; r + 2 <= rows; r += 2) some(2, count, rows, a + r, x, apart, out + r);
  for (; r < rows; ++r) some(1, count, rows, a + r, x, apart, out + r);
}

/* J times steps of the states (N, t, m): out (n, m, rows), from transposed Jacobians, `apart` numbers from one step to
   the next, whose columns are those of the steps at some offsets; and times as many others (beyond, m), if there are
   any, those of the columns behind. */
EXPORT int images_along(size n, size t, size m, size rows, size count, const size *offset, const double *matrix,
                        size apart, const double *steps, size beyond, const double *others, double *restrict out) {
  memset(out, 0, n * m * rows * sizeof(double));
  for (size k = 0; k < n; ++k, matrix += apart, out += m * rows)
    for (size j = 0; j < m; ++j) {
      for (size o = 0, next = 1; o < count; o = next++) {
        while (next < count && offset[next] == offset[next - 1] + 1) ++next;  /* steps that follow one another */
        combine((next - o) * t, rows, matrix + o * t * rows, steps + (k + offset[o]) * t * m + j, m, out + j * rows);
      }
      combine(beyond, rows, matrix + count * t * rows, others + j, m, out + j * rows);
    }
  return 0;
}

/* J' times columns (n, m, rows), added to steps of the states (N, t, m); the rest as above. */
EXPORT int pulls_along(size n, size t, size m, size rows, size count, const size *offset, const double *matrix,
                       size apart, const double *columns, double *steps) {
  double *turned = malloc((m * rows + 1) * sizeof(double));
  if (!turned) return 1;
  for (size k = 0; k < n; ++k, matrix += apart, columns += m * rows) {
    const double *a = matrix;
    turn(m, rows, columns, turned);
    for (size o = 0; o < count; ++o) {
      double *x = steps + (k + offset[o]) * t * m;
      for (size i = 0; i < t; ++i, a += rows, x += m)
        for (size r = 0; r < rows; ++r)
          for (size j = 0; a[r] && j < m; ++j) x[j] += a[r] * turned[r * m + j];
    }
  }
  free(turned);
  return 0;
}

/* True if an entry of J (count) that was zero so far is not; it is then set in `seen`. Zeros of both signs are alike. */
static int grown(const lanes *J, size count, unsigned long long *seen) {
  choice found[PARTS] = {{0}};
  for (size i = 0; i < count; ++i) {
    const choice *bits = (const choice *)(J + i), old = (choice){0} + (long long)seen[i];
    UNROLL for (int p = 0; p < PARTS; ++p) found[p] |= (bits[p] << 1) & ~old;
  }
  masks all;
  memcpy(&all, found, sizeof all);
  if (!any(all)) return 0;
  for (size i = 0; i < count; ++i)
    if (any((masks)J[i] << 1)) seen[i] = ~0ULL;
  return 1;
}

#define SIDE (LANES / PARTS)
#define HIGH 4

/* As many of the processor's vectors as each holds numbers, transposed. */
INLINE void transpose(part *x) {
#if PARTS == 1
  part a[LANES], b[LANES];
  for (int i = 0; i < LANES; i += 2) {
    a[i] = MIX(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    a[i + 1] = MIX(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < LANES; i += i % 4 ? 3 : 1) {
    b[i] = MIX(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    b[i + 2] = MIX(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = MIX(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    x[i + 4] = MIX(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#elif PARTS == 2
  part a = MIX(x[0], x[1], 0, 4, 2, 6), b = MIX(x[0], x[1], 1, 5, 3, 7);
  part c = MIX(x[2], x[3], 0, 4, 2, 6), d = MIX(x[2], x[3], 1, 5, 3, 7);
  x[0] = MIX(a, c, 0, 1, 4, 5), x[1] = MIX(b, d, 0, 1, 4, 5);
  x[2] = MIX(a, c, 2, 3, 6, 7), x[3] = MIX(b, d, 2, 3, 6, 7);
#else
  part a = MIX(x[0], x[1], 0, 2), b = MIX(x[0], x[1], 1, 3);
  x[0] = a, x[1] = b;
#endif
}

/* What `_Plan` says. A panel holds a step's Jacobian row by row, `wide` vectors each: the columns of states by their
   places, and from a new vector on those behind them. */
typedef struct {
  size wide, lines, places, tangent, width, unknowns, beyond, groups, bands, borders, corners;
  const int *group; /* a panel's vector, and the eight numbers that are in it, (groups, 9) */
  const int *tile;  /* the first of four columns, the vector of eight, and where its rows begin and end, (tiles, 4) */
  const int *line;  /* rows that have something in both */
  const int *behind; /* which of the columns behind the states stands where */
} squares;

/* Numbers of eight steps put into the panel of each. */
static void fill_panels(const squares *q, const lanes *J, lanes *panels) {
  const int *g = q->group;
  size apart = q->lines * q->wide;
  for (size n = 0; n < q->groups; ++n, g += LANES + 1)
    for (size l = 0; l < PARTS; ++l)
      for (size i = 0; i < PARTS; ++i) {
        part x[SIDE];
        UNROLL for (int c = 0; c < SIDE; ++c) x[c] = ((const part *)(J + g[1 + i * SIDE + c]))[l];
        transpose(x);
        lanes *to = panels + l * SIDE * apart + g[0];
        UNROLL for (int c = 0; c < SIDE; ++c) ((part *)(to + c * apart))[i] = x[c];
      }
}

/* to += a row of products, of which those from `from` to `stop` belong there. */
INLINE void add_products(double *to, const part *row, size from, size stop) {
  if (from <= 0 && stop >= LANES) {
    UNROLL for (int p = 0; p < PARTS; ++p) ((loose_part *)to)[p] += row[p];
  } else {
    for (size i = from > 0 ? from : 0; i < stop && i < LANES; ++i) to[i] += ((const double *)row)[i];
  }
}

/* One step's products to its band, its border (in whole columns) and a corner. */
static void add_squares(const squares *q, const lanes *panel, double *band, double *border, double *corner) {
  const int *tile = q->tile;
  size high = (q->places + LANES - 1) / LANES, first = high * LANES, row = q->wide * LANES - first;
  for (size n = 0; n < q->bands + q->borders + q->corners; ++n, tile += 4) {
    part sum[HIGH][PARTS] = {{{0}}};
    for (int e = tile[2]; e < tile[3]; ++e) {
      const lanes *at = panel + q->line[e] * q->wide;
      const double *left = (const double *)at + tile[0];
      const part *right = (const part *)(at + tile[1]);
      UNROLL for (int a = 0; a < HIGH; ++a) {
        UNROLL for (int p = 0; p < PARTS; ++p) sum[a][p] += left[a] * right[p];
      }
    }
    size begin = tile[1] * LANES, stop = q->places - begin, c = tile[0];
    for (size a = 0; a < HIGH; ++a, ++c) {
      if (n >= q->bands + q->borders)
        add_products(corner + (c - first) * row + begin - first, sum[a], 0, LANES);
      else if (n >= q->bands && c - first < q->beyond)
        add_products(border + q->behind[c - first] * q->unknowns + begin, sum[a], 0, stop);
      else if (n < q->bands && c < q->places)
        add_products(band + c * q->width + begin - c, sum[a], c - begin, stop);
    }
  }
}

/* Products J'J of transposed Jacobians (n, count), added to bands and borders step by step, and to corners over all,
   those of every eighth step to the same of eight. The program `rows` gives the Jacobians if there is one; else they
   are in `matrix`, `step` numbers from one step to the next, all others than those at some places being zero if these
   are given. Where an entry differs from zero that is not `seen` it all ends: `done` is the number
   of steps before. The bands of the steps that are `fresh` steps ahead are cleared first, if it is not negative. */
EXPORT int products_along(size n, const program *rows, const double **first, const size *stride, const double *matrix,
                          size step, const size *place, size count,
                          unsigned long long *seen, const size *sizes, const int *const *lists, double *band, double *border, double *corner, size *done,
                          size fresh) {
  squares q = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],  sizes[5], sizes[6],
               sizes[7], sizes[8], sizes[9], sizes[10], lists[0], lists[1], lists[2], lists[3]};
  size entries = q.lines * q.wide, apart = q.tangent * q.width, s = 0;
  size row = (q.wide - (q.places + LANES - 1) / LANES) * LANES;
  lanes *taken = room(count + 1 + LANES * entries), *panels = taken + count + 1;
  evaluation e = {0};
  int failed = !taken || (rows && open_evaluation(&e, rows, first, stride, n));
  if (!failed) memset(taken + count, 0, (1 + LANES * entries) * sizeof(lanes)); /* a zero is behind all numbers */
  for (; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    lanes *J = rows ? numbers_at(&e, s, n) : taken;
    if (!rows) take(J, matrix + s * step, step, here, count, place);
    for (size i = 0; here < LANES && i < count; ++i) J[i] = PICK(COUNT < here, J[i], ZERO);
    if (grown(J, count, seen)) break;
    fill_panels(&q, J, panels);
    for (size l = 0; l < here; ++l) {
      double *at = band + (s + l) * apart;
      for (size i = 0; fresh >= 0 && i < q.tangent; ++i) /* longer ones do not stay in the nearest cache */
        memset(at + fresh * apart + i * q.width, 0, q.width * sizeof(double));
      add_squares(&q, panels + l * entries, at, border + (s + l) * q.tangent, corner + l * row * row);
    }
  }
  *done = s < n ? s : n;
  close_evaluation(&e);
  release(taken);
  return failed;
}
