/* Steps, covariances and costs of a window, and its rows by compiled kernels; behind window.c. */

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
      for (size j = 0; j <= i; ++j) { /* what is not symmetric would grow from step to step */
        double sum = 0.0;
        for (size c = 0; c < size_; ++c) sum += across[i * size_ + c] * x[j * columns + c];
        for (size c = size_; c < columns; ++c) sum += x[i * columns + c] * x[j * columns + c];
        here[i * states + j] = here[j * states + i] = sum;
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

/* Jacobians of the factors that have a program, at `count` steps at the most; 1 if one fails. */
EXPORT size window_jacobians(window *w, size count) {
  for (size i = 0; i < w->factors; ++i) {
    const factor *f = w->factor + i;
    const double *first[f->offsets + 3];
    size stride[f->offsets + 3], n = f->count < count ? f->count : count;
    size columns = (f->offsets * w->tangent + w->parameters + 1) * f->rows;
    if (!f->jacobian || n <= 0) continue;
    arguments(w, f, w->points, w->theta_point, first, stride);
    if (evaluate_along(f->jacobian, n, first, stride, f->place, f->matrix, columns)) return 1;
  }
  return 0;
}

/* Residuals of the factors that have a program, and the cost of soft rows and the largest value of a hard one, of all. */
EXPORT size window_residuals(window *w, size count, double *out) {
  out[0] = out[1] = 0.0;
  for (size i = 0; i < w->factors; ++i) {
    const factor *f = w->factor + i;
    const double *first[f->offsets + 3];
    size stride[f->offsets + 3], n = f->count < count ? f->count : count;
    if (n <= 0) continue;
    if (f->value) {
      arguments(w, f, w->best, w->theta, first, stride);
      if (evaluate_along(f->value, n, first, stride, NULL, f->residual, f->rows)) return 1;
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
