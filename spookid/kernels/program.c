/* Programs made of CasADi's instructions.

   Values that are the same at all steps are computed once, as scalars. Unless the digits have to be CasADi's own,
   products and sums are fused, quotients with one divisor share its inverse, and the sine and the cosine of an angle are
   computed together. What is left is put into as few places as its order allows. */

#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "operations.h"

#define NONE (-1)

/* A value: how it follows from others, by their numbers. Of an input, `a` is the argument and `b` the number in it; of
   an output, `b` is the number in the result; of a constant, `a` is its number. */
typedef struct {
  int op, a, b, c;
  int uses;                          /* how many others need it */
  int last;                          /* the number of the last of them */
  int place;                         /* as a scalar; or as a vector, from where it is computed to where it is last needed */
  int same;                          /* 1 if it is the same at all steps */
} value;

typedef struct {
  value *all;
  int count;
  int *found;                        /* values by what they are; NONE where there is none */
  size mask;                         /* of the places in it, which are a power of two */
  const double *constants;
} values;

#define NAME(name, operands) operands,
static const char OPERANDS[] = {OPERATIONS(NAME) 0, 0, 1, IMPROVED(NAME) 0};
#undef NAME

static int *operand(value *v, int i) { return i == 0 ? &v->a : i == 1 ? &v->b : &v->c; }
static int is_product(const value *v) { return (v->op == OP_MUL || v->op == OP_SQ) && v->uses == 1 && !v->same; }

/* True if a value is what an operation gives. */
static int is_same(const values *v, const value *one, int op, int a, int b) {
  if (one->op != op) return 0;
  if (op == OP_CONSTANT) return !memcmp(v->constants + one->a, v->constants + a, sizeof(double));
  return (one->a == a && one->b == b) || ((op == OP_ADD || op == OP_MUL) && one->a == b && one->b == a);
}

/* The place of a value among those that are found: its own, or one that is free. */
static int *place_of(const values *v, int op, int a, int b) {
  unsigned long long x = (unsigned)a, y = (unsigned)b, key = (x + y) * 0x9e3779b97f4a7c15ULL ^ (x * y + (unsigned)op);
  if (op == OP_CONSTANT) memcpy(&key, v->constants + a, sizeof key);
  key *= 0xd6e8feb86659fd93ULL;
  size k = (size)(key >> 32) & v->mask;
  while (v->found[k] != NONE && !is_same(v, v->all + v->found[k], op, a, b)) k = (k + 1) & v->mask;
  return v->found + k;
}

static void forget(values *v) {
  v->count = 0;
  for (size k = 0; k <= v->mask; ++k) v->found[k] = NONE;
}

/* The number of a value, which is computed once. */
static int add(values *v, int op, int a, int b) {
  int *known = op == OP_OUTPUT ? NULL : place_of(v, op, a, b);
  if (known && *known != NONE) return *known;
  if (known) *known = v->count;
  value *to = v->all + v->count;
  *to = (value){op, a, b, NONE, 0, NONE, NONE, op != OP_INPUT && op != OP_OUTPUT};
  for (int i = 0; i < OPERANDS[op]; ++i) to->same &= v->all[*operand(to, i)].same;
  return v->count++;
}

/* x / y: by the inverse of y where other quotients share it, or only y is the same at all steps. */
static int add_quotient(values *v, int x, int y, int *inverse, int shared) {
  if (!shared && (v->all[x].same || !v->all[y].same)) return add(v, OP_DIV, x, y);
  if (inverse[y] == NONE) inverse[y] = add(v, OP_INV, y, NONE);
  return add(v, OP_MUL, x, inverse[y]);
}

/* The values of instructions (n, 4): what is done, the place of its result, and two operands. `where` has room for the
   value that is in each place. `shared` is of ``count_shares``, or takes the numbers of the divisors if it is not known;
   quotients then are as they are written. */
static void read_values(values *v, const int *raw, size n, size repeated, int *where, int *inverse, int *shared,
                        int known) {
  for (const int *i = raw; i < raw + 4 * n; i += 4) {
    int op = i[0], number = (int)((i - raw) / 4), found;
    if (op == OP_CONSTANT || op == OP_INPUT) {
      found = add(v, op, i[2], i[3]);
      if (op == OP_INPUT) v->all[found].same = i[2] >= repeated;
    } else if (op == OP_OUTPUT) {
      found = add(v, op, where[i[2]], i[1]);
      continue;
    } else {
      int a = where[i[2]], b = OPERANDS[op] > 1 ? where[i[3]] : NONE;
      int left = v->all[a].op == OP_NEG, right = b != NONE && v->all[b].op == OP_NEG;
      if (op == OP_DIV && !known) shared[number] = b;
      if (op == OP_DIV && known)
        found = add_quotient(v, a, b, inverse, shared[number] > 1);
      else if (op == OP_ADD && (left || right))  /* the same digits */
        found = right ? add(v, OP_SUB, a, v->all[b].a) : add(v, OP_SUB, b, v->all[a].a);
      else if (op == OP_SUB && right)
        found = add(v, OP_ADD, a, v->all[b].a);
      else
        found = op == OP_ASSIGN ? a : add(v, op, a, b);
    }
    where[i[1]] = found;
  }
}

/* By how many quotients each one's divisor is shared, by the number of the instruction, where that of the divisor stands
   before; `times` has room for a number of each value, 0. */
static void count_shares(const values *v, const int *raw, size n, int *shared, int *times) {
  for (const value *one = v->all; one < v->all + v->count; ++one)
    if (one->op == OP_DIV) ++times[one->b];
  for (size k = 0; k < n; ++k)
    if (raw[4 * k] == OP_DIV) shared[k] = times[shared[k]];
}

static void count_uses(values *v) {
  for (int k = v->count - 1; k >= 0; --k) {
    value *here = v->all + k;
    if (here->uses || here->op == OP_OUTPUT)
      for (int i = 0; i < OPERANDS[here->op]; ++i) ++v->all[*operand(here, i)].uses;
  }
}

/* A product that one sum alone needs becomes a part of it. */
static void fuse(values *v) {
  for (value *sum = v->all; sum < v->all + v->count; ++sum) {
    if (!sum->uses || sum->same || (sum->op != OP_ADD && sum->op != OP_SUB)) continue;
    value *a = v->all + sum->a, *b = v->all + sum->b;
    int left = is_product(a) && !(is_product(b) && b > a);  /* the later one of two is needed for a shorter time */
    if (!left && !is_product(b)) continue;
    value *product = left ? a : b;
    int second = product->op == OP_SQ ? product->a : product->b;
    int op = sum->op == OP_ADD ? OP_MULADD : left ? OP_MULSUB : OP_SUBMUL;
    *sum = (value){op, product->a, second, left ? sum->b : sum->a, sum->uses, NONE, NONE, 0};
    product->uses = 0;
  }
}

/* Sines and cosines by vectors: both together where both are needed. `first` has room for a number of each value. */
static void pair(values *v, int *first) {
  for (int k = 0; k < v->count; ++k) first[k] = NONE;
  for (int k = 0; k < v->count; ++k) {
    value *here = v->all + k;
    if (!here->uses || here->same || (here->op != OP_SIN && here->op != OP_COS)) continue;
    value *earlier = first[here->a] == NONE ? NULL : v->all + first[here->a];
    int sine = here->op == OP_SIN;
    if (earlier && earlier->op == (sine ? OP_VCOS : OP_VSIN)) {
      earlier->op = OP_SINCOS, earlier->b = sine ? k : first[here->a], earlier->c = sine ? first[here->a] : k;
      here->op = OP_PAIRED;
    } else {
      here->op = sine ? OP_VSIN : OP_VCOS, first[here->a] = k;
    }
  }
}

static void find_last_uses(values *v) {
  for (int k = 0; k < v->count; ++k) {
    value *here = v->all + k;
    if (here->uses || here->op == OP_OUTPUT)
      for (int i = 0; i < OPERANDS[here->op]; ++i) v->all[*operand(here, i)].last = k;
  }
}

/* Scalars: constants first, then what follows from them. */
static void place_scalars(program *p, values *v, const double *constants) {
  for (int turn = 0; turn < 2; ++turn) {
    for (int k = 0; k < v->count; ++k) {
      value *here = v->all + k;
      if (!here->uses || !here->same || (here->op == OP_CONSTANT) != (turn == 0)) continue;
      here->place = (int)p->scalars++;
      if (turn == 0)
        p->values[here->place] = constants[here->a];
      else if (here->op == OP_INPUT)
        p->prologue[p->before++] = (instruction){OP_INPUT, here->place, here->a, here->b, 0};
      else
        p->prologue[p->before++] = (instruction){here->op, here->place, v->all[here->a].place,
                                                 OPERANDS[here->op] > 1 ? v->all[here->b].place : 0, 0};
    }
    if (turn == 0) p->constants = p->scalars;
  }
}

typedef struct {
  program *to;
  values *v;
  int *free, spare;                  /* places that nothing needs any more */
} writer;

static int take_place(writer *w) { return w->spare ? w->free[--w->spare] : (int)w->to->slots++; }

static void emit(writer *w, int op, int to, int a, int b, int c) {
  w->to->code[w->to->length++] = (instruction){op, to, a, b, c};
}

/* The operation with a scalar as its second or third operand; NONE if there is none. */
static int with_scalar(int op, int i) {
  switch (op) {
    case OP_ADD: return i ? OP_ADD_S : NONE;
    case OP_MUL: return i ? OP_MUL_S : NONE;
    case OP_SUB: return i ? OP_SUB_S : OP_FROM_S;
    case OP_DIV: return i ? OP_DIV_S : OP_OVER_S;
    case OP_MULADD: return i == 2 ? OP_MULADD_T : i ? OP_MULADD_S : NONE;
    case OP_MULSUB: return i == 2 ? OP_MULSUB_T : i ? OP_MULSUB_S : NONE;
    case OP_SUBMUL: return i == 2 ? OP_SUBMUL_T : i ? OP_SUBMUL_S : NONE;
    default: return NONE;
  }
}

/* A value as an instruction of vectors; a scalar that cannot be an operand of one is put into a vector before. */
static void write_value(writer *w, int k) {
  value *all = w->v->all, *here = all + k;
  int op = here->op, n = OPERANDS[op], place[3] = {0}, spread[3], spreads = 0;
  if (op == OP_OUTPUT) {
    emit(w, all[here->a].same ? OP_OUTPUT_S : OP_OUTPUT, here->b, all[here->a].place, 0, 0);
  } else if (op == OP_INPUT) {
    emit(w, op, here->place = take_place(w), here->a, here->b, 0);
  } else {
    int commutes = op == OP_ADD || op == OP_MUL || op == OP_MULADD || op == OP_MULSUB || op == OP_SUBMUL;
    if (commutes && all[here->a].same) {
      int a = here->a;
      here->a = here->b, here->b = a;
    }
    for (int i = 0; i < n; ++i) {
      const value *of = all + *operand(here, i);
      place[i] = of->place;
      if (!of->same) continue;
      int scaled = with_scalar(op, i);
      if (scaled != NONE) {
        op = scaled;
        if (i == 0) place[0] = all[here->b].place, place[1] = of->place, n = 1;
      } else {
        emit(w, OP_SPREAD, place[i] = spread[spreads++] = take_place(w), of->place, 0, 0);
      }
    }
  }
  for (int i = 0; i < OPERANDS[here->op]; ++i) {  /* places that are free from here on: the result may take one */
    value *of = all + *operand(here, i);
    if (of->same || of->last != k) continue;
    w->free[w->spare++] = of->place, of->last = NONE;
  }
  if (here->op == OP_OUTPUT || here->op == OP_INPUT) return;
  while (spreads) w->free[w->spare++] = spread[--spreads];
  if (op == OP_SINCOS) {
    place[1] = all[here->b].place = take_place(w), place[2] = all[here->c].place = take_place(w);
    emit(w, op, place[1], place[0], place[2], 0);
  } else {
    emit(w, op, here->place = take_place(w), place[0], place[1], place[2]);
  }
}

EXPORT void free_program(program *p) {
  if (!p) return;
  free(p->values), free(p->prologue), free(p->code), free(p);
}

/* A program of n instructions of CasADi's, places being below `places`; NULL if there is no memory. `exact`: the digits
   are CasADi's own. */
EXPORT program *make_program(size n, const int *raw, size places, const double *constants, size arguments, size repeated,
                             size count, size exact) {
  size most = 2 * n + 1;
  program *p = calloc(1, sizeof(program));
  size table = 4;
  while (table < 2 * most) table *= 2;
  values v = {malloc(most * sizeof(value)), 0, malloc(table * sizeof(int)), table - 1, constants};
  int *room = malloc((places + 3 * most + n + 1) * sizeof(int)), *where = room, *inverse = where + places;
  int *list = inverse + most, *times = list + most, *shared = times + most;
  if (p) {
    *p = (program){.arguments = arguments, .repeated = repeated, .count = count};
    p->values = malloc((n + 1) * sizeof(double));
    p->prologue = malloc(most * sizeof(instruction)), p->code = malloc(3 * most * sizeof(instruction));
  }
  if (p && v.all && v.found && room && p->values && p->prologue && p->code) {
    for (size k = 0; k < most; ++k) inverse[k] = NONE, times[k] = 0;
    forget(&v);
    read_values(&v, raw, n, repeated, where, inverse, shared, 0);
    if (!exact) {
      count_shares(&v, raw, n, shared, times);
      forget(&v);
      read_values(&v, raw, n, repeated, where, inverse, shared, 1);
    }
    count_uses(&v);
    if (!exact) fuse(&v), pair(&v, list);
    find_last_uses(&v);
    place_scalars(p, &v, constants);
    writer w = {p, &v, list, 0};
    for (int k = 0; k < v.count; ++k)
      if (v.all[k].op == OP_OUTPUT || (v.all[k].uses && !v.all[k].same && v.all[k].op != OP_PAIRED)) write_value(&w, k);
  } else {
    free_program(p);
    p = NULL;
  }
  free(v.all), free(v.found), free(room);
  return p;
}
