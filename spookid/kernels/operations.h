/* What programs are made of: operations and how many operands they take. See program.h. */

#ifndef OPERATIONS_H
#define OPERATIONS_H

/* CasADi's, in the order in which program.py numbers them. */
#define OPERATIONS(X)                                                                                            \
  X(ASSIGN, 1) X(ADD, 2) X(SUB, 2) X(MUL, 2) X(DIV, 2) X(NEG, 1) X(EXP, 1) X(LOG, 1) X(POW, 2) X(SQRT, 1)         \
  X(SQ, 1) X(TWICE, 1) X(SIN, 1) X(COS, 1) X(TAN, 1) X(ASIN, 1) X(ACOS, 1) X(ATAN, 1) X(LT, 2) X(LE, 2) X(EQ, 2)  \
  X(NE, 2) X(NOT, 1) X(AND, 2) X(OR, 2) X(FLOOR, 1) X(CEIL, 1) X(FMOD, 2) X(FABS, 1) X(SIGN, 1) X(COPYSIGN, 2)    \
  X(IF_ELSE_ZERO, 2) X(ERF, 1) X(FMIN, 2) X(FMAX, 2) X(INV, 1) X(SINH, 1) X(COSH, 1) X(TANH, 1) X(ASINH, 1)       \
  X(ACOSH, 1) X(ATANH, 1) X(ATAN2, 2) X(LOG1P, 1) X(EXPM1, 1) X(HYPOT, 2) X(REMAINDER, 2)

/* Those that a program is improved by: products and sums in one, a sine with a cosine. */
#define IMPROVED(X) X(MULADD, 3) X(MULSUB, 3) X(SUBMUL, 3) X(VSIN, 1) X(VCOS, 1) X(SINCOS, 1)

/* With a scalar in the place of the second operand (_S), or of the third (_T); a scalar in a vector. */
#define SCALED(X)                                                                                                \
  X(ADD_S) X(SUB_S) X(FROM_S) X(MUL_S) X(DIV_S) X(OVER_S) X(MULADD_S) X(MULSUB_S) X(SUBMUL_S) X(MULADD_T)         \
  X(MULSUB_T) X(SUBMUL_T) X(OUTPUT_S) X(SPREAD)

#define NAME(name, ...) OP_##name,
enum { OPERATIONS(NAME) OP_CONSTANT, OP_INPUT, OP_OUTPUT, IMPROVED(NAME) OP_PAIRED, SCALED(NAME) };
#undef NAME

/* The same of numbers, (x), and of pairs, (x, y). */
#define SCALAR_ASSIGN(x, y) (x)
#define SCALAR_ADD(x, y) ((x) + (y))
#define SCALAR_SUB(x, y) ((x) - (y))
#define SCALAR_MUL(x, y) ((x) * (y))
#define SCALAR_DIV(x, y) ((x) / (y))
#define SCALAR_NEG(x, y) (-(x))
#define SCALAR_EXP(x, y) exp(x)
#define SCALAR_LOG(x, y) log(x)
#define SCALAR_POW(x, y) pow(x, y)
#define SCALAR_SQRT(x, y) sqrt(x)
#define SCALAR_SQ(x, y) ((x) * (x))
#define SCALAR_TWICE(x, y) (2 * (x))
#define SCALAR_SIN(x, y) sin(x)
#define SCALAR_COS(x, y) cos(x)
#define SCALAR_TAN(x, y) tan(x)
#define SCALAR_ASIN(x, y) asin(x)
#define SCALAR_ACOS(x, y) acos(x)
#define SCALAR_ATAN(x, y) atan(x)
#define SCALAR_LT(x, y) ((x) < (y))
#define SCALAR_LE(x, y) ((x) <= (y))
#define SCALAR_EQ(x, y) ((x) == (y))
#define SCALAR_NE(x, y) ((x) != (y))
#define SCALAR_NOT(x, y) (!(x))
#define SCALAR_AND(x, y) ((x) && (y))
#define SCALAR_OR(x, y) ((x) || (y))
#define SCALAR_FLOOR(x, y) floor(x)
#define SCALAR_CEIL(x, y) ceil(x)
#define SCALAR_FMOD(x, y) fmod(x, y)
#define SCALAR_FABS(x, y) fabs(x)
#define SCALAR_SIGN(x, y) ((x) < 0 ? -1 : (x) > 0 ? 1 : (x))
#define SCALAR_COPYSIGN(x, y) copysign(x, y)
#define SCALAR_IF_ELSE_ZERO(x, y) ((x) ? (y) : 0)
#define SCALAR_ERF(x, y) erf(x)
#define SCALAR_FMIN(x, y) fmin(x, y)
#define SCALAR_FMAX(x, y) fmax(x, y)
#define SCALAR_INV(x, y) (1 / (x))
#define SCALAR_SINH(x, y) sinh(x)
#define SCALAR_COSH(x, y) cosh(x)
#define SCALAR_TANH(x, y) tanh(x)
#define SCALAR_ASINH(x, y) asinh(x)
#define SCALAR_ACOSH(x, y) acosh(x)
#define SCALAR_ATANH(x, y) atanh(x)
#define SCALAR_ATAN2(x, y) atan2(x, y)
#define SCALAR_LOG1P(x, y) log1p(x)
#define SCALAR_EXPM1(x, y) expm1(x)
#define SCALAR_HYPOT(x, y) hypot(x, y)
#define SCALAR_REMAINDER(x, y) remainder(x, y)

#endif
