/* Riccati recursion of a chain of steps with hard rows and a border of parameters, backward in time; see riccati.py.

   The value of all that follows a step x is a quadratic V in x and the border. At each step u, of t unknowns, the cost

       Q = V(u) + H(u) + 2 x' H u + border,   subject to E_u u + E_x x + E_b b = 0,

   is made least over u: r rows of E, eliminated with complete pivoting, give u_P = -(F_Z u_Z + F_x x + F_b b), and the
   reduced curvature of the others has a Cholesky factor U: U u_Z = -(K_x x + K_b b). Rows that say nothing about u are
   passed on to x. Of a step are kept: rows of U and K (the inverse of the diagonal stands in its place), then of F, then
   of W = Q_P - Q_PP F, which gives the multipliers; Q_PP; and how rows are combined (C).

   A row of V vectors has the columns of u (T vectors), of the x that this step sees (X) and of the border (B). */

#include "panels.h"

typedef struct {
  size n, t, m, borders, seen, most, gives, T, X, B, V, kept;
} Stages;

static Stages stages(const size *given) {
  size t = given[1], T = vectors(t), X = vectors(given[4]), B = vectors(given[3]), most = given[5];
  size gives = most < t ? most : t, kept = padded(t) + ROWS + padded(gives), V = T + X + B;
  if (V < vectors(most)) V = vectors(most);
  return (Stages){given[0], t, given[2], given[3], given[4], most, gives, T, X, B, V, kept};
}

/* Where hard rows (count, 2 t + borders, m) are used: at the later step that they see (1), at the earlier one (0) or
   nowhere (-1), and their places among those of that step (`rows` in all), of which the latter come first; unknowns of a
   step that the next one sees, through a row or the band, are marked. */
EXPORT void place_stages(const size *given, size count, const double *hard, const double *band, size *later, size *slot,
                       size *rows, unsigned char *marked) {
  FLUSH;
  Stages z = stages(given);
  unsigned char seen[2][z.m + 1];
  memset(rows, 0, z.n * sizeof(size));
  for (size k = 0; k < count; ++k) {
    const double *at = hard + k * (2 * z.t + z.borders) * z.m;
    memset(seen, 0, sizeof seen);
    for (size c = 0; c < 2 * z.t; ++c)
      for (size r = 0; r < z.m; ++r) seen[c >= z.t][r] |= at[c * z.m + r] != 0.0;
    for (size r = 0; r < z.m; ++r) {
      later[k * z.m + r] = seen[1][r] ? 1 : seen[0][r] - 1;
      if (!seen[1][r] && seen[0][r]) slot[k * z.m + r] = rows[k]++;
    }
    for (size c = 0; c < z.t; ++c)
      for (size r = 0; r < z.m && !marked[c]; ++r) marked[c] = seen[1][r] && at[c * z.m + r] != 0.0;
  }
  for (size i = 0; i < count * z.m; ++i)
    if (later[i] == 1) slot[i] = rows[i / z.m + 1]++;
  for (size c = 0; c < z.t; ++c)
    for (size k = 0; k + 1 < z.n && !marked[c]; ++k)
      for (size d = z.t - c; d < 2 * z.t - c && !marked[c]; ++d) marked[c] = band[(k * z.t + c) * 2 * z.t + d] != 0.0;
}

/* A row of E with all entries below this, of 1 when it comes in, says nothing new. */
#define NOTHING 1e-11

/* Rows as they come in, [x | border] behind T vectors (V), and what of u is left of each, with how rows are combined. */
static size breadth(Stages z) { return z.T + vectors(z.most); }

INLINE void row_less(lanes *row, double factor, const lanes *other, size count) {
  for (size v = 0; v < count * PARTS; ++v) ((part *)row)[v] -= factor * ((const part *)other)[v];
}

/* Rows from `first` to `last` lose the unknowns that others give. */
static void reduce_rows(Stages z, lanes **row, size found, const size *order, size first, size last) {
  for (size i = first; i < last; ++i)
    for (size p = 0; p < found; ++p) {
      double factor = ((double *)row[i])[order[p]];
      if (factor != 0.0) row_less(row[i], factor, row[p], breadth(z));
      ((double *)row[i])[order[p]] = 0.0;
    }
}

/* Rows from `first` to `last` give unknowns that are not yet given, the largest entry first; how many do so in all, which
   are the first rows. They are reduced until each sees its own alone of what is given. */
static size give_unknowns(Stages z, lanes **row, size found, size first, size last, size *order) {
  size wide = breadth(z), place[last + 1];
  double size_of[last + 1];
  for (size i = first; i < last; ++i) place[i] = largest_in(row[i], z.T, 0, size_of + i);
  for (; first < last; ++first, ++found) {
    size best = first;
    for (size i = first + 1; i < last; ++i)
      if (size_of[i] > size_of[best]) best = i;
    if (!(size_of[best] > NOTHING)) break;
    size at = place[best];
    lanes *pivot = row[best], inverse = ZERO + 1.0 / ((double *)pivot)[at];
    row[best] = row[first], size_of[best] = size_of[first], place[best] = place[first];
    row[first] = row[found], row[found] = pivot;
    for (size v = 0; v < wide; ++v) pivot[v] *= inverse;
    for (size i = 0; i < last; ++i) {
      double factor = ((double *)row[i])[at];
      if (i == found || factor == 0.0) continue;
      row_less(row[i], factor, pivot, wide);
      ((double *)row[i])[at] = 0.0;
      if (i > first) place[i] = largest_in(row[i], z.T, 0, size_of + i);
    }
    order[found] = at;
  }
  return found;
}

/* Rows of one step. */
typedef struct {
  lanes **row;   /* [what is left of u | C], in the order in which they are found */
  lanes *raw;    /* [0 | x | border] as they come in (padded(most), V) */
  lanes *across; /* -C', (most, V) */
  double *scale; /* what the rows that come in are multiplied by */
} Rows;

static void begin_row(Stages z, Rows e, size at, double scale) {
  memset(e.row[at], 0, breadth(z) * sizeof(lanes));
  memset(e.raw + at * z.V, 0, z.V * sizeof(lanes));
  ((double *)(e.row[at] + z.T))[at] = 1.0;
  e.scale[at] = scale;
}

/* Hard rows of step k alone, or those that it shares with the one before, behind others, the largest entry of the states
   1; how many there are then in all. */
static size take_rows(Stages z, size k, int shared, size count, const double *hard, const size *later, const size *slot,
                      const size *seen, size held, size first, Rows e) {
  size from = k - shared, last = first, at[z.m + 1], which[z.m + 1];
  if (from < 0 || from >= count) return first;
  double most[z.m + 1];
  memset(most, 0, sizeof most);
  hard += from * (2 * z.t + z.borders) * z.m;
  for (size c = 0; c < 2 * z.t; ++c)
    for (size r = 0; r < z.m; ++r) {
      double size_of = fabs(hard[c * z.m + r]);
      most[r] = size_of > most[r] ? size_of : most[r];
    }
  for (size r = 0; r < z.m; ++r)
    if (later[from * z.m + r] == shared) {
      at[last - first] = held + slot[from * z.m + r], which[last++ - first] = r;
      begin_row(z, e, held + slot[from * z.m + r], 1.0 / most[r]);
    }
  for (size i = 0; i < last - first; ++i) {
    const double *own = hard + (shared ? z.t * z.m : 0) + which[i], *last_part = hard + 2 * z.t * z.m + which[i];
    double *to = (double *)e.row[at[i]], scale = e.scale[at[i]];
    double *behind = (double *)(e.raw + at[i] * z.V + z.T), *end = behind + z.X * LANES;
    for (size c = 0; c < z.t; ++c) to[c] = own[c * z.m] * scale;
    for (size a = 0; shared && a < z.seen; ++a) behind[a] = hard[seen[a] * z.m + which[i]] * scale;
    for (size c = 0; c < z.borders; ++c) end[c] = last_part[c * z.m] * scale;
  }
  return last;
}

/* [x | border] of rows that give something and those that do not, -C raw, in `to` (V); -C' in `across`. */
static void combine(Stages z, size first, size last, size all, Rows e, lanes *to) {
  Product none = {0, 0, 0}, part = {(double *)e.across, e.raw + z.T, all};
  memset(to, 0, padded(last - first) * z.V * sizeof(lanes));
  for (size j = 0; j < all; ++j) memset(e.across + j * z.V, 0, vectors(last - first) * sizeof(lanes));
  for (size i = first; i < last; ++i)
    for (size j = 0; j < all; ++j) ((double *)(e.across + j * z.V))[i - first] = -((double *)(e.row[i] + z.T))[j];
  for (size a = 0; a < last - first; a += ROWS, part.left += ROWS)
    tiles(to + a * z.V + z.T, z.V - z.T, z.V, part, none, 0);
}

/* Rows that give nothing of u, as those that come in to the step before, if they say something about x; how many, and in
   `combined` how they came about. `left`: room for rows. */
static size pass_on(Stages z, size found, size all, const size *seen, Rows e, lanes *left, double *combined) {
  size kept = 0;
  double most;
  combine(z, found, all, all, e, left);
  for (size i = found; i < all; ++i) {
    const lanes *from = left + (i - found) * z.V;
    largest_in(from + z.T, z.X, 0, &most);
    if (!(most > NOTHING)) continue;
    for (size j = 0; j < all; ++j)
      combined[(found + kept) * z.most + j] = ((double *)(e.row[i] + z.T))[j] * e.scale[j];
    if (kept < i - found) memcpy(left + kept * z.V, from, z.V * sizeof(lanes));
    ++kept;
  }
  for (size i = 0; i < kept; ++i) {
    const double *from = (const double *)(left + i * z.V + z.T);
    largest_in((const lanes *)from, z.X, 0, &most);
    double scale = 1.0 / most;
    begin_row(z, e, i, scale);
    for (size a = 0; a < z.seen; ++a) ((double *)e.row[i])[seen[a]] = from[a] * scale;
    for (size v = 0; v < z.B; ++v) e.raw[i * z.V + z.T + z.X + v] = left[i * z.V + z.T + z.X + v] * scale;
  }
  return kept;
}

/* The other unknowns in order behind those that rows give. */
static void complete(Stages z, size found, size *order) {
  unsigned char given[z.t + 1];
  memset(given, 0, sizeof given);
  for (size i = 0; i < found; ++i) given[order[i]] = 1;
  for (size c = 0, at = found; c < z.t; ++c)
    if (!given[c]) order[at++] = c;
}

/* Work of one step, padded(t) rows of V vectors each. */
typedef struct {
  lanes *value;   /* of what follows: rows of the unknowns that the next step sees */
  lanes *square;  /* Q_u in the unknowns' own order */
  lanes *own;     /* Q_P */
  lanes *crossed; /* Q_PP */
} Room;

/* Q_u, with all of Q_uu in the first T vectors. */
static void add_up(Stages z, size k, const double *band, const double *damping, const double *border, const size *seen,
                   Room w) {
  size behind = z.T * LANES, last = behind + z.X * LANES, apart = z.V * LANES;
  double *Q = (double *)w.square;
  memset(w.square, 0, padded(z.t) * z.V * sizeof(lanes));
  for (size i = 0; i < z.t; ++i) {
    const double *from = band + (k * z.t + i) * 2 * z.t;
    memcpy(Q + i * apart + i, from, (z.t - i) * sizeof(double));
    Q[i * apart + i] += damping[k * z.t + i];
  }
  for (size a = 0; a < z.seen; ++a) {
    const double *value = (const double *)(w.value + a * z.V) + behind;
    double *row = Q + seen[a] * apart;
    for (size b = a; b < z.seen; ++b) row[seen[b]] += value[b];
    memcpy(row + last, value + z.X * LANES, z.borders * sizeof(double));
    if (!k) continue;
    const double *before = band + ((k - 1) * z.t + seen[a]) * 2 * z.t + z.t - seen[a];
    for (size i = 0; i < z.t; ++i) Q[i * apart + behind + a] = before[i];
  }
  for (size c = 0; c < z.borders; ++c) {
    const double *from = border + (c * z.n + k) * z.t;
    for (size i = 0; i < z.t; ++i) Q[i * apart + last + c] += from[i];
  }
  for (size i = 0; i < z.t; ++i)
    for (size j = 0; j < i; ++j) Q[i * apart + j] = Q[j * apart + i];
}

/* to (rows, V), from the vector `from` on, less two products; the upper triangle, which begins there, is enough. */
static void less(lanes *to, size rows, size from, size V, Product one, Product two) {
  const lanes *first = one.right, *second = two.right;
  for (size a = 0; a < rows; a += ROWS, one.left += ROWS, two.left += ROWS) {
    size c = from + a / LANES;
    one.right = first + c, two.right = second + c;
    tiles(to + a * V + c, V - c, V, one, two, 0);
  }
}

/* The Cholesky factor of rows (R, V) in place, and its inverse times what stands behind; 0 if there is none. */
static int factorize_rows(lanes *panel, size R, size V) {
  Product none = {0, 0, 0};
  for (size i = 0; i < R; i += ROWS) {
    lanes *at = panel + i * V;
    size first = i / LANES;
    Corner u;
    Product own = {(double *)panel + i, panel + first, i};
    tiles(at + first, V - first, V, none, own, 0);
    if (pivots(at, V, i, &u)) return 0;
    tiles(at + first, V - first, V, none, none, &u);
    for (int a = 0; a < ROWS; ++a) ((double *)(at + a * V))[i + a] = u.inverse[a];
  }
  return 1;
}

/* One step made least: its rows in `panel`; V of the step before in w.value, and what is taken from the corner. */
static int make_least(Stages z, size k, size found, size all, const size *order, Rows e, Room w, lanes *panel,
                      double *crossed, lanes *corner) {
  size free_ = z.t - found, R = padded(free_), behind = z.T * LANES;
  lanes *F = panel + R * z.V, *W = panel + (padded(z.t) + ROWS) * z.V;
  Product none = {0, 0, 0};
  combine(z, 0, found, all, e, F);
  for (size p = 0; p < z.t; ++p) {
    const double *from = (double *)(w.square + order[p] * z.V);
    lanes *to = p < found ? w.own + p * z.V : panel + (p - found) * z.V;
    memset(to, 0, z.T * sizeof(lanes));
    memcpy(to + z.T, from + behind, (z.V - z.T) * sizeof(lanes));
    for (size c = 0; c < free_; ++c) ((double *)to)[c] = from[order[found + c]];
    if (p >= found) continue;
    memset(w.crossed + p * z.V, 0, z.T * sizeof(lanes));
    for (size c = 0; c < found; ++c)
      crossed[p * z.gives + c] = ((double *)(w.crossed + p * z.V))[c] = from[order[c]];
    for (size c = 0; c < free_; ++c) ((double *)(F + p * z.V))[c] = ((double *)e.row[p])[order[found + c]];
  }
  memset(w.own + found * z.V, 0, (padded(found) - found) * z.V * sizeof(lanes));
  memset(panel + free_ * z.V, 0, (R - free_) * z.V * sizeof(lanes));
  for (size i = free_; i < R; ++i) ((double *)(panel + i * z.V))[i] = 1.0;
  memcpy(W, w.own, found * z.V * sizeof(lanes));
  for (size a = 0; a < found; a += ROWS) { /* rows beyond the last are zeros less zeros */
    Product part = {(double *)w.crossed + a, F, found};
    tiles(W + a * z.V, z.V, z.V, none, part, 0);
  }
  Product one = {(double *)F, W, found}, two = {(double *)w.own, F, found}, rest = {(double *)panel, panel, R};
  less(panel, R, 0, z.V, one, two);
  if (!factorize_rows(panel, R, z.V)) return 0;
  memset(w.value, 0, padded(z.t) * z.V * sizeof(lanes));
  one.left += behind, two.left += behind, rest.left += behind;
  if (k) {
    less(w.value, padded(z.seen), z.T, z.V, one, two);
    less(w.value, padded(z.seen), z.T, z.V, none, rest);
  }
  one.left += z.X * LANES, two.left += z.X * LANES, rest.left += z.X * LANES;
  less(corner, padded(z.borders), z.T + z.X, z.V, one, two);
  less(corner, padded(z.borders), z.T + z.X, z.V, none, rest);
  return 1;
}

/* The recursion. `hard`: transposed Jacobians and values (count, 2 t + borders, m); per step are kept `panels` (kept,
   V), `crossed` (gives, gives), `combined` (most, most), `order` (t), and `counts` (4): rows that are carried in, that
   give, all that come in, and those that are passed on. What is taken from the corner is subtracted from its upper half (V vectors a row, the
   border's last). 0, the number of the first step that has no factor, -1 if there is no memory, or -2 if there is no
   room for the rows of a step. */
EXPORT size riccati_backward(const size *given, size count, const double *band, const double *damping,
                             const double *border, const double *hard, const size *later, const size *slot,
                             const size *rows, const size *seen, lanes *panels, double *crossed, double *combined, size *order,
                             size *counts, lanes *corner) {
  FLUSH;
  Stages z = stages(given);
  size whole = padded(z.t) * z.V, wide = breadth(z), square = z.most * z.most, failed = 0;
  size room = 3 * padded(z.most) * z.V;
  lanes *work = allocate((4 * whole + room + z.most * wide + 1) * sizeof(lanes)), *row[z.most + 1];
  double scale[z.most + 1];
  if (!work) return -1;
  Room w = {work, work + whole, work + 2 * whole, work + 3 * whole};
  Rows e = {row, work + 4 * whole, work + 4 * whole + room / 3, scale};
  lanes *left = e.raw + room / 3 * 2;
  memset(work, 0, whole * sizeof(lanes));
  for (size i = 0; i < z.most; ++i) row[i] = work + 4 * whole + room + i * wide;
  for (size k = z.n - 1, carried = 0; k >= 0 && !failed; --k) {
    size *here = order + k * z.t, *sizes = counts + 4 * k;
    double *C = combined + k * square;
    if (carried + rows[k] > z.most) {
      failed = -2;
      break;
    }
    size own = take_rows(z, k, 0, count, hard, later, slot, seen, carried, carried, e);
    size found = give_unknowns(z, row, 0, 0, own, here);
    size all = take_rows(z, k, 1, count, hard, later, slot, seen, carried, own, e);
    reduce_rows(z, row, found, here, own, all);
    found = give_unknowns(z, row, found, own, all, here);
    complete(z, found, here);
    add_up(z, k, band, damping, border, seen, w);
    if (!make_least(z, k, found, all, here, e, w, panels + k * z.kept * z.V, crossed + k * z.gives * z.gives, corner))
      failed = k + 1;
    for (size i = 0; i < found; ++i)
      for (size j = 0; j < all; ++j) C[i * z.most + j] = ((double *)(row[i] + z.T))[j] * scale[j];
    sizes[0] = carried, sizes[1] = found, sizes[2] = all;
    carried = pass_on(z, found, all, seen, e, left, C);
    sizes[3] = carried;
  }
  release(work);
  return failed;
}

INLINE void row_more(lanes *to, double factor, const lanes *row, size from, size V) {
  for (size v = from * PARTS; v < V * PARTS; ++v) ((part *)to)[v] += factor * ((const part *)row)[v];
}


/* What the values of rows and of unknowns make of a step: U^-T q, F and W of the value, (t + 2 gives) a step, for
   gradients (n, t) and values of hard rows (count, m); border' K^-1 and (gradient, values)' K^-1 of these. */
EXPORT void riccati_forward(const size *given, size count, const size *later, const size *slot, const size *seen,
                            const lanes *panels, const double *crossed, const double *combined, const size *order,
                            const size *counts, const double *gradient, const double *values, double *out,
                            double *pulled, double *square) {
  FLUSH;
  Stages z = stages(given);
  lanes sums[z.V];
  double e[z.most + 1], passed[z.most + 1], q[z.t + 1], *sum = (double *)sums;
  memset(sums, 0, sizeof sums);
  memset(passed, 0, sizeof passed);
  memset(pulled, 0, z.borders * sizeof(double));
  *square = 0.0;
  for (size k = z.n - 1; k >= 0; --k) {
    const size *here = order + k * z.t, carried = counts[4 * k], found = counts[4 * k + 1];
    size free_ = z.t - found, R = padded(free_);
    const lanes *panel = panels + k * z.kept * z.V, *F = panel + R * z.V, *W = panel + (padded(z.t) + ROWS) * z.V;
    const double *C = combined + k * z.most * z.most, *Q = crossed + k * z.gives * z.gives;
    double *to = out + k * (z.t + 2 * z.gives), *f = to + z.t, *given_by = f + z.gives;
    memcpy(q, gradient + k * z.t, z.t * sizeof(double));
    for (size a = 0; a < z.seen; ++a) q[seen[a]] += sum[z.T * LANES + a];
    memset(e, 0, sizeof e);
    memcpy(e, passed, carried * sizeof(double));
    for (int shared = 0; shared < 2; ++shared)
      for (size r = 0, j = k - shared; j >= 0 && j < count && r < z.m; ++r)
        if (later[j * z.m + r] == shared) e[carried + slot[j * z.m + r]] = values[j * z.m + r];
    for (size i = 0; i < found + counts[4 * k + 3]; ++i) {
      double value = 0.0;
      for (size j = 0; j < counts[4 * k + 2]; ++j) value += C[i * z.most + j] * e[j];
      *(i < found ? f + i : passed + i - found) = value;
    }
    memset(sums, 0, sizeof sums);
    for (size c = 0; c < free_; ++c) sum[c] = q[here[found + c]];
    for (size p = 0; p < found; ++p) {
      double value = q[here[p]];
      row_more(sums, -value, F + p * z.V, 0, z.V), row_more(sums, -f[p], W + p * z.V, 0, z.V);
      given_by[p] = value;
      for (size c = 0; c < found; ++c) given_by[p] -= Q[p * z.gives + c] * f[c];
      *square += f[p] * (value + given_by[p]);
    }
    for (size i = 0; i < free_; ++i) {
      to[i] = sum[i] * ((const double *)(panel + i * z.V))[i];
      row_more(sums, -to[i], panel + i * z.V, i / LANES, z.V);
      *square += to[i] * to[i];
    }
    for (size c = 0; c < z.borders; ++c) pulled[c] -= sum[(z.T + z.X) * LANES + c];
  }
}

/* The states (n, t) and multipliers (count, m) for a step of the parameters, given what `riccati_forward` made, or
   nothing for the border's last column. */
EXPORT void riccati_steps(const size *given, size count, const size *later, const size *slot, const size *seen,
                          const lanes *panels, const double *combined, const size *order, const size *counts,
                          const double *half, const double *move, double *states, double *multipliers) {
  FLUSH;
  Stages z = stages(given);
  lanes known[z.V];
  double *at = (double *)known, force[z.most + 1], passed[z.most + 1];
  memset(known, 0, sizeof known);
  memcpy(at + (z.T + z.X) * LANES, move, (z.borders - 1) * sizeof(double));
  at[(z.T + z.X) * LANES + z.borders - 1] = half ? 0.0 : 1.0;
  for (size k = 0; k < z.n; ++k, states += z.t) {
    const size *here = order + k * z.t, carried = counts[4 * k], found = counts[4 * k + 1];
    size free_ = z.t - found, R = padded(free_), last = found + counts[4 * k + 3];
    const lanes *panel = panels + k * z.kept * z.V, *F = panel + R * z.V, *W = panel + (padded(z.t) + ROWS) * z.V;
    const double *C = combined + k * z.most * z.most, *own = half ? half + k * (z.t + 2 * z.gives) : 0;
    memset(known, 0, z.T * sizeof(lanes));
    for (size i = free_ - 1; i >= 0; --i) {
      double sum = row_times(panel + i * z.V, known, i / LANES, z.V) + (own ? own[i] : 0.0);
      states[here[found + i]] = at[i] = -sum * ((const double *)(panel + i * z.V))[i];
    }
    for (size p = 0; p < found; ++p) {
      states[here[p]] = -row_times(F + p * z.V, known, 0, z.V) - (own ? own[z.t + p] : 0.0);
      force[p] = -row_times(W + p * z.V, known, 0, z.V) - (own ? own[z.t + z.gives + p] : 0.0);
    }
    for (size i = found; i < last; ++i) force[i] = passed[i - found];
    double each[z.most + 1];
    memset(each, 0, sizeof each);
    for (size i = 0; i < last; ++i)
      for (size j = 0; j < counts[4 * k + 2]; ++j) each[j] += C[i * z.most + j] * force[i];
    memcpy(passed, each, carried * sizeof(double));
    for (int shared = 0; shared < 2; ++shared)
      for (size r = 0, j = k - shared; j >= 0 && j < count && r < z.m; ++r)
        if (later[j * z.m + r] == shared) multipliers[j * z.m + r] = each[carried + slot[j * z.m + r]];
    for (size a = 0; a < z.seen; ++a) at[z.T * LANES + a] = states[seen[a]];
  }
}
