/* What all code along a chain has in common; see blocks.py, riccati.py, window.py. */

#include "platform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 4
typedef long long size;

#ifdef __AVX512F__
#define GROUP 4
#define PAIR 2
#else
#define GROUP 1
#define PAIR 1
#endif

/* What is taken from memory stays in a register of AVX: gcc would take it again each time that it is used. */
#if PARTS == 2
#define KEEP(x) __asm__("" : "+x"(x))
#else
#define KEEP(x)
#endif

static const lanes ZERO = {0};

static size vectors(size count) { return (count + LANES - 1) / LANES; }
static size padded(size count) { return (count + ROWS - 1) / ROWS * ROWS; }

/* Four rows of some vectors, in registers. */
typedef part Tile[ROWS][GROUP * PARTS];

INLINE void take_tile(Tile sum, const int w, const lanes *from, size apart) {
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] = ((const part *)(from + i * apart))[j];
  }
}

INLINE void put_tile(Tile sum, const int w, lanes *to, size apart) {
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) ((part *)(to + i * apart))[j] = sum[i][j];
  }
}

/* sum -= left' right over `count` rows that are U and V vectors apart; four columns of left, w vectors of right. */
INLINE void subtract(Tile sum, const int w, const double *left, size U, const lanes *right, size V, size count) {
  UNROLL for (size r = 0; r < count; ++r, left += U * LANES, right += V) {
    part x[GROUP * PARTS];
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      x[j] = ((const part *)right)[j];
      KEEP(x[j]);
    }
    UNROLL for (int i = 0; i < ROWS; ++i) {
      UNROLL for (int j = 0; j < w * PARTS; ++j) sum[i][j] -= left[i] * x[j];
    }
  }
}

INLINE double total(lanes sum) {
  return ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
}

/* Products of two rows of vectors from one on, summed. */
INLINE double row_times(const lanes *row, const lanes *x, size from, size V) {
  part sum[PARTS] = {{0}};
  for (const part *a = (const part *)(row + from), *b = (const part *)(x + from); a < (const part *)(row + V);
       a += PARTS, b += PARTS)
    UNROLL for (int j = 0; j < PARTS; ++j) sum[j] += a[j] * b[j];
  lanes all;
  memcpy(&all, sum, sizeof all);
  return total(all);
}

#define PICK(mask, a, b) ((part)(((choice)(a) & (mask)) | ((choice)(b) & ~(mask))))
static const long long COUNT[LANES] __attribute__((aligned(8 * LANES))) = {0, 1, 2, 3, 4, 5, 6, 7};

/* Where the largest entry of a column stands from row p on, and its size. */
static size largest_in(const lanes *column, size high, size p, double *size_of_it) {
  size best = p;
  *size_of_it = 0.0;
  for (int j = 0; j < PARTS; ++j) {
    const choice count = ((const choice *)COUNT)[j];
    part most = {0};
    choice where = count;
    for (size v = p / LANES; v < high; ++v) {
      choice row = count + v * LANES;
      part value = PICK(row >= p, ((const part *)(column + v))[j], (part){0});
      value = (part)((choice)value & ((choice){0} + 0x7fffffffffffffffLL));
      choice more = (choice)(value > most);
      most = PICK(more, value, most), where = (row & more) | (where & ~more);
    }
    for (int l = 0; l < LANES / PARTS; ++l)
      if (most[l] > *size_of_it || (most[l] == *size_of_it && most[l] > 0.0 && where[l] < best))
        *size_of_it = most[l], best = where[l];
  }
  return best;
}
