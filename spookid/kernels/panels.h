/* Panels of rows: products taken from tiles of them, and Cholesky's factor of four rows; see blocks.c, riccati.c. */

#include "vectors.h"

/* The upper triangle of four rows' Cholesky factor, and the inverse of its diagonal. */
typedef struct {
  double inverse[ROWS], above[ROWS][ROWS];
} Corner;

INLINE void solve(Tile sum, const int w, const Corner *u) {
  UNROLL for (int i = 0; i < ROWS; ++i) {
    UNROLL for (int j = 0; j < w * PARTS; ++j) {
      UNROLL for (int r = 0; r < i; ++r) sum[i][j] -= u->above[r][i] * sum[r][j];
      sum[i][j] *= u->inverse[i];
    }
  }
}

/* What is taken from a tile: rows of the last step's panel and of the present one. */
typedef struct {
  const double *left;
  const lanes *right;
  size count;
} Product;

INLINE void tile(lanes *at, const int w, size V, Product past, Product own, const Corner *u) {
  Tile sum;
  take_tile(sum, w, at, V);
  subtract(sum, w, past.left, V, past.right, V, past.count);
  subtract(sum, w, own.left, V, own.right, V, own.count);
  if (u) solve(sum, w, u);
  put_tile(sum, w, at, V);
}

/* Tiles of four rows and `count` vectors. */
static void tiles(lanes *at, size count, size V, Product past, Product own, const Corner *u) {
  size c = 0;
  for (; c + GROUP <= count; c += GROUP, past.right += GROUP, own.right += GROUP)
    tile(at + c, GROUP, V, past, own, u);
  for (; c < count; ++c, ++past.right, ++own.right) tile(at + c, 1, V, past, own, u);
}

/* Cholesky of four rows at column i of a panel; the place of the first pivot that is not positive, or 0. */
static int pivots(lanes *row, size V, size i, Corner *u) {
  for (int a = 0; a < ROWS; ++a) {
    const double *from = (double *)(row + a * V) + i;
    for (int b = a; b < ROWS; ++b) {
      double value = from[b];
      for (int r = 0; r < a; ++r) value -= u->above[r][a] * u->above[r][b];
      if (a == b) {
        if (!(value > 0.0)) return a + 1;
        value = sqrt(value);
        u->inverse[a] = 1.0 / value;
      } else {
        value *= u->inverse[a];
      }
      u->above[a][b] = value;
    }
  }
  return 0;
}
