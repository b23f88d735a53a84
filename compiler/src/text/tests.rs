//! The grammar, feature by feature, and every kind of error with its place.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Error;
use crate::hlo::{AliasKind, AttrKey, AttrValue, Instruction, Opcode};
use brolga_runtime::{ElementType, Layout, display};

fn module(text: &str) -> Module {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    // Whatever a test reads must also print and read back.
    let styles =
        [PrintOptions::default(), PrintOptions { percent: false, operand_shapes: true, ..PrintOptions::default() }];
    for options in styles {
        let printed = print(&module, &options);
        let again = parse(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert_eq!(print(&again, &options), printed);
        assert_eq!(summary(&again), summary(&module));
    }
    module
}

/// A module whose entry holds the given instructions.
fn entry(body: &str) -> Module {
    module(&format!("HloModule m\nENTRY e {{\n{body}\n}}\n"))
}

/// The instruction called `name` of the entry.
fn find<'m>(module: &'m Module, name: &str) -> &'m Instruction {
    module.entry().instructions.values().find(|i| i.name == name).unwrap()
}

fn root(module: &Module) -> &Instruction {
    &module.entry().instructions[module.entry().root]
}

/// The value of a constant of the given shape, printed again.
fn constant(shape: &str, value: &str) -> String {
    literal_to_string(&parse_literal(value, &parse_shape(shape).unwrap()).unwrap())
}

/// The one error of a text: line, column, length, instruction and message.
fn error(text: &str) -> (u32, u32, u32, Option<String>, String) {
    match parse(text) {
        Err(Error::Syntax { site, message }) => {
            (site.location.line, site.location.column, site.length, site.instruction, message)
        }
        other => panic!("expected a syntax error, found {other:?}\n{text}"),
    }
}

/// An error in the second line of an entry that starts with `p = f32[2] parameter(0)`.
fn error_in(instruction: &str) -> (u32, u32, String) {
    let text = format!("HloModule m\nENTRY e {{\n  p = f32[2] parameter(0)\n{instruction}\n}}\n");
    let (line, column, _, _, message) = error(&text);
    (line, column, message)
}

#[test]
fn names_with_and_without_percent() {
    let m = module(
        "HloModule m-1.x\n%c_1 (a.0: f32[]) -> f32[] { ROOT %a.0 = f32[] parameter(0) }\nENTRY %e-2 { %0 = f32[] parameter(0) ROOT k = f32[] call(%0), to_apply=c_1 }",
    );
    assert_eq!((m.name.as_str(), m.entry().name.as_str()), ("m-1.x", "e-2"));
    assert_eq!(find(&m, "0").opcode, Opcode::Parameter);
    assert_eq!(m.order.len(), 2);
}

#[test]
fn a_module_may_lack_its_header() {
    assert_eq!(module("ENTRY e { ROOT a = f32[] constant(1) }").name, "module");
    assert_eq!(module("HloModule old: ENTRY e { ROOT a = f32[] constant(1) }").name, "old");
    assert_eq!(module("c { ROOT a = f32[] constant(1) } ENTRY e { ROOT a = f32[] call(), to_apply=c }").order.len(), 2);
}

#[test]
fn header_attributes() {
    let m = module(
        "HloModule m, is_scheduled=true, input_output_alias={ {1}: (1, {}, must-alias), {0}: 0 }, \
         entry_computation_layout={(f32[2]{0:T(8)}, f32[2]{0})->(f32[2]{0}, f32[2]{0})}, replica_count=2, \
         num_partitions=4, buffer_donor={ (0, {}) }, frontend_attributes={a=\"x, {y\"}\n\
         ENTRY e { a = f32[2] parameter(0) b = f32[2] parameter(1) ROOT t = (f32[2], f32[2]) tuple(a, b) }",
    );
    let config = &m.config;
    assert!(config.is_scheduled);
    assert_eq!((config.replica_count, config.num_partitions), (Some(2), Some(4)));
    assert_eq!((config.aliases[0].output_index.as_slice(), config.aliases[0].parameter), (&[1][..], 1));
    assert_eq!((config.aliases[0].kind, config.aliases[1].kind), (AliasKind::Must, AliasKind::May));
    let other: Vec<_> = config.other.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(other, ["buffer_donor={ (0, {}) }", "frontend_attributes={a=\"x, {y\"}"]);
    assert_eq!(config.entry_layout.as_ref().unwrap().0[0].to_string(), "f32[2]{0:T(8)}");
}

#[test]
fn tables_of_stack_frames_are_kept() {
    let m = module(
        "HloModule m\n\nFileNames\n1 \"a.py\"\n\nFunctionNames\n1 \"f\"\n2 \"g\"\n\nFileLocations\n\
         1 {file_name_id=1 line=3}\n\nStackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n\
         ENTRY e { ROOT a = f32[] constant(1), metadata={op_name=\"x\" stack_frame_id=1} }",
    );
    assert_eq!(m.config.other[1], ("FunctionNames".to_owned(), "1 \"f\"\n2 \"g\"\n".to_owned()));
    assert!(print(&m, &PrintOptions::default()).contains("\nStackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"));
}

#[test]
fn shapes_and_layouts() {
    for text in [
        "f32[]",
        "f32[2,3]{1,0}",
        "f32[2,3]{0,1:T(8,128)(2,1)E(4)S(1)}",
        "u32[]{:T(8)S(8)}",
        "s32[<=4096]{0:T(8)M(1024)}",
        "f8e4m3b11fnuz[0,7]",
        "(f32[2], (s4[], token[]), opaque[])",
        "()",
        "b(f32[2]{0})",
        "s32[9]{0:D(D)T(128)L(4)#(u32)*(u8)E(4)S(1)SC(0:3)M(8)}",
        "(pred[], pred[], pred[], pred[], pred[], /*index=5*/pred[])",
        "f32[8]{0:T(*,8)}",
        "f32[2,3]{0,1:W(3,5)V(zero)}",
        "f32[2,3]{1,0:T(8)S(1)M(8)W(2,3)}",
        "s32[0,3]{1,0:W(4,3)V(lowest)}",
    ] {
        assert_eq!(parse_shape(text).unwrap().to_string(), text);
    }
    assert_eq!(parse_shape("f32[]{}").unwrap().as_array().unwrap().layout, None);
    let shape = parse_shape("bf16[4,<=8]{0,1:D(D,C)T(2)L(3)}").unwrap();
    let array = shape.as_array().unwrap();
    assert_eq!((array.dims.as_slice(), array.dynamic.as_slice()), (&[4, 8][..], &[false, true][..]));
    let other = vec![("D".to_owned(), "D,C".to_owned()), ("L".to_owned(), "3".to_owned())];
    let layout = Layout { minor_to_major: vec![0, 1], tiles: vec![vec![Some(2)]], other, ..Layout::default() };
    assert_eq!(array.layout, Some(layout));
    assert!(matches!(parse_shape("f32[?,2]"), Err(Error::Unsupported { .. })));
    assert!(matches!(parse_shape("f6e2m3fn[2]"), Err(Error::Unsupported { .. })));
}

/// «If present, the number of elements in padded_dimensions must match the rank of the shape.»
#[test]
fn padding_is_checked_where_it_is_written() {
    for (layout, wanted) in [
        ("W(3)", "expected a width for each of 2 dimensions, found others"),
        ("W(3,5,1)", "expected a width for each of 2 dimensions, found others"),
        ("W()", "expected the width of a dimension, found ')'"),
        ("W(3,2)V(zero)", "expected a width of at least 3 of dimension 1, found '2'"),
        ("W(-3,5)", "expected a width of at least 2 of dimension 0, found '-3'"),
        ("V(zero)", "expected the widths W(...) before the padding value, found none"),
        ("W(3,5)V(nothing)", "expected one of the padding values zero one lowest highest unknown, found 'nothing'"),
        ("W(3,5)V(invalid)", "expected one of the padding values zero one lowest highest unknown, found 'invalid'"),
        ("V(zero)W(3,5)", "expected the widths W(...) before the padding value, found none"),
        ("W(3,5)T(8)", "one of the properties V of a layout"),
    ] {
        let text = format!("HloModule m\n\nENTRY e {{\n  ROOT p = f32[2,3]{{0,1:{layout}}} parameter(0)\n}}\n");
        let Err(Error::Syntax { site, message }) = parse(&text) else { panic!("{layout}") };
        assert_eq!(site.location.line, 4, "{layout}");
        assert!(message.contains(wanted), "{layout}: {message}");
    }
    assert!(parse_shape("f32[]{:W(1)}").is_err());
    let large = parse_shape("f32[2,3]{0,1:W(4611686018427387904,5)}");
    assert!(matches!(large, Err(Error::Unsupported { .. })), "{large:?}");
}

#[test]
fn a_brace_after_a_signature_opens_the_body() {
    let m = module(
        "HloModule m\nENTRY e (a: f32[], b: (f32[2], s32[])) -> f32[] {\n a = f32[] parameter(0)\n b = (f32[2]{0}, s32[]) parameter(1)\n ROOT n = f32[] negate(f32[] a)\n}",
    );
    assert_eq!(m.entry().parameters().len(), 2);
}

#[test]
fn comments_are_blanks() {
    let m = entry("// f32\n a /* x */ = f32[] /*index=5*/ constant(/*0*/1) ROOT b = f32[] negate(/*index=5*/a) // end");
    assert_eq!(root(&m).opcode, Opcode::Negate);
}

#[test]
fn the_last_instruction_is_the_root_where_none_is_marked() {
    assert_eq!(root(&entry("a = f32[] constant(1) b = f32[] negate(a)")).name, "b");
    assert_eq!(root(&entry("ROOT a = f32[] constant(1) b = f32[] negate(a)")).name, "a");
}

#[test]
fn attributes_of_every_kind() {
    let m = entry(
        "a = f32[2,3] parameter(0)\n c = f32[] constant(0)\n i = s32[] constant(0)\n\
         pad = f32[9,3] pad(a, c), padding=-1_2_3x0_0\n\
         slice = f32[1,2] slice(a), slice={[0:1], [0:3:2]}\n\
         d = f32[1,1] dynamic-slice(a, i, i), dynamic_slice_sizes={1,1}\n\
         dot = f32[2,2] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}, \
           operand_precision={highest,default}, algorithm=dot_tf32_tf32_f32\n\
         cmp = pred[2,3] compare(a, a), direction=LT, type=TOTALORDER\n\
         rp = f32[2,3] reduce-precision(a), exponent_bits=5, mantissa_bits=10\n\
         ar = f32[2,3] all-gather(a), dimensions={0}, replica_groups=[2,4]<=[4,2]T(1,0), channel_id=1, use_global_device_ids=true\n\
         ag = f32[2,3] all-gather(a), dimensions={0}, replica_groups={{0,1},{2,3}}\n\
         s = f32[2,3] sine(a), result_accuracy={mode=highest}, metadata={op_name=\"jit(f)/sin\" source_line=3}, \
           sharding={devices=[2,1]<=[2]}, frontend_attributes={k=\"v\"}, control-predecessors={pad, %slice}, \
           backend_config={\"a\":[1,{\"b\":\"}\"}]}, statistics={visualizing_index=0}, origin={{\"x\"}}\n\
         cp = f32[2,3] collective-permute(a), source_target_pairs={{0,1},{1,0}}, slice_sizes={{1,3}}\n\
         ROOT cc = f32[] custom-call(a, c), custom_call_target=\"a\\\"b\\n\\303\\251\", \
           operand_layout_constraints={f32[2,3]{0,1}, f32[]}, api_version=API_VERSION_TYPED_FFI, \
           backend_config=\"x}y\", custom_call_has_side_effect=true, literal=s32[2] {1, 2}",
    );
    let pad = find(&m, "pad").attrs.padding(AttrKey::Padding).unwrap();
    assert_eq!((pad[0].low, pad[0].high, pad[0].interior, pad[1].low), (-1, 2, 3, 0));
    let slice = find(&m, "slice").attrs.slice_ranges(AttrKey::Slice).unwrap();
    assert_eq!((slice[0].stride, slice[1].start, slice[1].limit, slice[1].stride), (1, 0, 3, 2));
    assert_eq!(find(&m, "cmp").attrs.word(AttrKey::ComparisonType), Some("TOTALORDER"));
    assert_eq!(find(&m, "ar").attrs.raw(AttrKey::ReplicaGroups), Some("[2,4]<=[4,2]T(1,0)"));
    assert_eq!(find(&m, "s").attrs.instructions(AttrKey::ControlPredecessors).unwrap().len(), 2);
    assert_eq!(find(&m, "s").attrs.raw(AttrKey::BackendConfig), Some("{\"a\":[1,{\"b\":\"}\"}]}"));
    assert_eq!(find(&m, "cp").attrs.raw(AttrKey::SliceSizesPerDevice), Some("{{1,3}}"));
    let cc = root(&m);
    assert_eq!(cc.attrs.str(AttrKey::CustomCallTarget), Some("a\"b\né"));
    assert_eq!(cc.attrs.raw(AttrKey::BackendConfig), Some("\"x}y\""));
    assert_eq!(literal_to_string(cc.attrs.literal(AttrKey::Literal).unwrap()), "{1, 2}");
}

#[test]
fn windows() {
    let m = module(
        "HloModule m\n add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n\
         ENTRY e { a = f32[8,8] parameter(0) c = f32[] constant(0) ROOT r = f32[4,4] reduce-window(a, c), \
         window={size=3x2 stride=2x1 pad=0_1x-1_0 lhs_dilate=1x2 rhs_dilate=3x1 rhs_reversal=0x1}, to_apply=add }",
    );
    let window = root(&m).attrs.window(AttrKey::Window).unwrap();
    let (w, v) = (window[0], window[1]);
    assert_eq!((w.size, w.stride, w.padding_high, w.window_dilation, w.reversal), (3, 2, 1, 3, false));
    assert_eq!((v.size, v.padding_low, v.base_dilation, v.reversal), (2, -1, 2, true));
    let text = "{size=3x2 stride=2x1 pad=0_1x-1_0 lhs_dilate=1x2 rhs_dilate=3x1 rhs_reversal=0x1}";
    assert!(print(&m, &PrintOptions::default()).contains(text));
}

#[test]
fn dimension_labels() {
    let conv = |labels: &str, dims: &str| {
        let m =
            entry(&format!("a = f32[{dims}] parameter(0) ROOT r = f32[{dims}] convolution(a, a), dim_labels={labels}"));
        assert!(print(&m, &PrintOptions::default()).contains(&format!("dim_labels={labels}")));
        m
    };
    let m = conv("b01f_01io->fb01", "1,2,3,4");
    let dims = root(&m).attrs.dim_labels(AttrKey::DimLabels).unwrap();
    assert_eq!((dims.input_batch, dims.input_feature, dims.input_spatial.as_slice()), (0, 3, &[1, 2][..]));
    assert_eq!((dims.output_batch, dims.output_feature, dims.output_spatial.as_slice()), (1, 0, &[2, 3][..]));
    conv("bf_oi->bf", "1,2");
    conv("?b01f_0?1io->b01?f", "1,2,3,4,5");
    for wrong in ["b01f_01io", "b01f_0io->b01f", "bb01_01io->b01f", "b02f_02io->b02f", "b01f-01io->b01f"] {
        let (.., message) = error_in(&format!("r = f32[2] convolution(p, p), dim_labels={wrong}"));
        assert!(message.starts_with("expected dimension labels"), "{message}");
    }
}

#[test]
fn computations_as_attributes() {
    let m = module(
        "HloModule m\n c { x = s32[] parameter(0) ROOT y = s32[] negate(x) }, execution_thread=\"host\"\n\
         cond { x = s32[] parameter(0) ROOT y = pred[] constant(false) }\n\
         ENTRY e { a = s32[] parameter(0) w = s32[] while(a), condition=cond, body=%c\n\
         k = s32[] conditional(a, a, a), branch_computations={c, %c}\n\
         ROOT f = s32[] fusion(k), kind=kLoop, calls={ p = s32[] parameter(0) ROOT n = s32[] negate(p) } }",
    );
    assert_eq!(m.order.len(), 4);
    assert_eq!(m.computations[m.order[0]].trailing, "execution_thread=\"host\"");
    assert_eq!(find(&m, "k").attrs.computations(AttrKey::BranchComputations).unwrap().len(), 2);
    let inline = root(&m).attrs.computation(AttrKey::Calls).unwrap();
    assert_eq!(m.computations[inline].name, "inline");
    let mut sorted = m.clone();
    assert!(sorted.sort_computations());
    assert_eq!(sorted.order.len(), 4);
}

#[test]
fn instructions_as_operands() {
    let m = entry(
        "add = f32[] constant(4)\nROOT r = f32[] add(f32[] negate(f32[] parameter(0)), f32[] add(f32[] parameter(1), f32[] add))",
    );
    let names: Vec<_> = m.entry().order.iter().map(|&i| m.entry().instructions[i].name.as_str()).collect();
    assert_eq!(names, ["add", "parameter", "negate", "parameter.1", "add.1", "r"]);
    assert!(m.entry().is_post_order());
}

#[test]
fn asynchronous_sugar_makes_a_computation() {
    let m = module(
        "HloModule m\n async_wrapped { ROOT q = f32[4] parameter(0) }\n ENTRY e { p = f32[4] parameter(0)\n\
         s = ((f32[4]), f32[4], u32[]) call-start(p), async_execution_thread=\"t\", to_apply=async_wrapped, metadata={op_name=\"x\"}\n\
         u = ((f32[4]), f32[4], u32[]) call-update(s)\n ROOT d = f32[4] call-done(u) }",
    );
    let start = find(&m, "s");
    let wrapped = &m.computations[start.attrs.computation(AttrKey::Calls).unwrap()];
    assert_eq!(wrapped.name, "async_wrapped.1");
    assert_eq!(wrapped.trailing, "execution_thread=\"t\"");
    assert_eq!(wrapped.instructions[wrapped.root].opcode, Opcode::Call);
    assert_eq!(wrapped.result_shape().to_string(), "f32[4]");
    assert_eq!(start.opcode, Opcode::AsyncStart);
    assert!(start.attrs.raw(AttrKey::Metadata).is_some() && start.attrs.computation(AttrKey::ToApply).is_none());
    assert_eq!((find(&m, "u").opcode, root(&m).opcode), (Opcode::AsyncUpdate, Opcode::AsyncDone));
    let counts = summary(&m);
    assert_eq!((counts.computations, counts.instructions), (3, 7));
    assert_eq!(counts.opcodes["call"], 1);
    // Those with an opcode of their own stay what they are.
    let m = entry("p = f32[4] parameter(0) s = (f32[4], f32[4], u32[]) copy-start(p) ROOT d = f32[4] copy-done(s)");
    assert_eq!(root(&m).opcode, Opcode::CopyDone);
}

#[test]
fn literals_of_every_type() {
    for &ty in ElementType::ALL {
        let (shape, value) = match ty {
            ElementType::Pred => ("pred[2]", "{1, 0}"),
            ElementType::C64 => ("c64[2]", "{(1.5, -2), (nan, inf)}"),
            ElementType::C128 => ("c128[2]", "{(1.5, -2), (1e-30, -inf)}"),
            ElementType::S1 => ("s1[2]", "{0, -1}"),
            ElementType::U1 => ("u1[2]", "{0, 1}"),
            _ => ("[2]", "{1, 0.5}"),
        };
        let shape = if shape == "[2]" { format!("{ty}[2]") } else { shape.to_owned() };
        let value = if ty.is_integer() && ty.bits() > 1 { "{1, 0}" } else { value };
        assert_eq!(constant(&shape, value), value, "{ty}");
    }
}

#[test]
fn the_last_computation_is_the_entry_where_none_is_marked() {
    let m = module("HloModule m c { ROOT a = f32[] constant(1) } d { ROOT b = f32[] constant(2) }");
    assert_eq!((m.entry().name.as_str(), m.order.len()), ("d", 2));
}

#[test]
fn shapes_that_operands_tell_may_be_left_out() {
    let m = module(
        "HloModule m\n add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = add(x, y) }\n\
         ENTRY e { a = f32[8,4] parameter(0) c = f32[] constant(0)\n\
         r = reduce(a, c), dimensions={0}, to_apply=add\n s = slice(a), slice={[0:1], [0:4]}\n\
         ROOT t = tuple(r, s, exponential(negate(a)), call(c, c), to_apply=add) }",
    );
    assert_eq!(root(&m).shape.to_string(), "(f32[4], f32[1,4], f32[8,4], f32[])");
    let wrong = "HloModule m ENTRY e {\n a = f32[2] parameter(0)\n b = s32[2] parameter(1)\n ROOT r = add(a, b) }";
    match parse(wrong) {
        Err(Error::Invalid { site, constraint, .. }) => {
            assert_eq!(
                (site.location.line, site.instruction.as_deref(), constraint),
                (4, Some("r"), "operand.same-type")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(parse("HloModule m ENTRY e { a = f32[] parameter(0) ROOT r = broadcast(a) }").is_err());
}

#[test]
fn strings_stand_in_either_quotes() {
    let m = entry("ROOT c = f32[] custom-call(), custom_call_target='a\"b', backend_config='{}'");
    assert_eq!(root(&m).attrs.str(AttrKey::CustomCallTarget), Some("a\"b"));
}

#[test]
fn attributes_kept_as_text() {
    for text in [
        "sharding={}",
        "sharding={{replicated}, {maximal device=0}}",
        "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated} metadata={op_name=\"x\"}}",
        "sharding={mesh['x'=2,'y'=2], [{'x'}, {}]}",
        "metadata={op_type=\"a\" source_line=3, profile_type={1,2} preserve_layout=true}",
        "metadata={}",
        "frontend_attributes={}",
        "frontend_attributes={a.b=\"c\",d={\"e\": [1, {\"f\": \"}\"}]}}",
        "backend_config=\"x}\"",
        "backend_config={sizes:[128]}",
        "statistics={visualizing_index=1,stat-1=33.5}",
        "result_accuracy={tolerance={atol=1e-3,rtol=0,ulps=2}}",
        "origin={({\"a\" {0}}, {\"b\"})}",
    ] {
        let m = entry(&format!("a = f32[2] parameter(0) ROOT r = f32[2] sine(a), {text}"));
        assert!(print(&m, &PrintOptions::default()).contains(text), "{text}");
    }
    let m = entry("ROOT a = (f32[], s32[]) parameter(0), parameter_replication={true,false}");
    assert_eq!(root(&m).attrs.raw(AttrKey::ParameterReplication), Some("{true,false}"));
}

#[test]
fn literals_as_attributes_say_their_shapes() {
    for (text, printed) in [
        ("s32[2] {1, 2}", "s32[2]{0} {1, 2}"),
        ("s32[2,1]{1,0} {{1}, {2}}", "s32[2,1]{1,0} { {1}, {2} }"),
        ("( f32[] 1, s32[2]{0} {1, 2} )", "(f32[] 1, s32[2]{0} {1, 2})"),
        ("(f32[], s32[2]) (1, {2, 3})", "(f32[] 1, s32[2]{0} {2, 3})"),
    ] {
        let m = entry(&format!("ROOT r = f32[] custom-call(), custom_call_target=\"x\", literal={text}"));
        assert!(print(&m, &PrintOptions::default()).contains(&format!("literal={printed}, custom_call")), "{text}");
    }
}

#[test]
fn an_asynchronous_computation_has_one_caller() {
    let text = |second: &str| {
        format!(
            "HloModule m\n c {{ q = f32[] parameter(0) ROOT n = f32[] negate(q) }}\n\
             d {{ q = f32[] parameter(0) ROOT n = f32[] abs(q) }}\n ENTRY e {{ p = f32[] parameter(0)\n\
             s = ((f32[]), f32[], u32[]) async-start(p), calls=c\n\
             t = ((f32[]), f32[], u32[]) async-start(p), calls={second}\n ROOT r = f32[] abs-done(t) }}"
        )
    };
    assert!(parse(&text("d")).is_ok());
    let (line, _, _, name, message) = error(&text("c"));
    assert_eq!((line, name.as_deref()), (6, Some("t")));
    assert_eq!(message, "expected a computation that no other async-start calls");
}

#[test]
fn literals_nest_by_dimension() {
    assert_eq!(constant("s8[2,2]", "{{1,2},{-3,4}}"), "{ {1, 2}, {-3, 4} }");
    assert_eq!(constant("f32[1,2,1]", "{ { {1}, /*i=1*/{-0} } }"), "{ { {1}, {-0} } }");
    assert_eq!(constant("f32[0]", "{}"), "{}");
    assert_eq!(constant("f32[2,0]", "{{},{}}"), "{{}, {}}");
    assert_eq!(constant("f32[2,0]", "{}"), "{{}, {}}");
    assert_eq!(constant("f32[0,2]", "{}"), "{}");
    assert_eq!(constant("f32[99999999999,0]", "{}"), "{}");
    assert_eq!(constant("pred[]", "true"), "true");
    assert_eq!(constant("(f32[], s32[2], (pred[]))", "(1, s32[2] {2, 3}, (false))"), "(1, {2, 3}, (false))");
    assert_eq!(constant("c64[]", "2"), "(2, 0)");
}

#[test]
fn floats_read_back_to_the_same_bits() {
    let bits = |shape: &str, value: &str| {
        let literal = parse_literal(value, &parse_shape(shape).unwrap()).unwrap();
        literal.as_array().unwrap().bytes().iter().rev().map(|b| format!("{b:02x}")).collect::<String>()
    };
    assert_eq!(bits("f32[]", "nan"), "7fc00000");
    assert_eq!(bits("f32[]", "-nan"), "ffc00000");
    assert_eq!(bits("f32[]", "nan(0x1)"), "7f800001");
    assert_eq!(bits("f64[]", "-inf"), "fff0000000000000");
    assert_eq!(bits("bf16[]", "1e-3"), "3a83");
    assert_eq!(bits("f16[]", "65519"), "7bff");
    assert_eq!(bits("f8e5m2[]", "nan(0x3)"), "7f");
    assert_eq!(bits("f8e4m3fn[]", "-nan"), "ff");
    assert_eq!(bits("f8e4m3fnuz[]", "nan"), "80");
    assert_eq!(bits("f32[]", "1e-45"), "00000001");
    assert_eq!(constant("f32[]", "-nan(0x7)"), "-nan(0x7)");
    // As XLA reads them.
    assert_eq!(constant("f8e4m3fn[]", "464"), "448");
    assert_eq!(constant("f8e5m2[]", "60000"), "57344");
    assert_eq!(bits("f8e4m3fn[]", "-inf"), "ff");
    assert_eq!(bits("f8e4m3fnuz[]", "inf"), "80");
    assert_eq!(constant("f4e2m1fn[]", "-255"), "-6");
    assert_eq!(constant("f4e2m1fn[]", "inf"), "6");
    assert_eq!(bits("f4e2m1fn[]", "nan"), "08");
    assert_eq!(constant("pred[]", "-2"), "true");
    assert_eq!(constant("u64[]", "-1"), "18446744073709551615");
    assert_eq!(constant("s64[]", "9223372036854775808"), "-9223372036854775808");
    assert_eq!(constant("f32[]", "3.4028235e38"), "3.4028235e38");
    for &ty in ElementType::ALL.iter().filter(|ty| ty.is_float() && ty.bits() <= 16) {
        for code in 0..1u32 << ty.bits() {
            let bytes = &code.to_le_bytes()[..ty.byte_size()];
            let mut text = String::new();
            display::write_element(&mut text, ty, bytes).unwrap();
            let read = parse_literal(&text, &Shape::scalar(ty)).unwrap_or_else(|e| panic!("{ty} {code:x} {text}: {e}"));
            assert_eq!(read.as_array().unwrap().bytes(), bytes, "{ty} {code:x} {text}");
        }
    }
}

#[test]
fn numbers_out_of_range_are_errors() {
    for (shape, value) in [
        ("s4[]", "8"),
        ("s4[]", "-9"),
        ("u4[]", "16"),
        ("u4[]", "-1"),
        ("s8[]", "128"),
        ("u64[]", "18446744073709551616"),
        ("s64[]", "99999999999999999999999999999999999999999999"),
        ("s32[]", "1.5"),
        ("f32[]", "1e39"),
        ("f64[]", "1e309"),
        ("f16[]", "65520"),
        ("bf16[]", "3.4e38"),
        ("f8e4m3fn[]", "1000"),
        ("f8e4m3fn[]", "465"),
        ("f8e5m2[]", "61440"),
        ("f8e8m0fnu[]", "0"),
        ("f32[]", "nan(0x800000)"),
        ("f32[]", "nan(0)"),
        ("pred[]", "two"),
        ("f32[]", "abc"),
        ("f32[]", "1.2.3"),
        ("f32[2]", "{1}"),
        ("f32[2]", "{1, 2, 3}"),
        ("f32[2]", "1"),
        ("f32[0]", "{1}"),
        ("opaque[]", "1"),
    ] {
        let error = parse_literal(value, &parse_shape(shape).unwrap()).unwrap_err();
        assert!(error.message().starts_with("expected "), "{shape} {value}: {error}");
    }
}

#[test]
fn elided_constants_have_no_value() {
    let m = entry("ROOT c = f32[1000000000000] constant({...})");
    assert!(root(&m).literal().is_none());
    assert_eq!(root(&m).attrs.get(AttrKey::Literal), Some(&AttrValue::Raw("{...}".to_owned())));
}

#[test]
fn print_options() {
    let m = entry(
        "p = f32[12]{0} parameter(0), metadata={op_name=\"x\"}\n c = f32[12] constant({1,2,3,4,5,6,7,8,9,10,11,12})\nROOT a = f32[12]{0:T(8)} add(p, c)",
    );
    let options =
        PrintOptions { percent: false, operand_shapes: true, layouts: false, metadata: false, large_constants: false };
    assert_eq!(
        print(&m, &options),
        "HloModule m\n\nENTRY e (p: f32[12]) -> f32[12] {\n  p = f32[12] parameter(0)\n  c = f32[12] constant({...})\n  \
         ROOT a = f32[12] add(f32[12] p, f32[12] c)\n}\n"
    );
    let line = print_instruction(&m, m.entry, m.entry().root, &PrintOptions::default());
    assert_eq!(line, "%a = f32[12]{0:T(8)} add(%p, %c)");
}

#[test]
fn locations_count_characters() {
    let m = module("HloModule m\n\nENTRY e {\n  /*é*/ a = f32[] constant(1)\n  ROOT b = f32[] negate(a)\n}");
    assert_eq!((find(&m, "a").location.line, find(&m, "a").location.column), (4, 9));
    assert_eq!((root(&m).location.line, root(&m).location.column), (5, 8));
    assert_eq!((m.entry().location.line, m.entry().location.column), (3, 7));
}

#[test]
fn errors_name_place_and_instruction() {
    let text = "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n  ROOT x = f32[2] frobnicate(p)\n}\n";
    let name = Some("x".to_owned());
    assert_eq!(error(text), (4, 19, 10, name, "expected an opcode, found 'frobnicate'".to_owned()));
    assert_eq!(
        parse(text).unwrap_err().to_string(),
        "line 4, column 19: instruction 'x': expected an opcode, found 'frobnicate'"
    );
}

#[test]
fn errors_in_instructions() {
    let mut wrong = Vec::new();
    for (instruction, column, message) in [
        ("r = f33[2] negate(p)", 5, "expected an element type, found 'f33'; did you mean 'f32'?"),
        ("r = f32[2 negate(p)", 11, "expected ']', found 'negate'"),
        ("r = f32[2]{0 negate(p)", 14, "expected ',' or '}' in a layout, found 'negate'"),
        ("r = f32[2]{1} negate(p)", 12, "expected each of the 1 dimension numbers once, found '1'"),
        ("r = f32[2,2]{1} negate(p)", 13, "expected a layout of 2 dimensions, found 1"),
        ("r = f32[-2] negate(p)", 9, "expected the size of a dimension, found '-2'"),
        (
            "r = f32[99999999999999999999] negate(p)",
            9,
            "expected the size of a dimension that fits 64 bits, found '99999999999999999999'",
        ),
        ("r = f32[2] negate(q)", 19, "expected an instruction defined above, found 'q'"),
        ("r = f32[2] negate(r)", 19, "expected an instruction defined above, found 'r'"),
        (
            "first = f32[2] negate(p)\n  r = f32[2] negate(frist)",
            21,
            "expected an instruction defined above, found 'frist'; did you mean 'first'?",
        ),
        ("r = f32[2] negate(p", 1, "expected ',' or ')', found '}'"),
        ("r = f32[2] negate(f32[3] p)", 19, "expected shape f32[2] of operand 'p', found 'f32[3]'"),
        ("r = f32[2] negate(p, p)", 12, "expected 1 operand for 'negate', found '2'"),
        ("r = f32[2] negate()", 12, "expected 1 operand for 'negate', found '0'"),
        ("r = f32[2] add(p)", 12, "expected 2 operands for 'add', found '1'"),
        ("r = f32[2] negate(p), dimensions={0}", 23, "expected an attribute of 'negate', found 'dimensions'"),
        ("r = f32[2] negate(p), nonsense=3", 23, "expected an attribute of 'negate', found 'nonsense'"),
        ("r = f32[2] reverse(p)", 12, "expected attribute 'dimensions' for 'reverse', found none"),
        (
            "r = f32[2] reverse(p), dimensions={0}, dimensions={0}",
            40,
            "expected each attribute once, found 'dimensions' again",
        ),
        ("r = f32[2] reverse(p), dimensions={0 1}", 38, "expected ',' or '}', found '1'"),
        ("r = f32[2] reverse(p), dimensions={x}", 36, "expected an integer, found 'x'"),
        ("r = pred[2] compare(p, p), direction=XX", 38, "expected one of EQ, NE, GE, GT, LE, LT, found 'XX'"),
        ("r = f32[2] call(p), to_apply=nowhere", 30, "expected a computation defined above, found 'nowhere'"),
        (
            "r = f32[2] call(p), to_apply=e",
            30,
            "expected a computation defined above, found 'e', which would call itself",
        ),
        ("p = f32[2] negate(p)", 1, "expected a new instruction name, found 'p' again"),
        ("q = f32[2] parameter(0)", 22, "expected each parameter number once, found '0' again"),
        ("q = f32[2] parameter(7)", 22, "expected a parameter number below 2, found '7'"),
        ("q = f32[2] parameter(-1)", 22, "expected a parameter number, found '-1'"),
        ("r = f32[2] constant({1, 2)", 26, "expected '}' after 2 elements in dimension 0 of the literal, found ')'"),
        ("r = f32[2] constant({1, x})", 25, "expected an f32 number, found 'x'"),
        ("r = f32[2] constant({1})", 23, "expected 2 elements in dimension 0 of the literal, after 1, found '}'"),
        ("r = s8[] constant(300)", 19, "expected an s8 integer from -128 to 127, found '300'"),
        ("r f32[2] negate(p)", 3, "expected '=', found 'f32'"),
        ("= f32[2] negate(p)", 1, "expected an instruction or '}', found '='"),
        ("r = f32 negate(p)", 5, "expected a shape or an opcode, found 'f32'"),
        ("r = parameter(1)", 5, "expected a shape before 'parameter', found none"),
        ("r = constant(1)", 5, "expected a shape before 'constant', found none"),
        ("r = negate-start(p)", 5, "expected a shape before 'negate', found none"),
        ("r = f32[2]{0,} negate(p)", 14, "expected a dimension number, found '}'"),
        (
            "r = f32[2]{0:S(1)T(2)} negate(p)",
            18,
            "expected '}' or one of the properties SC M W V of a layout, found 'T'",
        ),
        (
            "r = f32[2] negate-done(p)",
            12,
            "expected an asynchronous 'negate' as operand, found 'no asynchronous operation'",
        ),
        (
            "r = f32[2] dot(p, p), operand_precision={low}",
            42,
            "expected one of default, high, highest, packed_nibble, found 'low'",
        ),
        ("r = f32[2] negate(p), sharding=replicated", 32, "expected '{', found 'replicated'"),
        (
            "r = f32[2] negate(p), sharding={here}",
            33,
            "expected one of replicated, maximal, manual, unknown, unreduced, devices, mesh, maximal_mesh, found 'here'",
        ),
        ("r = f32[2] negate(p), metadata={op_name=x}", 41, "expected a quoted string or an integer, found 'x'"),
        ("r = f32[2] negate(p), frontend_attributes={a=x}", 46, "expected a quoted string or '{', found 'x'"),
        ("r = f32[2] negate(p), backend_config=x", 38, "expected a quoted string or '{', found 'x'"),
        ("r = f32[2] sine(p), result_accuracy={mode=x}", 43, "expected one of default, highest, found 'x'"),
        ("r = f32[2] sine(p), result_accuracy={x=1}", 38, "expected 'mode' or 'tolerance', found 'x'"),
        (
            "r = f32[2] infeed-start(p)",
            12,
            "expected a tuple of operands, result and context for 'infeed-start', found 'f32[2]'",
        ),
        ("r = f32[2] custom-call(p), custom_call_target=\"x", 47, "expected a closing '\"', found the end"),
        ("r = f32[2] negate(p), origin={({a", 31, "expected ')' for this bracket, found the end"),
        ("r = f32[2] negate(p), origin={a]}", 32, "expected '}', found ']'"),
        ("r = f32[2] negate(p), metadata=", 1, "expected '{', found '}'"),
        ("r = f32[2] negate(p) /* x", 22, "expected an instruction or '}', found '/'"),
    ] {
        let (line, found_column, found) = error_in(instruction);
        // What is missing at the end of the line shows up at the start of the next.
        let last = 4 + instruction.matches('\n').count() as u32;
        let want_line = if column == 1 && message.ends_with("found '}'") { last + 1 } else { last };
        if (line, found_column, found.as_str()) != (want_line, column, message) {
            wrong.push(format!("{instruction}: {line}:{found_column}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn errors_around_computations() {
    for (text, line, column, message) in [
        ("", 1, 1, "expected 'HloModule', found the end of the text"),
        ("hello world", 1, 1, "expected 'HloModule', found 'hello'"),
        ("HloModule m\n", 2, 1, "expected a computation, found the end of the text"),
        (
            "HloModule m\nENTRY e { ROOT a = f32[] constant(1) }, foo=\"x\"",
            2,
            41,
            "expected the attribute execution_thread, once, found 'foo'",
        ),
        ("HloModule m, foo=1\n", 1, 14, "expected a module attribute, found 'foo'"),
        ("HloModule m, replica_count=0\n", 1, 28, "expected a count of at least 1, found '0'"),
        (
            "HloModule m, is_scheduled=true, is_scheduled=true\n",
            1,
            33,
            "expected each module attribute once, found 'is_scheduled' again",
        ),
        ("HloModule m, is_scheduled=yes\n", 1, 27, "expected 'true' or 'false', found 'yes'"),
        ("HloModule m\nENTRY e {\n}", 3, 1, "expected an instruction, found '}'"),
        (
            "HloModule m\nENTRY e {\n  a = f32[] constant(1)\n",
            4,
            1,
            "expected an instruction or '}', found the end of the text",
        ),
        (
            "HloModule m\nENTRY e { ROOT a = f32[] constant(1) ROOT b = f32[] constant(1) }",
            2,
            38,
            "expected one ROOT, found a second",
        ),
        (
            "HloModule m\nENTRY e { ROOT a = f32[] constant(1) }\nENTRY f { ROOT a = f32[] constant(1) }",
            3,
            1,
            "expected one ENTRY computation, found a second",
        ),
        (
            "HloModule m\nc { ROOT a = f32[] constant(1) }\nENTRY c { ROOT a = f32[] constant(1) }",
            3,
            7,
            "expected a new computation name, found 'c' again",
        ),
        (
            "HloModule m\nENTRY e () -> f32[2] { ROOT a = f32[] constant(1) }",
            2,
            15,
            "expected shape f32[] of the result as in the body, found 'f32[2]'",
        ),
        (
            "HloModule m, entry_computation_layout={(f32[])->f32[]}\nENTRY e { ROOT a = f32[] constant(1) }",
            1,
            39,
            "expected 0 parameters as in the body, found '1'",
        ),
        (
            "HloModule m, entry_computation_layout={()->f32[2]}\nENTRY e { ROOT a = f32[] constant(1) }",
            1,
            39,
            "expected shape f32[] of the result as in the body, found 'f32[2]'",
        ),
        (
            "HloModule m\nENTRY e { ROOT a = f32[] constant(1) } }",
            2,
            40,
            "expected the name of a computation, found '}'",
        ),
        (
            "HloModule m\nENTRY e { ROOT a = f32[] constant(1) } /*",
            2,
            40,
            "expected the name of a computation, found '/'",
        ),
        ("HloModule m, frontend_attributes={a={\n", 1, 37, "expected '}' for this bracket, found the end"),
    ] {
        let (found_line, found_column, _, _, found) = error(text);
        assert_eq!((found_line, found_column, found.as_str()), (line, column, message), "{text}");
    }
}

#[test]
fn nesting_is_limited() {
    let deep = |open: &str, inner: &str, close: &str, n: usize| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
    assert!(parse_shape(&deep("(", "f32[]", ")", MAX_NESTING)).is_ok());
    let message = parse_shape(&deep("(", "f32[]", ")", 100_000)).unwrap_err().message();
    assert_eq!(message, "expected at most 128 levels of tuple shapes, found '('");
    let dims = vec!["1"; 100_000].join(",");
    assert!(parse_shape(&format!("f32[{dims}]")).is_err());
    for (open, inner, close) in
        [("f32[] negate(", "f32[] constant(1)", ")"), ("f32[] call(), to_apply={ ROOT r = ", "f32[] constant(1)", " }")]
    {
        let text = |n| format!("HloModule m ENTRY e {{ ROOT r = {} }}", deep(open, inner, close, n));
        assert_eq!(summary(&parse(&text(MAX_NESTING - 1)).unwrap()).instructions, MAX_NESTING);
        assert!(parse(&text(100_000)).unwrap_err().message().starts_with("expected at most 128 levels"));
    }
    let raw = format!("HloModule m, origin_recovery_table={}", deep("{", "", "}", 100_000));
    assert!(parse(&raw).unwrap_err().message().starts_with("expected at most 128 levels of brackets"));
}

#[test]
fn reading_is_linear() {
    let mut body = String::from("a0 = f32[] parameter(0), metadata={op_name=\"x\"} ");
    for i in 1..40_000 {
        body.push_str(&format!("a{i} = f32[] add(a{}, a0), metadata={{op_name=\"x\"}} ", i - 1));
    }
    let start = std::time::Instant::now();
    // On one line, so that columns are counted far.
    let m = parse(&format!("HloModule m ENTRY e {{ {body} }}")).unwrap();
    let printed = print(&m, &PrintOptions::default());
    assert_eq!(summary(&parse(&printed).unwrap()).instructions, 40_000);
    assert!(start.elapsed().as_secs() < 10);
}
