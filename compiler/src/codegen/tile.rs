//! The register tile of contractions, as CLIF.
//!
//! **Problem.** `c[m, n] (+)= a[m, k] * b[k, n]` for any extents and strides, with many products in flight and few loads.
//!
//! **Invariant.** Every element of `c` is one chain of multiply-adds ([`Product::step`]) in ascending `k` that starts from 0, to which what is there is
//! added at the end: the size of a register tile changes no bit of it. Tiles of wider registers
//! ([`super::x86::tile`]) have the same parameters and give the same bits.
//!
//! **Algorithm.** A function of its own, shared by all contractions of a program. Columns are taken two vectors at a
//! time, then one, then one element; rows six at a time, then four, two, one. A tile keeps its sums in registers, and
//! for each `k` loads one row of `b` and broadcasts one element of `a` a row. The two operands are never written while the
//! function runs, so their loads may move: the code generator then loads late enough to spill nothing.

use super::flow::{Flow, enter};
use super::lanes::{cast_flags, flags};
use super::target::Target;
use crate::error::{Error, Result};
use crate::kernel::body::Variant;
use crate::kernel::ir::{Elements, Product};
use crate::object::Numbered;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, Type, UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_module::FuncId;

/// Rows of the register tiles, largest first.
const ROWS: [i64; 4] = [6, 4, 2, 1];

/// The signature of a tile: `k, a, a_row, a_k, b, b_k, c, c_row, m, n, from, from_row, pack, pack_a`; strides in elements, rows of
/// `b`, `c` and `from` without gaps. Extents are at least 1. `from` is what is added, or null; it may be `c`. Where it is not null, the
/// rows of `b` are also written to `pack`, a panel after another, and those of `a` to `pack_a`; where `a` is null, a call before has done
/// that. Only tiles of wider registers do. Of bf16 another one behind them says whether what is subnormal counts, by not being zero.
pub fn signature(product: Product) -> Signature {
    let mut s = Signature::new(CallConv::SystemV);
    let parameters = if product == Product::Bf16 { 15 } else { 14 };
    s.params = vec![AbiParam::new(types::I64); parameters];
    s
}

/// The scalar CLIF type of a product.
fn scalar(product: Product) -> Type {
    match product {
        Product::F32 | Product::Bf16 => types::F32,
        Product::F64 => types::F64,
        Product::U8S8 | Product::S8U8 | Product::S16 => types::I32,
    }
}

struct Tile<'t> {
    target: &'t Target,
    product: Product,
    ty: Type,
    k: Value,
    /// Strides in bytes.
    a_k: Value,
    b_k: Value,
    a_row: Value,
    c_row: Value,
    from_row: Value,
    /// Whether something is added.
    accumulate: Value,
}

/// The tile function of a product.
///
/// # Errors
/// [`Error::Internal`] where CLIF has no vectors of its elements.
pub fn function(id: FuncId, product: Product, target: &Target) -> Result<Function> {
    let mut function = Function::with_name_signature(UserFuncName::User(id.external_name()), signature(product));
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let p = enter(&mut b);
    let ty = scalar(product);
    let bytes = i64::from(ty.bytes());
    let mut scale = |v: Value| b.ins().imul_imm_s(v, bytes);
    let [a_row, a_k, b_k, c_row, from_row] = [2, 3, 5, 7, 11].map(|i| scale(p[i]));
    let t = Tile { target, product, ty, k: p[0], a_k, b_k, a_row, c_row, from_row, accumulate: p[10] };
    let (m, n) = (p[8], p[9]);
    let vector = if target.has_vectors() { ty.by((16 / bytes) as u32) } else { Some(ty) };
    let vector = vector.ok_or_else(|| Error::Internal(format!("{ty} has no vectors")))?;
    let mut column = b.ins().iconst(types::I64, 0);
    let mut shapes = vec![(2, vector), (1, vector)];
    if vector != ty {
        shapes.push((1, ty));
    }
    for (vectors, vector) in shapes {
        column = rounds(&mut b, (column, n), vectors * i64::from(vector.lane_count()), &mut |b, j| {
            let offset = b.ins().imul_imm_s(j, bytes);
            let [at_b, at_c, at_from] = [4, 6, 10].map(|i| b.ins().iadd(p[i], offset));
            let mut row = b.ins().iconst(types::I64, 0);
            for rows in ROWS {
                row = rounds(b, (row, m), rows, &mut |b, i| {
                    let [at_a, at_c, at_from] =
                        [(p[1], t.a_row), (at_c, t.c_row), (at_from, t.from_row)].map(|(at, row)| {
                            let down = b.ins().imul(i, row);
                            b.ins().iadd(at, down)
                        });
                    t.micro(b, rows as usize, (vectors as usize, vector), [at_a, at_b, at_c, at_from]);
                });
            }
        });
    }
    b.ins().return_(&[]);
    b.finalize(target.isa.frontend_config());
    Ok(function)
}

/// Runs `body` for `from, from + step, ..` while a whole step fits below `to`; returns where it stopped.
fn rounds<'b>(
    b: &mut FunctionBuilder<'b>,
    (from, to): (Value, Value),
    step: i64,
    body: &mut dyn FnMut(&mut FunctionBuilder<'b>, Value),
) -> Value {
    let left = b.ins().isub(to, from);
    let step_value = b.ins().iconst(types::I64, step);
    let whole = if step == 1 {
        to
    } else {
        let rest = b.ins().urem(left, step_value);
        b.ins().isub(to, rest)
    };
    b.count(from, whole, step, body);
    whole
}

impl Tile<'_> {
    /// The sum after one more step.
    fn step(&self, b: &mut FunctionBuilder<'_>, [x, y, sum]: [Value; 3]) -> Value {
        let multiply_add = |b: &mut FunctionBuilder<'_>, [x, y, sum]: [Value; 3]| {
            if self.target.variant == Variant::Fma {
                return b.ins().fma(x, y, sum);
            }
            let product = b.ins().fmul(x, y);
            b.ins().fadd(product, sum)
        };
        if self.product == Product::Bf16 {
            let ty = b.func.dfg.value_type(sum);
            return [false, true].into_iter().fold(sum, |sum, low| {
                let [x, y] = [x, y].map(|word| {
                    let bits = b.ins().bitcast(ty.as_int(), cast_flags(), word);
                    let bits = if low { bits } else { b.ins().ushr_imm_u(bits, 16) };
                    let bits = b.ins().ishl_imm_u(bits, 16);
                    b.ins().bitcast(ty, cast_flags(), bits)
                });
                multiply_add(b, [x, y, sum])
            });
        }
        let Some(Elements { bits, signed }) = self.product.elements() else { return multiply_add(b, [x, y, sum]) };
        let mut total = sum;
        let rest = i64::from(32 - bits);
        for spare in (0..=rest).rev().step_by(usize::from(bits)) {
            let [x, y] = [(x, signed[0]), (y, signed[1])].map(|(word, signed)| {
                let high = b.ins().ishl_imm_u(word, spare);
                if signed { b.ins().sshr_imm_u(high, rest) } else { b.ins().ushr_imm_u(high, rest) }
            });
            let product = b.ins().imul(x, y);
            total = b.ins().iadd(total, product);
        }
        total
    }

    fn micro(
        &self,
        b: &mut FunctionBuilder<'_>,
        rows: usize,
        (vectors, ty): (usize, Type),
        [a, bb, c, from]: [Value; 4],
    ) {
        let single = ty == self.ty;
        let bytes = ty.bytes() as i32;
        // Never written while this function runs.
        let operand = MemFlagsData::new().with_notrap().with_readonly().with_can_move();
        let multiples = |b: &mut FunctionBuilder<'_>, stride: Value| -> Vec<Option<Value>> {
            let mut all = vec![None];
            for r in 1..rows {
                let next = match all[r - 1] {
                    Some(v) => b.ins().iadd(v, stride),
                    None => stride,
                };
                all.push(Some(next));
            }
            all
        };
        let a_rows = multiples(b, self.a_row);
        let c_rows = multiples(b, self.c_row);
        let from_rows = multiples(b, self.from_row);
        let at = |b: &mut FunctionBuilder<'_>, base: Value, offset: Option<Value>| match offset {
            Some(o) => b.ins().iadd(base, o),
            None => base,
        };
        let sums: Vec<Vec<Variable>> = (0..rows).map(|_| (0..vectors).map(|_| b.declare_var(ty)).collect()).collect();
        let (old, new, head, after) = (b.create_block(), b.create_block(), b.create_block(), b.create_block());
        let zero = match self.product {
            Product::F32 | Product::Bf16 => b.ins().f32const(0.0),
            Product::F64 => b.ins().f64const(0.0),
            Product::U8S8 | Product::S8U8 | Product::S16 => b.ins().iconst(types::I32, 0),
        };
        let zero = if single { zero } else { b.ins().splat(ty, zero) };
        for &sum in sums.iter().flatten() {
            b.def_var(sum, zero);
        }
        let (pa, pb, left) = (b.declare_var(types::I64), b.declare_var(types::I64), b.declare_var(types::I64));
        b.def_var(pa, a);
        b.def_var(pb, bb);
        b.def_var(left, self.k);
        b.ins().jump(head, &[]);

        b.switch_to_block(head);
        let (now_a, now_b, now) = (b.use_var(pa), b.use_var(pb), b.use_var(left));
        let right: Vec<Value> = (0..vectors).map(|v| b.ins().load(ty, operand, now_b, v as i32 * bytes)).collect();
        for (row, &offset) in sums.iter().zip(&a_rows) {
            let base = at(b, now_a, offset);
            let x = b.ins().load(self.ty, operand, base, 0);
            let x = if single { x } else { b.ins().splat(ty, x) };
            for (&sum, &y) in row.iter().zip(&right) {
                let s = b.use_var(sum);
                let s = self.step(b, [x, y, s]);
                b.def_var(sum, s);
            }
        }
        let (next_a, next_b) = (b.ins().iadd(now_a, self.a_k), b.ins().iadd(now_b, self.b_k));
        b.def_var(pa, next_a);
        b.def_var(pb, next_b);
        let next = b.ins().iadd_imm_s(now, -1);
        b.def_var(left, next);
        b.ins().brif(next, head, &[], after, &[]);
        b.seal_block(head);
        b.switch_to_block(after);
        b.seal_block(after);
        b.ins().brif(self.accumulate, old, &[], new, &[]);
        b.switch_to_block(old);
        b.seal_block(old);
        for (row, &offset) in sums.iter().zip(&from_rows) {
            let base = at(b, from, offset);
            for (v, &sum) in row.iter().enumerate() {
                let before = b.ins().load(ty, flags(), base, v as i32 * bytes);
                let x = b.use_var(sum);
                let x = match self.product {
                    Product::F32 | Product::F64 | Product::Bf16 => b.ins().fadd(x, before),
                    Product::U8S8 | Product::S8U8 | Product::S16 => b.ins().iadd(x, before),
                };
                b.def_var(sum, x);
            }
        }
        b.ins().jump(new, &[]);
        b.switch_to_block(new);
        b.seal_block(new);
        for (row, &offset) in sums.iter().zip(&c_rows) {
            let base = at(b, c, offset);
            for (v, &sum) in row.iter().enumerate() {
                let x = b.use_var(sum);
                b.ins().store(flags(), x, base, v as i32 * bytes);
            }
        }
    }
}
