/* Programs evaluated: each instruction works on up to 128 steps at once, so that finding out what it is costs little. */

#include "program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "operations.h"

#define WIDEST 16
#define CACHED (1 << 18)  /* bytes of vectors that stay in a cache of the second level */
#define PICK(mask, a, b) ((part)(((choice)(a) & (mask)) | ((choice)(b) & ~(mask))))
#define INSIDE (LANES / PARTS)

/* Sine and cosine after W. J. Cody and W. Waite, with the polynomials of fdlibm: the angle less multiples of a quarter
   turn in three parts, to within a unit of the last digit. Angles of more than a million go to the C library. */
static void sine_and_cosine(part x, part *sine, part *cosine) {
  const double round = 6755399441055744.0, quarter_1 = 1.57079632673412561417, quarter_2 = 6.07710050630396597660e-11;
  const double quarter_3 = 2.02226624879595063154e-21;
  choice far = ~(choice)((choice)(x < 1e6) & (choice)(x > -1e6));
  part at = PICK(far, (part){0}, x), turns = at * 6.36619772367581382433e-01 + round;
  choice quarter = (choice)turns;
  turns -= round;
  part t = at - turns * quarter_1, w = turns * quarter_2, y = t - w;
  w = turns * quarter_3 - ((t - y) - w);
  part r = y - w, low = (y - r) - w, z = r * r, v = z * r;
  part s = -1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10));
  s = 8.33333333332248946124e-03 + z * s;
  s = r - ((z * (0.5 * low - v * s) - low) - v * -1.66666666666666324348e-01);
  part c = 2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
  c = z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * c));
  part half = 0.5 * z, rest = 1.0 - half;
  c = rest + (((1.0 - rest) - half) + (z * c - r * low));
  choice odd = -(quarter & 1), sign = (quarter & 2) << 62, other = ((quarter + 1) & 2) << 62;
  *sine = (part)((choice)PICK(odd, c, s) ^ sign), *cosine = (part)((choice)PICK(odd, s, c) ^ other);
  for (int l = 0; l < INSIDE; ++l)
    if (far[l]) (*sine)[l] = sin(x[l]), (*cosine)[l] = cos(x[l]);
}

/* Values that are the same at all steps. */
static void run_prologue(const evaluation *e) {
  const program *p = e->of;
  double *s = e->scalars;
  memcpy(s, p->values, p->constants * sizeof(double));
  for (const instruction *i = p->prologue, *end = i + p->before; i < end; ++i) {
    if (i->op == OP_INPUT) {
      s[i->to] = e->first[i->a][i->b];
      continue;
    }
    double x = s[i->a], y = s[i->b];
    switch (i->op) {
#define CASE(name, operands) \
  case OP_##name:            \
    s[i->to] = SCALAR_##name(x, y); \
    break;
      OPERATIONS(CASE)
#undef CASE
    }
    (void)y;
  }
}

/* Less it a number becomes a vector, a zero with its sign. */
static const part NOTHING = {0};

#define VECTOR(place) ((part *)(slots + (size)(place) * width))
#define EACH for (int j = 0; j < width * PARTS; ++j)
#define ONE(name, result)                                  \
  case OP_##name: {                                        \
    const part *x = VECTOR(i->a);                          \
    part *to = VECTOR(i->to);                              \
    EACH to[j] = (result);                                 \
    break;                                                 \
  }
#define TWO(name, result)                                  \
  case OP_##name: {                                        \
    const part *x = VECTOR(i->a), *y = VECTOR(i->b);       \
    part *to = VECTOR(i->to);                              \
    EACH to[j] = (result);                                 \
    break;                                                 \
  }
#define THREE(name, result)                                \
  case OP_##name: {                                        \
    const part *x = VECTOR(i->a), *y = VECTOR(i->b), *z = VECTOR(i->c); \
    part *to = VECTOR(i->to);                              \
    EACH to[j] = (result);                                 \
    break;                                                 \
  }
#define ONE_S(name, result)                                \
  case OP_##name: {                                        \
    const part *x = VECTOR(i->a);                          \
    const part y = scalars[i->b] - NOTHING;              \
    part *to = VECTOR(i->to);                              \
    EACH to[j] = (result);                                 \
    break;                                                 \
  }
#define TWO_S(name, result)                                \
  case OP_##name: {                                        \
    const part *x = VECTOR(i->a), *z = VECTOR(i->c);       \
    const part y = scalars[i->b] - NOTHING;              \
    part *to = VECTOR(i->to);                              \
    EACH to[j] = (result);                                 \
    break;                                                 \
  }
#define TWO_T(name, result)                                \
  case OP_##name: {                                        \
    const part *x = VECTOR(i->a), *y = VECTOR(i->b);       \
    const part z = scalars[i->c] - NOTHING;              \
    part *to = VECTOR(i->to);                              \
    EACH to[j] = (result);                                 \
    break;                                                 \
  }
#define TRUE(mask) ((part)((choice)(mask) & (choice)((part){0} + 1.0)))
#define EACH_STEP for (int l = 0; l < width * LANES; ++l)

/* The operations that have no vectors of their own, step by step. */
static void run_by_steps(const instruction *i, const double *x, const double *y, double *to, int count) {
  switch (i->op) {
#define CASE(name, operands)                                              \
  case OP_##name:                                                         \
    for (int l = 0; l < count; ++l) to[l] = SCALAR_##name(x[l], y[l]);    \
    break;
    OPERATIONS(CASE)
#undef CASE
  }
}

INLINE void run(const int width, const evaluation *e, size s, size here) {
  const program *p = e->of;
  lanes *slots = e->slots, *numbers = e->numbers;
  const double *scalars = e->scalars;
  for (const instruction *i = p->code, *end = i + p->length; i < end; ++i) {
    switch (i->op) {
      case OP_INPUT: {
        size stride = e->stride[i->a];
        const double *from = e->first[i->a] + s * stride + i->b;
        double *to = (double *)VECTOR(i->to);
        if (here == width * LANES)
          EACH_STEP to[l] = from[l * stride];
        else
          EACH_STEP to[l] = from[(l < here ? l : here - 1) * stride];
        break;
      }
      case OP_OUTPUT: {
        const lanes *x = slots + (size)i->a * width;
        lanes *to = numbers + i->to;
        for (int v = 0; v < width; ++v) to[v * e->apart] = x[v];
        break;
      }
      case OP_OUTPUT_S: {
        lanes *to = numbers + i->to;
        for (int v = 0; v < width; ++v) to[v * e->apart] = scalars[i->a] - (lanes){0};
        break;
      }
      case OP_SPREAD: {
        part *to = VECTOR(i->to);
        EACH to[j] = scalars[i->a] - NOTHING;
        break;
      }
      ONE(NEG, -x[j])
      ONE(SQ, x[j] * x[j])
      ONE(TWICE, 2.0 * x[j])
      ONE(INV, 1.0 / x[j])
      ONE(FABS, (part)((choice)x[j] & 0x7fffffffffffffffLL))
      ONE(SIGN, PICK((choice)(x[j] < 0.0), NOTHING - 1.0, PICK((choice)(x[j] > 0.0), NOTHING + 1.0, x[j])))
      ONE(NOT, TRUE(x[j] == 0.0))
      TWO(ADD, x[j] + y[j])
      TWO(SUB, x[j] - y[j])
      TWO(MUL, x[j] * y[j])
      TWO(DIV, x[j] / y[j])
      TWO(LT, TRUE(x[j] < y[j]))
      TWO(LE, TRUE(x[j] <= y[j]))
      TWO(EQ, TRUE(x[j] == y[j]))
      TWO(NE, TRUE(x[j] != y[j]))
      TWO(AND, TRUE((choice)(x[j] != 0.0) & (choice)(y[j] != 0.0)))
      TWO(OR, TRUE((choice)(x[j] != 0.0) | (choice)(y[j] != 0.0)))
      TWO(IF_ELSE_ZERO, (part)((choice)y[j] & (choice)(x[j] != 0.0)))
      THREE(MULADD, x[j] * y[j] + z[j])
      THREE(MULSUB, x[j] * y[j] - z[j])
      THREE(SUBMUL, z[j] - x[j] * y[j])
      ONE_S(ADD_S, x[j] + y)
      ONE_S(SUB_S, x[j] - y)
      ONE_S(FROM_S, y - x[j])
      ONE_S(MUL_S, x[j] * y)
      ONE_S(DIV_S, x[j] / y)
      ONE_S(OVER_S, y / x[j])
      TWO_S(MULADD_S, x[j] * y + z[j])
      TWO_S(MULSUB_S, x[j] * y - z[j])
      TWO_S(SUBMUL_S, z[j] - x[j] * y)
      TWO_T(MULADD_T, x[j] * y[j] + z)
      TWO_T(MULSUB_T, x[j] * y[j] - z)
      TWO_T(SUBMUL_T, z - x[j] * y[j])
      case OP_SQRT: {
        const double *x = (const double *)VECTOR(i->a);
        double *to = (double *)VECTOR(i->to);
        EACH_STEP to[l] = sqrt(x[l]);
        break;
      }
      case OP_VSIN: case OP_VCOS: case OP_SINCOS: {
        const part *x = VECTOR(i->a);
        part *to = VECTOR(i->to), *other = VECTOR(i->b);
        EACH {
          part sine, cosine;
          sine_and_cosine(x[j], &sine, &cosine);
          to[j] = i->op == OP_VCOS ? cosine : sine;
          if (i->op == OP_SINCOS) other[j] = cosine;
        }
        break;
      }
      default: {
        const double *y = (const double *)VECTOR(i->b);
        run_by_steps(i, (const double *)VECTOR(i->a), y, (double *)VECTOR(i->to), width * LANES);
      }
    }
  }
}

static void run_1(const evaluation *e, size s, size here) { run(1, e, s, here); }
static void run_2(const evaluation *e, size s, size here) { run(2, e, s, here); }
static void run_4(const evaluation *e, size s, size here) { run(4, e, s, here); }
static void run_8(const evaluation *e, size s, size here) { run(8, e, s, here); }
static void run_16(const evaluation *e, size s, size here) { run(16, e, s, here); }

void evaluate_block(const evaluation *e, size s, size here) {
  (e->width == 16 ? run_16 : e->width == 8 ? run_8 : e->width == 4 ? run_4 : e->width == 2 ? run_2 : run_1)(e, s, here);
}

int open_evaluation(evaluation *e, const program *of, const double **first, const size *stride, size n) {
  *e = (evaluation){.of = of, .first = first, .stride = stride, .width = 1, .apart = of->count + 1};
  size each = (of->slots + e->apart) * sizeof(lanes);
  while (e->width < WIDEST && e->width * LANES < n && (e->width < WIDEST / 2 || e->width * 2 * each <= CACHED))
    e->width *= 2;
  size vectors = (of->slots + e->apart) * e->width;
  e->slots = allocate(vectors * sizeof(lanes) + (of->scalars + 1) * sizeof(double));
  if (!e->slots) return 1;
  e->numbers = e->slots + of->slots * e->width, e->scalars = (double *)(e->slots + vectors);
  for (size v = 0; v < e->width; ++v) e->numbers[v * e->apart + of->count] = (lanes){0};
  run_prologue(e);
  return 0;
}

void close_evaluation(evaluation *e) {
  release(e->slots);
}

EXPORT int evaluate_along(const program *p, size n, const double **first, const size *stride, const size *place,
                          double *out, size apart) {
  evaluation e;
  int failed = open_evaluation(&e, p, first, stride, n);
  for (size s = 0; s < n && !failed; s += LANES) {
    size here = n - s < LANES ? n - s : LANES;
    const double *numbers = (const double *)numbers_at(&e, s, n);
    for (size l = 0; l < here; ++l) {
      double *to = out + (s + l) * apart;
      if (place)
        for (size k = 0; k < p->count; ++k) to[place[k]] = numbers[k * LANES + l];
      else
        for (size k = 0; k < p->count; ++k) to[k] = numbers[k * LANES + l];
    }
  }
  close_evaluation(&e);
  return failed;
}
