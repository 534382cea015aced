/* Solutions with the factors of a saddle point, for one right-hand side and for many, and blocks of its inverse; behind
   saddle.c. */

/* Products of four rows, V vectors apart, with x (count vectors). */
static void rows_times(const lanes *rows, size V, const lanes *x, size count, double *out) {
  part sums[ROWS][PARTS] = {{{0}}};
  for (size c = 0; c < count; ++c)
    UNROLL for (size r = 0; r < ROWS; ++r) {
      UNROLL for (int j = 0; j < PARTS; ++j) sums[r][j] += ((part *)(rows + r * V + c))[j] * ((part *)(x + c))[j];
    }
  for (size r = 0; r < ROWS; ++r) {
    lanes all;
    memcpy(&all, sums[r], sizeof all);
    out[r] = total(all);
  }
}

/* K^-1 x in place, by the factors of one step. */
static void solve_step(const lanes *panel, size R, size S, size V, const int *order, lanes *x) {
  double *at = (double *)x;
  lanes done[S];
  double *known = (double *)done;
  for (size i = 0; i < R; ++i)
    if (order[i] != i) {
      double kept = at[i];
      at[i] = at[order[i]], at[order[i]] = kept;
    }
  memset(done, 0, sizeof done);
  for (size i = 0; i < R; i += ROWS) {
    double sum[ROWS];
    rows_times(panel + i * V, V, done, i / LANES + 1, sum);
    for (size r = i; r < i + ROWS; ++r) {
      const double *left = (double *)(panel + r * V);
      known[r] = at[r] - sum[r - i];
      for (size q = i; q < r; ++q) known[r] -= left[q] * known[q];
    }
  }
  memset(x, 0, sizeof done);
  for (size i = R - ROWS; i >= 0; i -= ROWS) {
    double sum[ROWS];
    rows_times(panel + i * V + i / LANES, V, x + i / LANES, S - i / LANES, sum);
    for (size r = i + ROWS - 1; r >= i; --r) {
      const double *left = (double *)(panel + r * V);
      at[r] = known[r] - sum[r - i];
      for (size q = r + 1; q < i + ROWS; ++q) at[r] -= left[q] * at[q];
      at[r] *= left[r];
    }
  }
}

/* Of right-hand sides (n, most): what each step's block makes of its own, reduced (n, most), border' K^-1 right, and
   right' K^-1 right. */
EXPORT void forward_saddle(const size *given, const size *rows, const size *linked, const lanes *factor,
                           const int *order, const double *right, double *out, double *pulled, double *square) {
  FLUSH;
  Sizes z = sizes(given);
  lanes x[z.S], sums[z.G];
  double *at = (double *)x, *products = (double *)sums;
  memset(sums, 0, sizeof sums);
  memset(pulled, 0, z.borders * sizeof(double));
  *square = 0.0;
  for (size k = 0; k < z.n; ++k) {
    const lanes *panel = factor + k * z.most * z.V;
    memset(x, 0, sizeof x);
    for (size c = 0; c < z.W; ++c)
      if (place_of(z, linked, c) < rows[k]) at[place_of(z, linked, c)] = -products[c];
    memset(sums, 0, sizeof sums);
    for (size i = 0; i < rows[k]; ++i) {
      const lanes *row = panel + i * z.V + z.S;
      double value = at[i] += right[k * z.most + i];
      for (size c = 0; c < z.G; ++c) sums[c] += value * row[c];
      out[k * z.most + i] = value;
    }
    for (size c = 0; c < z.borders; ++c) pulled[c] += products[z.W + c];
    solve_step(panel, padded(rows[k]), z.S, z.V, order + k * z.most, x);
    for (size i = 0; i < rows[k]; ++i) {
      *square += out[k * z.most + i] * at[i];
      out[k * z.most + i] = at[i];
    }
  }
}

/* The solution (n, most) of -(right + border move), given what `forward_saddle` made of right, or nothing for the
   border's last column. */
EXPORT void backward_saddle(const size *given, const size *rows, const size *linked, const lanes *factor,
                            const double *half, const double *move, double *out) {
  FLUSH;
  Sizes z = sizes(given);
  lanes known[z.G];
  double *at = (double *)known;
  memset(known, 0, sizeof known);
  memcpy(at + z.W, move, (z.borders - 1) * sizeof(double));
  at[z.W + z.borders - 1] = half ? 0.0 : 1.0;
  for (size k = z.n - 1; k >= 0; --k) {
    double *to = out + k * z.most;
    for (size i = 0; i < z.most; ++i) {
      const lanes *row = factor + (k * z.most + i) * z.V + z.S;
      to[i] = i < rows[k] ? -row_times(row, known, 0, z.G) - (half ? half[k * z.most + i] : 0.0) : 0.0;
    }
    memset(known, 0, z.W * sizeof(double));
    for (size c = 0; c < z.W; ++c)
      if (place_of(z, linked, c) < rows[k]) at[c] = to[place_of(z, linked, c)];
  }
}

/* Right-hand sides (n, most, vectors): what each step's block makes of its own, reduced, in their place; `carry` has room
   for W rows. */
EXPORT void forward_rows(const size *given, const size *rows, const size *linked, const lanes *factor, const int *order,
                         size wide, lanes *right, lanes *carry) {
  FLUSH;
  Sizes z = sizes(given);
  for (size k = 0; k < z.n; ++k, right += z.most * wide) {
    const lanes *panel = factor + k * z.most * z.V;
    for (size c = 0; k && c < z.W && place_of(z, linked, c) < rows[k]; ++c)
      for (size v = 0; v < wide; ++v) right[place_of(z, linked, c) * wide + v] += carry[c * wide + v];
    for (size a = 0; a < z.W; a += ROWS)
      grams(carry + a * wide, wide, wide, 1, (double *)(panel + z.S) + a, z.V, right, wide, padded(rows[k]));
    solve_rows(panel, padded(rows[k]), z.V, order + k * z.most, right, wide);
  }
}

/* The solutions in the place of what `forward_rows` made. */
EXPORT void backward_rows(const size *given, const size *rows, const size *linked, const lanes *factor, size wide,
                          lanes *half, lanes *known) {
  FLUSH;
  Sizes z = sizes(given);
  for (size k = z.n - 2; k >= 0; --k) {
    lanes *to = half + k * z.most * wide, *next = to + z.most * wide;
    size count = 0;
    for (; count < z.W && place_of(z, linked, count) < rows[k + 1]; ++count)
      memcpy(known + count * wide, next + place_of(z, linked, count) * wide, wide * sizeof(lanes));
    for (size i = 0; i < rows[k]; i += ROWS)
      strips(to + i * wide, wide, (double *)(factor + (k * z.most + i) * z.V + z.S), z.V, known, count, wide, NEITHER);
  }
}

/* Blocks of K^-1: those of each step's unknowns with all of its block, (n, t, most), and with all of the next one's,
   (n - 1, t, most). With Z a block of the next step, that of a step is K^-1 + X Z X', and the one between both -X Z. */
EXPORT int inverse_of_saddle(const size *given, const size *rows, const size *linked, const lanes *factor,
                             const int *order, double *own, double *across) {
  FLUSH;
  Sizes z = sizes(given);
  size block = z.most * z.S, taken = padded(z.W) * z.S, U = vectors(z.W);
  lanes *whole = allocate((2 * block + 2 * taken + ROWS * (z.S + U)) * sizeof(lanes));
  lanes *here = whole, *next = here + block, *known = next + block, *turned = known + taken, *seen = turned + taken;
  double *left = (double *)(seen + ROWS * z.S);
  if (!whole) return 1;
  for (size k = z.n - 1; k >= 0; --k) {
    const lanes *panel = factor + k * z.most * z.V;
    size R = padded(rows[k]), count = 0;
    memset(here, 0, block * sizeof(lanes));
    for (size i = 0; i < R; ++i) ((double *)(here + i * z.S))[i] = 1.0;
    solve_rows(panel, R, z.V, order + k * z.most, here, z.S);
    for (; k + 1 < z.n && count < z.W && place_of(z, linked, count) < rows[k + 1]; ++count) {
      memcpy(known + count * z.S, next + place_of(z, linked, count) * z.S, z.S * sizeof(lanes));
      for (size i = 0; i < R; ++i)
        ((double *)(turned + count * z.S))[i] = ((const double *)(panel + i * z.V + z.S))[count];
    }
    for (size i = 0; count && i < R; i += ROWS) {
      grams(seen, z.S, z.S, 1, (double *)turned + i, z.S, known, z.S, count);
      for (size r = 0; r < ROWS; ++r) {
        const double *row = (double *)(seen + r * z.S);
        for (size c = 0; c < count; ++c) left[r * U * LANES + c] = row[place_of(z, linked, c)];
        if (i + r < z.t) memcpy(across + (k * z.t + i + r) * z.most, row, z.most * sizeof(double));
      }
      size c = i / LANES;
      strips(here + i * z.S + c, z.S - c, left, U, turned + c, count, z.S, NEITHER);
    }
    for (size i = 0; i < R; ++i)
      for (size j = 0; j < i; ++j) ((double *)(here + i * z.S))[j] = ((double *)(here + j * z.S))[i];
    for (size i = 0; i < z.t; ++i) memcpy(own + (k * z.t + i) * z.most, here + i * z.S, z.most * sizeof(double));
    lanes *kept = next;
    next = here, here = kept;
  }
  release(whole);
  return 0;
}
