"""C code of one-step functions that evaluates eight steps at once, in as many lanes as the processor's vectors have.

CasADi writes a function of scalars as one assignment a line; each line becomes the same of vectors. The compilers'
vector extensions (gcc, clang) know no processor: where vectors are shorter, a function runs for parts of the eight.

Compilers find registers for a function in a time that grows faster than its length, and hold few of a long one's
variables in them anyway. It is cut into short ones, which hand on in memory what is needed later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import casadi as ca

from spookid.kernels.compiler import CompilationError

_SHARED = Path(__file__).with_name("kernels.h")
_HEAD = """
#if defined __AVX512F__
#define WIDTH 8
#elif defined __AVX__
#define WIDTH 4
#else
#define WIDTH 2
#endif
#define APART (8 / WIDTH)
typedef double lanes __attribute__((vector_size(8 * WIDTH)));
typedef long long masks __attribute__((vector_size(8 * WIDTH)));

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define ALL(x) ((lanes){0} + (x))
#define AS(x, mask) ((lanes)((masks)(x) & (mask)))
#define TRUE(mask) AS(ALL(1.0), mask)
#define KEPT(x, truth) AS(x, (truth) != ALL(0.0))
#define ONE(f) \\
  static lanes on_##f(size here, lanes x) { \\
    for (size l = 0; l < here; ++l) x[l] = f(x[l]); \\
    return x; \\
  }
#define TWO(f) \\
  static lanes on_##f(size here, lanes x, lanes y) { \\
    for (size l = 0; l < here; ++l) x[l] = f(x[l], y[l]); \\
    return x; \\
  }

INLINE lanes on_sq(size here, lanes x) { return x * x; }
INLINE lanes on_fabs(size here, lanes x) { return AS(x, (masks){0} + 0x7fffffffffffffffLL); }
INLINE lanes on_sign(size here, lanes x) { return AS(x, x != x) + TRUE(x > 0.0) - TRUE(x < 0.0); }
INLINE lanes on_sqrt(size here, lanes x) {
  for (int l = 0; l < WIDTH; ++l) x[l] = sqrt(x[l]);
  return x;
}

/* Numbers of up to eight steps, `stride` apart; the last step fills what is left. */
INLINE void gather(double *to, const double *from, size stride, size count, size here) {
  for (size l = 0; l < 8; ++l)
    for (size i = 0; i < count; ++i) to[i * 8 + l] = from[(l < here ? l : here - 1) * stride + i];
}

/* The same with zeros where no number has its place. */
EXPORT int evaluate_along(eight function, size n, size arguments, const double **first, const size *stride, size count,
                          const size *place, double *out, size apart) {
  void *room = malloc((count + 1) * 64);
  if (!room) return 1;
  if (place) memset(out, 0, n * apart * sizeof(double));
  int failed = evaluate_steps(function, n, arguments, first, stride, count, place,
                              (double *)(((size_t)room + 63) & ~(size_t)63), out, apart);
  free(room);
  return failed;
}
"""

_PART = """
static __attribute__((noinline)) void {name}(size here, const lanes **arg, lanes *out, lanes *kept) {{
{body}
}}
"""
_FUNCTION = """
EXPORT int {name}(size here, const double **first, const size *stride, double *out) {{
  const size sizes[] = {{{sizes}}};
  lanes room[{room} * APART], kept[{kept}];
  const lanes *arg[{arguments} + 1];
  double *at = (double *)room;
  for (int i = 0; i < {arguments}; at += 8 * sizes[i++]) {{
    gather(at, first[i], stride[i], sizes[i], here);
    arg[i] = (lanes *)at;
  }}
  for (size l = 0; l < here; l += WIDTH) {{
    size left = here - l < WIDTH ? here - l : WIDTH;
    lanes *to = (lanes *)out + l / WIDTH;
    {calls}
    for (int i = 0; i < {arguments}; ++i) ++arg[i];
  }}
  return 0;
}}
"""

_BODY = re.compile(r"^static int casadi_f0\([^\n]*\{\n(.*?)^  return 0;\n\}", re.DOTALL | re.MULTILINE)
_RULES = [
    (re.compile(pattern), line)
    for pattern, line in (
        (r"(a\d+)=arg\[(\d+)\]\? arg\[\d+\]\[(\d+)\] : 0;", r"\1=arg[\2][\3*APART];"),
        (r"if \(res\[0\]!=0\) res\[0\]\[(\d+)\]=(a\d+);", r"out[\1*APART]=\2;"),
        (r"(a\d+)=\(!(a\d+)\);", r"\1=TRUE(\2==ALL(0.0));"),
        (r"(a\d+)=\((a\d+)(<=|<|==|!=)(a\d+)\);", r"\1=TRUE(\2\3\4);"),
        (r"(a\d+)=\((a\d+)&&(a\d+)\);", r"\1=KEPT(TRUE(\2!=ALL(0.0)),\3);"),
        (r"(a\d+)=\((a\d+)\|\|(a\d+)\);", r"\1=TRUE((\2!=ALL(0.0))|(\3!=ALL(0.0)));"),
        (r"(a\d+)=\((a\d+)\?(a\d+):0\);", r"\1=KEPT(\3,\2);"),
        (r"(a\d+)=(a\d+|\(-a\d+\)|\((?:a\d+|[\d.]+)[-+*/]a\d+\));", r"\1=\2;"),
        (r"(a\d+)=(?:casadi_)?([a-z]\w*)\((a\d+(?:,a\d+)?)\);", r"\1=on_\2(here,\3);"),
        (r"(a\d+)=(-?)casadi_(inf|nan);", r"\1=ALL(\2\3);"),
        (r"(a\d+)=(-?[\d.]+(?:e[-+]?\d+)?);", r"\1=ALL(\2);"),
    )
]
"""What a line of CasADi's says, and the same of lanes."""
_CALL = re.compile(r"=on_(\w+)\(here,a\d+(,)?")
_OWN = {"sq", "fabs", "sign", "sqrt"}
_NAME = re.compile(r"\ba\d+\b")
_LONGEST = 250
"""Lines of a function in C."""


def source(functions: Sequence[ca.Function]) -> str:
    """C code of functions of one dense result each, to be given to ``evaluate_along`` or to ``native.c``.

    Raises:
        CompilationError: if a function calls what is not known here.
    """
    parts = {f.name(): _parts(_lines(f)) for f in functions}
    calls = {call for bodies in parts.values() for body in bodies for call in _CALL.findall(body)}
    wanted = sorted(f"{'TWO' if two else 'ONE'}({name})" for name, two in calls if name not in _OWN)
    words = ["#define inf INFINITY\n#define nan NAN", *wanted]
    for f in functions:
        bodies = {f"{f.name()}_{i}": body for i, body in enumerate(parts[f.name()])}
        words += [_PART.format(name=name, body=body) for name, body in bodies.items()]
        sizes = [f.numel_in(i) for i in range(f.n_in())]
        words.append(
            _FUNCTION.format(
                name=f.name(),
                calls="\n    ".join(f"{name}(left, arg, to, kept);" for name in bodies),
                sizes=", ".join(map(str, [*sizes, 0])),
                room=sum(sizes) + 1,
                kept=1 + max((int(name[1:]) for body in bodies.values() for name in _NAME.findall(body)), default=0),
                arguments=len(sizes),
            )
        )
    return "\n".join([_SHARED.read_text(encoding="ascii"), _HEAD, *words])


def _lines(function: ca.Function) -> list[str]:
    """What a function of lanes does, an assignment each."""
    generator = ca.CodeGenerator("kernels", {"with_header": False})
    generator.add(function)
    found = _BODY.search(generator.dump())
    if found is None:
        raise CompilationError(f"{function.name()} is no function of scalars")
    stripped = (line.strip() for line in found[1].splitlines())
    return [_vectorized(line) for line in stripped if not line.startswith("casadi_real ")]


def _parts(lines: Sequence[str]) -> list[str]:
    """Bodies of functions that do the same one after another."""
    later, parts = set[str](), list[str]()
    for start in reversed(range(0, len(lines), _LONGEST)):
        parts.insert(0, _part(lines[start : start + _LONGEST], later))
    return parts


def _part(lines: Sequence[str], later: set[str]) -> str:
    """One body; ``later`` holds what those behind it read, and then what it and they do."""
    wanted, storing, loading, known = set(later), list[str](), list[str](), set[str]()
    for line in reversed(lines):
        name, _, value = line.partition("=")
        storing.append(f"{line} kept[{int(name[1:])}]={name};" if name in wanted else line)
        wanted.discard(name)
        later.discard(name)
        later.update(_NAME.findall(value))
    for line, stored in zip(lines, reversed(storing), strict=True):
        name, _, value = line.partition("=")
        loading += [
            f"{read}=kept[{int(read[1:])}];" for read in dict.fromkeys(_NAME.findall(value)) if read not in known
        ]
        known.update(_NAME.findall(line))
        loading.append(stored)
    return "\n".join([*([f"lanes {', '.join(sorted(known))};"] if known else []), *loading])


def _vectorized(line: str) -> str:
    for pattern, same in _RULES:
        if found := pattern.fullmatch(line):
            return found.expand(same)
    raise CompilationError(f"there is no code of lanes for {line!r}")
