use super::message::{self, Computation, Instruction, Module};
use super::{read, write};
use crate::Error;
use crate::hlo::AttrKey;
use crate::text::{PrintOptions, parse, print};
use brolga_runtime::{ElementType, Literal};
use prost::Message;

fn printed(module: &crate::hlo::Module) -> String {
    print(module, &PrintOptions::default())
}

/// The module with its instructions called by number.
fn numbered(mut module: crate::hlo::Module) -> crate::hlo::Module {
    for computation in module.computations.values_mut() {
        for (k, &id) in computation.order.iter().enumerate() {
            computation.instructions[id].name = format!("i{k}");
        }
    }
    module
}

/// The text comes back from the message as it prints.
fn round_trip(text: &str) -> crate::hlo::Module {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let bytes = write(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let back = read(&bytes).unwrap_or_else(|e| panic!("{e}\n{text}"));
    // A message always says what callers see, and each name once.
    let mut module = numbered(module);
    if module.config.entry_layout.is_none() {
        module.config.entry_layout = back.module.config.entry_layout.clone();
    }
    assert_eq!(printed(&numbered(back.module.clone())), printed(&module));
    back.module
}

const REGIONS: &str = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n\
    ge {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=GE\n}\n";

#[test]
fn every_kind_of_attribute_comes_back() {
    let lines = [
        "f32[4,8]{0,1:T(8,128)(2,1)E(32)S(5)} copy(p)",
        "f32[8,4]{1,0} transpose(p), dimensions={1,0}",
        "f32[2,2]{1,0} slice(p), slice={[1:3], [0:8:4]}",
        "f32[9,8]{1,0} pad(p, z), padding=1_2_0x0_0",
        "f32[9,8]{1,0} pad(p, z), padding=-1_0_2x0_0",
        "f32[4,8]{1,0} iota(), iota_dimension=1",
        "f32[32]{0} reshape(p), metadata={op_type=\"r\" op_name=\"a\\\"b\" source_file=\"x.py\" source_line=3}",
        "f32[4]{0} reduce(p, z), dimensions={1}, to_apply=add, backend_config={\"a\":{\"b\":[1]}}",
        "f32[4,8]{1,0} reduce-window(p, z), window={size=1x3 pad=0_0x1_1 rhs_dilate=1x1}, to_apply=add",
        "f32[4,8]{1,0} select-and-scatter(p, p, z), window={size=1x1}, select=ge, scatter=add",
        "f32[4,4]{1,0} dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}, operand_precision={high,highest}",
        "f32[4,4]{1,0} dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}, algorithm=dot_bf16_bf16_f32_x3",
        "f32[2,8]{1,0} gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
         index_vector_dim=1, slice_sizes={1,8}, indices_are_sorted=true",
        "f32[4,8]{1,0} scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0}, \
         scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add",
        "f32[4,8]{1,0} sort(p), dimensions={1}, is_stable=true, to_apply=ge",
        "pred[4,8]{1,0} compare(p, p), direction=LT, type=TOTALORDER",
        "(f32[4,2]{1,0}, s32[4,2]{1,0}) topk(p), k=2, largest=true",
        "f32[4,8]{1,0} reduce-precision(p), exponent_bits=5, mantissa_bits=10",
        "f32[4,8]{1,0} exponential(p), result_accuracy={mode=highest}",
        "f32[4,8]{1,0} exponential(p), result_accuracy={tolerance={atol=0.5,rtol=0,ulps=2}}",
        "f32[4,8]{1,0} all-reduce(p), channel_id=2, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add",
        "f32[4,8]{1,0} all-reduce(p), replica_groups=[2,2]<=[2,2]T(1,0), to_apply=add",
        "f32[4,8]{1,0} all-reduce(p), replica_groups=mesh['a'=2,'b'=4] {'a','b':(2)2}, to_apply=add",
        "f32[4,8]{1,0} all-reduce(p), replica_groups=mesh['a'=4], device_ids=(0,2,1,3) {'a'}, to_apply=add",
        "f32[4,8]{1,0} collective-permute(p), source_target_pairs={{0,1},{1,0}}",
        "f32[4,8]{1,0} custom-call(p), operand_layout_constraints={f32[4,8]{0,1}}, custom_call_target=\"f\", \
         custom_call_has_side_effect=true, api_version=API_VERSION_TYPED_FFI, schedule=SCHEDULE_LATEST, \
         output_to_operand_aliasing={{}: (0, {})}, backend_config=\"a\\\"b\"",
        "f32[4,8]{1,0} add(p, p), sharding={devices=[2,1]<=[2]}, frontend_attributes={a=\"1\",b={\"c\":2}}",
        "f32[4,8]{1,0} add(p, p), sharding={devices=[1,1,2]0,1 last_tile_dims={manual}}",
        "f32[4,8]{1,0} add(p, p), sharding={maximal device=1 metadata={op_name=\"x\"}}",
        "f32[4,8]{1,0} add(p, p), sharding={mesh['x'=2,'y'=2], [{'x'}, {'y', ?}], replicated={'x':(1)2}}",
        "f32[4,8]{1,0} add(p, p), statistics={visualizing_index=1,a=1.5,b=2}, control-predecessors={%p, %z}",
        "f32[4,8]{1,0} domain(p), domain={kind=\"sharding\", entry={}, exit={maximal device=0}}",
        "(f32[4,8]{1,0}, f32[]) tuple(p, z), sharding={{replicated}, {maximal device=0}}, origin={({\"a\"}, {\"b\" {0,1}})}",
    ];
    for line in lines {
        let text = format!(
            "HloModule m, entry_computation_layout={{(f32[4,8]{{1,0}}, f32[], s32[2,1]{{1,0}}, f32[2,8]{{1,0}})->{}}}\n\n\
             {REGIONS}ENTRY e {{\n p = f32[4,8]{{1,0}} parameter(0)\n z = f32[] parameter(1)\n \
             i = s32[2,1]{{1,0}} parameter(2)\n u = f32[2,8]{{1,0}} parameter(3)\n ROOT r = {line}\n}}\n",
            shape_of(line)
        );
        round_trip(&text);
    }
}

/// The shape in front of an instruction: up to the blank outside of parentheses and braces.
fn shape_of(line: &str) -> &str {
    let mut depth = 0;
    let end = line.bytes().position(|b| {
        match b {
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth -= 1,
            _ => {}
        }
        depth == 0 && b == b' '
    });
    &line[..end.unwrap_or(line.len())]
}

#[test]
fn headers_and_control_flow_come_back() {
    round_trip(
        "HloModule m, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) }, \
         entry_computation_layout={(f32[])->f32[]}, buffer_donor={ (0, {}) }, frontend_attributes={k=\"v\"}\n\n\
         FileNames\n1 \"a.py\"\n\nFunctionNames\n1 \"f\"\n\n\
         FileLocations\n1 {file_name_id=1 function_name_id=1 line=2 end_line=2 column=3 end_column=4}\n\n\
         StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n\
         f {\n q = f32[] parameter(0)\n ROOT n = f32[] negate(q)\n}\n\
         c {\n q = f32[] parameter(0)\n ROOT n = pred[] compare(q, q), direction=NE\n}\n\
         ENTRY e {\n p = f32[] parameter(0)\n w = f32[] while(p), condition=c, body=f\n \
         t = pred[] constant(true)\n x = f32[] conditional(t, w, w), true_computation=f, false_computation=f\n \
         s = ((f32[]), f32[], u32[]) negate-start(x)\n d = f32[] negate-done(s)\n \
         ROOT r = f32[] fusion(d), kind=kLoop, calls=f\n}\n",
    );
}

#[test]
fn literals_of_every_type_come_back() {
    for &ty in ElementType::ALL {
        let values = match ty {
            ElementType::Pred => "{1, 0, 1}",
            ElementType::S1 => "{-1, 0, -1}",
            ElementType::U1 => "{1, 0, 1}",
            ElementType::S2 => "{-2, 1, -1}",
            ElementType::U2 => "{3, 1, 2}",
            ElementType::C64 | ElementType::C128 => "{(1, -2), (0.5, 0), (0, 4)}",
            ty if ty.is_unsigned_integer() => "{7, 1, 6}",
            ty if ty.is_signed_integer() => "{-7, 1, 6}",
            ElementType::F8E8M0Fnu => "{1, 2, 0.5}",
            _ => "{-1, 2, 0.5}",
        };
        let shape = format!("{ty}[3]{{0}}");
        round_trip(&format!(
            "HloModule m, entry_computation_layout={{()->{shape}}}\nENTRY e {{ ROOT c = {shape} constant({values}) }}"
        ));
    }
    round_trip(
        "HloModule m, entry_computation_layout={()->(s32[], (f32[2]{0}, token[]))}\nENTRY e {\n \
         ROOT c = (s32[], (f32[2]{0}, token[])) constant((1, ({2, 3}, token[])))\n}",
    );
}

/// A module of one constant, whose literal `change` makes.
fn constant(shape: message::Shape, change: impl FnOnce(&mut message::Literal)) -> crate::Result<Literal> {
    let mut literal = message::Literal { shape: Some(shape.clone()), ..Default::default() };
    change(&mut literal);
    let instruction = Instruction {
        name: "c".to_owned(),
        opcode: "constant".to_owned(),
        shape: Some(shape),
        literal: Some(literal.encode_to_vec().into()),
        id: 1,
        ..Default::default()
    };
    let module = read(&module_of(&[instruction]))?.module;
    let entry = module.entry();
    Ok(entry.instructions[entry.root].literal().map(|l| (**l).clone()).expect("a constant has a value"))
}

fn module_of(instructions: &[Instruction]) -> Vec<u8> {
    let root_id = instructions.last().map_or(0, |i| i.id);
    let instructions = instructions.iter().map(|i| i.encode_to_vec().into()).collect();
    let computation = Computation { name: "e".to_owned(), instructions, id: 7, root_id, ..Default::default() };
    let computations = vec![computation.encode_to_vec().into()];
    Module { name: "m".to_owned(), entry_id: 7, computations, ..Default::default() }.encode_to_vec()
}

fn shape(element_type: ElementType, dims: &[i64], minor_to_major: &[i64]) -> message::Shape {
    let layout = message::Layout { minor_to_major: minor_to_major.to_vec(), ..Default::default() };
    message::Shape {
        element_type: i32::from(element_type.code()),
        dims: dims.to_vec(),
        layout: Some(Box::new(layout)),
        ..Default::default()
    }
}

#[test]
fn the_layout_of_a_literal_says_the_order_of_its_elements() {
    let value = constant(shape(ElementType::S32, &[2, 3], &[0, 1]), |l| l.s32s = vec![1, 4, 2, 5, 3, 6]);
    let value = value.expect("a constant");
    assert_eq!(value.as_array().map(|a| a.as_slice::<i32>().to_vec()), Some(vec![1, 2, 3, 4, 5, 6]));
}

/// «The Shape proto describes the rank, the size and the data type of an N-dimensional array»: fields 2 and 3. Its layout is one more,
/// of which `minor_to_major` is required.
#[test]
fn a_shape_is_a_type_and_sizes() {
    let bare = message::Shape { element_type: 11, dims: vec![2, 3, 5], ..Default::default() };
    assert_eq!(bare.encode_to_vec(), [2 << 3, 11, 3 << 3 | 2, 3, 2, 3, 5]);
    let array = super::shape::array(&bare).expect("an array");
    assert_eq!((array.ty, array.rank(), &array.dims[..]), (ElementType::F32, 3, &[2, 3, 5][..]));
    assert_eq!((array.layout.as_ref(), array.minor_to_major()), (None, vec![2, 1, 0]));
    let ordered = super::shape::array(&shape(ElementType::F32, &[2, 3], &[0, 1])).expect("an array");
    assert_eq!(ordered.to_string(), "f32[2,3]{0,1}");
    let mut padded = shape(ElementType::F32, &[2, 3], &[]);
    padded.layout.as_mut().expect("a layout").padded_dimensions = vec![3, 5];
    assert!(matches!(super::shape::array(&padded), Err(Error::Syntax { .. })));
}

/// Fields 2 and 3 of «message Layout», in the form in which XLA had them.
#[test]
fn padding_travels_in_the_fields_that_it_had() {
    let text = "HloModule m\n\nENTRY e {\n  p = f32[2,3]{0,1:W(3,5)V(highest)} parameter(0)\n  \
                ROOT n = f32[2,3]{1,0:W(2,4)} negate(p)\n}\n";
    let module = parse(text).expect("a module");
    let back = read(&write(&module).expect("a message")).expect("the module again").module;
    assert_eq!(back.interface(), module.interface());
    let padded = |widths: &[i64], value| {
        let mut shape = shape(ElementType::F32, &[2, 3], &[0, 1]);
        let layout = shape.layout.as_mut().expect("a layout");
        (layout.padded_dimensions, layout.padding_value) = (widths.to_vec(), value);
        super::shape::read(&shape)
    };
    let bytes = message::Layout { padded_dimensions: vec![3, 5], padding_value: 1, ..Default::default() };
    assert_eq!(bytes.encode_to_vec(), [2 << 3 | 2, 2, 3, 5, 3 << 3, 1]);
    assert_eq!(padded(&[3, 5], 1).expect("a shape").to_string(), "f32[2,3]{0,1:W(3,5)V(zero)}");
    assert_eq!(padded(&[], 1).expect("a shape").to_string(), "f32[2,3]{0,1}");
    for (widths, value) in [(&[3][..], 1), (&[3, 2], 1), (&[3, 5], 6)] {
        assert!(matches!(padded(widths, value), Err(Error::Syntax { .. })), "{widths:?} {value}");
    }
    assert!(matches!(padded(&[i64::MAX, 5], 1), Err(Error::Unsupported { .. })));
}

#[test]
fn elements_under_a_byte_are_packed_from_the_lowest_bits() {
    let value = constant(shape(ElementType::S4, &[3], &[0]), |l| l.s4s = vec![0xf1, 0x02].into()).expect("a constant");
    assert_eq!(value.as_array().map(|a| a.bytes().to_vec()), Some(vec![1, 0xff, 2]));
}

#[test]
fn literals_that_lack_elements_are_refused() {
    let short = constant(shape(ElementType::F32, &[3], &[0]), |l| l.f32s = vec![1.0]);
    let Err(Error::Syntax { site, message }) = short else { panic!("{short:?}") };
    assert_eq!(site.instruction.as_deref(), Some("c"));
    assert!(message.contains("expected 3 elements of f32, found 1"), "{message}");
    assert!(constant(shape(ElementType::S4, &[1 << 40], &[0]), |l| l.s4s = vec![0].into()).is_err());
    assert!(constant(shape(ElementType::F32, &[i64::MAX, 9], &[1, 0]), |_| ()).is_err());
}

#[test]
fn envelopes_are_opened() {
    let text = "HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}\nENTRY e {\n \
                p = f32[2]{0} parameter(0)\n ROOT n = f32[2]{0} negate(p)\n}\n";
    let module = write(&parse(text).expect("a module")).expect("a message");
    let field = |number: u8, bytes: &[u8]| {
        let mut out = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut out);
        out.extend(bytes);
        out
    };
    let input = Literal::Array(brolga_runtime::ArrayLiteral::from_elements(&[2], &[1f32, 2.0]));
    let literal = super::literal::write(&input).expect("a literal");
    let proto = field(1, &module);
    let snapshot = [field(1, &proto), field(2, &literal), field(3, &literal), field(4, b"Host")].concat();
    let unoptimized = [field(1, &module), field(2, &field(1, &literal))].concat();
    for (bytes, inputs) in [(&module, 0), (&proto, 0), (&snapshot, 1), (&unoptimized, 1)] {
        let found = read(bytes).expect("a module");
        assert_eq!(found.module.name, "m");
        assert_eq!(found.inputs, vec![input.clone(); inputs]);
    }
    for bytes in [&b""[..], b"\x0a\x01m", b"HloModule m", &field(1, &field(1, &field(1, &module)))] {
        assert!(matches!(read(bytes), Err(Error::Syntax { .. })), "{bytes:?}");
    }
}

#[test]
fn what_does_not_make_a_module_is_refused_by_name() {
    let scalar = || Some(shape(ElementType::F32, &[], &[]));
    let base = |name: &str, opcode: &str, id: i64| Instruction {
        name: name.to_owned(),
        opcode: opcode.to_owned(),
        shape: scalar(),
        id,
        ..Default::default()
    };
    let parameter = base("p", "parameter", 1);
    let with = |change: fn(&mut Instruction)| {
        let mut out = base("x", "negate", 2);
        out.operands = vec![1];
        change(&mut out);
        out
    };
    for (change, want) in [
        (
            (|i| i.operands = vec![9]) as fn(&mut Instruction),
            "operand_ids: expected an instruction read before, found 9",
        ),
        (|i| i.operands = vec![2], "operand_ids"),
        (|i| i.operands = vec![1, 1], "expected 1 operand for 'negate', found 2"),
        (|i| i.opcode = "frob-nicate".to_owned(), "opcode: expected an operation, found 'frob-nicate'"),
        (|i| i.shape = None, "shape: expected a shape"),
        (|i| i.id = 1, "id: expected a new number"),
        (|i| i.control_predecessors = vec![5], "control_predecessor_ids"),
        (|i| i.opcode = "call".to_owned(), "called_computation_ids"),
        (|i| i.called = vec![7], "called_computation_ids: expected a computation read before, found 7"),
        (|i| i.opcode = "fusion".to_owned(), "kind: expected one of kLoop"),
    ] {
        let found = read(&module_of(&[parameter.clone(), with(change)]));
        let Err(Error::Syntax { site, message }) = found else { panic!("{want}: {found:?}") };
        assert_eq!(site.instruction.as_deref(), Some("x"), "{message}");
        assert!(message.contains(want), "{message}");
    }
    let second = Instruction { id: 2, ..parameter.clone() };
    assert!(matches!(read(&module_of(&[parameter, second])), Err(Error::Syntax { .. })));
}

#[test]
fn a_convolution_of_dense_operands_has_no_sparsity() {
    let operand = |name: &str, id: i64, number: i64, dims: &[i64]| Instruction {
        name: name.to_owned(),
        opcode: "parameter".to_owned(),
        shape: Some(shape(ElementType::F32, dims, &[1, 0])),
        parameter_number: number,
        id,
        ..Default::default()
    };
    let dims = message::ConvolutionDims {
        kernel_output_feature: 1,
        input_feature: 1,
        output_feature: 1,
        ..Default::default()
    };
    let convolution = Instruction {
        name: "c".to_owned(),
        opcode: "convolution".to_owned(),
        shape: Some(shape(ElementType::F32, &[2, 4], &[1, 0])),
        operands: vec![1, 2],
        convolution_dims: Some(dims),
        sparsity_config: Some(message::SparsityConfig::default()),
        id: 3,
        ..Default::default()
    };
    let instructions = [operand("a", 1, 0, &[2, 3]), operand("b", 2, 1, &[3, 4]), convolution];
    let module = read(&module_of(&instructions)).expect("a module").module;
    assert!(printed(&module).contains("c = f32[2,4]{1,0} convolution(%a, %b), dim_labels=bf_io->bf\n"));
    crate::shape::verify(&module).expect("a valid module");
}

#[test]
fn names_that_no_text_can_hold_are_changed() {
    let mut parameter = Instruction {
        name: "a b".to_owned(),
        opcode: "parameter".to_owned(),
        shape: Some(shape(ElementType::F32, &[], &[])),
        id: 1,
        ..Default::default()
    };
    let first = parameter.clone();
    (parameter.name, parameter.id, parameter.parameter_number) = ("a_b".to_owned(), 2, 1);
    let module = read(&module_of(&[first, parameter])).expect("a module").module;
    let names: Vec<_> = module.entry().instructions.values().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["a_b", "a_b.1"]);
    assert!(parse(&printed(&module)).is_ok());
    let mut message = Module::decode(&*write(&module).expect("a message")).expect("a message");
    message.name = "7_heads".to_owned();
    let module = read(&message.encode_to_vec()).expect("a module").module;
    assert_eq!(module.name, "_7_heads");
    assert!(parse(&printed(&module)).is_ok());
}

#[test]
fn names_differ_in_the_whole_message() {
    let module = parse(&format!("HloModule m\n{REGIONS}ENTRY e {{ ROOT a = f32[] constant(1) }}")).expect("a module");
    let back = read(&write(&module).expect("a message")).expect("a module").module;
    let names: Vec<_> = back.computations.values().flat_map(|c| c.instructions.values()).map(|i| &i.name).collect();
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

#[test]
fn every_cut_and_every_changed_byte_is_an_error_or_a_module() {
    let text = format!(
        "HloModule m\n{REGIONS}ENTRY e {{\n p = f32[4,8]{{1,0}} parameter(0)\n z = f32[] constant(3)\n \
         c = s4[3] constant({{1,2,3}})\n r = f32[4] reduce(p, z), dimensions={{1}}, to_apply=add\n \
         ROOT t = (f32[4], s4[3]) tuple(r, c), sharding={{{{replicated}}, {{devices=[2]0,1}}}}\n}}\n"
    );
    let bytes = write(&parse(&text).expect("a module")).expect("a message");
    for length in 0..bytes.len() {
        let _ = read(&bytes[..length]);
    }
    for place in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, bytes[place] ^ 8] {
            let mut changed = bytes.clone();
            changed[place] = value;
            if let Ok(found) = read(&changed)
                && crate::shape::verify(&found.module).is_ok()
            {
                let _ = printed(&found.module);
            }
        }
    }
}

#[test]
fn what_a_message_has_no_field_for_is_refused() {
    let text = "HloModule m ENTRY e { ROOT c = f32[9] constant({...}) }";
    let elided = write(&parse(text).expect("a module"));
    assert!(matches!(elided, Err(Error::Unsupported { .. })), "{elided:?}");
    let module = parse(
        "HloModule m\nENTRY e {\n p = f32[2] parameter(0)\n ROOT r = f32[2] all-gather(p), dimensions={0}, \
         replica_groups={}, mode=cross_replica\n}",
    );
    let module = module.expect("a module");
    assert!(module.entry().instructions.values().any(|i| i.attrs.word(AttrKey::CollectiveMode).is_some()));
    let refused = write(&module).expect_err("an attribute without a field");
    assert!(refused.to_string().contains("the attribute mode of all-gather in a message"), "{refused}");
}

#[test]
fn an_array_past_the_address_space_is_valid_but_unsupported() {
    let parameter = Instruction {
        name: "p".to_owned(),
        opcode: "parameter".to_owned(),
        shape: Some(shape(ElementType::F32, &[i64::MAX], &[0])),
        id: 1,
        ..Default::default()
    };
    let Err(Error::Unsupported { site, feature }) = read(&module_of(&[parameter])).map(|r| r.module) else {
        panic!("read");
    };
    assert_eq!(site.instruction.as_deref(), Some("p"));
    assert!(feature.contains("f32[9223372036854775807]"), "{feature}");
}

/// -1 is the last dimension of a sort.
#[test]
fn the_dimension_of_a_sort_may_count_from_the_end() {
    let text = format!(
        "HloModule m\n{REGIONS}ENTRY e {{\n p = f32[2,3] parameter(0)\n ROOT s = f32[2,3] sort(p), dimensions={{1}}, to_apply=ge\n}}"
    );
    let bytes = write(&parse(&text).expect("the text is read")).expect("the module is written");
    let mut message = Module::decode(&bytes[..]).expect("a message");
    let mut changed = 0;
    for bytes in &mut message.computations {
        let mut computation = Computation::decode(bytes.clone()).expect("a computation");
        for bytes in &mut computation.instructions {
            let mut instruction = Instruction::decode(bytes.clone()).expect("an instruction");
            if instruction.opcode == "sort" {
                instruction.dimensions = vec![-1];
                changed += 1;
            }
            *bytes = instruction.encode_to_vec().into();
        }
        *bytes = computation.encode_to_vec().into();
    }
    assert_eq!(changed, 1);
    let back = read(&message.encode_to_vec()).expect("the message is read").module;
    let entry = back.entry();
    assert_eq!(entry.instructions[entry.root].attrs.ints(AttrKey::Dimensions), Some(&[1][..]));
}
