//! Reductions of short rows, whose vector axis becomes another one, and loops whose variables a reshape divides: what the interpreter
//! gives, the same bits at every width and on any number of threads.

use brolga_tests::ways::check;

const REDUCERS: &str = "HloModule m
add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }
max { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] maximum(x, y) }
least {
  x = f32[] parameter(0)\n i = s32[] parameter(1)\n y = f32[] parameter(2)\n j = s32[] parameter(3)
  less = pred[] compare(x, y), direction=LT\n nan = pred[] compare(x, x), direction=NE\n keep = pred[] or(less, nan)
  v = f32[] select(keep, x, y)\n same = pred[] compare(x, y), direction=EQ\n before = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, before)\n first = pred[] or(keep, tie)\n k = s32[] select(first, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
";

/// Whether the rows of the kernels of a program are still folded along the vector axis.
fn folds(text: &str) -> bool {
    text.contains("fold ")
}

#[test]
fn softmaxes_of_few_classes() {
    for (classes, across) in
        [(3, true), (8, true), (9, true), (10, true), (15, true), (16, true), (40, true), (49, false), (65, false)]
    {
        let text = check(
            &format!(
                "{REDUCERS}ENTRY e {{\n  x = f32[101,{classes}] parameter(0)\n  low = f32[] constant(-inf)\n  zero = f32[] constant(0)\n  \
                 most = f32[101] reduce(x, low), dimensions={{1}}, to_apply=max\n  \
                 mosts = f32[101,{classes}] broadcast(most), dimensions={{0}}\n  less = f32[101,{classes}] subtract(x, mosts)\n  \
                 exp = f32[101,{classes}] exponential(less)\n  sum = f32[101] reduce(exp, zero), dimensions={{1}}, to_apply=add\n  \
                 sums = f32[101,{classes}] broadcast(sum), dimensions={{0}}\n  ROOT r = f32[101,{classes}] divide(exp, sums)\n}}\n"
            ),
            1e-6,
        )
        .kernel_text();
        assert_eq!(!folds(&text), across, "{classes} classes\n{text}");
    }
}

/// What is computed once for a row is written out once: its operations do not count for every element.
#[test]
fn long_expressions_of_sums() {
    let text = check(
        &format!(
            "{}ENTRY e {{\n  x = f64[203,10] parameter(0)\n  low = f64[] constant(-inf)\n  zero = f64[] constant(0)\n  \
             most = f64[203] reduce(x, low), dimensions={{1}}, to_apply=max\n  \
             mosts = f64[203,10] broadcast(most), dimensions={{0}}\n  less = f64[203,10] subtract(x, mosts)\n  \
             exp = f64[203,10] exponential(less)\n  sum = f64[203] reduce(exp, zero), dimensions={{1}}, to_apply=add\n  \
             log = f64[203] log(sum)\n  ROOT r = f64[203] add(log, most)\n}}\n",
            REDUCERS.split("least").next().map(|both| both.replace("f32", "f64")).unwrap_or_default()
        ),
        1e-13,
    )
    .kernel_text();
    assert!(!folds(&text), "{text}");
}

/// Of equal numbers the first: the order is that of the row.
#[test]
fn the_least_of_a_row() {
    for (n, across) in [(2, true), (7, true), (10, true), (16, true), (24, true), (64, false)] {
        let text = check(
            &format!(
                "{REDUCERS}ENTRY e {{\n  x = f32[203,{n}] parameter(0)\n  i = s32[203,{n}] iota(), iota_dimension=1\n  \
                 high = f32[] constant(inf)\n  none = s32[] constant(0)\n  \
                 r = (f32[203], s32[203]) reduce(x, i, high, none), dimensions={{1}}, to_apply=least\n  \
                 ROOT k = s32[203] get-tuple-element(r), index=1\n}}\n"
            ),
            0.0,
        )
        .kernel_text();
        assert_eq!(!folds(&text), across, "{n}\n{text}");
    }
}

/// Rows that lie one behind the other go to and from memory by 128 bits: of elements that are no multiple of as many, of two results, and
/// of as many rows as fill no register.
#[test]
fn rows_that_are_transposed() {
    for (ty, n) in
        [("f32", 4), ("f32", 5), ("f32", 7), ("f32", 24), ("f32", 32), ("f64", 3), ("f64", 4), ("f64", 15), ("s32", 6)]
    {
        for rows in [300, 77] {
            let text = check(
                &format!(
                    "HloModule m\nadd {{ x = {ty}[] parameter(0)\n y = {ty}[] parameter(1)\n ROOT s = {ty}[] add(x, y) }}\n\
                     ENTRY e {{\n  x = {ty}[{rows},{n}] parameter(0)\n  zero = {ty}[] constant(0)\n  \
                     s = {ty}[{rows}] reduce(x, zero), dimensions={{1}}, to_apply=add\n  \
                     ss = {ty}[{rows},{n}] broadcast(s), dimensions={{0}}\n  a = {ty}[{rows},{n}] add(x, ss)\n  \
                     b = {ty}[{rows},{n}] subtract(ss, x)\n  ROOT t = ({ty}[{rows},{n}], {ty}[{rows},{n}]) tuple(a, b)\n}}\n"
                ),
                1e-6,
            )
            .kernel_text();
            assert!(!folds(&text), "{ty} {n}\n{text}");
            let stores: Vec<&str> = text.lines().filter(|line| line.contains("store out")).collect();
            let first = |line: &&&str| line.contains("store out0");
            assert!(stores.iter().take_while(first).count() == n, "{text}");
        }
    }
}

/// Every second element up to the last of an array: of rows that are whole iterations, whole registers behind them, and what fills none.
#[test]
fn strided_rows_end_where_their_arrays_do() {
    for ty in ["f32", "f64", "s16", "u8"] {
        for n in [16, 32, 40, 48, 64, 80, 112, 113, 200] {
            for stride in [2, 3, 5] {
                let (m, first) = (stride * n, stride - 1);
                check(
                    &format!(
                        "HloModule m\nENTRY e {{\n  x = {ty}[{m}] parameter(0)\n  \
                         y = {ty}[{n}] slice(x), slice={{[{first}:{m}:{stride}]}}\n  ROOT r = {ty}[{n}] add(y, y)\n}}\n"
                    ),
                    1e-6,
                );
            }
        }
    }
}

/// Bytes and halfwords a few apart, several of each row, and alone where there are others behind the last: what shares 16 bytes does.
#[test]
fn narrow_elements_a_few_apart() {
    for ty in ["u8", "s8", "u16", "bf16"] {
        for stride in 2..=6 {
            for rows in [16, 33, 301] {
                let array = format!("HloModule m\nENTRY e {{\n  a = {ty}[{rows},{stride}] parameter(0)\n");
                let one = |k: i64| format!("  s{k} = {ty}[{rows},1] slice(a), slice={{[0:{rows}],[{k}:{}]}}\n", k + 1);
                let alone = format!("{array}{}  ROOT r = {ty}[{rows},1] add(s0, s0)\n}}\n", one(0));
                check(&alone, 0.0);
                let mut several = array + &one(0);
                for k in 1..stride {
                    let before = if k == 1 { "s0".to_owned() } else { format!("m{}", k - 1) };
                    several += &one(k);
                    several += &format!("  m{k} = {ty}[{rows},1] maximum({before}, s{k})\n");
                }
                check(&format!("{several}  ROOT r = {ty}[{rows},1] subtract(m{}, s0)\n}}\n", stride - 1), 0.0);
            }
        }
    }
}

/// Some components of wider rows, with what lies between them.
#[test]
fn components_that_are_transposed() {
    for (ty, all) in [("f32", 20), ("f64", 9), ("f32", 7)] {
        let mut source = format!("HloModule m\nENTRY e {{\n  x = {ty}[301,{all}] parameter(0)\n");
        for k in [1, 2, 6] {
            source += &format!("  c{k} = {ty}[301,1] slice(x), slice={{[0:301], [{k}:{}]}}\n", k + 1);
        }
        source += &format!("  a = {ty}[301,1] multiply(c1, c2)\n  ROOT r = {ty}[301,1] subtract(a, c6)\n}}\n");
        let text = check(&source, 1e-6).kernel_text();
        assert!(text.contains("vector i1 in 301"), "{text}");
    }
}

/// Rows of a sum that cost less as they are stay; those through a loaded index too.
#[test]
fn rows_that_stay() {
    for n in [33, 48, 64] {
        let text = check(
            &format!(
                "{REDUCERS}ENTRY e {{\n  x = f32[300,{n}] parameter(0)\n  zero = f32[] constant(0)\n  \
                 ROOT r = f32[300] reduce(x, zero), dimensions={{1}}, to_apply=add\n}}\n"
            ),
            1e-6,
        );
        assert!(folds(&text.kernel_text()), "{n}\n{}", text.kernel_text());
    }
    let text = check(
        "HloModule m\nENTRY e {\n  x = f32[50,8] parameter(0)\n  i = s32[300,1] parameter(1)\n  y = f32[300,8] parameter(2)\n  \
         g = f32[300,8] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, \
         slice_sizes={1,8}\n  a = f32[300,8] multiply(g, y)\n  b = f32[300,8] add(a, g)\n  c = f32[300,8] multiply(b, a)\n  \
         d = f32[300,8] add(c, b)\n  e = f32[300,8] multiply(d, c)\n  f = f32[300,8] add(e, d)\n  h = f32[300,8] multiply(f, e)\n  \
         ROOT r = f32[300,8] add(h, f)\n}\n",
        1e-5,
    )
    .kernel_text();
    assert!(text.contains("vector i1 in 8\n"), "{text}");
}

/// Quotients and remainders of a loop variable are loops of their own.
#[test]
fn reshapes_divide_no_loop() {
    for (a, b) in [(32, 32), (5, 16), (7, 24), (3, 48)] {
        let n = a * b;
        let text = check(
            &format!(
                "HloModule m\nENTRY e {{\n  x = f32[{a},{a}] parameter(0)\n  y = f32[{b},{b}] parameter(1)\n  \
                 xs = f32[{a},{b},{a},{b}] broadcast(x), dimensions={{0,2}}\n  ys = f32[{a},{b},{a},{b}] broadcast(y), dimensions={{1,3}}\n  \
                 m = f32[{a},{b},{a},{b}] multiply(xs, ys)\n  ROOT k = f32[{n},{n}] reshape(m)\n}}\n"
            ),
            0.0,
        )
        .kernel_text();
        assert!(!text.contains('/') || !text.contains(") /"), "{text}");
    }
    let text = check(
        "HloModule m\nENTRY e {\n  x = f32[3,6,5,36] parameter(0)\n  s = f32[3,6,5,4,3,3] reshape(x)\n  \
         t = f32[3,6,4,5,3,3] transpose(s), dimensions={0,1,3,2,4,5}\n  ROOT r = f32[3,24,15,3] reshape(t)\n}\n",
        0.0,
    )
    .kernel_text();
    assert!(!text.contains(") /") && !text.contains(") %"), "{text}");
}

/// Every integer type by divisors of both signs, powers of two and not.
#[test]
fn integers_by_constants() {
    for (ty, divisors) in [
        ("s8", &[1, -1, 2, -3, 10, 64, 127, -128][..]),
        ("u8", &[1, 2, 3, 10, 128, 200, 255]),
        ("s16", &[7, -16, 1000, 32767]),
        ("s32", &[1, -1, 2, 3, 7, -10, 16, 641, 1_000_000_007, -2_147_483_648, 2_147_483_647]),
        ("u32", &[1, 2, 3, 7, 641, 2_147_483_648, 2_147_483_649, 4_294_967_295]),
        ("s64", &[1, -1, 2, 7, -10, 1_000_000_007, i64::MAX, i64::MIN]),
        ("u64", &[2, 3, 7, 10, 1_000_000_007, i64::MAX]),
    ] {
        for &d in divisors {
            // Small inputs are multiplied until they reach the ends of the type.
            check(
                &format!(
                    "HloModule m\nENTRY e {{\n  x = {ty}[333] parameter(0)\n  f = {ty}[333] parameter(1)\n  d = {ty}[] constant({d})\n  \
                     ds = {ty}[333] broadcast(d), dimensions={{}}\n  a = {ty}[333] multiply(x, f)\n  b = {ty}[333] multiply(a, a)\n  \
                     c = {ty}[333] multiply(b, b)\n  g = {ty}[333] multiply(c, c)\n  h = {ty}[333] multiply(g, x)\n  \
                     q = {ty}[333] divide(h, ds)\n  r = {ty}[333] remainder(h, ds)\n  p = {ty}[333] divide(x, ds)\n  \
                     ROOT t = ({ty}[333], {ty}[333], {ty}[333]) tuple(q, r, p)\n}}\n"
                ),
                0.0,
            );
        }
    }
}
