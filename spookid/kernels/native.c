/* Small linear algebra, the same for every step of a horizon, eight steps at once; see native.py. */

typedef long long masks __attribute__((vector_size(8 * LANES)));

#define PICK(mask, a, b) ((lanes)(((masks)(a) & (mask)) | ((masks)(b) & ~(mask))))
#ifdef __clang__
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef long long choice __attribute__((vector_size(8 * LANES / PARTS)));
#define MIX(a, b, ...) __builtin_shuffle(a, b, (choice){__VA_ARGS__})
#endif

static const lanes ZERO = {0};
static const masks COUNT = {0, 1, 2, 3, 4, 5, 6, 7};

static lanes *room(size count) { return allocate((count + 1) * sizeof(lanes)); }

static int any(masks bits) {
  long long found = 0;
  for (int l = 0; l < LANES; ++l) found |= bits[l];
  return found != 0;
}

/* Some numbers of up to eight steps, `stride` apart; the last step fills what is left. */
static void take(lanes *to, const double *a, size stride, size here, size count) {
  const double *from[LANES];
  for (size l = 0; l < LANES; ++l) from[l] = a + (l < here ? l : here - 1) * stride;
  for (size i = 0; i < count; ++i)
    for (size l = 0; l < LANES; ++l) to[i][l] = from[l][i];
}

/* A compiled kernel of count numbers, and its arguments at the first step; at the next they stand stride numbers
   further on. */
typedef struct {
  eight function;
  size arguments, count;
  const double **first, **here;
  const size *stride;
} kernel;

/* The kernel at `here` steps from step s on. */
static int evaluate(const kernel *f, size s, size here, lanes *out) {
  for (size i = 0; i < f->arguments; ++i) f->here[i] = f->first[i] + s * f->stride[i];
  return f->function(here, f->here, f->stride, (double *)out);
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

/* True if an entry of J (count) that was zero so far is not; it is then set in `seen`. Zeros of both signs are alike. */
static int grown(const lanes *J, size count, unsigned long long *seen) {
  masks found = {0};
  for (size i = 0; i < count; ++i) found |= ((masks)J[i] << 1) & ~((masks){0} + (long long)seen[i]);
  if (!any(found)) return 0;
  for (size i = 0; i < count; ++i)
    if (any((masks)J[i] << 1)) seen[i] = ~0ULL;
  return 1;
}

/* As many steps of as many numbers as a vector holds: those of each step together, added from step to step to what
   stands `stride` apart. */
INLINE void add_square(const part *from, double *to, size stride, size here) {
  part rows[LANES / PARTS];
#if PARTS == 1
  part a[LANES], b[LANES];
  for (int i = 0; i < LANES; i += 2) {
    a[i] = MIX(from[i], from[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    a[i + 1] = MIX(from[i], from[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < LANES; i += i % 4 ? 3 : 1) {
    b[i] = MIX(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    b[i + 2] = MIX(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = MIX(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    rows[i + 4] = MIX(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#elif PARTS == 2
  part a = MIX(from[0], from[2], 0, 4, 2, 6), b = MIX(from[0], from[2], 1, 5, 3, 7);
  part c = MIX(from[4], from[6], 0, 4, 2, 6), d = MIX(from[4], from[6], 1, 5, 3, 7);
  rows[0] = MIX(a, c, 0, 1, 4, 5), rows[1] = MIX(b, d, 0, 1, 4, 5);
  rows[2] = MIX(a, c, 2, 3, 6, 7), rows[3] = MIX(b, d, 2, 3, 6, 7);
#else
  rows[0] = MIX(from[0], from[PARTS], 0, 2), rows[1] = MIX(from[0], from[PARTS], 1, 3);
#endif
  for (size l = 0; l < LANES / PARTS && l < here; ++l) *(loose_part *)(to + l * stride) += rows[l];
}

/* Sums of up to eight steps added where they belong, `stride` apart from step to step: tiles of numbers that follow one
   another, each with its place and how many they are. */
static void add_tiles(const lanes *sums, size tiles, const size *tile, double *to, size stride, size here) {
  const size side = LANES / PARTS;
  for (size t = 0; t < tiles; ++t, sums += LANES) {
    double *at = to + tile[2 * t];
    size wide = tile[2 * t + 1];
    for (size l = 0; wide == LANES && l < here; l += side)
      for (size i = 0; i < LANES; i += side)
        add_square((const part *)(sums + i) + l / side, at + l * stride + i, stride, here - l);
    for (size l = 0; wide < LANES && l < here; ++l)
      for (size i = 0; i < wide; ++i) at[l * stride + i] += sums[i][l];
  }
}

/* Sums of products of entries of transposed Jacobians (n, count), added to bands and borders step by step, and to
   corners over all, every eighth step to the same of eight sums. The kernel `rows` gives the Jacobians eight at a time if there is one; else they are in `matrix`.
   Where an entry differs from zero that is not `seen` it all ends: `done` is the number of steps before. A sum goes to
   its place among the tiles of the band, then of the border, then to the corners. The bands of the steps that are `fresh`
   steps ahead are cleared first, if it is not negative. */
EXPORT int products_along(size n, eight rows, size arguments, const double **first, const size *stride,
                          const double *matrix, size count, unsigned long long *seen, size targets, const int *begin,
                          const int *left, const int *right, const int *place, size bands, const size *band_at,
                          double *band, size band_stride, size borders, const size *border_at, double *border,
                          size border_stride, size corners, loose *corner, size *done, size fresh) {
  size tiled = (bands + borders) * LANES, s = 0;
  lanes *J = room(count + tiled + corners), *sums = J + count, *last = sums + tiled;
  const double **here_first = malloc((arguments + 1) * sizeof(double *));
  kernel f = {rows, arguments, count, first, here_first, stride};
  int failed = !J || !here_first;
  for (size t = 0; t < tiled && !failed; ++t) sums[t] = ZERO;
  for (size t = 0; t < corners && !failed; ++t) last[t] = corner[t];
  for (; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    if (!rows) take(J, matrix + s * count, count, here, count);
    if (rows && (failed = evaluate(&f, s, here, J))) break;
    for (size i = 0; here < LANES && i < count; ++i) J[i] = PICK(COUNT < here, J[i], ZERO);
    if (grown(J, count, seen)) break;
    for (size i = 0; fresh >= 0 && i < here * band_stride; ++i) band[(s + fresh) * band_stride + i] = 0.0;
    for (size t = 0; t < targets; ++t) {
      part sum[PARTS] = {{0}}, *to = (part *)(sums + place[t]);
      for (int p = begin[t]; p < begin[t + 1]; ++p) {
        const part *a = (const part *)(J + left[p]), *b = (const part *)(J + right[p]);
        UNROLL for (int i = 0; i < PARTS; ++i) sum[i] += a[i] * b[i];
      }
      for (int i = 0; i < PARTS && place[t] >= tiled; ++i) sum[i] += to[i];
      UNROLL for (int i = 0; i < PARTS; ++i) to[i] = sum[i];
    }
    add_tiles(sums, bands, band_at, band + s * band_stride, band_stride, here);
    add_tiles(sums + bands * LANES, borders, border_at, border + s * border_stride, border_stride, here);
  }
  *done = s < n ? s : n;
  for (size t = 0; t < corners && !failed; ++t) corner[t] = last[t];
  free(here_first);
  release(J);
  return failed;
}
