//! What is refused, and how; what is left out.

use super::{arguments, results};
use crate::Error;
use crate::builder::{Builder, ElementType, Op, Opcode, Shape, scalar_computation};
use crate::gradient::differentiate;
use crate::text::parse;

fn refusal(text: &str) -> Error {
    let module = parse(&format!("HloModule m\n{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    match differentiate(&module, &[0]) {
        Ok(module) => panic!("differentiated to {module:?}"),
        Err(e) => e,
    }
}

#[test]
fn what_has_no_derivative_is_named() {
    for (text, name, message) in [
        (
            "ENTRY e {\n x = f64[] parameter(0)\n ROOT c = f64[] custom-call(x), custom_call_target=\"f\"\n}",
            "c",
            "not supported yet: the gradient of custom-call to 'f'",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] add(a, b) }
ENTRY e {\n x = f64[2,2] parameter(0)
 q = (f64[2,2], f64[2]) custom-call(x), custom_call_target=\"lapack_dgeqrf_ffi\", api_version=API_VERSION_TYPED_FFI, operand_layout_constraints={f64[2,2]{0,1}}, backend_config={}
 a = f64[2,2] get-tuple-element(q), index=0\n z = f64[] constant(0)\n ROOT s = f64[] reduce(a, z), dimensions={0,1}, to_apply=f\n}",
            "q",
            "not supported yet: the gradient of custom-call to 'lapack_dgeqrf_ffi'",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] add(a, b) }
ENTRY e {\n x = f64[2,2] parameter(0)
 q = (f64[2,2], s32[]) custom-call(x), custom_call_target=\"lapack_dpotrf_ffi\", api_version=API_VERSION_TYPED_FFI, operand_layout_constraints={f64[2,2]{1,0}}, backend_config={uplo = 76 : ui8}
 a = f64[2,2] get-tuple-element(q), index=0\n z = f64[] constant(0)\n ROOT s = f64[] reduce(a, z), dimensions={0,1}, to_apply=f\n}",
            "q",
            "not supported yet: the gradient of custom-call to 'lapack_dpotrf_ffi' of matrices that lie row by row",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n c = f64[] reverse(b), dimensions={}\n ROOT r = f64[] atan2(a, c) }
ENTRY e {\n x = f64[3] parameter(0)\n z = f64[] constant(0)\n ROOT s = f64[] reduce(x, z), dimensions={0}, to_apply=f\n}",
            "s",
            "not supported yet: the gradient of reduce by a computation that contains reverse",
        ),
        (
            "cond { t = (f64[], f64[]) parameter(0)\n a = f64[] get-tuple-element(t), index=0\n b = f64[] get-tuple-element(t), index=1
 ROOT r = pred[] compare(a, b), direction=LT }
body { t = (f64[], f64[]) parameter(0)\n a = f64[] get-tuple-element(t), index=0\n b = f64[] get-tuple-element(t), index=1
 c = f64[] add(a, a)\n ROOT r = (f64[], f64[]) tuple(c, b) }
ENTRY e {\n x = f64[] parameter(0)\n l = f64[] constant(9)\n t = (f64[], f64[]) tuple(x, l)
 w = (f64[], f64[]) while(t), condition=cond, body=body\n ROOT r = f64[] get-tuple-element(w), index=0\n}",
            "w",
            "not supported yet: the gradient of while whose number of iterations is not known from its text",
        ),
        (
            "ENTRY e {\n x = f64[] parameter(0)\n o = f64[] constant(1)\n ROOT u = f64[] rng(x, o), distribution=rng_uniform\n}",
            "u",
            "not supported yet: the gradient of rng",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] maximum(a, b) }
ENTRY e {\n x = f64[] parameter(0)\n ROOT a = f64[] all-reduce(x), replica_groups={}, to_apply=f\n}",
            "a",
            "not supported yet: the gradient of all-reduce by a computation that ends in maximum",
        ),
        (
            "ENTRY e {\n x = f64[] parameter(0)\n ROOT a = f64[] collective-broadcast(x), replica_groups={{0,1}}\n}",
            "a",
            "not supported yet: the gradient of collective-broadcast",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] subtract(a, b) }
ENTRY e {\n x = f64[] parameter(0)\n y = f64[1] reshape(x)\n i = s32[] constant(0)
 s = f64[1] scatter(y, i, x), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=f
 ROOT r = f64[] reshape(s)\n}",
            "s",
            "not supported yet: the gradient of scatter by a computation that ends in subtract",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] multiply(a, b) }
ENTRY e {\n x = f64[] parameter(0)\n y = f64[1] reshape(x)\n i = s32[] constant(0)
 s = f64[1] scatter(y, i, x), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=f
 ROOT r = f64[] reshape(s)\n}",
            "s",
            "not supported yet: the gradient of scatter by multiply at indices that may not be unique",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n c = f64[] parameter(2)\n d = f64[] parameter(3)
 m = f64[] multiply(a, d)\n ROOT r = (f64[], f64[]) tuple(m, b) }
ENTRY e {\n x = f64[] parameter(0)\n y = f64[1] reshape(x)\n i = s32[] constant(0)
 s = (f64[1], f64[1]) scatter(y, y, i, x, x), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=f
 z = f64[1] get-tuple-element(s), index=0\n ROOT r = f64[] reshape(z)\n}",
            "s",
            "not supported yet: the gradient of scatter by a computation that ends in tuple",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] multiply(a, b) }
g { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=GE }
ENTRY e {\n x = f64[] parameter(0)\n y = f64[1] reshape(x)
 s = f64[1] select-and-scatter(y, y, x), window={size=1}, select=g, scatter=f\n ROOT r = f64[] reshape(s)\n}",
            "s",
            "not supported yet: the gradient of select-and-scatter by a computation that ends in multiply",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] add(a, b) }
g { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=EQ }
ENTRY e {\n x = f64[] parameter(0)\n y = f64[1] reshape(x)
 s = f64[1] select-and-scatter(y, y, x), window={size=1}, select=g, scatter=f\n ROOT r = f64[] reshape(s)\n}",
            "s",
            "not supported yet: the gradient of select-and-scatter that selects otherwise than by an order",
        ),
        (
            "ENTRY e {\n x = f64[1,2] parameter(0)\n m = u16[1,1] constant({{1}})
 d = f64[1,1] dot(x, x, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}, sparsity=L.1@2:4\n ROOT r = f64[] reshape(d)\n}",
            "d",
            "not supported yet: the gradient of dot with sparse operands",
        ),
        (
            "ENTRY e {\n x = f64[] parameter(0)\n c = (f64[], f64[], u32[]) copy-start(x)\n ROOT d = f64[] copy-done(c)\n}",
            "d",
            "not supported yet: the gradient of copy-done",
        ),
        (
            "f { a = f64[] parameter(0)\n o = f64[] constant(0)\n u = f64[] rng(o, o), distribution=rng_uniform\n ROOT r = f64[] add(a, u) }
ENTRY e {\n x = f64[] parameter(0)\n ROOT c = f64[] call(x), to_apply=f\n}",
            "c",
            "not supported yet: the gradient of call of a computation that contains rng",
        ),
        (
            "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] add(a, b) }
ENTRY e {\n x = f64[] parameter(0)\n y = f64[4] broadcast(x), dimensions={}\n n = s32[] constant(2)
 d = f64[<=4] set-dimension-size(y, n), dimensions={0}\n z = f64[] constant(0)\n ROOT s = f64[] reduce(d, z), dimensions={0}, to_apply=f\n}",
            "s",
            "not supported yet: the gradient of reduce of bounded-dynamic shapes",
        ),
    ] {
        let e = refusal(text);
        assert_eq!(e.message(), message);
        assert_eq!(e.site().and_then(|s| s.instruction.as_deref()), Some(name));
    }
}

/// Each computation calls the next `calls` times.
fn chain(length: usize, calls: usize) -> String {
    let mut text = "f0 { x = f64[] parameter(0)\n ROOT y = f64[] sine(x) }\n".to_owned();
    for k in 1..length {
        text += &format!("f{k} {{ x0 = f64[] parameter(0)\n");
        for c in 1..calls {
            text += &format!(" x{c} = f64[] call(x{}), to_apply=f{}\n", c - 1, k - 1);
        }
        text += &format!(" ROOT y = f64[] call(x{}), to_apply=f{} }}\n", calls - 1, k - 1);
    }
    text + &format!("ENTRY e {{\n x = f64[] parameter(0)\n ROOT c = f64[] call(x), to_apply=f{}\n}}", length - 1)
}

#[test]
fn calls_that_would_not_end_are_refused() {
    for text in [chain(500, 1), chain(40, 2)] {
        let e = refusal(&text);
        assert!(e.message().contains("the gradient of call of calls"), "{e}");
    }
    super::once(-1.0, 1.0, &chain(12, 1));
}

#[test]
fn losses_and_variables_are_floats() {
    let scalar = refusal("ENTRY e {\n ROOT x = f64[3] parameter(0)\n}");
    assert!(scalar.message().contains("expected a floating-point scalar as the loss of a gradient, found f64[3]"));
    let integer = refusal("ENTRY e {\n i = s32[] parameter(0)\n ROOT x = f64[] convert(i)\n}");
    assert!(integer.message().contains("expected a floating-point array of fixed sizes as a variable"));
    let module = parse("HloModule m\nENTRY e {\n ROOT x = f64[] parameter(0)\n}").expect("a program");
    let missing = differentiate(&module, &[1]).map(|_| ()).expect_err("no second parameter");
    assert!(missing.message().contains("expected the number of one of 1 parameters, found 1"));
}

#[test]
fn an_error_stays_with_the_builder() {
    let b = Builder::new("f");
    let x = b.parameter(0, Shape::array(ElementType::F64, [3]), "x");
    let derivative = b.gradient(x, &[x])[0];
    let y = b.neg(derivative);
    let e = b.build_with_root(y).expect_err("the loss is no scalar");
    assert!(e.message().contains("gradient.loss"), "{e}");
    assert!(e.to_string().contains("errors.rs"), "{e}");
}

#[test]
fn variables_may_be_constants_intermediate_or_unused() {
    let b = Builder::new("f");
    let x = b.parameter(0, Shape::array(ElementType::F64, [3]), "x");
    let unused = b.parameter(1, Shape::array(ElementType::F64, [2]), "unused");
    let c = b.constant_r1(&[1.0f64, 2.0, 3.0]);
    let y = b.mul(x, c);
    let z = b.mul(y, y);
    let add = scalar_computation(Opcode::Add, ElementType::F64).expect("a sum");
    let loss = b.reduce_all(z, b.zero(ElementType::F64), &add);
    let all = b.gradient(loss, &[x, unused, c, y, loss]);
    let root = b.tuple(&all);
    let module = b.build_with_root(root).expect("a module");
    let x = [0.5, -1.0, 2.0];
    let args = [
        crate::builder::ArrayLiteral::from_elements(&[3], &x).into(),
        crate::builder::ArrayLiteral::from_elements(&[2], &[1.0f64, 1.0]).into(),
    ];
    let found: Vec<Vec<f64>> = results(&module, &args).iter().map(|a| a.as_slice::<f64>().to_vec()).collect();
    let c = [1.0, 2.0, 3.0];
    let of = |f: &dyn Fn(usize) -> f64| (0..3).map(f).collect::<Vec<f64>>();
    assert_eq!(found[0], of(&|i| 2.0 * x[i] * c[i] * c[i]));
    assert_eq!(found[1], [0.0, 0.0]);
    assert_eq!(found[2], of(&|i| 2.0 * x[i] * c[i] * x[i]));
    assert_eq!(found[3], of(&|i| 2.0 * x[i] * c[i]));
    assert_eq!(found[4], [1.0]);
}

#[test]
fn what_no_variable_needs_is_not_built() {
    let count = |variables: usize| {
        let b = Builder::new("f");
        let x = b.parameter(0, Shape::array(ElementType::F64, [3, 3]), "x");
        let y = b.parameter(1, Shape::array(ElementType::F64, [3, 3]), "y");
        let product = b.dot(x, b.exp(y));
        let add = scalar_computation(Opcode::Add, ElementType::F64).expect("a sum");
        let loss = b.reduce_all(product, b.zero(ElementType::F64), &add);
        let all: Vec<Op> = b.gradient(loss, &[x, y][..variables]);
        let root = b.tuple(&all);
        let module = b.build_with_root(root).expect("a module");
        module.entry().order.iter().filter(|&&i| module.entry().instructions[i].opcode == Opcode::Dot).count()
    };
    assert_eq!((count(1), count(2)), (2, 3));
}

/// What rounds up or down by chance passes the cotangent on, as what rounds to the nearest does.
#[test]
fn rounding_passes_cotangents_on() {
    let text = "f { a = f64[] parameter(0)\n b = f64[] parameter(1)\n ROOT r = f64[] add(a, b) }
ENTRY e {\n x = f64[3] parameter(0)\n y = f32[3] convert(x)\n n = u32[3] parameter(1)
 s = bf16[3] stochastic-convert(y, n)\n t = f64[3] convert(s)\n w = f64[3] constant({1,-2,0.5})\n p = f64[3] multiply(t, w)
 z = f64[] constant(0)\n ROOT r = f64[] reduce(p, z), dimensions={0}, to_apply=f\n}";
    let module = parse(&format!("HloModule m\n{text}")).expect("a program");
    let module = differentiate(&module, &[0]).expect("a gradient");
    let found = results(&module, &arguments(&module, -1.0, 1.0));
    assert_eq!(found[1].as_slice::<f64>(), [1.0, -2.0, 0.5]);
}

/// Ties: `maximum` halves, `reduce` shares, windows take the first; the derivative of `abs` is one at zero.
#[test]
fn kinks_follow_the_conventions() {
    let gradient = |body: &str, x: &[f64]| {
        let module = parse(&format!("HloModule m\n{}", super::program(body))).expect("a program");
        let module = differentiate(&module, &[0]).expect("a gradient");
        let x = crate::builder::ArrayLiteral::from_elements(&[x.len() as i64], x).into();
        results(&module, &[x])[1].as_slice::<f64>().to_vec()
    };
    let sum = |op: &str| {
        format!(
            "x = f64[4] parameter(0)\n c = f64[4] constant({{1,1,1,1}})\n z = f64[] constant(0)\n y = f64[4] {op}
  ROOT s = f64[] reduce(y, z), dimensions={{0}}, to_apply=add"
        )
    };
    assert_eq!(gradient(&sum("maximum(x, c)"), &[0.0, 1.0, 2.0, 1.0]), [0.0, 0.5, 1.0, 0.5]);
    assert_eq!(gradient(&sum("minimum(x, c)"), &[0.0, 1.0, 2.0, 1.0]), [1.0, 0.5, 0.0, 0.5]);
    assert_eq!(gradient(&sum("abs(x)"), &[0.0, -1.0, 2.0, -0.0]), [1.0, -1.0, 1.0, 1.0]);
    assert_eq!(gradient(&sum("clamp(z, x, c)"), &[0.0, 0.5, 1.0, 2.0]), [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(gradient(&sum("power(x, c)"), &[0.0, 1.0, 2.0, 3.0]), [1.0; 4]);
    let largest = "x = f64[4] parameter(0)\n i = f64[] constant(-inf)
  ROOT s = f64[] reduce(x, i), dimensions={0}, to_apply=max";
    assert_eq!(gradient(largest, &[3.0, 1.0, 3.0, 0.0]), [0.5, 0.0, 0.5, 0.0]);
    let pooled = "x = f64[4] parameter(0)\n i = f64[] constant(-inf)\n z = f64[] constant(0)
  w = f64[2] reduce-window(x, i), window={size=2 stride=2}, to_apply=max
  ROOT s = f64[] reduce(w, z), dimensions={0}, to_apply=add";
    assert_eq!(gradient(pooled, &[3.0, 3.0, 1.0, 3.0]), [1.0, 0.0, 0.0, 1.0]);
    // Present values and updates share what is the extreme of their place; of NaN none has any.
    let scattered = "x = f64[4] parameter(0)\n i = s32[4] constant({1,1,0,9})\n c = f64[2] constant({1,1})\n z = f64[] constant(0)
  w = f64[2] scatter(c, i, x), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max
  ROOT s = f64[] reduce(w, z), dimensions={0}, to_apply=add";
    assert_eq!(gradient(scattered, &[3.0, 3.0, 1.0, 7.0]), [0.5, 0.5, 0.5, 0.0]);
    assert_eq!(gradient(scattered, &[1.0, 1.0, f64::NAN, 7.0]), [1.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]);
}

#[test]
fn a_module_keeps_its_parameters_layouts() {
    let text = "HloModule m, entry_computation_layout={(f64[2,3]{0,1})->f64[]}, input_output_alias={}
add { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] add(a, b) }
ENTRY e { x = f64[2,3] parameter(0)
  y = f64[2,3] sine(x)
  z = f64[] constant(0)
  ROOT s = f64[] reduce(y, z), dimensions={0,1}, to_apply=add }";
    let module = differentiate(&parse(text).expect("a program"), &[0]).expect("a gradient");
    let (parameters, result) = module.config.entry_layout.clone().expect("layouts");
    assert_eq!(
        (parameters[0].to_string().as_str(), result.to_string().as_str()),
        ("f64[2,3]{0,1}", "(f64[], f64[2,3])")
    );
    let args = arguments(&module, -1.0, 1.0);
    let found = results(&module, &args);
    let x = args[0].as_array().expect("an array").as_slice::<f64>().to_vec();
    assert_eq!(found[1].as_slice::<f64>(), x.iter().map(|x| x.cos()).collect::<Vec<_>>());
}
