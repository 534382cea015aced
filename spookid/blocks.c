/* Cholesky of a block-tridiagonal matrix with a border, and substitutions with its factor; see blocks.py.

   A step's rows are kept as a panel of vectors: T for the step's own columns, T for those of the next step, B for the
   border. Rows are padded to a multiple of four, columns to whole vectors. */

/* The upper triangle of four rows' Cholesky factor, and the inverse of its diagonal. */
typedef struct {
  double inverse[ROWS], above[ROWS][ROWS];
} Corner;

INLINE void solve(lanes (*sum)[GROUP], const int w, const Corner *u) {
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w; ++j) {
      UNROLL for (int r = 0; r < i; ++r) sum[i][j] -= u->above[r][i] * sum[r][j];
      sum[i][j] *= u->inverse[i];
    }
  }
}

/* What is taken from a tile: rows of the last step's panel and of the present one. */
typedef struct {
  const double *left;
  const lanes *right;
  size count;
} Product;

INLINE void tile(lanes *at, const int w, size V, Product past, Product own, const Corner *u) {
  lanes sum[ROWS][GROUP];
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w; ++j) sum[i][j] = at[i * V + j];
  }
  subtract(sum, w, past.left, V, past.right, V, past.count);
  subtract(sum, w, own.left, V, own.right, V, own.count);
  if (u) solve(sum, w, u);
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w; ++j) at[i * V + j] = sum[i][j];
  }
}

/* Tiles of four rows and `count` vectors. */
static void tiles(lanes *at, size count, size V, Product past, Product own, const Corner *u) {
  size c = 0;
  for (; c + GROUP <= count; c += GROUP, past.right += GROUP, own.right += GROUP)
    tile(at + c, GROUP, V, past, own, u);
  for (; c < count; ++c, ++past.right, ++own.right) tile(at + c, 1, V, past, own, u);
}

/* Cholesky of four rows at column i of a panel; the place of the first pivot that is not positive, or 0. */
static int pivots(lanes *row, size V, size i, Corner *u) {
  for (int a = 0; a < ROWS; ++a) {
    const double *from = (double *)(row + a * V) + i;
    for (int b = a; b < ROWS; ++b) {
      double value = from[b];
      for (int r = 0; r < a; ++r) value -= u->above[r][a] * u->above[r][b];
      if (a == b) {
        if (!(value > 0.0)) return a + 1;
        value = sqrt(value);
        u->inverse[a] = 1.0 / value;
      } else {
        value *= u->inverse[a];
      }
      u->above[a][b] = value;
    }
  }
  return 0;
}

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

/* Factors (n, rows, V) of H + damping D, and the border's products with itself through the inverse, subtracted from the
   upper half of a corner (B vectors' numbers, B); 0, or the number of the first pivot that is not positive. */
EXPORT size eliminate_along(size n, size t, size borders, const double *band, const double *diagonal,
                            double damping, const double *border, lanes *factor, lanes *corner) {
  size T = vectors(t), B = vectors(borders), V = 2 * T + B, rows = padded(t), whole = rows * V;
  Product none = {0, 0, 0};
  for (size k = 0; k < n; ++k) {
    lanes *panel = factor + k * whole, *last = panel - whole;
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
      lanes sum[ROWS][GROUP];
      for (size j = c / LANES; j < B; ++j, ++own.right) {
        for (int i = 0; i < ROWS; ++i) sum[i][0] = corner[(c + i) * B + j];
        subtract(sum, 1, own.left, V, own.right, V, rows);
        for (int i = 0; i < ROWS; ++i) corner[(c + i) * B + j] = sum[i][0];
      }
    }
  }
  return 0;
}

/* y = L^-1 right, (n, t), and Y'y, (B vectors' numbers). */
EXPORT void forward_blocks(size n, size t, size borders, const lanes *factor, const double *right, double *out,
                           double *pulled) {
  size T = vectors(t), B = vectors(borders), V = 2 * T + B, rows = padded(t);
  lanes rest[2 * T], sums[B];
  double *now = (double *)rest;
  memset(rest, 0, sizeof rest);
  memset(sums, 0, sizeof sums);
  for (size k = 0; k < n; ++k, factor += rows * V) {
    memcpy(rest, rest + T, T * sizeof(lanes));
    memset(rest + T, 0, T * sizeof(lanes));
    for (size i = 0; i < t; ++i) now[i] += right[k * t + i];
    for (size i = 0; i < t; ++i) {
      const lanes *row = factor + i * V;
      double y = out[k * t + i] = now[i] * ((const double *)row)[i];
      for (size c = i / LANES; c < 2 * T; ++c) rest[c] -= y * row[c];
      for (size c = 0; c < B; ++c) sums[c] += y * row[2 * T + c];
    }
  }
  memcpy(pulled, sums, sizeof sums);
}

/* x (n, t) of L' x = -(half + Y move); half (n, t), or the border's last column if it is not given. */
EXPORT void backward_blocks(size n, size t, size borders, const lanes *factor, const double *half, const double *move,
                            double *out) {
  size T = vectors(t), V = 2 * T + vectors(borders), rows = padded(t);
  lanes known[V];
  double *now = (double *)known;
  memset(known, 0, sizeof known);
  memcpy(now + 2 * T * LANES, move, (borders - 1) * sizeof(double));
  now[2 * T * LANES + borders - 1] = half ? 0.0 : 1.0;
  for (size k = n - 1; k >= 0; --k) {
    memcpy(known + T, known, T * sizeof(lanes));
    memset(known, 0, T * sizeof(lanes));
    for (size i = t - 1; i >= 0; --i) {
      const lanes *row = factor + (k * rows + i) * V;
      lanes sum = row[V - 1] * known[V - 1];
      for (size c = i / LANES; c < V - 1; ++c) sum += row[c] * known[c];
      double total = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
      if (half) total += half[k * t + i];
      out[k * t + i] = now[i] = -total * ((const double *)row)[i];
    }
  }
}
