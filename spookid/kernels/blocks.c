/* Cholesky of a block-tridiagonal matrix with a border, and substitutions with its factor; see blocks.py.

   A step's rows are worked on as a panel of vectors: T for the step's own columns, T for those of the next step, B for
   the border. Rows are padded to a multiple of four, columns to whole vectors. What is done goes back to where the
   matrix was, so that a factor needs no room of its own. */

#include "panels.h"

/* The rows of one step of H + damping D as given. */
static void fill(lanes *panel, size n, size t, size borders, size k, const double *band, const double *diagonal,
                 double damping, const double *border) {
  size T = vectors(t), V = 2 * T + vectors(borders);
  memset(panel, 0, padded(t) * V * sizeof(lanes));
  for (size i = 0; i < t; ++i) {
    double *row = (double *)(panel + i * V), scale = diagonal[k * t + i];
    const double *from = band + (k * t + i) * 2 * t;
    memcpy(row + i, from, (t - i) * sizeof(double));
    memcpy(row + T * LANES, from + t - i, t * sizeof(double));
    row[i] = scale == 0.0 ? 1.0 : row[i] + damping * scale;
    for (size c = 0; c < borders; ++c) row[2 * T * LANES + c] = border[(c * n + k) * t + i];
  }
  for (size i = t; i < padded(t); ++i) ((double *)(panel + i * V))[i] = 1.0;
}

/* The rows of one step's factor, put where those of the matrix were. */
static void keep(const lanes *panel, size n, size t, size borders, size k, double *band, double *border) {
  size T = vectors(t), V = 2 * T + vectors(borders);
  for (size i = 0; i < t; ++i) {
    const double *row = (const double *)(panel + i * V);
    double *to = band + (k * t + i) * 2 * t;
    memcpy(to, row + i, (t - i) * sizeof(double));
    memcpy(to + t - i, row + T * LANES, t * sizeof(double));
    for (size c = 0; c < borders; ++c) border[(c * n + k) * t + i] = row[2 * T * LANES + c];
  }
}

/* The factor of H + damping D in the place of its band, with the inverse of the diagonal, and L^-1 border in the place
   of the border; the border's products with itself through the inverse, subtracted from the upper half of a corner
   (B vectors' numbers, B). 0, or the number of the first pivot that is not positive. `room` is for two panels. */
EXPORT size eliminate_along(size n, size t, size borders, double *band, const double *diagonal, double damping,
                            double *border, lanes *room, lanes *corner) {
  FLUSH;
  size T = vectors(t), B = vectors(borders), V = 2 * T + B, rows = padded(t), whole = rows * V;
  Product none = {0, 0, 0};
  for (size k = 0; k < n; ++k) {
    lanes *panel = room + k % 2 * whole, *last = room + (k + 1) % 2 * whole;
    fill(panel, n, t, borders, k, band, diagonal, damping, border);
    for (size i = 0; i < rows; i += ROWS) {
      lanes *at = panel + i * V;
      size first = i / LANES;
      Corner u;
      Product past = {(double *)(last + T) + i, last + T + first, k ? rows : 0};
      Product own = {(double *)panel + i, panel + first, i};
      tiles(at + first, T - first, V, past, own, 0);
      int bad = pivots(at, V, i, &u);
      if (bad) return k * t + i + bad;
      tiles(at + first, T - first, V, none, none, &u);
      own.right = panel + T;
      tiles(at + T, T, V, none, own, &u);
      past.right = last + 2 * T, own.right = panel + 2 * T;
      tiles(at + 2 * T, B, V, past, own, &u);
      for (int a = 0; a < ROWS; ++a) ((double *)(at + a * V))[i + a] = u.inverse[a];
    }
    for (size c = 0; c < borders; c += ROWS) {
      Product own = {(double *)(panel + 2 * T) + c, panel + 2 * T + c / LANES, rows};
      for (size j = c / LANES; j < B; ++j, ++own.right) {
        Tile sum;
        take_tile(sum, 1, corner + c * B + j, B);
        subtract(sum, 1, own.left, V, own.right, V, rows);
        put_tile(sum, 1, corner + c * B + j, B);
      }
    }
    keep(panel, n, t, borders, k, band, border);
  }
  return 0;
}

/* Some numbers that will be needed soon, brought to the cache: a processor does not foresee that it goes backwards. */
INLINE void fetch(const double *from, size count) {
  for (size i = 0; i < count; i += 8) __builtin_prefetch(from + i);
}

INLINE double dot(const double *a, const double *b, size count) {
  lanes whole = ZERO;
  part sum[PARTS] = {{0}};
  size i = 0;
  for (; i + LANES <= count; i += LANES)
    UNROLL for (int j = 0; j < PARTS; ++j) sum[j] += ((const loose_part *)(a + i))[j] * ((const loose_part *)(b + i))[j];
  memcpy(&whole, sum, sizeof whole);
  double rest = total(whole);
  for (; i < count; ++i) rest += a[i] * b[i];
  return rest;
}

/* to -= factor from */
INLINE void take(double *to, double factor, const double *from, size count) {
  size i = 0;
  for (; i + LANES <= count; i += LANES)
    UNROLL for (int j = 0; j < PARTS; ++j) ((loose_part *)(to + i))[j] -= factor * ((const loose_part *)(from + i))[j];
  for (; i < count; ++i) to[i] -= factor * from[i];
}

/* y = L^-1 right, (n, t), and Y'y, (borders), with Y = L^-1 border. */
EXPORT void forward_blocks(size n, size t, size borders, const double *factor, const double *border,
                           const double *right, double *out, double *pulled) {
  FLUSH;
  double rest[2 * t];
  memset(rest, 0, sizeof rest);
  memset(pulled, 0, borders * sizeof(double));
  for (size k = 0; k < n; ++k, right += t, out += t) {
    memcpy(rest, rest + t, t * sizeof(double));
    memset(rest + t, 0, t * sizeof(double));
    for (size i = 0; i < t; ++i, factor += 2 * t) {
      out[i] = (rest[i] + right[i]) * factor[0];
      take(rest + i + 1, out[i], factor + 1, 2 * t - i - 1);
    }
    for (size c = 0; c < borders; ++c) pulled[c] += dot(out, border + (c * n + k) * t, t);
  }
}

/* x (n, t) of L' x = -(half + Y move); half (n, t), or the last column of Y if it is not given. */
EXPORT void backward_blocks(size n, size t, size borders, const double *factor, const double *border,
                            const double *half, const double *move, double *out) {
  FLUSH;
  double known[2 * t];
  memset(known, 0, sizeof known);
  if (!half) half = border + (borders - 1) * n * t;
  for (size k = n - 1; k >= 0; --k) {
    size before = k ? k - 1 : 0;
    memcpy(known + t, known, t * sizeof(double));
    for (size i = 0; i < t; ++i) known[i] = -half[k * t + i];
    for (size c = 0; c < borders - 1; ++c) {
      fetch(border + (c * n + before) * t, t);
      take(known, move[c], border + (c * n + k) * t, t);
    }
    for (size end = t; end > 0;) {  /* what is known before of four rows at once, then the four by one another */
      size h = end < ROWS ? end : ROWS, first = end - h;
      const double *row = factor + (k * t + first) * 2 * t;
      double sum[ROWS] = {0};
      fetch(factor + (before * t + first) * 2 * t, h * 2 * t);
      if (h == ROWS)
        UNROLL for (size a = 0; a < ROWS; ++a) sum[a] = dot(row + a * 2 * t + ROWS - a, known + end, 2 * t - end);
      else
        for (size a = 0; a < h; ++a) sum[a] = dot(row + a * 2 * t + h - a, known + end, 2 * t - end);
      for (size a = h - 1; a >= 0; --a) {
        const double *own = row + a * 2 * t;
        double value = known[first + a] - sum[a];
        for (size b = a + 1; b < h; ++b) value -= own[b - a] * known[first + b];
        known[first + a] = value * own[0];
      }
      end = first;
    }
    memcpy(out + k * t, known, t * sizeof(double));
  }
}

/* Vectors of several right-hand sides that are worked on at once. */
#define WIDE (GROUP > 1 ? 2 : 1)

typedef part Several[ROWS][WIDE * PARTS];

/* What is taken from rows of right-hand sides: `count` other rows, times entries of the factor. */
typedef struct {
  const double *left;
  size across, along;
  const lanes *right;
  size count;
} Part;

INLINE void take_part(Several sum, const int h, const int w, size V, Part of) {
  for (size r = 0; r < of.count; ++r, of.left += of.along, of.right += V) {
    UNROLL for (int i = 0; i < h; ++i) {
      UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] -= of.left[i * of.across] * ((const part *)of.right)[j];
    }
  }
}

/* h rows and w vectors less two parts, and solved with the h rows and columns of the factor at `corner`, whose rows are
   `apart` numbers apart: from the first on, by its transpose, or from the last on. */
INLINE void settle(lanes *at, const int h, const int w, const int first, size V, Part one, Part two,
                   const double *corner, size apart) {
  Several sum;
  UNROLL for (int i = 0; i < h; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] = ((part *)(at + i * V))[j];
  }
  take_part(sum, h, w, V, one);
  take_part(sum, h, w, V, two);
  UNROLL for (int step = 0; step < h; ++step) {
    const int i = first ? step : h - 1 - step;
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      UNROLL for (int s = 0; s < step; ++s) {
        const int r = first ? s : h - 1 - s;
        sum[i][j] -= corner[first ? r * apart + i : i * apart + r] * sum[r][j];
      }
      ((part *)(at + i * V))[j] = sum[i][j] *= corner[i * apart + i];
    }
  }
}

INLINE void settle_rows(lanes *at, const int h, const int first, size V, Part one, Part two, const double *corner,
                        size apart) {
  size c = 0;
  for (; c + WIDE <= V; c += WIDE, one.right += WIDE, two.right += WIDE)
    settle(at + c, h, WIDE, first, V, one, two, corner, apart);
  for (; c < V; ++c, ++one.right, ++two.right) settle(at + c, h, 1, first, V, one, two, corner, apart);
}

static void take_in(lanes *to, size V, const double *from, size rows, size m) {
  memset(to, 0, rows * V * sizeof(lanes));
  for (size i = 0; i < rows; ++i) memcpy(to + i * V, from + i * m, m * sizeof(double));
}

static void give_back(double *to, const lanes *from, size V, size rows, size m) {
  for (size i = 0; i < rows; ++i) memcpy(to + i * m, from + i * V, m * sizeof(double));
}

/* x = L^-1 x, (n, t, m). A step's rows of the factor are those of a matrix whose rows are 2 t - 1 numbers apart, with
   the columns of the next step behind its own. `room` is for two steps. */
EXPORT void forward_columns(size n, size t, size m, const double *factor, double *x, lanes *room) {
  FLUSH;
  size V = vectors(m), apart = 2 * t - 1;
  for (size k = 0; k < n; ++k, factor += 2 * t * t, x += t * m) {
    lanes *here = room + k % 2 * t * V, *last = room + (k + 1) % 2 * t * V;
    take_in(here, V, x, t, m);
    for (size i = 0; i < t;) {
      Part past = {k ? factor - 2 * t * t + t + i : 0, 1, apart, last, k ? t : 0}, own = {factor + i, 1, apart, here, i};
      const double *corner = factor + i * apart + i;
      if (t - i >= ROWS)
        settle_rows(here + i * V, ROWS, 1, V, past, own, corner, apart), i += ROWS;
      else
        settle_rows(here + i * V, 1, 1, V, past, own, corner, apart), i += 1;
    }
    give_back(x, here, V, t, m);
  }
}

/* x = L^-T x, likewise. */
EXPORT void backward_columns(size n, size t, size m, const double *factor, double *x, lanes *room) {
  FLUSH;
  size V = vectors(m), apart = 2 * t - 1;
  for (size k = n - 1; k >= 0; --k) {
    const double *at = factor + k * 2 * t * t;
    lanes *here = room + k % 2 * t * V, *next = room + (k + 1) % 2 * t * V;
    take_in(here, V, x + k * t * m, t, m);
    for (size i = t; i > 0;) {
      size h = i % ROWS ? 1 : ROWS, done = i;
      const double *row = at + (i -= h) * apart;
      Part own = {row + done, apart, 1, here + done * V, t - done}, later = {row + t, apart, 1, next, k + 1 < n ? t : 0};
      if (h == ROWS)
        settle_rows(here + i * V, ROWS, 0, V, later, own, row + i, apart);
      else
        settle_rows(here + i * V, 1, 0, V, later, own, row + i, apart);
    }
    give_back(x + k * t * m, here, V, t, m);
  }
}
