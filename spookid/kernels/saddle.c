/* Symmetric indefinite block-tridiagonal systems with a border: the unknowns of a step and the multipliers of hard
   rows; see blocks.py.

   A hard row of steps k - 1 and k has its multiplier in the later step if it sees that step's unknowns, else in the
   earlier one: what it holds there is what it is eliminated with. Each step's block K is factorized with row exchanges
   of its own; X = K^-1 F with F the columns of the next step, and likewise for the border. A panel row holds K's
   factors (S vectors), and X with the border behind it (G vectors); in the place of pivots stand their inverses. F and
   X have W columns: for the `linked` unknowns of the next step that see this one, and for its multipliers. */

#include "vectors.h"

typedef struct {
  size n, t, m, columns, borders, most, links, W, S, G, V;
} Sizes;

static Sizes sizes(const size *given) {
  size W = given[6] + given[7], S = vectors(given[5]), G = vectors(W + given[4]);
  return (Sizes){given[0], given[1], given[2], given[3], given[4], given[5], given[6], W, S, G, S + G};
}

/* Where the multipliers of hard rows (count, columns, m) stand: in the later of their steps (1), the earlier (0) or
   nowhere (-1), and the place in that step's block; the sizes of the blocks (n). */
EXPORT void place_rows(const size *given, size count, const double *hard, size *later, size *slot, size *rows) {
  FLUSH;
  Sizes z = sizes(given);
  for (size k = 0; k < z.n; ++k) rows[k] = z.t;
  for (size k = 0; k < count; ++k, hard += z.columns * z.m)
    for (int pass = 1; pass >= 0; --pass)  /* late rows first: they are the first of the next block */
      for (size r = 0; r < z.m; ++r) {
        size at = k * z.m + r, from = pass ? z.t : 0, stop = pass ? 2 * z.t : z.columns - 1;
        if (pass) later[at] = -1;
        if (later[at] >= 0 || k + pass < 1) continue;
        for (size c = from; c < stop && later[at] < 0; ++c)
          if (hard[c * z.m + r] != 0.0) later[at] = pass, slot[at] = rows[k - 1 + pass]++;
      }
}

/* The place in a step's block of column c of the step before. */
static size place_of(Sizes z, const size *linked, size c) { return c < z.links ? linked[c] : z.t + c - z.links; }

/* A tile of four rows less `count` entries of each row on the left, U vectors apart, times as many rows on the right, V
   vectors apart; then, by what stands beside those entries, it is solved with four rows of L (behind them), of U (before
   them, in the place of pivots their inverses), or neither. */
typedef enum { NEITHER, LOWER, UPPER } Triangle;

INLINE void strip(lanes *at, const int w, const double *left, size U, const lanes *right, size count, size V,
                  Triangle with) {
  const double *beside = left + (with == LOWER ? count : -ROWS);
  Tile sum;
  take_tile(sum, w, at, V);
  for (size r = 0; r < count; ++r, right += V) {
    part x[GROUP * PARTS];
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      x[j] = ((const part *)right)[j];
      KEEP(x[j]);
    }
    UNROLL for (int i = 0; i < ROWS; ++i) {
      double factor = left[i * U * LANES + r];
      UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] -= factor * x[j];
    }
  }
  if (with == LOWER) {
    UNROLL for (int i = 1; i < ROWS; ++i) {
      UNROLL for (int r = 0; r < i; ++r) {
        UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] -= beside[i * U * LANES + r] * sum[r][j];
      }
    }
  } else if (with == UPPER) {
    UNROLL for (int i = ROWS - 1; i >= 0; --i) {
      UNROLL for (int j = 0; j < w * PARTS; ++j) {
        UNROLL for (int r = i + 1; r < ROWS; ++r) sum[i][j] -= beside[i * U * LANES + r] * sum[r][j];
        sum[i][j] *= beside[i * U * LANES + i];
      }
    }
  }
  put_tile(sum, w, at, V);
}

/* Tiles of `wide` vectors. */
static void strips(lanes *at, size wide, const double *left, size U, const lanes *right, size count, size V,
                   Triangle with) {
  size c = 0;
  for (; c + GROUP <= wide; c += GROUP) strip(at + c, GROUP, left, U, right + c, count, V, with);
  for (; c + PAIR <= wide; c += PAIR) strip(at + c, PAIR, left, U, right + c, count, V, with);
  for (; c < wide; ++c) strip(at + c, 1, left, U, right + c, count, V, with);
}

static double larger(double a, double b) { return a > b ? a : b; }

static void exchange(lanes *a, lanes *b, size count) {
  for (size c = 0; c < count; ++c) {
    lanes kept = a[c];
    a[c] = b[c], b[c] = kept;
  }
}

/* A pivot below this share of what stood in its column when all unknowns had been eliminated is rounding. */
#define IMPLIED 1e-13

/* Eight columns of rows `begin` to R, `high` vectors each, by columns: to and from a panel. */
static void take_columns(const lanes *panel, size R, size V, size c, lanes *columns, size high) {
  for (size i = 0; i < high * LANES; ++i) {
    const double *row = (const double *)(panel + (c * LANES + i) * V + c);
    for (size l = 0; l < LANES; ++l) ((double *)(columns + l * high))[i] = c * LANES + i < R ? row[l] : 0.0;
  }
}

static void put_columns(lanes *panel, size R, size V, size c, const lanes *columns, size high) {
  for (size i = 0; c * LANES + i < R; ++i) {
    double *row = (double *)(panel + (c * LANES + i) * V + c);
    for (size l = 0; l < LANES; ++l) row[l] = ((const double *)(columns + l * high))[i];
  }
}

/* The row from p on that has the least in columns from p to R. */
static size emptiest(const lanes *panel, size R, size V, size p) {
  size found = p;
  double least = INFINITY;
  for (size i = p; i < R; ++i) {
    double largest = 0.0;
    for (size c = p; c < R; ++c) largest = larger(largest, fabs(((double *)(panel + i * V))[c]));
    if (largest < least) least = largest, found = i;
  }
  return found;
}

/* A column becomes the factors of a pivot in row p, and those behind it, up to the eighth, lose their share. */
static void eliminate_column(lanes *columns, size high, size p, double inverse) {
  lanes *column = columns + p * high;
  double row[LANES];
  for (size l = p + 1; l < LANES; ++l) row[l] = ((double *)(columns + l * high))[p];
  for (size v = 0; v < high * PARTS; ++v) {
    part *own = (part *)column + v, factor = *own * inverse;
    if (v < PARTS) {  /* the pivot's row is among these */
      choice below = (choice)(((const choice *)COUNT)[v] > p);
      factor = PICK(below, factor, (part){0});
      *own = PICK(below, factor, *own);
    } else {
      *own = factor;
    }
    for (size l = p + 1; l < LANES; ++l) ((part *)(columns + l * high))[v] -= factor * row[l];
  }
  ((double *)column)[p] = inverse;
}

/* Eight columns of a panel of R rows, all of whose vectors follow the exchanges; false if an unknown of the t first has
   no pivot. A multiplier without one is that of a row that others imply: it is zero, and the emptiest row is left out. */
static int columns_of(lanes *panel, size R, size V, size t, size c, size width, int *order) {
  const size begin = c * LANES, high = vectors(R - begin), marked = begin < t ? t : begin;
  lanes columns[LANES * high];
  double scale[LANES], largest;
  take_columns(panel, R, V, c, columns, high);
  for (size p = 0; p < width; ++p) {
    size at = begin + p, best = largest_in(columns + p * high, high, p, &largest);
    if (at == marked)
      for (size q = p; q < width; ++q) {
        largest_in(columns + q * high, high, p, scale + q);
        for (size i = t; i < begin; ++i) scale[q] = larger(scale[q], fabs(((double *)(panel + i * V + c))[q]));
      }
    int implied = at >= t && !(largest > IMPLIED * scale[p]);
    if (!(largest > 0.0) && at < t) return 0;
    if (implied) {
      put_columns(panel, R, V, c, columns, high);
      best = emptiest(panel, R, V, at) - begin;
    }
    order[at] = begin + best;
    if (best != p) {
      exchange(panel + at * V, panel + (begin + best) * V, V);
      for (size l = 0; l < LANES; ++l) {
        double *column = (double *)(columns + l * high), kept = column[p];
        column[p] = column[best], column[best] = kept;
      }
    }
    eliminate_column(columns, high, p, implied ? 0.0 : 1.0 / ((double *)(columns + p * high))[p]);
  }
  put_columns(panel, R, V, c, columns, high);
  return 1;
}

/* U^-1 x in place, for `wide` vectors of columns in rows that are `apart` vectors apart, by a panel's factors. */
static void substitute_back(const lanes *panel, size R, size V, lanes *x, size wide, size apart) {
  for (size end = R; end > 0; end -= ROWS) {
    const double *left = (double *)(panel + (end - ROWS) * V) + end;
    strips(x + (end - ROWS) * apart, wide, left, V, x + end * apart, R - end, apart, UPPER);
  }
}

/* K^-1 x in place, likewise. */
static void solve_rows(const lanes *panel, size R, size V, const int *order, lanes *x, size wide) {
  for (size i = 0; i < R; ++i)
    if (order[i] != i) exchange(x + i * wide, x + order[i] * wide, wide);
  for (size i = 0; i < R; i += ROWS)
    strips(x + i * wide, wide, (double *)(panel + i * V), V, x, i, wide, LOWER);
  substitute_back(panel, R, V, x, wide, wide);
}

/* Memory that the next step takes, some vectors of each called for whenever this step's work allows. */
typedef struct {
  const lanes *panel;
  const double *band, *hard;
  size panels, bands, hards;
} ahead;

#define CALLED 12

static void call_for(ahead *next) {
  for (size i = 0; i < CALLED && next->panels; ++i, --next->panels) __builtin_prefetch(next->panel++, 1, 2);
  for (size i = 0; i < CALLED && next->bands; ++i, --next->bands, next->band += LANES)
    __builtin_prefetch(next->band, 0, 2);
  for (size i = 0; i < CALLED && next->hards; ++i, --next->hards, next->hard += LANES)
    __builtin_prefetch(next->hard, 0, 2);
}

/* LU of a panel's first R columns, and K^-1 times what stands behind its first S vectors. */
static int solve_panel(lanes *panel, size R, size S, size V, size t, int *order, ahead *next) {
  for (size c = 0; c * LANES < R; ++c) {
    size begin = c * LANES, width = R - begin < LANES ? R - begin : LANES, right = c + 1;
    if (!columns_of(panel, R, V, t, c, width, order)) return 0;
    for (size i = begin; i < R; i += ROWS) {
      call_for(next);
      int within = i < begin + width;
      strips(panel + i * V + right, V - right, (double *)(panel + i * V) + begin, V, panel + begin * V + right,
             within ? i - begin : width, V, within ? LOWER : NEITHER);
    }
  }
  substitute_back(panel, R, V, panel + S, V - S, V);
  return 1;
}

/* One hard row's derivatives and value into a block: at q, by its columns from `from` on. */
static void add_row(lanes *panel, Sizes z, size q, const double *hard, size r, size from, double compliance) {
  double *row = (double *)(panel + q * z.V), *border = row + z.S * LANES + z.W;
  row[q] -= compliance;
  for (size i = 0; i < z.t; ++i) {
    double value = hard[(from + i) * z.m + r];
    row[i] += value;
    ((double *)(panel + i * z.V))[q] += value;
  }
  for (size c = 0; c < z.borders; ++c) border[c] += hard[(2 * z.t + c) * z.m + r];
}

INLINE void add(double *to, const double *from, size count) {
  size j = 0;
  for (; j + LANES <= count; j += LANES) *(loose *)(to + j) += *(const loose *)(from + j);
  for (; j < count; ++j) to[j] += from[j];
}

/* What the last step leaves, in the upper triangle of its columns, and the soft rows of this one. */
static void add_soft(lanes *panel, Sizes z, size k, size reached, const double *band, const double *damping,
                     const double *border, const size *linked, const lanes *carry) {
  int first = z.links && linked[z.links - 1] == z.links - 1;  /* the linked ones are the first, all of them */
  for (size a = 0; a < reached; ++a) {
    size i = place_of(z, linked, a);
    double *row = (double *)(panel + i * z.V);
    const double *left = (double *)(carry + a * z.G);
    if (first && a < z.links) memcpy(row + a, left + a, (z.links - a) * sizeof(double));
    for (size c = a; !first && c < z.links; ++c) row[linked[c]] = left[c];
    for (size c = a < z.links ? z.links : a; c < reached; ++c) {
      size j = z.t + c - z.links;
      row[j] = ((double *)(panel + j * z.V))[i] = left[c];
    }
    memcpy(row + z.S * LANES + z.W, left + z.W, z.borders * sizeof(double));
  }
  for (size i = 0; i < z.t; ++i) {
    double *row = (double *)(panel + i * z.V);
    const double *from = band + (k * z.t + i) * 2 * z.t;
    row[i] += damping[k * z.t + i];
    add(row + i, from, z.t - i);
    for (size j = 0; j < i; ++j) row[j] = ((double *)(panel + j * z.V))[i];
    const double *next = from + z.t - i;
    if (first)
      memcpy(row + z.S * LANES, next, z.links * sizeof(double));
    else
      for (size c = 0; c < z.links; ++c) row[z.S * LANES + c] = next[linked[c]];
    for (size c = 0; c < z.borders; ++c) row[z.S * LANES + z.W + c] += border[(c * z.n + k) * z.t + i];
  }
}

/* to (four rows that are `apart` vectors apart) less left' right. */
INLINE void gram(lanes *to, size apart, const int w, int fresh, const double *left, size U, const lanes *right, size V,
                 size count) {
  Tile sum = {{{0}}};
  if (!fresh) take_tile(sum, w, to, apart);
  subtract(sum, w, left, U, right, V, count);
  put_tile(sum, w, to, apart);
}

/* Four rows of `wide` vectors less left' right, afresh or from what is there. */
static void grams(lanes *to, size apart, size wide, int fresh, const double *left, size U, const lanes *right, size V,
                  size count) {
  size c = 0;
  for (; c + GROUP <= wide; c += GROUP) gram(to + c, apart, GROUP, fresh, left, U, right + c, V, count);
  for (; c < wide; ++c) gram(to + c, apart, 1, fresh, left, U, right + c, V, count);
}

/* The upper triangles of carry = -F' [X | border's] and of the corner, of which as much is taken; F and the border as
   they were before. */
static void leave(const lanes *before, const lanes *panel, Sizes z, size R, lanes *carry, lanes *corner) {
  for (size a = 0; a < z.W; a += ROWS) {
    size c = a / LANES;
    grams(carry + a * z.G + c, z.G, z.G - c, 1, (double *)before + a, z.G, panel + z.S + c, z.V, padded(z.t));
  }
  for (size a = 0; a < z.borders; a += ROWS) {
    size c = (z.W + a) / LANES;
    grams(corner + a * z.G + c, z.G, z.G - c, 0, (double *)before + z.W + a, z.G, panel + z.S + c, z.V, R);
  }
}

/* Factors (n, most, V) with row exchanges (n, most), and the border's products through the inverse, subtracted from the
   upper half of a corner (G vectors a row, the border's from column W on); 0, the number of the first step without a
   pivot, or -1 if there is no memory. Of the multipliers' diagonal (count, m) as much is taken as `compliance` says. */
EXPORT size factorize_saddle(const size *given, size count, const double *band, const double *damping,
                             const double *border, const double *hard, const double *compliance, const size *later,
                             const size *slot, const size *rows, const size *linked, lanes *factor, int *order,
                             lanes *corner) {
  FLUSH;
  Sizes z = sizes(given);
  size reached = 0, entries = z.columns * z.m;
  lanes *carry = allocate(((padded(z.W) + z.most) * z.G + 1) * sizeof(lanes));
  if (!carry) return -1;
  lanes *before = carry + padded(z.W) * z.G;
  for (size k = 0; k < z.n; ++k, hard += entries, compliance += z.m, later += z.m, slot += z.m) {
    lanes *panel = factor + k * z.most * z.V;
    size R = padded(rows[k]), next = 0, more = k + 1 < count;
    memset(panel, 0, z.most * z.V * sizeof(lanes));
    add_soft(panel, z, k, reached, band, damping, border, linked, carry);
    for (size i = rows[k]; i < R; ++i) ((double *)(panel + i * z.V))[i] = 1.0;
    for (size r = 0; k < count && r < z.m; ++r)
      if (later[r] == 1) add_row(panel, z, slot[r], hard, r, z.t, compliance[r]);
    for (size r = z.m; more && r < 2 * z.m; ++r) {
      const double *from = hard + entries - z.m;
      if (later[r] == 0) add_row(panel, z, slot[r], from, r, 0, compliance[r]);
      if (later[r] != 1) continue;
      ++next;
      for (size i = 0; i < z.t; ++i)
        ((double *)(panel + i * z.V + z.S))[z.links + slot[r] - z.t] = from[i * z.m + r];
    }
    for (size i = 0; i < R; ++i) memcpy(before + i * z.G, panel + i * z.V + z.S, z.G * sizeof(lanes));
    ahead coming = {panel + z.most * z.V, band + (k + 1) * 2 * z.t * z.t, hard + entries,
                    (k + 1 < z.n) * z.most * z.V, (k + 1 < z.n) * vectors(2 * z.t * z.t), more * vectors(entries)};
    if (!solve_panel(panel, R, z.S, z.V, z.t, order + k * z.most, &coming)) {
      release(carry);
      return k + 1;
    }
    leave(before, panel, z, R, carry, corner);
    reached = z.links + next;
  }
  release(carry);
  return 0;
}

#include "saddle_solves.c"
