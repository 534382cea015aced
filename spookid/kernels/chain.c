/* A chain's states and the multipliers of its hard rows eliminated in order of time; see chain.py.

   K = [H + A'A  A'; A  -e], a stage's unknowns (t) before its multipliers (m), T = t + m in all, has a border of
   parameters. Thanks to A'A every leading block of K has t positive and m negative pivots a stage, whatever rows
   determine the states: no row is ever exchanged, and K = U' s U with s = +-1. A multiplier whose pivot is rounding
   belongs to a row that others imply and is left out, its row of U zero. Of each stage T rows of U are kept, a panel
   of B numbers a row: the stage itself and the r next; on the diagonal stand the inverses of pivots. Y, the border as
   U's rows have it, stands in whole columns, of unknowns and of multipliers. The front of the r + 1 stages to come, U's
   products taken off and the border from B on, is all that going on takes. */

#include "vectors.h"

/* Part of a multiplier's pivot, before what earlier unknowns give it cancels, that is rounding. */
#define IMPLIED 1e-13

typedef struct {
  size n, group, tangent, multipliers, r, borders, unknowns, width; /* as given: `Chain.sizes` */
  size t, m, T, S, B, V, rows;
} Chain;

static size whole(size count, size of) { return (count + of - 1) / of * of; }

static Chain chain(const size *g) {
  Chain c = {g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7]};
  c.t = c.group * c.tangent, c.m = c.group * c.multipliers, c.T = c.t + c.m, c.S = (c.r + 1) * c.T;
  c.B = whole(c.S, LANES), c.V = c.B + whole(c.borders, LANES), c.rows = whole(c.T, ROWS);
  return c;
}

/* A factor's hard rows, transposed Jacobians (count, columns, rows) over steps in order of offset and the border;
   `slack` e (count, rows), or null; their multipliers stand with the last step that they see, from `at` on. */
typedef struct {
  size count, rows, offsets, at;
  const size *offset;
  const double *matrix, *slack;
} Hard;

/* --- tiles of four rows --- */

typedef part Tile[ROWS][GROUP * PARTS];

INLINE void take_tile(Tile sum, const int w, const double *from, size V) {
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      sum[i][j] = (part){0};
      if (from) sum[i][j] = ((const loose_part *)(from + i * V))[j];
    }
  }
}

INLINE void put_tile(Tile sum, const int w, double *to, size V) {
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) ((loose_part *)(to + i * V))[j] = sum[i][j];
  }
}

INLINE void negate(Tile sum, const int w) {
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] = -sum[i][j];
  }
}

/* sum -= left' right over `count` rows of V numbers; four columns of left, w vectors of right. */
INLINE void subtract(Tile sum, const int w, const double *left, const double *right, size V, size count) {
  UNROLL for (size r = 0; r < count; ++r, left += V, right += V) {
    part x[GROUP * PARTS];
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      x[j] = ((const loose_part *)right)[j];
      KEEP(x[j]);
    }
    UNROLL for (int i = 0; i < ROWS; ++i) {
      UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] -= left[i] * x[j];
    }
  }
}

/* What is taken from a tile: products of rows of U, `plus` of unknowns and behind them `minus` of multipliers. */
typedef struct {
  const double *left, *right;
  size plus, minus;
} Product;

/* Four rows of U on their diagonal: entries above it, signs, and the inverses of pivots, 0 of what is left out. */
typedef struct {
  double above[ROWS][ROWS], sign[ROWS], inverse[ROWS];
} Corner;

INLINE void tile(double *to, const double *from, const int w, size V, Product p, const Corner *u) {
  Tile sum;
  take_tile(sum, w, from, V);
  subtract(sum, w, p.left, p.right, V, p.plus);
  if (p.minus) {
    negate(sum, w);
    subtract(sum, w, p.left + p.plus * V, p.right + p.plus * V, V, p.minus);
    negate(sum, w);
  }
  UNROLL for (int i = 0; u && i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      UNROLL for (int r = 0; r < i; ++r) sum[i][j] -= u->sign[r] * u->above[r][i] * sum[r][j];
      sum[i][j] *= u->sign[i] * u->inverse[i];
    }
  }
  put_tile(sum, w, to, V);
}

/* Four rows of `count` vectors. */
static void tiles(double *to, const double *from, size V, Product p, const Corner *u, size count) {
  size c = 0;
#define STRETCH(w)                                              \
  for (; c + w <= count; c += w, p.right += w * LANES)          \
    tile(to + c * LANES, from ? from + c * LANES : from, w, V, p, u)
  STRETCH(GROUP);
  STRETCH(PAIR);
  STRETCH(1);
#undef STRETCH
}

/* --- the elimination --- */

/* U of a stage in the place of its panel; its row without a pivot, or -1. */
static size factorize(Chain z, double *p, double *logarithm) {
  const Product none = {0};
  for (size i = 0; i < z.T; i += ROWS) {
    size c = i / LANES * LANES;
    Corner u = {{{0}}};
    Product own = {p + i, p + c, i < z.t ? i : z.t, i < z.t ? 0 : i - z.t};
    double given[ROWS] = {0};
    for (size a = 0; a < ROWS && i + a < z.T; ++a) {
      if (i + a < z.t) continue;
      given[a] = -p[(i + a) * z.V + i + a];
      for (size q = 0; q < own.plus; ++q) given[a] += p[q * z.V + i + a] * p[q * z.V + i + a];
    }
    tile(p + i * z.V + c, p + i * z.V + c, 1, z.V, own, 0);
    for (size a = 0; a < ROWS && i + a < z.T; ++a) {
      int state = i + a < z.t;
      const double *from = p + (i + a) * z.V + i;
      u.sign[a] = state ? 1.0 : -1.0;
      for (size q = 0; !state && q < a && i + q < z.t; ++q) given[a] += u.above[q][a] * u.above[q][a];
      for (size b = a; b < ROWS; ++b) {
        double value = from[b];
        for (size q = 0; q < a; ++q) value -= u.sign[q] * u.above[q][a] * u.above[q][b];
        value *= u.sign[a];
        if (b > a) {
          u.above[a][b] = value * u.inverse[a];
        } else if (value > IMPLIED * given[a]) {
          u.inverse[a] = 1.0 / sqrt(value);
          *logarithm += log(value);
        } else if (state || value != value) {
          return i + a;
        }
      }
    }
    tile(p + i * z.V + c, p + i * z.V + c, 1, z.V, none, &u);
    own.right += LANES;
    tiles(p + i * z.V + c + LANES, p + i * z.V + c + LANES, z.V, own, &u, (z.V - c) / LANES - 1);
    for (size a = 0; a < ROWS; ++a) p[(i + a) * z.V + i + a] = u.inverse[a];
  }
  return -1;
}

/* Soft rows' part of stage k into the front that begins with it; without damping, 1 for unknowns that no row sees. */
static void put_soft(Chain z, size k, const double *band, const double *damping, const double *border, double *F) {
  for (size i = 0; i < z.t; ++i) {
    double *row = F + i * z.V, *to = row + i;
    size j = k * z.t + i, first = i;
    if (j >= z.unknowns) { /* of no step */
      row[i] += 1.0;
      continue;
    }
    const double *from = band + j * z.width;
    for (size q = 0, left = z.width; q <= z.r && left > 0; ++q, first = 0) { /* a stage's unknowns, then over its rest */
      size count = z.t - first < left ? z.t - first : left;
      for (size e = 0; e < count; ++e) to[e] += from[e];
      from += count, left -= count, to += count + z.m;
    }
    row[i] += damping ? damping[j] : band[j * z.width] == 0.0;
    for (size c = 0; c < z.borders; ++c) row[z.B + c] += border[c * z.unknowns + j];
  }
}

/* Hard rows into the front that begins with stage k: what its unknowns have to do with those that end there or later,
   and the border of those that end there. Where there is no row, its multiplier stands alone. */
static void put_hard(Chain z, size k, const Hard *hard, size factors, double *F) {
  unsigned char stands[z.T];
  memset(stands, 0, z.T);
  for (const Hard *f = hard; f < hard + factors; ++f) {
    size last = f->offset[f->offsets - 1], columns = f->offsets * z.tangent + z.borders;
    for (size s = 0; s < (z.r + 1) * z.group; ++s) {
      size step = k * z.group + s - last, own = s / z.group * z.T + z.t + s % z.group * z.multipliers + f->at;
      if (step < 0 || step >= f->count) continue;
      const double *from = f->matrix + step * columns * f->rows, *behind = from + f->offsets * z.tangent * f->rows;
      for (size o = 0; o < f->offsets; ++o) {
        size to = step + f->offset[o] - k * z.group;
        for (size c = 0; to >= 0 && to < z.group && c < z.tangent; ++c)
          for (size q = 0; q < f->rows; ++q)
            F[(to * z.tangent + c) * z.V + own + q] += from[(o * z.tangent + c) * f->rows + q];
      }
      for (size q = 0; s < z.group && q < f->rows; ++q) {
        double *row = F + (own + q) * z.V;
        stands[own + q] = 1;
        if (f->slack) row[own + q] -= f->slack[step * f->rows + q];
        for (size c = 0; c < z.borders; ++c) row[z.B + c] += behind[c * f->rows + q];
      }
    }
  }
  for (size i = z.t; i < z.T; ++i) F[i * z.V + i] -= !stands[i];
}

/* How many of a stage's unknowns are of steps. */
static size standing(Chain z, size k) { return z.unknowns - k * z.t < z.t ? z.unknowns - k * z.t : z.t; }

/* Y of a stage and a column of the border: `y` of its unknowns, and `n` of its multipliers. */
#define OF_BORDER(c)                                    \
  double *y = unknowns + (c) * z.unknowns + k * z.t, *n = multipliers + (c) * z.n * z.m + k * z.m; \
  size here = standing(z, k)

/* Stages from `first` to before `last`, from the front and corner where those before have left them, (S, V) and
   (4 whole, V); panels (last - first, T, B) and Y, or nulls if no more than front and corner is wanted. The border is
   given in whole columns (borders, unknowns). 0, the number of the first stage without a pivot, or -1 without memory. */
EXPORT size chain_sweep(const size *g, size first, size last, const double *band, const double *damping,
                        const double *border, const Hard *hard, size factors, double *front, double *corner,
                        double *panels, double *unknowns, double *multipliers, double *logarithm) {
  FLUSH;
  Chain z = chain(g);
  size V = z.V, T = z.T, RT = z.r * T, high = z.S + z.rows + LANES, failed = 0;
  double *room = allocate((2 * high + z.rows) * V * sizeof(double)), *F = room, *other = room + high * V;
  if (!room) return -1;
  memset(room, 0, 2 * high * V * sizeof(double));
  memcpy(F, front, z.S * V * sizeof(double));
  for (size k = first; k < last && !failed; ++k) {
    double *p = room + 2 * high * V;
    put_soft(z, k, band, damping, border, F);
    if (z.m) put_hard(z, k, hard, factors, F);
    memcpy(p, F, T * V * sizeof(double));
    memset(p + T * V, 0, (z.rows - T) * V * sizeof(double));
    if (factorize(z, p, logarithm) >= 0) failed = k + 1;
    for (size i = 0; panels && i < T; ++i)
      memcpy(panels + ((k - first) * T + i) * z.B, p + i * V, z.B * sizeof(double));
    for (size c = 0; panels && c < z.borders; ++c) {
      OF_BORDER(c);
      for (size i = 0; i < here; ++i) y[i] = p[i * V + z.B + c];
      for (size i = 0; i < z.m; ++i) n[i] = p[(z.t + i) * V + z.B + c];
    }
    for (size i = 0; i < RT; i += ROWS) {
      size c = i / LANES * LANES;
      const double *from = z.r > 1 ? F + (T + i) * V : NULL; /* of a front of two stages nothing stands there yet */
      Product past = {p + T + i, p + T + c, z.t, z.m};
      tiles(other + i * V + c, from ? from + T + c : from, V, past, 0, whole(RT, LANES) / LANES - c / LANES);
      past.right = p + z.B;
      tiles(other + i * V + z.B, from ? from + z.B : from, V, past, 0, (V - z.B) / LANES);
    }
    for (size i = 0; i < z.borders; i += ROWS) {
      Product past = {p + z.B + i, p + z.B, z.t, z.m};
      tiles(corner + i * V, corner + i * V, V, past, 0, (V - z.B) / LANES);
    }
    for (size i = 0; i < RT; ++i) memset(other + i * V + RT, 0, (z.B - RT) * sizeof(double));
    memset(other + RT * V, 0, T * V * sizeof(double));
    double *kept = F;
    F = other, other = kept;
  }
  memcpy(front, F, z.S * V * sizeof(double));
  release(room);
  return failed;
}

/* --- solutions --- */

/* A right-hand side (n, T) forward: half (n, T) as `chain_backward` takes it, border' K^-1 right, and right' K^-1 right. */
EXPORT double chain_forward(const size *g, const double *panels, double *unknowns, double *multipliers,
                            const double *right, double *half, double *pulled) {
  FLUSH;
  Chain z = chain(g);
  size T = z.T, RT = z.r * T;
  double sums[z.B], found[T + 1], square = 0.0;
  memset(sums, 0, sizeof sums), memset(pulled, 0, z.borders * sizeof(double));
  for (size k = 0; k < z.n; ++k, right += T, half += T, panels += T * z.B) {
    for (size i = 0; i < T; ++i) sums[i] += right[i];
    for (size i = 0; i < T; ++i) {
      const double *u = panels + i * z.B, value = found[i] = sums[i] * u[i];
      half[i] = i < z.t ? value : -value;
      square += value * half[i];
      for (size c = i / LANES * LANES; c < z.B; c += LANES) *(loose *)(sums + c) -= value * *(const loose *)(u + c);
    }
    for (size c = 0; c < z.borders; ++c) {
      OF_BORDER(c);
      for (size i = 0; i < here; ++i) pulled[c] += found[i] * y[i];
      for (size i = 0; i < z.m; ++i) pulled[c] += found[z.t + i] * n[i];
    }
    memmove(sums, sums + T, RT * sizeof(double));
    memset(sums + RT, 0, (z.B - RT) * sizeof(double));
  }
  return square;
}

/* x (n, T) = -K^-1 (right + border move) from `half` of the right-hand side, or null for none. */
EXPORT void chain_backward(const size *g, const double *panels, double *unknowns, double *multipliers,
                           const double *half, const double *move, double *x) {
  FLUSH;
  Chain z = chain(g);
  size T = z.T;
  double given[T + 1];
  for (size k = z.n - 1; k >= 0; --k) {
    const double *U = panels + k * T * z.B;
    double *own = x + k * T;
    size ahead = (z.n - 1 - k < z.r ? z.n - 1 - k : z.r) * T;
    for (size i = 0; k && i < T * z.B; i += LANES) __builtin_prefetch(U - T * z.B + i);
    for (size i = 0; i < T; ++i) given[i] = half ? half[k * T + i] : 0.0;
    for (size c = 0; c < z.borders; ++c) {
      OF_BORDER(c);
      for (size i = 0; i < here; ++i) given[i] += move[c] * y[i];
      for (size i = 0; i < z.m; ++i) given[z.t + i] += move[c] * n[i];
    }
    for (size end = T; end > 0;) { /* four rows at once by what is known, then by one another */
      size high = end % ROWS ? end % ROWS : ROWS, first = end - high, count = T - end + ahead, c = 0;
      const double *u = U + first * z.B;
      lanes sum[ROWS] = {{0}};
      for (; c + LANES <= count; c += LANES)
        for (int i = 0; i < high; ++i)
          sum[i] += *(const loose *)(u + i * z.B + end + c) * *(const loose *)(own + end + c);
      for (size i = high - 1; i >= 0; --i) {
        double value = -total(sum[i]) - given[first + i];
        for (size d = c; d < count; ++d) value -= u[i * z.B + end + d] * own[end + d];
        for (size j = i + 1; j < high; ++j) value -= u[i * z.B + first + j] * own[first + j];
        own[first + i] = value * u[i * z.B + first + i];
      }
      end = first;
    }
  }
}

/* h rows of q numbers less products: left[across a + along c] for row a times row c of right, over `count` of these. */
INLINE void strip(double *to, const int h, const int w, size q, const double *left, size across, size along,
                  const double *right, size count) {
  part sum[ROWS][GROUP * PARTS];
  UNROLL for (int a = 0; a < h; ++a) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) sum[a][j] = ((const loose_part *)(to + a * q))[j];
  }
  for (size c = 0; c < count; ++c, left += along, right += q) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      const part x = ((const loose_part *)right)[j];
      UNROLL for (int a = 0; a < h; ++a) sum[a][j] -= left[a * across] * x;
    }
  }
  UNROLL for (int a = 0; a < h; ++a) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) ((loose_part *)(to + a * q))[j] = sum[a][j];
  }
}

static void strips(double *to, size high, size q, const double *left, size across, size along, const double *right,
                   size count) {
  for (size a = 0, h = 0; a < high; a += h) {
    double *row = to + a * q;
    const double *by = left + a * across;
    size j = 0;
    h = high - a < ROWS ? 1 : ROWS;
    for (; j + GROUP * LANES <= q && h > 1; j += GROUP * LANES)
      strip(row + j, ROWS, GROUP, q, by, across, along, right + j, count);
    for (; j + PAIR * LANES <= q && h > 1; j += PAIR * LANES)
      strip(row + j, ROWS, PAIR, q, by, across, along, right + j, count);
    for (; j < q && h > 1; j += LANES) strip(row + j, ROWS, 1, q, by, across, along, right + j, count);
    for (; j < q; j += LANES) strip(row + j, 1, 1, q, by, across, along, right + j, count);
  }
}

INLINE void lessen(double *to, double by, const double *x, size count) {
  for (size i = 0; i < count; i += LANES) *(loose *)(to + i) -= by * *(const loose *)(x + i);
}

/* Rows (count, q) from or to rows of whole vectors. */
static void widen(double *to, const double *from, size count, size q) {
  for (size i = 0; i < count; ++i) memcpy(to + i * whole(q, LANES), from + i * q, q * sizeof(double));
}
static void narrow(double *to, const double *from, size count, size q) {
  for (size i = 0; i < count; ++i) memcpy(to + i * q, from + i * whole(q, LANES), q * sizeof(double));
}

/* K^-1 right, both (n, T, q), in its place; with `own_border` it is that of the border. */
EXPORT int chain_solve(const size *g, const double *panels, double *unknowns, double *multipliers, size q,
                       size own_border, double *x) {
  FLUSH;
  Chain z = chain(g);
  size V = z.B, T = z.T, RT = z.r * T, Q = whole(q, LANES);
  double *own = allocate((2 * z.S + 1) * Q * sizeof(double)), *sums = own + z.S * Q; /* a stage and those ahead */
  if (!own) return 1;
  memset(own, 0, 2 * z.S * Q * sizeof(double));
  for (size k = 0; k < z.n; ++k) {
    const double *U = panels + k * T * V;
    double *at = x + k * T * q;
    if (own_border) {
      memset(at, 0, T * q * sizeof(double));
      for (size c = 0; c < q; ++c) {
        OF_BORDER(c);
        for (size i = 0; i < here; ++i) at[i * q + c] = y[i];
        for (size i = 0; i < z.m; ++i) at[(z.t + i) * q + c] = n[i];
      }
      continue;
    }
    widen(own, at, T, q);
    for (size i = 0; i < T * Q; ++i) own[i] += sums[i];
    memmove(sums, sums + T * Q, RT * Q * sizeof(double));
    memset(sums + RT * Q, 0, T * Q * sizeof(double));
    for (size i = 0; i < T; i += ROWS) { /* four rows by what is known, then by one another */
      size high = T - i < ROWS ? T - i : ROWS;
      strips(own + i * Q, high, Q, U + i, 1, V, own, i);
      for (size a = i; a < i + high; ++a) {
        for (size b = i; b < a; ++b) lessen(own + a * Q, U[b * V + a], own + b * Q, Q);
        for (size s = 0; s < Q; ++s) own[a * Q + s] *= U[a * V + a];
      }
    }
    strips(sums, RT, Q, U + T, 1, V, own, T);
    for (size s = z.t * Q; s < T * Q; ++s) own[s] = -own[s];
    narrow(at, own, T, q);
  }
  memset(own, 0, z.S * Q * sizeof(double));
  for (size k = z.n - 1; k >= 0; --k) {
    const double *U = panels + k * T * V;
    memmove(own + T * Q, own, RT * Q * sizeof(double));
    widen(own, x + k * T * q, T, q);
    for (size end = T; end > 0; end -= end % ROWS ? end % ROWS : ROWS) {
      size high = end % ROWS ? end % ROWS : ROWS, i = end - high;
      strips(own + i * Q, high, Q, U + i * V + end, V, 1, own + end * Q, z.S - end);
      for (size a = end - 1; a >= i; --a) {
        for (size b = a + 1; b < end; ++b) lessen(own + a * Q, U[a * V + b], own + b * Q, Q);
        for (size s = 0; s < Q; ++s) own[a * Q + s] *= U[a * V + a];
      }
    }
    narrow(x + k * T * q, own, T, q);
  }
  release(own);
  return 0;
}

/* --- the inverse along the band --- */

/* to (four rows of w numbers) -= left' right over `count` rows; left and right w and `wide` numbers apart. */
static void take_off(double *to, size wide, const double *left, size apart, const double *right, size count) {
  for (size c = 0; c < wide; c += LANES) {
    lanes s[ROWS];
    for (int a = 0; a < ROWS; ++a) s[a] = *(lanes *)(to + a * wide + c);
    for (size q = 0; q < count; ++q) {
      const lanes y = *(const lanes *)(right + q * wide + c);
      for (int a = 0; a < ROWS; ++a) s[a] -= left[q * apart + a] * y;
    }
    for (int a = 0; a < ROWS; ++a) *(lanes *)(to + a * wide + c) = s[a];
  }
}

/* Blocks P (last - first, S, S) of K^-1, of each stage and the r next, the last one first. `ahead` (RT, RT in whole
   vectors) is that of the r stages from `last` on, zero beyond the end, and then from `first` on. */
EXPORT int chain_inverse(const size *g, size first, size last, const double *panels, double *ahead, double *P) {
  FLUSH;
  Chain z = chain(g);
  size V = z.B, T = z.T, RT = z.r * T, A = whole(RT, LANES), W = whole(T, LANES), high = z.rows;
  size sizes[] = {high * W, high * W, high * W, high * A, high * A, (RT + ROWS) * W, (RT + ROWS) * W}, sum = 0;
  for (int i = 0; i < 7; ++i) sum += sizes[i];
  double *room = allocate(sum * sizeof(double)), *I = room, *turned = I + sizes[0], *own = turned + sizes[1];
  double *G = own + sizes[2], *H = G + sizes[3], *Gt = H + sizes[4], *Ht = Gt + sizes[5];
  if (!room) return 1;
  for (size k = last - 1; k >= first; --k) {
    const double *U = panels + k * T * V;
    double *out = P + (k - first) * z.S * z.S;
    memset(room, 0, sum * sizeof(double));
    for (size i = T - 1; i >= 0; --i) { /* [I | G] = U^-1 [1 | U of the stages ahead] */
      const double *u = U + i * V;
      double *inverse = I + i * W, *across = G + i * A;
      size from = i / LANES * LANES;
      inverse[i] = 1.0;
      memcpy(across, u + T, RT * sizeof(double));
      for (size j = i + 1; j < T; ++j) {
        if (u[j] == 0.0) continue;
        lessen(inverse + from, u[j], I + j * W + from, W - from);
        lessen(across, u[j], G + j * A, A);
      }
      for (size c = from; c < W; ++c) inverse[c] *= u[i];
      for (size c = 0; c < A; ++c) across[c] *= u[i];
    }
    for (size i = 0; i < T; ++i) {
      for (size j = 0; j < RT; ++j) Gt[j * W + i] = G[i * A + j];
      for (size j = i; j < T; ++j) turned[j * W + i] = I[i * W + j];
    }
    for (size i = 0; i < T; i += ROWS) take_off(H + i * A, A, Gt + i, W, ahead, RT); /* H = -G ahead */
    for (size i = 0; i < T; ++i)
      for (size j = 0; j < RT; ++j) Ht[j * W + i] = H[i * A + j];
    for (size i = 0; i < T; i += ROWS) { /* own = U^-1 s U^-T - H G' */
      for (size c = i / LANES * LANES; c < W; c += LANES) {
        lanes s[ROWS] = {{0}};
        for (size q = c; q < T; ++q) {
          const lanes y = *(lanes *)(turned + q * W + c) * (q < z.t ? 1.0 : -1.0);
          for (int a = 0; a < ROWS; ++a) s[a] += turned[q * W + i + a] * y;
        }
        for (int a = 0; a < ROWS; ++a) *(lanes *)(own + (i + a) * W + c) = s[a];
      }
    }
    for (size i = 0; i < T; ++i)
      for (size j = 0; j < i; ++j) own[i * W + j] = own[j * W + i];
    for (size i = 0; i < T; i += ROWS) take_off(own + i * W, W, Ht + i, W, Gt, RT);
    for (size i = 0; i < z.S; ++i) {
      for (size j = 0; i < T && j < T; ++j) /* what rounding leaves of one triangle alone would grow */
        out[i * z.S + j] = 0.5 * (own[i * W + j] + own[j * W + i]);
      for (size j = T; i < T && j < z.S; ++j) out[i * z.S + j] = out[j * z.S + i] = H[i * A + j - T];
      if (i >= T) memcpy(out + i * z.S + T, ahead + (i - T) * A, RT * sizeof(double));
    }
    for (size i = 0; i < RT; ++i) memcpy(ahead + i * A, out + i * z.S, RT * sizeof(double));
  }
  release(room);
  return 0;
}
