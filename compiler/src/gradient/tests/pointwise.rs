//! Elementwise operations, movement, indexing.

use super::{once, program, twice};

#[test]
fn functions_of_one_number() {
    for opcode in [
        "abs",
        "negate",
        "cbrt",
        "cosine",
        "cosh",
        "erf",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "logistic",
        "rsqrt",
        "sine",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "asin",
        "acos",
        "asinh",
        "atanh",
        "copy",
        "reduce-precision",
        "real",
    ] {
        let attrs = if opcode == "reduce-precision" { ", exponent_bits=11, mantissa_bits=52" } else { "" };
        let text = format!("ENTRY e {{\n x = f64[5] parameter(0)\n ROOT y = f64[5] {opcode}(x){attrs}\n}}");
        twice(0.2, 0.9, &text);
    }
    twice(1.2, 3.0, "ENTRY e {\n x = f64[4] parameter(0)\n ROOT y = f64[4] acosh(x)\n}");
    for opcode in ["abs", "cbrt", "sine", "tanh", "erf", "logistic"] {
        once(-0.9, -0.2, &format!("ENTRY e {{\n x = f64[5] parameter(0)\n ROOT y = f64[5] {opcode}(x)\n}}"));
    }
}

#[test]
fn steps_give_zeros() {
    for opcode in ["sign", "floor", "ceil", "round-nearest-afz", "round-nearest-even", "imag"] {
        let text = format!("ENTRY e {{\n x = f64[5] parameter(0)\n ROOT y = f64[5] {opcode}(x)\n}}");
        once(0.6, 0.9, &text);
    }
    let bits = "ENTRY e {
  x = f64[3] parameter(0)
  i = s32[3] convert(x)
  f = f64[3] convert(i)
  y = f64[3] multiply(f, x)
  p = pred[3] compare(x, y), direction=LT
  q = f64[3] convert(p)
  ROOT z = f64[3] add(y, q) }";
    once(1.2, 1.9, bits);
}

#[test]
fn functions_of_two_numbers() {
    let opcodes = ["add", "subtract", "multiply", "divide", "power", "atan2", "maximum", "minimum", "remainder"];
    for opcode in opcodes {
        let body = format!("x = f64[2,4] parameter(0)\n y = f64[2,4] parameter(1)\n ROOT z = f64[2,4] {opcode}(x, y)");
        twice(0.3, 2.7, &program(&body));
        // The same value on both sides.
        let body = format!(
            "x = f64[6] parameter(0)\n y = f64[6] sine(x)\n a = f64[6] abs(y)\n ROOT z = f64[6] {opcode}(a, x)"
        );
        once(0.3, 2.7, &program(&body));
    }
    for opcode in ["add", "subtract", "multiply", "divide", "atan2", "maximum", "minimum", "remainder"] {
        let body = format!("x = f64[2,4] parameter(0)\n y = f64[2,4] parameter(1)\n ROOT z = f64[2,4] {opcode}(x, y)");
        once(-2.7, -0.3, &program(&body));
    }
}

#[test]
fn choices() {
    let select = "p = pred[6] parameter(0)
  x = f64[6] parameter(1)
  y = f64[6] parameter(2)
  ROOT z = f64[6] select(p, x, y)";
    twice(-1.0, 1.0, &program(select));
    let whole = "p = pred[] parameter(0)
  x = f64[3] parameter(1)
  y = f64[3] parameter(2)
  s = f64[3] multiply(x, y)
  a = (f64[3], f64[3]) tuple(x, s)
  b = (f64[3], f64[3]) tuple(y, x)
  ROOT z = (f64[3], f64[3]) select(p, a, b)";
    once(-1.0, 1.0, &program(whole));
    let clamp = "l = f64[] parameter(0)
  x = f64[9] parameter(1)
  h = f64[] parameter(2)
  two = f64[] constant(2)
  g = f64[] add(h, two)
  s = f64[9] sine(x)
  ROOT z = f64[9] clamp(l, s, g)";
    once(-1.0, 1.0, &program(clamp));
    let clamp = "l = f64[9] parameter(0)
  x = f64[9] parameter(1)
  h = f64[9] parameter(2)
  ROOT z = f64[9] clamp(l, x, h)";
    once(-1.0, 1.0, &program(clamp));
}

#[test]
fn conversions() {
    // In f32 a difference of four points cannot be had; through f64 and back no bit is lost of small sums.
    let text = "ENTRY e {\n x = f64[4] parameter(0)\n c = c128[4] convert(x)\n s = c128[4] exponential(c)\n ROOT r = f64[4] real(s) }";
    twice(-1.0, 1.0, text);
}

#[test]
fn complex_numbers() {
    for opcode in
        ["negate", "exponential", "log", "sqrt", "rsqrt", "sine", "cosine", "tanh", "logistic", "log-plus-one"]
    {
        once(0.3, 1.4, &format!("ENTRY e {{\n x = c128[3] parameter(0)\n ROOT y = c128[3] {opcode}(x)\n}}"));
    }
    for opcode in ["add", "subtract", "multiply", "divide", "power"] {
        let body = format!("x = c128[3] parameter(0)\n y = c128[3] parameter(1)\n ROOT z = c128[3] {opcode}(x, y)");
        once(0.3, 1.4, &program(&body));
    }
    for opcode in ["abs", "real", "imag"] {
        once(-1.0, 1.4, &format!("ENTRY e {{\n x = c128[3] parameter(0)\n ROOT y = f64[3] {opcode}(x)\n}}"));
    }
    let parts = "x = f64[3] parameter(0)
  y = f64[3] parameter(1)
  c = c128[3] complex(x, y)
  ROOT z = c128[3] multiply(c, c)";
    twice(-1.0, 1.0, &program(parts));
}

#[test]
fn movements() {
    for (shape, text) in [
        ("f64[2,3]", "f64[3,2] reshape(x)"),
        ("f64[2,3]", "f64[3,2] transpose(x), dimensions={1,0}"),
        ("f64[2,3,4]", "f64[4,2,3] transpose(x), dimensions={2,0,1}"),
        ("f64[2,3]", "f64[2,3] reverse(x), dimensions={1}"),
        ("f64[3]", "f64[2,3,4] broadcast(x), dimensions={1}"),
        ("f64[]", "f64[2,3] broadcast(x), dimensions={}"),
        ("f64[2,3]", "f64[3,4,2] broadcast(x), dimensions={2,0}"),
        ("f64[7,4]", "f64[2,2] slice(x), slice={[1:6:3], [2:4]}"),
        ("f64[7]", "f64[3] slice(x), slice={[0:5:2]}"),
        ("f64[7]", "f64[0] slice(x), slice={[3:3]}"),
        ("f64[3]", "f64[3] bitcast(x)"),
        ("f64[3]", "f64[3] opt-barrier(x)"),
    ] {
        once(
            -1.0,
            1.0,
            &program(&format!(
                "x = {shape} parameter(0)\n s = {shape} sine(x)\n ROOT y = {}",
                text.replace("(x)", "(s)")
            )),
        );
    }
    for (size, padding) in [(6, "1_2"), (8, "1_2_1"), (2, "-1_0"), (4, "-2_1_1"), (7, "3_-1_1")] {
        let body = format!(
            "x = f64[3] parameter(0)\n v = f64[] parameter(1)\n ROOT y = f64[{size}] pad(x, v), padding={padding}"
        );
        twice(-1.0, 1.0, &program(&body));
    }
    let rows = "x = f64[2,3] parameter(0)
  y = f64[1,3] parameter(1)
  s = f64[2,3] sine(x)
  ROOT z = f64[5,3] concatenate(s, y, x), dimensions={0}";
    twice(-1.0, 1.0, &program(rows));
}

#[test]
fn tuples_and_what_passes_through() {
    let text = "x = f64[3] parameter(0)
  y = f64[2] parameter(1)
  i = s32[] constant(1)
  t = (f64[3], f64[2]) tuple(x, y)
  u = ((f64[3], f64[2]), s32[], f64[3]) tuple(t, i, x)
  o = ((f64[3], f64[2]), s32[], f64[3]) opt-barrier(u)
  v = (f64[3], f64[2]) get-tuple-element(o), index=0
  a = f64[3] get-tuple-element(o), index=2
  b = f64[2] get-tuple-element(v), index=1
  c = f64[3] multiply(a, a)
  d = f64[2] multiply(b, b)
  n = token[] after-all()
  e = f64[2] add-dependency(d, n)
  ROOT r = (f64[3], f64[2]) tuple(c, e)";
    twice(-1.0, 1.0, &program(text));
}

#[test]
fn dynamic_slices() {
    let slice = "x = f64[4,3] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  s = f64[4,3] sine(x)
  ROOT y = f64[2,2] dynamic-slice(s, i, j), dynamic_slice_sizes={2,2}";
    twice(-1.0, 1.0, &program(slice));
    let update = "x = f64[4,3] parameter(0)
  u = f64[2,2] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT y = f64[4,3] dynamic-update-slice(x, u, i, j)";
    twice(-1.0, 1.0, &program(update));
}

#[test]
fn gathers() {
    // Index 7 is moved inwards, index 1 comes twice.
    let rows = "x = f64[4,3] parameter(0)
  i = s32[5] constant({1,3,1,7,-2})
  s = f64[4,3] sine(x)
  ROOT y = f64[5,3] gather(s, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}";
    twice(-1.0, 1.0, &program(rows));
    let windows = "x = f64[4,5] parameter(0)
  i = s32[2,3,2] constant({{{0,0},{1,2},{3,4}},{{2,2},{-1,1},{2,1}}})
  ROOT y = f64[2,2,2,3] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1,0}, index_vector_dim=2, slice_sizes={2,2}";
    once(-1.0, 1.0, &program(windows));
    let batched = "x = f64[2,4] parameter(0)
  i = s32[2,3] constant({{0,3,1},{2,2,0}})
  ROOT y = f64[2,3] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}";
    once(-1.0, 1.0, &program(batched));
}

#[test]
fn scatters() {
    for (reducer, attrs) in [
        ("add", ""),
        ("set", ""),
        ("set", ", unique_indices=true"),
        ("mul", ", unique_indices=true"),
        ("max", ""),
        ("min", ""),
    ] {
        // Where indices are not unique, 1 comes twice; 9 is dropped.
        let indices = if attrs.is_empty() { "{1,3,1,9}" } else { "{1,3,0,9}" };
        let rows = format!(
            "x = f64[4,3] parameter(0)
  i = s32[4] constant({indices})
  u = f64[4,3] parameter(1)
  ROOT y = f64[4,3] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1{attrs}, to_apply={reducer}"
        );
        twice(0.5, 1.5, &program(&rows));
    }
    let windows = "x = f64[4,5] parameter(0)
  i = s32[3,2] constant({{0,0},{3,1},{2,2}})
  u = f64[2,3,2] parameter(1)
  ROOT y = f64[4,5] scatter(x, i, u), update_window_dims={0,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add";
    once(-1.0, 1.0, &program(windows));
    // The second window is dropped, so the updates of one place are those of the others.
    once(-1.0, 1.0, &program(&windows.replace("to_apply=add", "to_apply=max")));
}

#[test]
fn scatters_of_several_operands() {
    let several = "
each { a = f64[] parameter(0)
  b = f64[] parameter(1)
  c = s32[] parameter(2)
  d = f64[] parameter(3)
  u = f64[] parameter(4)
  v = f64[] parameter(5)
  w = s32[] parameter(6)
  y = f64[] parameter(7)
  s = f64[] add(u, a)
  m = f64[] maximum(b, v)
  t = s32[] add(c, w)
  ROOT r = (f64[], f64[], s32[], f64[]) tuple(s, m, t, y) }
ENTRY e { a = f64[4] parameter(0)
  b = f64[4] parameter(1)
  c = s32[4] parameter(2)
  d = f64[4] parameter(3)
  i = s32[5] constant({1,3,1,9,0})
  u = f64[5] parameter(4)
  v = f64[5] parameter(5)
  w = s32[5] parameter(6)
  y = f64[5] parameter(7)
  ROOT s = (f64[4], f64[4], s32[4], f64[4]) scatter(a, b, c, d, i, u, v, w, y), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=each }";
    twice(-1.0, 1.0, several);
}
