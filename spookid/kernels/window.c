/* Steps of a window eliminated in order of time, in square-root form; see window.py and solvers/fronts.py.

   A front has rows of whole vectors: the states of `reach` + 1 steps, the parameters, the value. Rows are moved by their
   pointers. What is carried and the rows of the parameters alone (the border) are kept likewise. */

#define RANK 1e-11
#define HARD_RANK 1e-9
#define ROUNDING 1e-14

typedef int (*along)(size n, const double **first, const size *stride, double *out, size count);

/* A factor in the window; `jacobian` and `residual` are null where something else evaluates it. */
typedef struct {
  size count, rows, offsets, hard;
  const size *offset;
  double *matrix, *residual;
  along jacobian, value;
  size numbers;
  const size *place;
  double *room;
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
  for (size v = 0; v < V; ++v) {
    lanes sum = ZERO;
    for (size i = 0; i < m; ++i) sum += ((loose *)row[i])[v] * ((loose *)row[i])[v];
    for (int k = 0; k < LANES; ++k) {
      double *to = out + v * LANES + k;
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
    if (sum <= RANK * RANK * squared[j]) {
      for (size k = 0; k < count; ++k) row[list[k]][j] = 0.0;
      continue;
    }
    swap(row + found, row + list[0]);
    list[0] = found;
    if (count > 1) {
      double length = sqrt(sum);
      x[0] += x[0] >= 0.0 ? length : -length;
      double scale = 1.0 / (length * fabs(x[0]));
      for (size v = j / LANES; v < V; ++v) {
        lanes total = ZERO;
        for (size k = 0; k < count; ++k) total += x[k] * ((loose *)row[list[k]])[v];
        total *= scale;
        for (size k = 0; k < count; ++k) ((loose *)row[list[k]])[v] -= x[k] * total;
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

/* Rows of a factor at a step; of hard ones those whose slopes are not rounding. Slopes in the states that are so are
   none: a multiplier that nothing hangs on would take a row. */
static void take(const window *w, const factor *f, size s, double **row, size *m) {
  size t = w->tangent, n = w->parameters, last = (w->reach + 1) * t, V = wide(w);
  const double *matrix = f->matrix + s * (f->offsets * t + n + 1) * f->rows, *residual = f->residual + s * f->rows;
  double least = 0.0, slope = 0.0;
  for (size i = 0; i < f->offsets * t * f->rows; ++i) slope = fmax(slope, fabs(matrix[i]));
  if (f->hard)
    for (size i = 0; i < (f->offsets * t + n) * f->rows; ++i) least = fmax(least, HARD_RANK * fabs(matrix[i]));
  for (size i = 0; i < f->rows; ++i) {
    if (f->absent[s * f->rows + i]) continue;
    double *to = row[*m], most = 0.0;
    memset(to, 0, V * sizeof(lanes));
    for (size o = 0; o < f->offsets; ++o)
      for (size c = 0; c < t; ++c) {
        double value = matrix[(o * t + c) * f->rows + i];
        to[f->offset[o] * t + c] = fabs(value) <= ROUNDING * slope ? 0.0 : value;
      }
    for (size c = 0; c < n; ++c) to[last + c] = matrix[(f->offsets * t + c) * f->rows + i];
    for (size c = 0; c < last + n; ++c) most = fmax(most, fabs(to[c]));
    to[last + n] = residual[i];
    if (most <= least) continue;
    if (f->hard)
      for (size v = 0; v < V; ++v) ((loose *)to)[v] *= 1.0 / most;
    ++*m;
  }
}

/* What is carried, in a front of one more step. */
static void widen(const window *w, double *to, const double *from) {
  size t = w->tangent, linked = w->reach * t, n = w->parameters;
  memcpy(to, from, linked * sizeof(double));
  memset(to + linked, 0, t * sizeof(double));
  memcpy(to + linked + t, from + linked, (n + 1) * sizeof(double));
  size used = linked + t + n + 1;
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
  for (size i = 0; i < m; ++i) widen(w, r.soft[i], w->carried + i * apart);
  for (size i = 0; i < h; ++i) widen(w, r.hard[i], w->carried_hard + i * apart);
  widen(w, r.linear, w->carried_linear);
  r.linear[value] = 0.0;
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

/* Unknowns that rows give, the last row first, in a step (V vectors) of which all others are known. */
static void give(const double *pivots, const double *shifts, const size *places, const size *counts, size V, size value,
                 double *step) {
  step[value] = 1.0;
  for (size i = counts[1] - 1; i >= 0; --i) {
    const double *row = pivots + i * V * LANES;
    lanes sum = ZERO;
    step[places[i]] = 0.0;
    for (size v = 0; v < V; ++v) sum += ((const loose *)row)[v] * ((const loose *)step)[v];
    step[places[i]] = -(total(sum) + shifts[i]) / row[places[i]];
  }
}

/* The parameters' step, (n). */
EXPORT void border_step(const window *w, double *out) {
  FLUSH;
  size n = w->parameters, U = slim(w), t = w->tangent, s = w->steps;
  double step[U * LANES];
  memset(step, 0, sizeof step);
  give(w->pivots + s * t * wide(w) * LANES, w->shifts + s * t, w->places + s * t, w->counts + 2 * s, U, n, step);
  memcpy(out, step, n * sizeof(double));
}

/* The states' steps, (steps, t), for one of the parameters. */
EXPORT void states_step(const window *w, const double *parameters, double *out) {
  FLUSH;
  size t = w->tangent, states = (w->reach + 1) * t, n = w->parameters, V = wide(w);
  double step[V * LANES];
  memset(step, 0, sizeof step);
  memcpy(step + states, parameters, n * sizeof(double));
  for (size s = w->steps - 1; s >= 0; --s) {
    memmove(step + t, step, (states - t) * sizeof(double));
    memset(step, 0, t * sizeof(double));
    give(w->pivots + s * t * V * LANES, w->shifts + s * t, w->places + s * t, w->counts + 2 * s, V, states + n, step);
    memcpy(out + s * t, step, t * sizeof(double));
  }
}

/* Covariances (steps, states, states) of each step's state and the next ones for given parameters. */
EXPORT void window_covariances(const window *w, double *out) {
  FLUSH;
  size t = w->tangent, states = (w->reach + 1) * t, size_ = states - t, V = wide(w), columns = size_ + t;
  double x[states * columns], across[t * size_ + 1];
  for (size s = w->steps - 1; s >= 0; --s, memset(x, 0, sizeof x)) {
    double *here = out + s * states * states;
    const double *next = here + states * states;
    const double *pivots = w->pivots + s * t * V * LANES;
    const size *places = w->places + s * t, *counts = w->counts + 2 * s;
    memset(x, 0, sizeof x);
    for (size i = 0; i < size_; ++i) x[(t + i) * columns + i] = 1.0;
    for (size i = counts[1] - 1; i >= 0; --i) {
      const double *row = pivots + i * V * LANES;
      double *mine = x + places[i] * columns;
      memset(mine, 0, columns * sizeof(double));
      for (size c = 0; c < states; ++c)
        if (c != places[i] && row[c] != 0.0)
          for (size k = 0; k < columns; ++k) mine[k] += row[c] * x[c * columns + k];
      if (i >= counts[0]) mine[size_ + i] += 1.0;
      for (size k = 0; k < columns; ++k) mine[k] *= -1.0 / row[places[i]];
    }
    for (size i = 0; i < size_; ++i)
      for (size j = 0; j < size_; ++j)
        here[(t + i) * states + t + j] = s + 1 < w->steps ? next[i * states + j] : 0.0;
    for (size i = 0; i < t; ++i)
      for (size j = 0; j < size_; ++j) {
        double sum = 0.0;
        for (size c = 0; c < size_; ++c) sum += x[i * columns + c] * here[(t + c) * states + t + j];
        across[i * size_ + j] = here[i * states + t + j] = here[(t + j) * states + i] = sum;
      }
    for (size i = 0; i < t; ++i)
      for (size j = 0; j < t; ++j) {
        double sum = 0.0;
        for (size c = 0; c < size_; ++c) sum += across[i * size_ + c] * x[j * columns + c];
        for (size c = size_; c < columns; ++c) sum += x[i * columns + c] * x[j * columns + c];
        here[i * states + j] = sum;
      }
  }
}

/* Cost of carried rows after a step of the states (steps, t) and the parameters, and the largest value of a hard one;
   with `follow` their values are brought there. */
EXPORT void carried_merit(window *w, const double *steps, const double *parameters, size follow, double *out) {
  size linked = w->reach * w->tangent, known = w->steps < w->reach ? w->steps : w->reach, n = w->parameters;
  double whole[linked + n + 1], cost = 0.0, violation = 0.0;
  memset(whole, 0, sizeof whole);
  memcpy(whole, steps, known * w->tangent * sizeof(double));
  memcpy(whole + linked, parameters, n * sizeof(double));
  double *fronts[] = {w->carried, w->carried_hard, w->border, w->border_hard};
  for (int part = 0; part < 4; ++part) {
    size columns = part < 2 ? linked + n : n;
    const double *step = part < 2 ? whole : whole + linked;
    for (size i = 0; i < w->held[part]; ++i) {
      double *row = fronts[part] + i * (columns + 1), sum = row[columns];
      for (size c = 0; c < columns; ++c) sum += row[c] * step[c];
      if (part % 2)
        violation = fmax(violation, fabs(sum));
      else
        cost += sum * sum;
      if (follow) row[columns] = sum;
    }
  }
  for (size c = 0; c < linked + n; ++c) cost += 2.0 * w->carried_linear[c] * whole[c];
  for (size c = 0; c < n; ++c) cost += 2.0 * w->border_linear[c] * parameters[c];
  if (follow)
    for (size a = 0; a < n; ++a)
      for (size c = 0; c < n; ++c) w->score[a] += w->information[a * n + c] * parameters[c];
  out[0] = cost, out[1] = violation;
}

/* Arguments of a factor at its first step. */
static void arguments(const window *w, const factor *f, const double *states, const double *theta, const double **to,
                      size *stride) {
  for (size o = 0; o < f->offsets; ++o) to[o] = states + f->offset[o] * w->ambient, stride[o] = w->ambient;
  to[f->offsets] = f->data, stride[f->offsets] = f->width;
  to[f->offsets + 1] = theta, to[f->offsets + 2] = w->numbers;
  stride[f->offsets + 1] = stride[f->offsets + 2] = 0;
}

/* Jacobians of the factors that have a kernel, at `count` steps at the most; 1 if one fails. */
EXPORT size window_jacobians(window *w, size count) {
  for (size i = 0; i < w->factors; ++i) {
    const factor *f = w->factor + i;
    const double *first[f->offsets + 3];
    size stride[f->offsets + 3], n = f->count < count ? f->count : count;
    size columns = (f->offsets * w->tangent + w->parameters + 1) * f->rows;
    if (!f->jacobian || n <= 0) continue;
    arguments(w, f, w->points, w->theta_point, first, stride);
    if (f->jacobian(n, first, stride, f->room, f->numbers)) return 1;
    for (size s = 0; s < n; ++s)
      for (size c = 0; c < f->numbers; ++c) f->matrix[s * columns + f->place[c]] = f->room[s * f->numbers + c];
  }
  return 0;
}

/* Residuals of the factors that have a kernel, and the cost of soft rows and the largest value of a hard one, of all. */
EXPORT size window_residuals(window *w, size count, double *out) {
  out[0] = out[1] = 0.0;
  for (size i = 0; i < w->factors; ++i) {
    const factor *f = w->factor + i;
    const double *first[f->offsets + 3];
    size stride[f->offsets + 3], n = f->count < count ? f->count : count;
    if (n <= 0) continue;
    if (f->value) {
      arguments(w, f, w->best, w->theta, first, stride);
      if (f->value(n, first, stride, f->residual, f->rows)) return 1;
    }
    for (size k = 0; k < n * f->rows; ++k) {
      if (f->absent[k]) continue;
      double value = f->residual[k];
      if (!f->hard)
        out[0] += value * value;
      else if (!(fabs(value) <= out[1]))
        out[1] = fabs(value);
    }
  }
  return 0;
}
