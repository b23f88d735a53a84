//! Small programs built by hand: written, loaded, run, damaged.

#![allow(clippy::unwrap_used)]

use super::*;
use brolga_runtime::abi::{Alias, Architecture, CustomCallAbi, CustomCallInfo, DescriptorInfo, Leaf};
use brolga_runtime::loader::LoadOptions;
use brolga_runtime::{
    ArrayLiteral, ArrayShape, ElementType, Layout, LoadError, Program, RunError, RunOptions, UndefinedSymbol,
};
use cranelift_codegen::Context;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, GlobalValueData, InstBuilder, MemFlagsData, Signature,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{DataId, FuncId, ModuleReloc, ModuleRelocTarget};

pub(super) fn isa(triple: &str, flags: &[&str]) -> OwnedTargetIsa {
    let mut shared = settings::builder();
    shared.set("is_pic", "true").unwrap();
    shared.set("opt_level", "speed").unwrap();
    let mut builder = cranelift_codegen::isa::lookup_by_name(triple).unwrap();
    for flag in flags {
        builder.enable(flag).unwrap();
    }
    builder.finish(settings::Flags::new(shared)).unwrap()
}

pub(super) fn host() -> OwnedTargetIsa {
    isa("x86_64-unknown-linux-gnu", &[])
}

/// A program by hand: what it is made of, and what it says of itself.
pub(super) struct Sample {
    pub(super) object: ObjectInput,
    pub(super) descriptor: DescriptorInfo,
}

impl Sample {
    pub(super) fn new(entry: &str) -> Sample {
        Sample { object: ObjectInput::new(), descriptor: DescriptorInfo::new(entry, Architecture::X86_64) }
    }

    /// Builds a function and compiles it. `body` gets the builder and the parameters.
    fn function(
        &mut self,
        isa: &OwnedTargetIsa,
        symbol: &str,
        exported: bool,
        signature: Signature,
        body: impl FnOnce(&mut FunctionBuilder<'_>, &[Value]),
    ) -> FuncId {
        let id = self.object.function(symbol, exported, &signature).unwrap();
        let mut func = Function::with_name_signature(UserFuncName::User(id.external_name()), signature);
        let mut context = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut func, &mut context);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let parameters = builder.block_params(block).to_vec();
        body(&mut builder, &parameters);
        builder.finalize(isa.frontend_config());
        let mut context = Context::for_function(func);
        context.compile(&**isa, &mut ControlPlane::default()).unwrap();
        let code =
            CompiledFunction::from_compiled(id, &context.func, context.compiled_code().unwrap(), &**isa, None).unwrap();
        self.object.define(id, code).unwrap();
        id
    }

    /// The entry `sum`: `results[0] = extra(params[0] + params[1])`, both `f32[]`.
    fn sum(mut self, isa: &OwnedTargetIsa, extra: impl FnOnce(&mut FunctionBuilder<'_>, Value) -> Value) -> Sample {
        self.function(isa, "sum", true, entry_signature(), |b, p| {
            let load = |b: &mut FunctionBuilder<'_>, i: i32| {
                let pointer = b.ins().load(types::I64, FLAGS, p[0], 8 * i);
                b.ins().load(types::F32, FLAGS, pointer, 0)
            };
            let (x, y) = (load(b, 0), load(b, 1));
            let sum = b.ins().fadd(x, y);
            let value = extra(b, sum);
            let out = b.ins().load(types::I64, FLAGS, p[1], 0);
            b.ins().store(FLAGS, value, out, 0);
            let ok = b.ins().iconst(types::I32, 0);
            b.ins().return_(&[ok]);
        });
        self.descriptor.parameters = vec![scalar_leaf("x"), scalar_leaf("y")];
        self.descriptor.results = vec![scalar_leaf("")];
        self
    }

    /// The whole, described.
    pub(super) fn input(mut self) -> ObjectInput {
        self.object.describe(self.descriptor).unwrap();
        self.object
    }

    fn bytes(self, isa: &OwnedTargetIsa) -> Vec<u8> {
        write(&self.input(), isa).unwrap()
    }
}

fn signature(parameters: &[types::Type], results: &[types::Type]) -> Signature {
    let mut s = Signature::new(CallConv::SystemV);
    s.params.extend(parameters.iter().map(|&t| AbiParam::new(t)));
    s.returns.extend(results.iter().map(|&t| AbiParam::new(t)));
    s
}

fn entry_signature() -> Signature {
    signature(&[types::I64; 4], &[types::I32])
}

fn call(b: &mut FunctionBuilder<'_>, id: FuncId, colocated: bool, s: Signature, args: &[Value]) -> Vec<Value> {
    let callee = reference(b, id, colocated, s);
    let inst = b.ins().call(callee, args);
    b.inst_results(inst).to_vec()
}

fn reference(b: &mut FunctionBuilder<'_>, id: FuncId, colocated: bool, s: Signature) -> FuncRef {
    let name = ExternalName::user(b.func.declare_imported_user_function(id.external_name()));
    let signature = b.import_signature(s);
    b.import_function(ExtFuncData { name, signature, colocated, patchable: false })
}

fn data_address(b: &mut FunctionBuilder<'_>, id: DataId) -> Value {
    let name = ExternalName::user(b.func.declare_imported_user_function(id.external_name()));
    let symbol = GlobalValueData::Symbol { name, offset: 0.into(), colocated: true, tls: false };
    let global = b.create_global_value(symbol);
    b.ins().symbol_value(types::I64, global)
}

const FLAGS: MemFlagsData = MemFlagsData::new();

fn scalar_leaf(name: &str) -> Leaf {
    Leaf { name: name.into(), ..Leaf::new(ArrayShape::new(ElementType::F32, [])) }
}

fn run(program: &Program) -> f32 {
    let (x, y) = (ArrayLiteral::scalar(1.5f32), ArrayLiteral::scalar(2.0f32));
    program.run(&[&x, &y]).unwrap()[0].as_slice::<f32>()[0]
}

pub(super) fn with_data(isa: &OwnedTargetIsa) -> Sample {
    let mut sample = Sample::new("sum");
    sample.object.datum("other", false, bytes(64, vec![1; 5])).unwrap();
    let words = [7.0f32, 100.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let bias = sample.object.datum("bias", false, bytes(4, words)).unwrap();
    sample.sum(isa, |b, sum| {
        let address = data_address(b, bias);
        let bias = b.ins().load(types::F32, FLAGS, address, 4);
        b.ins().fadd(sum, bias)
    })
}

fn unary() -> Signature {
    signature(&[types::F32], &[types::F32])
}

fn with_call(isa: &OwnedTargetIsa) -> Sample {
    let mut sample = Sample::new("sum");
    let double = sample.function(isa, "double", false, unary(), |b, p| {
        let value = b.ins().fadd(p[0], p[0]);
        b.ins().return_(&[value]);
    });
    sample.sum(isa, |b, sum| call(b, double, true, unary(), &[sum])[0])
}

pub(super) fn with_import(isa: &OwnedTargetIsa, symbol: &str) -> Sample {
    importing(Sample::new("sum"), isa, symbol)
}

/// A sample with an entry that calls a function outside.
pub(super) fn importing(mut sample: Sample, isa: &OwnedTargetIsa, symbol: &str) -> Sample {
    let import = sample.object.import(symbol).unwrap();
    sample.descriptor.custom_calls =
        vec![CustomCallInfo { symbol: symbol.into(), abi: CustomCallAbi::Original, line: 12 }];
    sample.sum(isa, |b, sum| call(b, import, false, unary(), &[sum])[0])
}

extern "C" fn negate(x: f32) -> f32 {
    -x
}

fn negate_resolver(name: &str) -> Option<*const std::ffi::c_void> {
    (name == "negate").then_some(negate as *const () as *const std::ffi::c_void)
}

#[test]
fn adds_two_scalars() {
    let isa = host();
    let bytes = Sample::new("sum").sum(&isa, |_, sum| sum).bytes(&isa);
    let program = Program::from_object(&bytes).unwrap();
    assert_eq!(run(&program), 3.5);
    assert!(program.descriptor().is_freestanding());
    assert_eq!(program.descriptor().parameters[1].name, "y");
    let one = ArrayLiteral::scalar(1.0f32);
    assert!(matches!(program.run(&[&one]), Err(RunError::Count { expected: 2, found: 1 })));
    let wrong = ArrayLiteral::scalar(1.0f64);
    assert!(matches!(program.run(&[&one, &wrong]), Err(RunError::Shape { index: 1, .. })));
}

#[test]
fn a_session_calls_again_and_again() {
    let isa = host();
    let bytes = with_data(&isa).bytes(&isa);
    let mut session = Program::from_object(&bytes).unwrap().session(&RunOptions::default()).unwrap();
    session.set_parameter(0, &ArrayLiteral::scalar(1.0f32)).unwrap();
    for i in 0..10 {
        session.set_parameter(1, &ArrayLiteral::scalar(i as f32)).unwrap();
        session.call().unwrap();
        assert_eq!(session.result(0).unwrap(), ArrayLiteral::scalar(101.0 + i as f32));
    }
    assert!(session.set_parameter(2, &ArrayLiteral::scalar(1.0f32)).is_err());
}

#[test]
fn reads_constants_without_a_table() {
    let isa = host();
    let bytes = with_data(&isa).bytes(&isa);
    assert_eq!(run(&Program::from_object(&bytes).unwrap()), 103.5);
    use object::{Object, ObjectSection};
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(&*bytes).unwrap();
    for section in file.sections() {
        for (_, reloc) in section.relocations() {
            let object::RelocationFlags::Elf { r_type } = reloc.flags() else { panic!("an ELF relocation") };
            assert_eq!(r_type, object::elf::R_X86_64_PC32);
        }
    }
}

#[test]
fn calls_a_local_function() {
    let isa = host();
    let bytes = with_call(&isa).bytes(&isa);
    assert_eq!(run(&Program::from_object(&bytes).unwrap()), 7.0);
}

#[test]
fn calls_an_import_far_away() {
    let isa = host();
    let bytes = with_import(&isa, "negate").bytes(&isa);
    let resolver: &dyn Fn(&str) -> _ = &negate_resolver;
    let options = LoadOptions { resolver: Some(resolver), ..LoadOptions::default() };
    let program = Program::from_object_with(&bytes, &options).unwrap();
    assert_eq!(run(&program), -3.5);
    let from_libm = with_import(&isa, "sqrtf").bytes(&isa);
    assert!((run(&Program::from_object(&from_libm).unwrap()) - 3.5f32.sqrt()).abs() < 1e-6);
}

#[test]
fn a_missing_symbol_is_named_with_its_line() {
    let isa = host();
    let bytes = with_import(&isa, "no_such_function").bytes(&isa);
    let strict = LoadOptions { strict_symbols: true, ..LoadOptions::default() };
    let error = Program::from_object_with(&bytes, &strict).unwrap_err();
    let symbol = UndefinedSymbol { symbol: "no_such_function".into(), line: 12 };
    assert_eq!(error, LoadError::UndefinedSymbol(symbol.clone()));
    assert!(error.to_string().contains("line 12"));
    assert_eq!(Program::from_object(&bytes).unwrap().undefined_symbols(), [symbol]);
}

#[test]
fn donated_parameters_share_their_buffer() {
    let isa = host();
    let mut sample = Sample::new("sum").sum(&isa, |_, sum| sum);
    sample.descriptor.aliases = vec![Alias { parameter: 0, result: 0, must: true }];
    let program = Program::from_object(&sample.bytes(&isa)).unwrap();
    let (x, y) = (ArrayLiteral::scalar(1.5f32), ArrayLiteral::scalar(2.0f32));
    assert_eq!(program.run(&[&x, &y]).unwrap(), [ArrayLiteral::scalar(3.5f32)]);
    assert_eq!(x, ArrayLiteral::scalar(1.5f32), "the caller's literal stays as it was");
    let mut session = program.session(&RunOptions::default()).unwrap();
    session.set_parameter(1, &y).unwrap();
    for _ in 0..3 {
        session.call().unwrap();
    }
    assert_eq!(session.result(0).unwrap(), ArrayLiteral::scalar(6.0f32));
}

#[test]
fn layouts_are_the_programs_business_only() {
    // A copy of f32[2,2] whose parameter is column-major: what comes back is the transpose in memory.
    let isa = host();
    let mut sample = Sample::new("copy");
    sample.function(&isa, "copy", true, entry_signature(), |b, p| {
        let from = b.ins().load(types::I64, FLAGS, p[0], 0);
        let to = b.ins().load(types::I64, FLAGS, p[1], 0);
        for i in [0, 8] {
            let v = b.ins().load(types::I64, FLAGS, from, i);
            b.ins().store(FLAGS, v, to, i);
        }
        let ok = b.ins().iconst(types::I32, 0);
        b.ins().return_(&[ok]);
    });
    let plain = ArrayShape::new(ElementType::F32, [2, 2]);
    let mut column = plain.clone();
    column.layout = Some(Layout { minor_to_major: vec![0, 1], ..Layout::default() });
    sample.descriptor.parameters = vec![Leaf::new(column)];
    sample.descriptor.results = vec![Leaf::new(plain)];
    let program = Program::from_object(&sample.bytes(&isa)).unwrap();
    let x = ArrayLiteral::from_elements(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    let y = program.run(&[&x]).unwrap();
    assert_eq!(y[0].as_slice::<f32>(), &[1.0, 3.0, 2.0, 4.0]);
}

#[test]
fn parallel_loops_reach_every_task() {
    use brolga_runtime::abi::{Context as CallContext, Services};
    let isa = host();
    // The body stores its task number into the results' buffer at that place.
    let body_signature = || signature(&[types::I64; 3], &[types::I32]);
    let mut sample = Sample::new("tasks");
    let body = sample.function(&isa, "body", false, body_signature(), |b, p| {
        let eight = b.ins().iconst(types::I64, 8);
        let offset = b.ins().imul(p[1], eight);
        let at = b.ins().iadd(p[0], offset);
        b.ins().store(FLAGS, p[1], at, 0);
        let ok = b.ins().iconst(types::I32, 0);
        b.ins().return_(&[ok]);
    });
    sample.function(&isa, "tasks", true, entry_signature(), |b, p| {
        let out = b.ins().load(types::I64, FLAGS, p[1], 0);
        let host = b.ins().load(types::I64, FLAGS, p[3], CallContext::OFFSET_HOST);
        let service = b.ins().load(types::I64, FLAGS, p[3], CallContext::OFFSET_PARALLEL_FOR);
        let tasks = b.ins().iconst(types::I64, 1000);
        let body = reference(b, body, true, body_signature());
        let body = b.ins().func_addr(types::I64, body);
        let service_signature = b.import_signature(signature(&[types::I64; 4], &[types::I32]));
        let inst = b.ins().call_indirect(service_signature, service, &[host, tasks, body, out]);
        let status = b.inst_results(inst)[0];
        b.ins().return_(&[status]);
    });
    sample.descriptor.results = vec![Leaf::new(ArrayShape::new(ElementType::S64, [1000]))];
    sample.descriptor.needed_services = Services::PARALLEL_FOR;
    sample.descriptor.workspace_per_worker = 64;
    let program = Program::from_object(&sample.bytes(&isa)).unwrap();
    let expected: Vec<i64> = (0..1000).collect();
    for threads in [1, 2, 5] {
        let options = RunOptions { threads, ..RunOptions::default() };
        assert_eq!(program.run_with(&[], &options).unwrap()[0].as_slice::<i64>(), expected);
    }
}

#[test]
fn pointers_in_data_are_relocated() {
    let isa = host();
    let mut sample = Sample::new("sum");
    let words = [7.0f32, 100.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let bias = sample.object.datum("bias", false, bytes(4, words)).unwrap();
    // The program reads the second word of `bias` through a table of pointers.
    let mut table = bytes(8, vec![0; 16]);
    let to = table.import_global_value(bias.into());
    table.write_data_addr(8, to, 4);
    let table = sample.object.datum("table", false, table).unwrap();
    sample.object.datum("zeros", false, zeros(64, 100_000)).unwrap();
    let sample = sample.sum(&isa, |b, sum| {
        let table = data_address(b, table);
        let pointer = b.ins().load(types::I64, FLAGS, table, 8);
        let bias = b.ins().load(types::F32, FLAGS, pointer, 0);
        b.ins().fadd(sum, bias)
    });
    let bytes = sample.bytes(&isa);
    assert!(bytes.len() < 10_000);
    assert_eq!(run(&Program::from_object(&bytes).unwrap()), 103.5);
}

#[test]
fn large_constants_have_sections_of_their_own() {
    use object::{Object, ObjectSection, ObjectSymbol};
    let isa = host();
    let mut sample = Sample::new("sum");
    let mut large = vec![0; 1 << 16];
    large[60_000..60_004].copy_from_slice(&100f32.to_le_bytes());
    let table = sample.object.datum("table", false, bytes(64, large.clone())).unwrap();
    sample.object.datum("small", false, bytes(64, vec![1; 100])).unwrap();
    let sample = sample.sum(&isa, |b, sum| {
        let address = data_address(b, table);
        let bias = b.ins().load(types::F32, FLAGS, address, 60_000);
        b.ins().fadd(sum, bias)
    });
    let bytes = sample.bytes(&isa);
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(".rodata.table").unwrap();
    assert_eq!(section.data().unwrap(), large);
    let small = file.symbols().find(|s| s.name() == Ok("small")).unwrap();
    assert_eq!(small.section_index(), Some(file.section_by_name(".rodata").unwrap().index()));
    assert_eq!(run(&Program::from_object(&bytes).unwrap()), 103.5);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let isa = host();
    assert_eq!(with_data(&isa).bytes(&isa), with_data(&isa).bytes(&isa));
}

#[test]
fn other_targets_are_written_and_refused_here() {
    for triple in [
        "aarch64-unknown-linux-gnu",
        "riscv64gc-unknown-linux-gnu",
        "s390x-unknown-linux-gnu",
        "aarch64-apple-darwin",
        "x86_64-apple-darwin",
        "x86_64-pc-windows-msvc",
    ] {
        let isa = isa(triple, &[]);
        for input in [with_data(&isa), with_call(&isa), with_import(&isa, "negate")] {
            let input = input.input();
            let bytes = write(&input, &isa).unwrap_or_else(|e| panic!("{triple}: {e}"));
            assert_eq!(bytes, write(&input, &isa).unwrap());
            let error = Program::from_object(&bytes).unwrap_err();
            assert!(matches!(error, LoadError::Machine { .. } | LoadError::Malformed(_)), "{triple}: {error}");
        }
    }
}

#[test]
fn services_that_the_loader_lacks_are_named() {
    let isa = host();
    let mut sample = Sample::new("sum").sum(&isa, |_, sum| sum);
    sample.descriptor.needed_services = brolga_runtime::abi::Services(1 << 40);
    let error = Program::from_object(&sample.bytes(&isa)).unwrap_err();
    assert!(matches!(error, LoadError::Services { .. } | LoadError::Features { .. }), "{error}");
}

#[test]
fn contradictions_are_our_bugs_not_panics() {
    let isa = host();
    let machine_code = |alignment, offset, name: ModuleRelocTarget| {
        let relocs = vec![ModuleReloc { offset, kind: Reloc::X86CallPLTRel4, name, addend: -4 }];
        // Nothing stands where the distance goes, but for a `ret` at the end.
        let mut code = vec![0; 16];
        code[15] = 0xc3;
        CompiledFunction {
            alignment,
            code,
            relocs,
            unwind: Unwind::unchanged(),
            lines: Vec::new(),
            text: String::new(),
        }
    };
    let with = |exported, code: Option<CompiledFunction>| {
        let mut sample = Sample::new("sum");
        let id = sample.object.function("sum", exported, &entry_signature()).unwrap();
        if let Some(code) = code {
            sample.object.define(id, code).unwrap();
        }
        sample.input()
    };
    let own = || ModuleRelocTarget::user(0, 0);
    assert!(write(&with(true, Some(machine_code(16, 1, own()))), &isa).is_ok());
    for input in [
        with(true, Some(machine_code(16, 1, ModuleRelocTarget::user(0, 99)))),
        with(true, Some(machine_code(16, 1, ModuleRelocTarget::user(7, 0)))),
        with(true, Some(machine_code(16, 1_000_000, own()))),
        with(true, Some(machine_code(16, 12, own()))),
        with(true, Some(machine_code(3, 1, own()))),
        with(false, Some(machine_code(16, 1, own()))),
        with(true, None),
    ] {
        assert!(matches!(write(&input, &isa), Err(crate::Error::Internal(_))));
    }
    let mut object = ObjectInput::new();
    object.function("twice", false, &unary()).unwrap();
    assert!(matches!(object.function("twice", false, &unary()), Err(crate::Error::Internal(_))));
    assert!(matches!(object.import("twice"), Err(crate::Error::Unsupported { .. })));
    let data = |object: &mut ObjectInput, byte| object.datum("data", false, bytes(1, vec![byte]));
    assert_eq!(data(&mut object, 1).unwrap(), data(&mut object, 1).unwrap());
    assert!(matches!(data(&mut object, 2), Err(crate::Error::Internal(_))));
}

/// Loads, but does not run, damaged objects: with the hash check nearly all are refused, without it none may crash.
#[test]
fn damaged_objects_do_not_crash_the_loader() {
    let isa = host();
    let mut sample = Sample::new("sum");
    sample.object.datum("other", false, bytes(64, vec![1; 5])).unwrap();
    sample.object.datum("bias", false, bytes(4, vec![1; 8])).unwrap();
    let bytes = importing(sample, &isa, "negate").bytes(&isa);
    let resolver: &dyn Fn(&str) -> _ = &negate_resolver;
    let checked =
        LoadOptions { services: &[], resolver: Some(resolver), process_symbols: false, ..LoadOptions::default() };
    let unchecked = LoadOptions { verify_hash: false, ..checked };
    assert!(Program::from_object_with(&bytes, &checked).is_ok());
    let mut state = 0x1234_5678u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for round in 0..10_000 {
        let mut damaged = bytes.clone();
        if round % 16 == 0 {
            damaged.truncate(random() % bytes.len());
        } else {
            for _ in 0..=random() % 4 {
                let at = random() % damaged.len();
                damaged[at] = match random() % 4 {
                    0 => 0,
                    1 => 0xff,
                    _ => random() as u8,
                };
            }
        }
        if damaged != bytes {
            assert!(Program::from_object_with(&damaged, &checked).is_err(), "round {round}");
            let _ = Program::from_object_with(&damaged, &unchecked);
        }
    }
}

/// Links an object into a C program with the system's compiler and runs it.
#[test]
fn a_c_program_links_the_object() {
    use std::process::Command;
    if !cfg!(target_os = "linux") || Command::new("cc").arg("--version").output().is_err() {
        eprintln!("SKIPPED a_c_program_links_the_object: there is no C compiler `cc` here");
        return;
    }
    let directory = std::env::temp_dir().join(format!("brolga-c-link-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let isa = host();
    let mut sample = with_data(&isa);
    sample.descriptor.module_name = "a */ module".into();
    sample.descriptor.workspace_fixed = 100;
    sample.descriptor.workspace_per_worker = 64;
    std::fs::write(directory.join("sum.h"), c_header(std::slice::from_ref(&sample.descriptor))).unwrap();
    std::fs::write(directory.join("sum.o"), sample.bytes(&isa)).unwrap();
    let main = r#"
        #include <stdio.h>
        #include <string.h>
        #include "sum.h"
        #include "sum.h"
        int main(void) {
            float x = 1.5f, y = 2.0f, out = 0.0f;
            const void *params[SUM_PARAMETERS] = {&x, &y};
            void *results[SUM_RESULTS] = {&out};
            char workspace[SUM_WORKSPACE_BYTES(2)];
            const brolga_descriptor *d = &sum_descriptor;
            brolga_context cx = brolga_plain_context();
            if (d->abi_version != BROLGA_ABI_VERSION || sizeof(cx) != cx.size) return 1;
            if (sizeof(brolga_descriptor) != d->header_size) return 2;
            if (brolga_parameter(d, 1)->bytes != SUM_PARAMETER_1_BYTES || brolga_parameter(d, 2)) return 3;
            if (strcmp(brolga_leaf_name(d, brolga_parameter(d, 1)), "y")) return 4;
            if (strcmp(brolga_module_name(d), "a */ module")) return 5;
            if (brolga_workspace_size(d, 2) != sizeof(workspace)) return 6;
            if (brolga_result(d, 0)->element_type != BROLGA_F32) return 7;
            if (sum(params, results, workspace, &cx) != BROLGA_OK) return 8;
            printf("%g\n", out);
            return 0;
        }
    "#;
    for (compiler, standard, file) in [("cc", "-std=c99", "main.c"), ("c++", "-std=c++11", "main.cc")] {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("SKIPPED the part in C++: there is no compiler `{compiler}` here");
            continue;
        }
        std::fs::write(directory.join(file), main).unwrap();
        let compiled = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Wno-vla", "-Werror", "-o", "main", file, "sum.o"])
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let ran = Command::new(directory.join("main")).output().unwrap();
        assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stdout).trim()), (Some(0), "103.5"), "{file}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// The linked-in form of a program is the loaded form, found by pointer instead of by symbol.
#[test]
fn a_linked_program_is_checked_too() {
    let isa = host();
    let bytes = with_data(&isa).bytes(&isa);
    let loaded = Program::from_object(&bytes).unwrap();
    let blob = loaded.descriptor().encode().unwrap();
    // SAFETY: the blob is this program's descriptor.
    let linked = unsafe { Program::from_linked(blob.as_ptr(), loaded.entry()) }.unwrap();
    assert_eq!(run(&linked), 103.5);
    // SAFETY: as above; the magic word is wrong, which is noticed before anything else is read.
    assert!(unsafe { Program::from_linked([0u8; 16].as_ptr(), loaded.entry()) }.is_err());
}

#[test]
fn descriptors_are_read_back_for_every_format() {
    for triple in [
        "x86_64-unknown-linux-gnu",
        "riscv64gc-unknown-linux-gnu",
        "s390x-unknown-linux-gnu",
        "aarch64-apple-darwin",
        "x86_64-pc-windows-msvc",
    ] {
        let isa = isa(triple, &[]);
        let mut bytes = with_data(&isa).bytes(&isa);
        let descriptor = read_descriptor(&bytes).unwrap_or_else(|e| panic!("{triple}: {e}"));
        assert_eq!(descriptor.architecture, architecture(&*isa).unwrap());
        *bytes.last_mut().unwrap() ^= 1;
        assert!(read_descriptor(&bytes).is_err(), "{triple}");
    }
    assert!(read_descriptor(b"").is_err());
}
