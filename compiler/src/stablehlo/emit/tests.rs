use crate::error::Error;
use crate::stablehlo::{ReadOptions, read_text, write_text};
use crate::{interp, text};
use brolga_runtime::Literal;

fn written(source: &str) -> String {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    write_text(&module).unwrap_or_else(|e| panic!("{e}"))
}

/// The error of a module that has no form.
fn refused(source: &str) -> Error {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    match write_text(&module) {
        Err(error @ Error::Unsupported { .. }) => error,
        other => panic!("{other:?}"),
    }
}

/// Writes a module without parameters, reads it again, and compares what both yield.
fn same_results(source: &str) -> String {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e}"));
    let text = write_text(&module).unwrap_or_else(|e| panic!("{e}"));
    let read = read_text(&text, &ReadOptions::default()).unwrap_or_else(|e| panic!("{e} in\n{text}"));
    let run = |m| interp::run(m, &[], &interp::Options::default()).unwrap_or_else(|e| panic!("{e} in\n{text}"));
    let (want, got): (Literal, Literal) = (run(&module), run(&read));
    assert_eq!(got.arrays(), want.arrays(), "{text}");
    text
}

#[test]
fn a_module_is_written_in_the_generic_form() {
    let text = written(
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  x = f32[3] parameter(0), sharding={replicated}
  ROOT y = f32[3] add(x, x), metadata={op_name=\"jit(f)/add\" source_file=\"f.py\" source_line=7}
}",
    );
    let want = r#"module @m {
  func.func public @main(%arg0: tensor<3xf32> {mhlo.sharding = "{replicated}", tf.aliasing_output = 0 : i32} loc("x")) -> (tensor<3xf32>) {
    %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> loc("jit(f)/add"("f.py":7:0))
    func.return %0 : tensor<3xf32>
  }
}
"#;
    assert_eq!(text, want);
}

#[test]
fn what_has_no_form_names_the_instruction_its_line_and_its_opcode() {
    let error = refused("HloModule m\nENTRY e {\n  ROOT s = u64[2] rng-get-and-update-state(), delta=1\n}");
    let message = error.to_string();
    assert!(message.contains("line 3") && message.contains("'s'"), "{message}");
    assert!(message.contains("rng-get-and-update-state"), "{message}");
    let error = refused(
        "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n  ROOT t = (f32[2], s32[2]) topk(p), k=2, largest=false\n}",
    );
    assert!(error.to_string().contains("the smallest elements of 'topk'"), "{error}");
}

#[test]
fn constants_keep_their_bits() {
    let text = same_results(
        "HloModule m
ENTRY e {
  a = f32[4] constant({nan, -inf, 0.1, -0})
  b = bf16[3] constant({0.5, inf, 1e-30})
  c = f8e4m3fn[2] constant({448, nan})
  d = s4[3] constant({-8, 7, 0})
  f = u64[1] constant({18446744073709551615})
  g = c64[2] constant({(1, -0), (nan, 2.5)})
  h = pred[2,1] constant({{true}, {false}})
  i = f64[2] constant({1e300, 5e-324})
  j = s32[0,3] constant({})
  l.0 = f32[3] constant({7, 7, 7})
  ROOT r = (f32[4], bf16[3], f8e4m3fn[2], s4[3], u64[1], c64[2], pred[2,1], f64[2], s32[0,3], f32[3]) tuple(a, b, c, d, f, g, h, i, j, l.0)
}",
    );
    assert!(text.contains("dense<[0x7FC00000, 0xFF800000, 0.1, -0.0]> : tensor<4xf32>"), "{text}");
    assert!(text.contains("dense<7.0> : tensor<3xf32>"), "{text}");
    assert!(text.contains("dense<> : tensor<0x3xi32>"), "{text}");
    let elements: Vec<String> = (0..300).map(|k| format!("{k}.25")).collect();
    let long = format!("HloModule m\nENTRY e {{\n  ROOT a = f32[300] constant({{{}}})\n}}", elements.join(", "));
    assert!(same_results(&long).contains("dense<\"0x0000803E0000A03F"));
}

#[test]
fn names_that_mlir_does_not_read_bare_stand_in_quotes() {
    let text = same_results(
        "HloModule a-b
f-1 {
  x = f32[] parameter(0)
  ROOT y = f32[] add(x, x)
}
main {
  x = f32[] parameter(0)
  ROOT y = f32[] call(x), to_apply=f-1
}
ENTRY e {
  c = f32[] constant(2)
  ROOT r = f32[] call(c), to_apply=main
}",
    );
    assert!(
        text.contains("module @\"a-b\"") && text.contains("private @\"f-1\"") && text.contains("@main_1"),
        "{text}"
    );
}

#[test]
fn tuples_loops_and_branches_come_back() {
    same_results(
        "HloModule m
cond {
  s = (s32[], (f32[2], pred[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
yes {
  t = (f32[2]) parameter(0)
  ROOT x = f32[2] get-tuple-element(t), index=0
}
no {
  x = f32[2] parameter(0)
  ROOT y = f32[2] negate(x)
}
body {
  s = (s32[], (f32[2], pred[])) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  inner = (f32[2], pred[]) get-tuple-element(s), index=1
  x = f32[2] get-tuple-element(inner), index=0
  p = pred[] get-tuple-element(inner), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  xs = (f32[2]) tuple(x)
  z = f32[2] conditional(p, xs, x), true_computation=yes, false_computation=no
  w = f32[2] conditional(i, x, x, x), branch_computations={no, no, no}
  v = f32[2] add(z, w)
  q = pred[] not(p)
  in = (f32[2], pred[]) tuple(v, q)
  ROOT r = (s32[], (f32[2], pred[])) tuple(next, in)
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[2] constant({1, 2})
  p = pred[] constant(true)
  in = (f32[2], pred[]) tuple(x, p)
  s = (s32[], (f32[2], pred[])) tuple(zero, in)
  l = (s32[], (f32[2], pred[])) while(s), condition=cond, body=body
  d = (f32[2], pred[]) get-tuple-element(l), index=1
  ROOT r = ((f32[2], pred[]), s32[]) tuple(d, zero)
}",
    );
}

/// Each computation calls the one before in the body of a loop, twice: written in place they would be 2^40.
#[test]
fn the_text_grows_no_faster_than_the_module() {
    let mut source = "HloModule m\nc {\n  s = f32[] parameter(0)\n  ROOT p = pred[] constant(false)\n}\n".to_owned();
    source.push_str("b0 {\n  s = f32[] parameter(0)\n  ROOT r = f32[] add(s, s)\n}\n");
    for k in 1..=40 {
        let before = k - 1;
        source.push_str(&format!(
            "b{k} {{\n  s = f32[] parameter(0)\n  a = f32[] while(s), condition=c, body=b{before}\n  \
             ROOT b = f32[] while(a), condition=c, body=b{before}\n}}\n"
        ));
    }
    source.push_str("ENTRY e {\n  x = f32[] constant(3)\n  ROOT r = f32[] while(x), condition=c, body=b40\n}\n");
    let text = same_results(&source);
    assert!(text.len() < 40 * source.len(), "{} of {}", text.len(), source.len());
}

#[test]
fn a_bitcast_follows_the_layouts() {
    same_results(
        "HloModule m
ENTRY e {
  c = s32[2,3]{1,0} constant({{1, 2, 3}, {4, 5, 6}})
  t = s32[2,3]{0,1} copy(c)
  ROOT b = s32[6]{0} bitcast(t)
}",
    );
}

/// Layouts of callers' arrays are written, wherever they are stated; padding has no form.
#[test]
fn layouts_of_the_interface_are_written_and_padding_is_refused() {
    let stated = |parameter: &str, result: &str| {
        let body = |x: &str, y: &str| format!("ENTRY e {{\n  x = {x} parameter(0)\n  ROOT y = {y} negate(x)\n}}");
        let plain = "f32[2,3]{1,0}";
        let line = format!("HloModule m, entry_computation_layout={{({parameter})->{result}}}\n{}", body(plain, plain));
        [line, format!("HloModule m\n{}", body(parameter, result))]
    };
    let text = stated("f32[2,3]{0,1}", "f32[2,3]{1,0}").map(|source| written(&source));
    assert_eq!(text[0], text[1]);
    assert!(text[0].contains("parameter_layouts = [dense<[0, 1]> : tensor<2xindex>]"), "{}", text[0]);
    for (parameter, result, what) in [
        ("f32[2,3]{1,0:W(3,5)}", "f32[2,3]{1,0}", "the layout of a parameter ({1,0:W(3,5)})"),
        ("f32[2,3]{1,0}", "f32[2,3]{0,1:W(3,5)V(one)}", "the layout of a result ({0,1:W(3,5)V(one)})"),
    ] {
        for source in stated(parameter, result) {
            let error = refused(&source);
            assert!(error.to_string().contains(what), "{error}\n{source}");
        }
    }
}

#[test]
fn an_operand_of_another_float_type_is_converted() {
    let text = same_results(
        "HloModule m
ENTRY e {
  a = bf16[2] constant({1.5, 2})
  b = f32[2] constant({0.1, 0.2})
  ROOT r = f32[2] add(a, b)
}",
    );
    assert!(text.contains("stablehlo.convert"), "{text}");
}

#[test]
fn what_a_computation_yields_wider_is_rounded_after_it() {
    for reduction in [
        "reduce(a, z), dimensions={0}, to_apply=add",
        "reduce-window(a, z), window={size=4}, to_apply=add",
        "scatter(b, i, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add",
    ] {
        let ty = match reduction.split_once('(') {
            Some(("reduce", _)) => "bf16[]",
            Some(("scatter", _)) => "bf16[4]",
            _ => "bf16[1]",
        };
        let text = same_results(&format!(
            "HloModule m
add {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}}
ENTRY e {{
  a = f32[4] constant({{1, 0.00390625, 0.00390625, 0.00390625}})
  b = bf16[4] constant({{1, 2, 3, 4}})
  u = bf16[1] constant({{0.0078125}})
  i = s32[1] constant({{2}})
  z = f32[] constant(0)
  ROOT r = {ty} {reduction}
}}"
        ));
        assert!(text.contains("stablehlo.convert"), "{text}");
    }
}

#[test]
fn one_group_of_everyone_is_spelled_out_where_parts_are_exchanged() {
    let text = written(
        "HloModule m, replica_count=2
ENTRY e {
  x = f32[4] parameter(0)
  ROOT r = f32[4] all-to-all(x), dimensions={0}
}",
    );
    assert!(text.contains("replica_groups = dense<[[0, 1]]>"), "{text}");
}

/// In StableHLO a sharding asks to divide; in a module for one of several partitions it has been done.
#[test]
fn shardings_of_a_divided_module_are_left_out() {
    let source = "HloModule m, num_partitions=2
ENTRY e {
  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  ROOT r = f32[4] negate(x), sharding={devices=[2]<=[2]}
}";
    assert!(!written(source).contains("sharding"));
    assert!(written(&source.replace("num_partitions=2", "num_partitions=1")).contains("sharding"));
}

#[test]
fn what_stablehlo_has_other_types_for_is_refused() {
    for (instruction, why) in [
        ("pred[10,4] parameter(0)\n  ROOT r = s32[10] bitcast-convert(x)", "the bytes of truth values"),
        ("f32[] parameter(0)\n  ROOT r = token[] after-all(x)", "operand 0, which is no token"),
        (
            "bf16[2,3] parameter(0)\n  y = s8[3,2] constant({{1, 2}, {3, 4}, {5, 6}})
  ROOT r = bf16[2,2] convolution(x, y), dim_labels=bf_io->bf",
            "operands of different types",
        ),
    ] {
        let error = refused(&format!("HloModule m\nENTRY e {{\n  x = {instruction}\n}}"));
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn custom_calls_keep_their_convention() {
    let text = written(
        "HloModule m
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  ROOT r = f32[2] custom-call(x), custom_call_target=\"f\", operand_layout_constraints={f32[2,3]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={k = 1 : i64}, output_to_operand_aliasing={{}: (0, {})}
}",
    );
    for part in [
        "call_target_name = \"f\"",
        "api_version = 4 : i32",
        "backend_config = {k = 1 : i64}",
        "operand_layouts = [dense<[0, 1]> : tensor<2xindex>]",
        "-> tensor<2xf32>",
        "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    // A tuple of one is another calling convention than its part.
    let text = written("HloModule m\nENTRY e {\n  ROOT r = (f32[2]) custom-call(), custom_call_target=\"f\"\n}");
    assert!(text.contains("-> tuple<tensor<2xf32>>"), "{text}");
}
