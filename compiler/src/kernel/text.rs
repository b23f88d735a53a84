//! Kernels as text: what `--emit=kernel` writes and snapshot tests compare.
//!
//! **Problem.** A wrong index map or a fusion that was lost shows in speed or in bits, far from its cause; a person must
//! be able to read what a kernel does, and a test to compare it.
//!
//! **Invariant.** The text is complete (two kernels that differ in what they compute differ in text), deterministic, and
//! names nothing outside the kernel but its own name and source line.
//!
//! **Algorithm.** One line for each loop, node, accumulator and store, in the order of execution. Constants, arguments and
//! results of finished accumulators stand where they are used; nodes that nothing needs are left out, so numbers may
//! skip. Buffers are named by role and position (`in0`, `out0`, `scratch0`), loop variables `i0`, `i1`, …, row buffers
//! `row0`, results of accumulators `r0`. An index in brackets is an offset in elements.

use super::body::{Body, FloatCond, IntCond, Mem, NodeId, Op, ScalarType};
use super::ir::{Accumulator, Callee, Contraction, Kernel, Loop, Nest, Phase, Place, Role, Stage, Store};
use super::registers::RegisterLoop;
use super::sort::Sort;
use std::fmt::{self, Display, Formatter, Write};

impl Display for ScalarType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScalarType::I32 => "i32",
            ScalarType::I64 => "i64",
            ScalarType::F32 => "f32",
            ScalarType::F64 => "f64",
            ScalarType::M32 => "m32",
            ScalarType::M64 => "m64",
        })
    }
}

impl Display for Mem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mem::S8 => "s8",
            Mem::U8 => "u8",
            Mem::S16 => "s16",
            Mem::U16 => "u16",
            Mem::I32 => "i32",
            Mem::I64 => "i64",
            Mem::F32 => "f32",
            Mem::F64 => "f64",
        })
    }
}

impl Display for Loop {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "i{} in {}", self.axis.0, self.extent)
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = Names::of(self);
        write!(f, "kernel {} (", self.name)?;
        names.declare(f, self, |r| r == Role::Input)?;
        f.write_str(") -> (")?;
        names.declare(f, self, |r| matches!(r, Role::Output | Role::Update { .. }))?;
        f.write_char(')')?;
        if self.buffers.iter().any(|b| b.role == Role::Scratch) {
            f.write_str(", scratch (")?;
            names.declare(f, self, |r| r == Role::Scratch)?;
            f.write_char(')')?;
        }
        if self.line > 0 {
            write!(f, "  // line {}", self.line)?;
        }
        f.write_char('\n')?;
        for (out, input) in &self.in_place {
            writeln!(f, "  may be one memory: {}, {}", names.buffer(*out), names.buffer(*input))?;
        }
        for phase in &self.phases {
            match phase {
                Phase::Nest(nest) => names.nest(f, nest)?,
                Phase::Contraction(c) => names.contraction(f, c)?,
                Phase::Registers(l) => names.registers(f, l)?,
                Phase::Call(call) => {
                    match &call.callee {
                        Callee::Service(service) => write!(f, "  call service {}", service.name())?,
                        Callee::Function { symbol, abi } => write!(f, "  call \"{symbol}\" {abi:?}")?,
                    }
                    writeln!(f, " with {:?}", call.words)?;
                }
                Phase::RandomState { delta } => writeln!(f, "  random state, advanced by {delta}")?,
                Phase::Sort(sort) => names.sort(f, sort)?,
            }
        }
        Ok(())
    }
}

/// The vector axis where a row buffer is indexed; that of one element is no loop.
fn vector_name(stage: &Stage) -> String {
    if stage.vector.extent == 1 { "0".to_owned() } else { format!("i{}", stage.vector.axis.0) }
}

/// Joins what can be displayed.
fn list<T: Display>(f: &mut Formatter<'_>, items: impl IntoIterator<Item = T>) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// `parallel i0 in 8, i1 in 4`; nothing for no loop.
fn axes(f: &mut Formatter<'_>, role: &str, loops: &[Loop]) -> fmt::Result {
    if loops.is_empty() {
        return Ok(());
    }
    write!(f, " {role} ")?;
    list(f, loops)
}

/// Names of a kernel's buffers, by number.
struct Names(Vec<String>);

/// How a body's arguments are called.
type ArgName<'a> = &'a dyn Fn(u32) -> String;

fn no_arguments(n: u32) -> String {
    format!("arg{n}")
}

impl Names {
    fn of(kernel: &Kernel) -> Names {
        let mut counts = [0; 3];
        let mut name = |role| {
            let (word, count) = match role {
                Role::Input => ("in", &mut counts[0]),
                Role::Output | Role::Update { .. } => ("out", &mut counts[1]),
                Role::Scratch => ("scratch", &mut counts[2]),
            };
            *count += 1;
            format!("{word}{}", *count - 1)
        };
        Names(kernel.buffers.iter().map(|b| name(b.role)).collect())
    }

    fn buffer(&self, number: u32) -> &str {
        self.0.get(number as usize).map_or("?", String::as_str)
    }

    fn declare(&self, f: &mut Formatter<'_>, kernel: &Kernel, wanted: impl Fn(Role) -> bool) -> fmt::Result {
        let of_role = kernel.buffers.iter().enumerate().filter(|(_, b)| wanted(b.role));
        list(
            f,
            of_role.map(|(i, b)| {
                let over = match b.role {
                    Role::Update { of } => format!(" over {}", self.buffer(of)),
                    _ => String::new(),
                };
                format!("{}: {}[{}]{over}", self.buffer(i as u32), b.ty, b.elements)
            }),
        )
    }

    fn nest(&self, f: &mut Formatter<'_>, nest: &Nest) -> fmt::Result {
        f.write_str("  phase")?;
        axes(f, "parallel", &nest.parallel)?;
        f.write_char('\n')?;
        for (i, row) in nest.rows.iter().enumerate() {
            writeln!(f, "    row buffer row{i}: {}[{}]", row.scalar, row.elements)?;
        }
        nest.stages.iter().try_for_each(|stage| self.stage(f, stage))
    }

    fn stage(&self, f: &mut Formatter<'_>, stage: &Stage) -> fmt::Result {
        f.write_str("    stage")?;
        axes(f, "sequential", &stage.sequential)?;
        // A vector axis of one element is no loop, and no index map mentions it.
        if stage.vector.extent != 1 {
            axes(f, "vector", &[stage.vector])?;
        }
        f.write_str(if stage.regroups { " in any grouping" } else { "" })?;
        f.write_str(if stage.streams { " past the caches\n" } else { "\n" })?;
        let mut roots = stage.roots();
        roots.extend(stage.accumulators.iter().flat_map(|a| &a.init));
        let i = vector_name(stage);
        self.body(f, "      ", &stage.body, &roots, &no_arguments, &i)?;
        for a in &stage.accumulators {
            self.accumulator(f, stage, a)?;
        }
        for (row, value) in &stage.row_stores {
            writeln!(f, "      store row{row}[{i}] = {}", operand(&stage.body, *value, &no_arguments))?;
        }
        self.stores(f, "      ", &stage.body, &stage.stores, &no_arguments)
    }

    fn accumulator(&self, f: &mut Formatter<'_>, stage: &Stage, a: &Accumulator) -> fmt::Result {
        let operands = |nodes: &[NodeId]| nodes.iter().map(|&n| operand(&stage.body, n, &no_arguments)).collect();
        let (init, values): (Vec<String>, Vec<String>) = (operands(&a.init), operands(&a.values));
        f.write_str("      fold ")?;
        let mut over = stage.sequential.clone();
        match &a.place {
            Place::Lanes { results } => {
                list(f, results.iter().map(|r| format!("r{r}")))?;
                over.push(stage.vector);
            }
            Place::Row { rows } => list(f, rows.iter().map(|r| format!("row{r}[{}]", vector_name(stage))))?,
        }
        f.write_str(" of ")?;
        list(f, &values)?;
        f.write_str(" over ")?;
        list(f, over.iter().map(|l| format!("i{}", l.axis.0)))?;
        f.write_str(if a.splits { ", init " } else { " in order, init " })?;
        list(f, &init)?;
        if let Some(identity) = &a.identity {
            f.write_str(", identity ")?;
            list(f, identity.iter().zip(&a.init).map(|(&bits, &n)| constant(stage.body.scalar(n), bits)))?;
        }
        f.write_char('\n')?;
        let n = a.init.len() as u32;
        let name = move |k: u32| if k < n { format!("a{k}") } else { format!("x{}", k - n) };
        f.write_str("        with (")?;
        let scalars = a.init.iter().chain(&a.values).map(|&v| stage.body.scalar(v));
        list(f, (0..).zip(scalars).map(|(k, scalar)| format!("{}: {scalar}", name(k))))?;
        f.write_str(")\n")?;
        self.body(f, "          ", &a.combine, &a.roots, &name, "")?;
        f.write_str("          yield ")?;
        list(f, a.roots.iter().map(|&r| operand(&a.combine, r, &name)))?;
        f.write_char('\n')
    }

    fn contraction(&self, f: &mut Formatter<'_>, c: &Contraction) -> fmt::Result {
        write!(f, "  phase contraction {}", c.product)?;
        axes(f, "batch", &c.batch)?;
        for (role, l) in [("m", c.m), ("n", c.n), ("k", c.k)] {
            axes(f, role, &[l])?;
        }
        if c.block != c.k.extent {
            write!(f, " in blocks of {}", c.block)?;
        }
        f.write_char('\n')?;
        for (side, panel) in [("lhs", &c.lhs), ("rhs", &c.rhs)] {
            writeln!(f, "    {side} {}[{}]", self.buffer(panel.buffer), panel.index)?;
        }
        if let Some(subnormal) = c.subnormal {
            writeln!(f, "    subnormal where {}", self.buffer(subnormal))?;
        }
        writeln!(f, "    epilogue (sum)")?;
        let name = |n: u32| if n == 0 { "sum".to_owned() } else { no_arguments(n) };
        self.body(f, "      ", &c.epilogue, &c.roots(), &name, "")?;
        self.stores(f, "      ", &c.epilogue, &c.stores, &name)
    }

    fn stores(
        &self,
        f: &mut Formatter<'_>,
        indent: &str,
        body: &Body,
        stores: &[Store],
        arg: ArgName<'_>,
    ) -> fmt::Result {
        for s in stores {
            let value = operand(body, s.value, arg);
            writeln!(f, "{indent}store {}[{}] = {value} : {}", self.buffer(s.buffer), s.index, s.mem)?;
        }
        Ok(())
    }

    fn registers(&self, f: &mut Formatter<'_>, l: &RegisterLoop) -> fmt::Result {
        f.write_str("  phase in registers\n")?;
        let mut elements = Vec::new();
        for (k, a) in l.state.iter().enumerate() {
            let name = |i: usize| if a.elements == 1 { format!("s{k}") } else { format!("s{k}[{i}]") };
            elements.extend((0..a.elements).map(name));
        }
        let element = |n: u32| elements.get(n as usize).cloned().unwrap_or_else(|| no_arguments(n));
        for (k, a) in l.state.iter().enumerate() {
            writeln!(f, "    s{k}: {}[{}] = load {} : {}", a.ty, a.elements, self.buffer(k as u32), a.mem)?;
            self.conversion(f, "decode", l.decode.get(k))?;
        }
        f.write_str("    while\n")?;
        self.body(f, "      ", &l.condition.0, &[l.condition.1], &element, "")?;
        writeln!(f, "      yield {}", operand(&l.condition.0, l.condition.1, &element))?;
        f.write_str("    do\n")?;
        self.body(f, "      ", &l.body.0, &l.body.1, &element, "")?;
        f.write_str("      next ")?;
        let same = |(n, root): (usize, &NodeId)| matches!(l.body.0.node(*root).op, Op::Arg(k) if k as usize == n);
        let changed = l.body.1.iter().enumerate().filter(|&x| !same(x));
        list(f, changed.map(|(n, &root)| format!("{} = {}", element(n as u32), operand(&l.body.0, root, &element))))?;
        f.write_char('\n')?;
        for (k, a) in l.state.iter().enumerate() {
            self.conversion(f, "encode", l.encode.get(k))?;
            writeln!(f, "    store {} = s{k} : {}", self.buffer((l.state.len() + k) as u32), a.mem)?;
        }
        Ok(())
    }

    fn sort(&self, f: &mut Formatter<'_>, sort: &Sort) -> fmt::Result {
        f.write_str("  phase sort")?;
        axes(f, "parallel", &sort.parallel)?;
        axes(f, "row", &[sort.row])?;
        f.write_char('\n')?;
        let roots: Vec<NodeId> = sort.operands.iter().map(|o| o.value).collect();
        self.body(f, "    ", &sort.load, &roots, &no_arguments, "")?;
        for (k, o) in sort.operands.iter().enumerate() {
            write!(f, "    operand {k} is {} : {}", operand(&sort.load, o.value, &no_arguments), o.mem)?;
            if let Some((buffer, index)) = &o.store {
                write!(f, ", stored in {}[{index}]", self.buffer(*buffer))?;
                if sort.keep < sort.row.extent {
                    write!(f, " for i{} below {}", sort.row.axis.0, sort.keep)?;
                }
            }
            f.write_char('\n')?;
        }
        if let Some(key) = &sort.key {
            let name = |n: u32| format!("x{n}");
            let roots: Vec<NodeId> = key.unordered.into_iter().chain([key.root]).collect();
            f.write_str("    by the key\n")?;
            self.body(f, "      ", &key.body, &roots, &name, "")?;
            writeln!(f, "      yield {} of {} bits", operand(&key.body, key.root, &name), key.bits)?;
            if let Some(n) = key.unordered {
                writeln!(f, "    or, where {} of any element,", operand(&key.body, n, &name))?;
            }
        }
        let name = |n: u32| format!("{}{}", if n.is_multiple_of(2) { 'x' } else { 'y' }, n / 2);
        f.write_str("    x before y where\n")?;
        self.body(f, "      ", &sort.comparator, &[sort.before], &name, "")?;
        writeln!(f, "      yield {}", operand(&sort.comparator, sort.before, &name))
    }

    /// How an element of a state becomes its memory form or the reverse, where that is any work.
    fn conversion(&self, f: &mut Formatter<'_>, what: &str, body: Option<&(Body, NodeId)>) -> fmt::Result {
        match body {
            Some((body, root)) if !matches!(body.node(*root).op, Op::Arg(_)) => {
                let name = |_: u32| "x".to_owned();
                writeln!(f, "      {what} (x)")?;
                self.body(f, "        ", body, &[*root], &name, "")?;
                writeln!(f, "        yield {}", operand(body, *root, &name))
            }
            _ => Ok(()),
        }
    }

    /// The nodes that `roots` need, one a line.
    fn body(
        &self,
        f: &mut Formatter<'_>,
        indent: &str,
        body: &Body,
        roots: &[NodeId],
        arg: ArgName<'_>,
        vector: &str,
    ) -> fmt::Result {
        let needed = body.needed(roots.iter().copied());
        for (i, node) in body.nodes().iter().enumerate().filter(|(i, _)| needed[*i]) {
            if matches!(node.op, Op::Const(_) | Op::Arg(_) | Op::Result(_)) {
                continue;
            }
            write!(f, "{indent}%{i} = ")?;
            match &node.op {
                Op::Load(buffer, mem, ix) => {
                    write!(f, "load {}[{ix}] : {mem}", self.buffer(*buffer))?;
                    if mem.to_string() != node.scalar.to_string() {
                        write!(f, " as {}", node.scalar)?;
                    }
                }
                Op::Row(row) => write!(f, "load row{row}[{vector}] : {}", node.scalar)?,
                Op::Index(ix) => write!(f, "index {ix} : {}", node.scalar)?,
                op => {
                    write!(f, "{} ", mnemonic(op))?;
                    list(f, node.args.iter().map(|&a| operand(body, a, arg)))?;
                    if let Op::ShlImm(by) | Op::LShrImm(by) | Op::AShrImm(by) = op {
                        write!(f, ", {by}")?;
                    }
                    write!(f, " : {}", node.scalar)?;
                }
            }
            f.write_char('\n')?;
        }
        Ok(())
    }
}

/// A node where it is used.
fn operand(body: &Body, id: NodeId, arg: ArgName<'_>) -> String {
    let node = body.node(id);
    match node.op {
        Op::Const(bits) => constant(node.scalar, bits),
        Op::Arg(n) => arg(n),
        Op::Result(r) => format!("r{r}"),
        _ => format!("%{}", id.0),
    }
}

fn constant(scalar: ScalarType, bits: u64) -> String {
    let special = |nan: bool| nan.then(|| format!("nan:{bits:#x}"));
    match scalar {
        ScalarType::I32 => (bits as u32 as i32).to_string(),
        ScalarType::I64 => (bits as i64).to_string(),
        ScalarType::M32 | ScalarType::M64 => (bits != 0).to_string(),
        ScalarType::F32 => {
            let v = f32::from_bits(bits as u32);
            special(v.is_nan()).unwrap_or_else(|| format!("{v:?}"))
        }
        ScalarType::F64 => {
            let v = f64::from_bits(bits);
            special(v.is_nan()).unwrap_or_else(|| format!("{v:?}"))
        }
    }
}

/// The word for an operation.
pub(super) fn mnemonic(op: &Op) -> &'static str {
    match op {
        Op::Const(_) => "const",
        Op::Arg(_) => "arg",
        Op::Load(..) | Op::Row(_) => "load",
        Op::Result(_) => "result",
        Op::Index(_) => "index",
        Op::FNeg => "fneg",
        Op::FAbs => "fabs",
        Op::Sqrt => "sqrt",
        Op::Floor => "floor",
        Op::Ceil => "ceil",
        Op::Trunc => "trunc",
        Op::Nearest => "nearest",
        Op::Not => "not",
        Op::Clz => "clz",
        Op::Popcnt => "popcnt",
        Op::FAdd => "fadd",
        Op::FSub => "fsub",
        Op::FMul => "fmul",
        Op::FDiv => "fdiv",
        Op::Fma => "fma",
        Op::FMinPseudo => "fmin_pseudo",
        Op::FMaxPseudo => "fmax_pseudo",
        Op::IAdd => "iadd",
        Op::ISub => "isub",
        Op::IMul => "imul",
        Op::SMulHi => "smulhi",
        Op::UMulHi => "umulhi",
        Op::SDiv => "sdiv",
        Op::UDiv => "udiv",
        Op::SRem => "srem",
        Op::URem => "urem",
        Op::SMin => "smin",
        Op::SMax => "smax",
        Op::UMin => "umin",
        Op::UMax => "umax",
        Op::And => "and",
        Op::Or => "or",
        Op::Xor => "xor",
        Op::ShlImm(_) | Op::Shl => "shl",
        Op::LShrImm(_) | Op::LShr => "lshr",
        Op::AShrImm(_) | Op::AShr => "ashr",
        Op::FCmp(c) => match c {
            FloatCond::Eq => "fcmp.eq",
            FloatCond::Ne => "fcmp.ne",
            FloatCond::Lt => "fcmp.lt",
            FloatCond::Le => "fcmp.le",
            FloatCond::Gt => "fcmp.gt",
            FloatCond::Ge => "fcmp.ge",
            FloatCond::Uno => "fcmp.uno",
        },
        Op::ICmp(c) => match c {
            IntCond::Eq => "icmp.eq",
            IntCond::Ne => "icmp.ne",
            IntCond::SLt => "icmp.slt",
            IntCond::SLe => "icmp.sle",
            IntCond::SGt => "icmp.sgt",
            IntCond::SGe => "icmp.sge",
            IntCond::ULt => "icmp.ult",
            IntCond::ULe => "icmp.ule",
            IntCond::UGt => "icmp.ugt",
            IntCond::UGe => "icmp.uge",
        },
        Op::Select => "select",
        Op::Bitcast => "bitcast",
        Op::SToF => "s_to_f",
        Op::UToF => "u_to_f",
        Op::FToS => "f_to_s",
        Op::FToU => "f_to_u",
        Op::FToSFast => "f_to_s_fast",
        Op::Promote => "promote",
        Op::Demote => "demote",
        Op::SExt => "sext",
        Op::UExt => "uext",
        Op::Wrap => "wrap",
        Op::MaskCast => "mask_cast",
        Op::MaskToInt => "mask_to_int",
    }
}
