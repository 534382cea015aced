/* Steps of a window eliminated in order of time, in square-root form; see window.py and solvers/fronts.py.

   A front has rows of whole vectors: the states of `reach` + 1 steps, the parameters, the value. Rows are moved by their
   pointers. What is carried and the rows of the parameters alone (the border) are kept likewise. */

#include "vectors.h"
#include "program.h"

#define RANK 1e-11
#define HARD_RANK 1e-9
#define ROUNDING 1e-12

/* A factor in the window; `jacobian` and `value` are null where something else evaluates it. */
typedef struct {
  size count, rows, offsets, hard;
  const size *offset;
  double *matrix, *residual;
  const program *jacobian, *value;
  const size *place;
  const double *data;
  const unsigned char *absent;
  size width;
} factor;

/* Pivots: rows (steps, t, V), their unknowns and shifts (steps, t), and how many are hard and in all (steps, 2). */
typedef struct {
  size tangent, ambient, reach, parameters, steps, factors;
  factor *factor;
  const double *best, *points, *theta, *theta_point, *numbers;
  double *pivots, *shifts;
  size *places, *counts;
  double *carried, *carried_hard, *carried_linear, *border, *border_hard, *border_linear;
  size *held; /* rows of: carried, carried_hard, border, border_hard */
  double *score, *information;
  double *work;
  size soft_room, hard_room;
  double square;
  const unsigned char *hidden;
} window;

static size wide(const window *w) { return vectors((w->reach + 1) * w->tangent + w->parameters + 1); }
static size slim(const window *w) { return vectors(w->parameters + 1); }

static void swap(double **a, double **b) {
  double *c = *a;
  *a = *b, *b = c;
}

/* row -= share other, from vector v on */
INLINE void lessen(double *row, double share, const double *other, size v, size V) {
  for (; v < V; ++v) ((loose *)row)[v] -= share * ((const loose *)other)[v];
}

/* Squares of columns, (V vectors). */
static void squares(double **row, size m, size V, double *out, int only_longer) {
  for (size v = 0; v < V * PARTS; ++v) {
    part sum = {0};
    for (size i = 0; i < m; ++i) sum += ((loose_part *)row[i])[v] * ((loose_part *)row[i])[v];
    for (int k = 0; k < LANES / PARTS; ++k) {
      double *to = out + v * LANES / PARTS + k;
      if (!only_longer || sum[k] > *to) *to = sum[k];
    }
  }
}

/* Reflect rows until they are in echelon form in columns `from` to `to`, but for those that are taken; how many pivots
   there are, and their columns. */
static size triangle(double **row, size m, size V, size from, size to, const unsigned char *taken, const double *squared,
                     size *places) {
  size found = 0, list[m + 1];
  double x[m + 1];
  for (size j = from; j < to && found < m; ++j) {
    if (taken && taken[j]) continue;
    size count = 0;
    double sum = 0.0;
    for (size i = found; i < m; ++i) {
      double value = row[i][j];
      if (value != 0.0) list[count] = i, x[count++] = value, sum += value * value;
    }
    if (!(sum > RANK * RANK * squared[j])) {
      for (size k = 0; k < count; ++k) row[list[k]][j] = 0.0;
      continue;
    }
    swap(row + found, row + list[0]);
    list[0] = found;
    if (count > 1) {
      double length = sqrt(sum);
      x[0] += x[0] >= 0.0 ? length : -length;
      double scale = 1.0 / (length * fabs(x[0]));
      for (size v = j / LANES * PARTS; v < V * PARTS; ++v) {
        part total = {0};
        for (size k = 0; k < count; ++k) total += x[k] * ((loose_part *)row[list[k]])[v];
        total *= scale;
        for (size k = 0; k < count; ++k) ((loose_part *)row[list[k]])[v] -= x[k] * total;
      }
      for (size k = 1; k < count; ++k) row[list[k]][j] = 0.0;
    }
    places[found++] = j;
  }
  return found;
}

/* Hard rows give some of the first `count` columns; all rows lose these. How many; the rows that do so stand first. */
static size hard_pivots(double **soft, size m, double **hard, size h, double *linear, size V, size count,
                        unsigned char *taken, size *places) {
  size found = 0;
  for (; found < h; ++found) {
    double most = HARD_RANK;
    size best = -1, place = 0;
    for (size i = found; i < h; ++i)
      for (size j = 0; j < count; ++j)
        if (!taken[j] && fabs(hard[i][j]) > most) most = fabs(hard[i][j]), best = i, place = j;
    if (best < 0) break;
    swap(hard + found, hard + best);
    const double *row = hard[found];
    double inverse = 1.0 / row[place];
    for (size i = found + 1; i < h; ++i)
      if (hard[i][place] != 0.0) lessen(hard[i], hard[i][place] * inverse, row, 0, V), hard[i][place] = 0.0;
    for (size i = 0; i < m; ++i)
      if (soft[i][place] != 0.0) lessen(soft[i], soft[i][place] * inverse, row, 0, V), soft[i][place] = 0.0;
    if (linear[place] != 0.0) lessen(linear, linear[place] * inverse, row, 0, V), linear[place] = 0.0;
    taken[place] = 1, places[found] = place;
  }
  for (size i = found; i < h; ++i)
    for (size j = 0; j < count; ++j) hard[i][j] = 0.0;
  return found;
}

/* Drop hard rows that say nothing about the first `count` columns. */
static size saying(double **hard, size h, size count) {
  size kept = 0;
  for (size i = 0; i < h; ++i) {
    double most = 0.0;
    for (size j = 0; j < count; ++j) most = fmax(most, fabs(hard[i][j]));
    if (most > HARD_RANK) swap(hard + kept++, hard + i);
  }
  return kept;
}

/* Private unknowns of a step are measured by the longest column of any: that of one that moves nothing is rounding. */
static void level(const window *w, double *squared) {
  size t = w->tangent;
  for (size s = 0; s <= w->reach; ++s) {
    double most = 0.0;
    for (size c = 0; c < t; ++c)
      if (w->hidden[c]) most = fmax(most, squared[s * t + c]);
    for (size c = 0; c < t; ++c)
      if (w->hidden[c]) squared[s * t + c] = most;
  }
}

/* A front without its first `count` unknowns. */
typedef struct {
  double **soft, **hard, *linear;
  size m, h, V;
} front;

/* Eliminate; what gives the unknowns goes to pivots, and stands first no more. `value`: the column of values. */
static void eliminate(window *w, front *f, size count, size value, double *pivots, double *shifts, size *places,
                      size *counts, double *squared) {
  unsigned char taken[value + 1];
  memset(taken, 0, sizeof taken);
  squares(f->soft, f->m, f->V, squared, 0);
  if (value > w->parameters) level(w, squared);
  size hard = hard_pivots(f->soft, f->m, f->hard, f->h, f->linear, f->V, count, taken, places);
  if (hard) squares(f->soft, f->m, f->V, squared, 1);
  size found = triangle(f->soft, f->m, f->V, 0, count, taken, squared, places + hard);
  f->linear[value] = 0.0;
  for (size i = 0; i < hard; ++i) {
    memcpy(pivots + i * f->V * LANES, f->hard[i], f->V * sizeof(lanes));
    shifts[i] = 0.0;
  }
  for (size i = 0; i < found; ++i) {
    const double *row = f->soft[i];
    size place = places[hard + i];
    memcpy(pivots + (hard + i) * f->V * LANES, row, f->V * sizeof(lanes));
    double shift = f->linear[place] / row[place];
    if (shift != 0.0) lessen(f->linear, shift, row, 0, f->V), f->linear[value] = 0.0;
    shifts[hard + i] = shift;
    w->square += (row[value] + shift) * (row[value] + shift);
  }
  counts[0] = hard, counts[1] = hard + found;
  f->soft += found, f->m -= found;
  f->hard += hard, f->h -= hard;
  f->h = saying(f->hard, f->h, value);
}

/* Rows of a factor at a step; hard ones with largest entry 1, without those that are rounding beside others. */
static void take(const window *w, const factor *f, size s, double **row, size *m) {
  size t = w->tangent, n = w->parameters, last = (w->reach + 1) * t, V = wide(w);
  size columns = f->offsets * t + n;
  const double *matrix = f->matrix + s * (columns + 1) * f->rows, *residual = f->residual + s * f->rows;
  double least = 0.0;
  if (f->hard)
    for (size i = 0; i < f->rows * columns; ++i) least = fmax(least, ROUNDING * fabs(matrix[i]));
  for (size i = 0; i < f->rows; ++i) {
    if (f->absent[s * f->rows + i]) continue;
    double *to = row[*m], most = 0.0;
    memset(to, 0, V * sizeof(lanes));
    for (size o = 0; o < f->offsets; ++o)
      for (size c = 0; c < t; ++c) to[f->offset[o] * t + c] = matrix[(o * t + c) * f->rows + i];
    for (size c = 0; c < n; ++c) to[last + c] = matrix[(f->offsets * t + c) * f->rows + i];
    for (size c = 0; c < last + n; ++c) most = fmax(most, fabs(to[c]));
    to[last + n] = residual[i];
    if (!(most > least)) continue;
    if (f->hard)
      for (size v = 0; v < V; ++v) ((loose *)to)[v] *= 1.0 / most;
    ++*m;
  }
}

/* What is carried, in a front of one more step; behind the steps there are some numbers more. */
static void widen(const window *w, double *to, const double *from, size behind) {
  size t = w->tangent, linked = w->reach * t, used = linked + t + behind;
  memcpy(to, from, linked * sizeof(double));
  memset(to + linked, 0, t * sizeof(double));
  memcpy(to + linked + t, from + linked, behind * sizeof(double));
  memset(to + used, 0, (wide(w) * LANES - used) * sizeof(double));
}

/* The first step's place in a front given to one more step at the end. */
static void shift(const window *w, double *row) {
  size t = w->tangent, linked = w->reach * t;
  memmove(row, row + t, linked * sizeof(double));
  memset(row + linked, 0, t * sizeof(double));
}

/* Rows of the parameters alone merged into a border of at most n rows. */
static void merge(const window *w, double **row, size *held, double *const *more, size count, double *squared,
                  size *places) {
  size n = w->parameters, U = slim(w), m = *held, last = (w->reach + 1) * w->tangent;
  for (size i = 0; i < count; ++i, ++m) {
    memcpy(row[m], more[i] + last, (n + 1) * sizeof(double));
    memset(row[m] + n + 1, 0, (U * LANES - n - 1) * sizeof(double));
  }
  squares(row, m, U, squared, 0);
  *held = triangle(row, m, U, 0, n, 0, squared, places);
}

/* Hard rows of the parameters alone taken from those of a front to others, of which independent ones are kept. */
static size settle(const window *w, double **hard, size h, double **row, size *held, double *nothing, size *places) {
  size n = w->parameters, U = slim(w), states = (w->reach + 1) * w->tangent, left = 0;
  unsigned char taken[n + 1];
  for (size i = 0; i < h; ++i) {
    double most = 0.0;
    for (size c = 0; c < states; ++c) most = fmax(most, fabs(hard[i][c]));
    if (most > HARD_RANK) {
      swap(hard + left++, hard + i);
      continue;
    }
    memset(row[*held], 0, U * sizeof(lanes));
    memcpy(row[*held], hard[i] + states, (n + 1) * sizeof(double));
    memset(taken, 0, sizeof taken);
    memset(nothing, 0, U * sizeof(lanes));
    *held = hard_pivots(0, 0, row, *held + 1, nothing, U, n, taken, places);
  }
  return left;
}

/* Rooms for rows in w->work. */
typedef struct {
  double **soft, **hard, **border, **firm, *linear, *squared, *nothing;
  size *places;
} room;

static void outfit(const window *w, room *r, double **pointers) {
  size V = wide(w) * LANES, U = slim(w) * LANES, M = w->soft_room, H = w->hard_room, B = w->parameters + M;
  double *at = w->work;
  r->soft = pointers, r->hard = r->soft + M, r->border = r->hard + H, r->firm = r->border + B;
  for (size i = 0; i < M; ++i, at += V) r->soft[i] = at;
  for (size i = 0; i < H; ++i, at += V) r->hard[i] = at;
  for (size i = 0; i < B; ++i, at += U) r->border[i] = at;
  for (size i = 0; i <= w->parameters; ++i, at += U) r->firm[i] = at;
  r->linear = at, r->squared = at + V, r->nothing = at + 2 * V;
}

static void keep(double *to, size apart, double **row, size count, size wide) {
  for (size i = 0; i < count; ++i) memcpy(to + i * apart, row[i], wide * sizeof(double));
}

/* Steps eliminated, one after another, beginning with what is carried. With `leaves` it is the oldest alone, and what is
   left of it is carried from then on; else the border comes last, with `believed` more rows (U vectors each). Linear
   terms: (steps, (reach + 1) t + n). */
EXPORT size sweep(window *w, size leaves, const double *slopes, size believed, const double *beliefs) {
  FLUSH;
  size t = w->tangent, n = w->parameters, reach = w->reach, states = (reach + 1) * t, value = states + n;
  size V = wide(w), U = slim(w), steps = leaves ? 1 : w->steps, apart = reach * t + n + 1;
  size M = w->soft_room, H = w->hard_room;
  double *pointers[2 * M + H + 2 * n + 1];
  size places[M + H + n + states + 1];
  room r;
  outfit(w, &r, pointers);
  size m = w->held[0], h = w->held[1], b = w->held[2], firm = w->held[3];
  w->square = 0.0;
  for (size i = 0; i < m; ++i) widen(w, r.soft[i], w->carried + i * apart, n + 1);
  for (size i = 0; i < h; ++i) widen(w, r.hard[i], w->carried_hard + i * apart, n + 1);
  widen(w, r.linear, w->carried_linear, n);
  for (size i = 0; i < b; ++i) {
    memset(r.border[i], 0, U * sizeof(lanes));
    memcpy(r.border[i], w->border + i * (n + 1), (n + 1) * sizeof(double));
  }
  for (size i = 0; i < firm; ++i) {
    memset(r.firm[i], 0, U * sizeof(lanes));
    memcpy(r.firm[i], w->border_hard + i * (n + 1), (n + 1) * sizeof(double));
  }
  for (size s = 0; s < steps; ++s) {
    for (size i = 0; i < w->factors; ++i) {
      const factor *f = w->factor + i;
      if ((f->hard ? h + f->rows > H : m + f->rows > M)) return 1;
      if (s < f->count) take(w, f, s, f->hard ? r.hard : r.soft, f->hard ? &h : &m);
    }
    for (size c = 0; c < value; ++c) r.linear[c] += slopes[s * value + c];
    front f = {r.soft, r.hard, r.linear, m, h, V};
    eliminate(w, &f, t, value, w->pivots + s * t * V * LANES, w->shifts + s * t, w->places + s * t, w->counts + 2 * s,
              r.squared);
    size later = triangle(f.soft, f.m, V, t, states, 0, r.squared, places);
    if (leaves)
      for (size i = later; i < f.m; ++i) {
        const double *e = f.soft[i] + states;
        for (size a = 0; a < n; ++a) {
          w->score[a] += e[a] * e[n];
          for (size c = 0; c < n; ++c) w->information[a * n + c] += e[a] * e[c];
        }
      }
    merge(w, r.border, &b, f.soft + later, f.m - later, r.squared, places);
    f.h = settle(w, f.hard, f.h, r.firm, &firm, r.nothing, places);
    /* the rows that are left come first */
    for (size i = 0; i < later; ++i) shift(w, f.soft[i]), swap(r.soft + i, f.soft + i);
    for (size i = 0; i < f.h; ++i) shift(w, f.hard[i]), swap(r.hard + i, f.hard + i);
    shift(w, r.linear);
    m = later, h = f.h;
  }
  if (leaves) {
    for (size a = 0; a < n; ++a) w->score[a] += r.linear[states + a] - w->carried_linear[reach * t + a];
    for (size i = 0; i < m + h + 1; ++i) {
      double *row = i < m ? r.soft[i] : i < m + h ? r.hard[i - m] : r.linear;
      memmove(row + reach * t, row + states, (n + 1) * sizeof(double));
    }
    keep(w->carried, apart, r.soft, m, apart), keep(w->carried_hard, apart, r.hard, h, apart);
    memcpy(w->carried_linear, r.linear, (apart - 1) * sizeof(double));
    keep(w->border, n + 1, r.border, b, n + 1);
    keep(w->border_hard, n + 1, r.firm, firm, n + 1);
    w->held[0] = m, w->held[1] = h, w->held[2] = b, w->held[3] = firm;
    return 0;
  }
  double square = w->square, *linear = r.linear;
  memmove(linear, linear + states, n * sizeof(double));
  memset(linear + n, 0, (U * LANES - n) * sizeof(double));
  for (size a = 0; a < n; ++a) linear[a] += w->border_linear[a];
  for (size i = 0; i < believed; ++i, ++b) memcpy(r.border[b], beliefs + i * U * LANES, U * sizeof(lanes));
  front f = {r.border, r.firm, linear, b, firm, U};
  eliminate(w, &f, n, n, w->pivots + w->steps * t * V * LANES, w->shifts + w->steps * t, w->places + w->steps * t,
            w->counts + 2 * w->steps, r.squared);
  w->square = square;
  return 0;
}

#include "window_steps.c"
