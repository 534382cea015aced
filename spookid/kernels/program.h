/* Programs: functions of scalars that are evaluated at many steps at once; made by program.c, run by interpreter.c. */

#ifndef PROGRAM_H
#define PROGRAM_H

#include "platform.h"

typedef long long size;

/* What is done, where the result is put, and the operands: places of vectors, or of scalars, which are the same at all
   steps. Of an input, `a` is the argument and `b` the number in it; of an output, `to` is the number in the result. */
typedef struct {
  int op, to, a, b, c;
} instruction;

/* A function of `arguments` arrays, the first `repeated` of which change from step to step, with `count` results. */
typedef struct {
  size arguments, repeated, count;
  size constants, scalars, slots;   /* room; constants come first among the scalars */
  size before, length;              /* instructions of scalars, and of vectors */
  double *values;                   /* of the constants */
  instruction *prologue, *code;
} program;

/* A program at work along some steps, from its arguments at the first step; at the next they are `stride` further on. */
typedef struct {
  const program *of;
  const double **first;
  const size *stride;
  size width;                       /* vectors of eight steps that an instruction works on */
  size apart;                       /* vectors from one eight of steps to the next in `numbers`: count + 1 */
  double *scalars;
  lanes *slots, *numbers;           /* a zero is behind the numbers of each eight */
} evaluation;

/* Begin to evaluate along n steps; 1 if there is no memory. To be closed in either case. */
int open_evaluation(evaluation *e, const program *of, const double **first, const size *stride, size n);
void close_evaluation(evaluation *e);

/* Evaluate `here` steps, at most 8 width, from step s on into `numbers`, (eights, apart, 8); the last step fills what is
   left of them. */
void evaluate_block(const evaluation *e, size s, size here);

/* The numbers (count + 1, 8) of eight steps from s on, a multiple of eight; to be called for all of them in order. */
static inline lanes *numbers_at(const evaluation *e, size s, size n) {
  size block = LANES * e->width, within = s % block;
  if (!within) evaluate_block(e, s, n - s < block ? n - s : block);
  return e->numbers + within / LANES * e->apart;
}

/* The results of n steps, `apart` numbers from one step to the next: one after another, or at their places. What is
   elsewhere stays as it is. 1 if there is no memory. */
EXPORT int evaluate_along(const program *p, size n, const double **first, const size *stride, const size *place,
                          double *out, size apart);

#endif
