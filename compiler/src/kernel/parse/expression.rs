//! What stands inside a line: nodes, operands, constants and index expressions.

use super::{Inside, Named, Read};
use crate::kernel::body::{FloatCond, IntCond, Mem, NodeId, Op, ScalarType};
use crate::kernel::index::{Axis, Ix};
use crate::kernel::text::mnemonic;
use hashbrown::HashMap;

/// A place in a line.
pub(super) struct Cursor<'t> {
    rest: &'t str,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Cursor<'t> {
        Cursor { rest: text }
    }

    pub(super) fn rest(&self) -> &'t str {
        self.rest
    }

    pub(super) fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn end(&self) -> Read<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("'{}' is left over", self.rest)) }
    }

    pub(super) fn eat(&mut self, what: &str) -> bool {
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn expect(&mut self, what: &str) -> Read<()> {
        if self.eat(what) { Ok(()) } else { Err(format!("expected '{what}', found '{}'", self.rest)) }
    }

    /// What stands before `what`, or everything.
    pub(super) fn until(&mut self, what: &str) -> &'t str {
        let (before, rest) = self.rest.split_at(self.rest.find(what).unwrap_or(self.rest.len()));
        self.rest = rest;
        before
    }

    /// Letters, digits and underscores.
    pub(super) fn word(&mut self) -> &'t str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    pub(super) fn integer(&mut self) -> Read<i64> {
        let digits = self.rest.strip_prefix('-').unwrap_or(self.rest);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let (number, rest) = self.rest.split_at(end + self.rest.len() - digits.len());
        let value = number.parse().map_err(|_| format!("expected a number, found '{}'", self.rest))?;
        self.rest = rest;
        Ok(value)
    }
}

/// A scalar type by its name.
pub(super) fn scalar(name: &str) -> Read<ScalarType> {
    let all = [ScalarType::I32, ScalarType::I64, ScalarType::F32, ScalarType::F64, ScalarType::M32, ScalarType::M64];
    all.into_iter().find(|l| l.to_string() == name).ok_or_else(|| format!("'{name}' is no scalar type"))
}

/// A memory form by its name.
pub(super) fn mem(name: &str) -> Read<Mem> {
    let all = [Mem::S8, Mem::U8, Mem::S16, Mem::U16, Mem::I32, Mem::I64, Mem::F32, Mem::F64];
    all.into_iter().find(|m| m.to_string() == name).ok_or_else(|| format!("'{name}' is no form of memory"))
}

/// The bits of a constant of a scalar type.
pub(super) fn constant(text: &str, scalar: ScalarType) -> Read<u64> {
    let wrong = || format!("'{text}' is no {scalar}");
    if let Some(bits) = text.strip_prefix("nan:0x") {
        return u64::from_str_radix(bits, 16).map_err(|_| wrong());
    }
    match scalar {
        ScalarType::I32 => text.parse::<i32>().map(|v| u64::from(v as u32)).map_err(|_| wrong()),
        ScalarType::I64 => text.parse::<i64>().map(|v| v as u64).map_err(|_| wrong()),
        ScalarType::M32 | ScalarType::M64 => text.parse::<bool>().map(u64::from).map_err(|_| wrong()),
        ScalarType::F32 => text.parse::<f32>().map(|v| u64::from(v.to_bits())).map_err(|_| wrong()),
        ScalarType::F64 => text.parse::<f64>().map(f64::to_bits).map_err(|_| wrong()),
    }
}

/// What names mean in a body.
pub(super) struct Scope<'s> {
    pub axes: &'s HashMap<u32, i64>,
    pub buffers: &'s HashMap<String, u32>,
    pub args: &'s HashMap<String, (u32, ScalarType)>,
    pub nest: Option<&'s Inside>,
}

/// The operations without a payload; shifts by constants and comparisons are made from their names.
const OPERATIONS: &[Op] = &[
    Op::FNeg,
    Op::FAbs,
    Op::Sqrt,
    Op::Floor,
    Op::Ceil,
    Op::Trunc,
    Op::Nearest,
    Op::Not,
    Op::Clz,
    Op::Popcnt,
    Op::FAdd,
    Op::FSub,
    Op::FMul,
    Op::FDiv,
    Op::Fma,
    Op::FMinPseudo,
    Op::FMaxPseudo,
    Op::IAdd,
    Op::ISub,
    Op::IMul,
    Op::SMulHi,
    Op::UMulHi,
    Op::SDiv,
    Op::UDiv,
    Op::SRem,
    Op::URem,
    Op::SMin,
    Op::SMax,
    Op::UMin,
    Op::UMax,
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Shl,
    Op::LShr,
    Op::AShr,
    Op::FCmp(FloatCond::Eq),
    Op::FCmp(FloatCond::Ne),
    Op::FCmp(FloatCond::Lt),
    Op::FCmp(FloatCond::Le),
    Op::FCmp(FloatCond::Gt),
    Op::FCmp(FloatCond::Ge),
    Op::FCmp(FloatCond::Uno),
    Op::ICmp(IntCond::Eq),
    Op::ICmp(IntCond::Ne),
    Op::ICmp(IntCond::SLt),
    Op::ICmp(IntCond::SLe),
    Op::ICmp(IntCond::SGt),
    Op::ICmp(IntCond::SGe),
    Op::ICmp(IntCond::ULt),
    Op::ICmp(IntCond::ULe),
    Op::ICmp(IntCond::UGt),
    Op::ICmp(IntCond::UGe),
    Op::Select,
    Op::Bitcast,
    Op::SToF,
    Op::UToF,
    Op::FToS,
    Op::FToU,
    Op::FToSFast,
    Op::Promote,
    Op::Demote,
    Op::SExt,
    Op::UExt,
    Op::Wrap,
    Op::MaskCast,
    Op::MaskToInt,
];

impl Scope<'_> {
    /// `%5 = fadd %3, 1.0 : f32`
    pub(super) fn node(&self, named: &mut Named, line: &str) -> Read<()> {
        let (number, rest) = line.strip_prefix('%').and_then(|l| l.split_once(" = ")).ok_or("expected a node")?;
        let number: u32 = number.parse().map_err(|_| format!("'{number}' is no number of a node"))?;
        let (what, form) = rest.rsplit_once(" : ").ok_or("a node has a scalar type")?;
        let (name, operands) = what.split_once(' ').ok_or("a node has operands")?;
        let id = match name {
            "load" => self.load(named, operands, form)?,
            "index" => {
                let mut c = Cursor::new(operands);
                let ix = self.index(named, &mut c)?;
                c.end()?;
                named.body.push(Op::Index(ix), &[], scalar(form)?)
            }
            _ => {
                let scalar = scalar(form)?;
                let mut texts: Vec<&str> = operands.split(", ").collect();
                let op = match (name, texts.as_slice()) {
                    ("shl" | "lshr" | "ashr", [_, by]) if !by.starts_with('%') && !self.args.contains_key(*by) => {
                        let by: u8 = by.parse().map_err(|_| format!("'{by}' is no amount"))?;
                        texts.pop();
                        match name {
                            "shl" => Op::ShlImm(by),
                            "lshr" => Op::LShrImm(by),
                            _ => Op::AShrImm(by),
                        }
                    }
                    _ => {
                        let found = OPERATIONS.iter().find(|o| mnemonic(o) == name);
                        found.cloned().ok_or_else(|| format!("'{name}' is no operation"))?
                    }
                };
                let args = self.operands(named, &op, scalar, &texts)?;
                named.body.push(op, &args, scalar)
            }
        };
        if named.nodes.insert(number, id).is_some() {
            return Err(format!("%{number} is defined twice"));
        }
        Ok(())
    }

    fn load(&self, named: &mut Named, operands: &str, form: &str) -> Read<NodeId> {
        let mut c = Cursor::new(operands);
        let source = c.until("[");
        c.expect("[")?;
        if let (Some(row), Some(_)) = (source.strip_prefix("row"), self.nest) {
            let row = row.parse().map_err(|_| format!("'{row}' is no row"))?;
            return Ok(named.body.push(Op::Row(row), &[], scalar(form)?));
        }
        let buffer = *self.buffers.get(source).ok_or_else(|| format!("there is no buffer '{source}'"))?;
        let ix = self.index(named, &mut c)?;
        c.expect("]")?;
        c.end()?;
        let (form, as_type) = match form.split_once(" as ") {
            Some((form, l)) => (mem(form)?, scalar(l)?),
            None => (mem(form)?, mem(form)?.scalar()),
        };
        Ok(named.body.push(Op::Load(buffer, form, ix), &[], as_type))
    }

    fn operands(&self, named: &mut Named, op: &Op, yields: ScalarType, texts: &[&str]) -> Read<Vec<NodeId>> {
        let mut out: Vec<Option<NodeId>> = Vec::new();
        for text in texts {
            out.push(self.defined(named, text)?);
        }
        let known = out.iter().flatten().next().map(|&n| named.body.scalar(n));
        let mut args = Vec::with_capacity(out.len());
        for (k, (found, text)) in out.iter().zip(texts).enumerate() {
            let scalar = match op {
                Op::FCmp(_) | Op::ICmp(_) => known,
                Op::Select if k == 0 => Some(yields.mask()),
                _ => Some(yields),
            };
            args.push(match (found, scalar) {
                (Some(id), _) => *id,
                (None, Some(scalar)) => named.body.bits(scalar, constant(text, scalar)?),
                (None, None) => return Err(format!("'{text}' has no scalar type")),
            });
        }
        Ok(args)
    }

    /// What is no constant.
    fn defined(&self, named: &mut Named, text: &str) -> Read<Option<NodeId>> {
        if let Some(number) = text.strip_prefix('%') {
            let id = number.parse().ok().and_then(|n: u32| named.nodes.get(&n));
            return id.copied().map(Some).ok_or_else(|| format!("{text} is not defined"));
        }
        if let Some(&(n, scalar)) = self.args.get(text) {
            return Ok(Some(named.body.arg(n, scalar)));
        }
        if let (Some(nest), Some(Ok(r))) = (self.nest, text.strip_prefix('r').map(str::parse::<u32>)) {
            let scalar = *nest.results.get(&r).ok_or_else(|| format!("{text} is not folded yet"))?;
            return Ok(Some(named.body.push(Op::Result(r), &[], scalar)));
        }
        Ok(None)
    }

    /// An operand; `scalar` is that of a constant.
    pub(super) fn operand(&self, named: &mut Named, text: &str, scalar: Option<ScalarType>) -> Read<NodeId> {
        match (self.defined(named, text)?, scalar) {
            (Some(id), _) => Ok(id),
            (None, Some(scalar)) => Ok(named.body.bits(scalar, constant(text, scalar)?)),
            (None, None) => Err(format!("'{text}' is not defined")),
        }
    }

    /// An index expression, up to what cannot belong to one.
    pub(super) fn index(&self, named: &Named, c: &mut Cursor<'_>) -> Read<Ix> {
        let mut sum = Ix::default();
        let mut sign = if c.eat("-") { -1 } else { 1 };
        loop {
            let digits = c.rest().starts_with(|d: char| d.is_ascii_digit());
            let coefficient = if digits { Some(c.integer()?) } else { None };
            let term = match coefficient {
                Some(n) if !c.eat("*") => Ix::constant(n),
                n => self.atom(named, c)?.scale(n.unwrap_or(1)),
            };
            sum = sum.add(&term.scale(sign));
            sign = match (c.eat(" + "), !c.rest().starts_with(" - ")) {
                (true, _) => 1,
                (false, true) => return Ok(sum),
                (false, false) => {
                    c.expect(" - ")?;
                    -1
                }
            };
        }
    }

    fn atom(&self, named: &Named, c: &mut Cursor<'_>) -> Read<Ix> {
        if c.eat("i") {
            let axis = u32::try_from(c.integer()?).map_err(|_| "a loop's number is not negative")?;
            let extent = *self.axes.get(&axis).ok_or_else(|| format!("the loop i{axis} does not run here"))?;
            return Ok(Ix::axis(Axis(axis), extent));
        }
        if c.eat("(%") {
            let number = u32::try_from(c.integer()?).map_err(|_| "a node's number is not negative")?;
            let id = *named.nodes.get(&number).ok_or_else(|| format!("%{number} is not defined"))?;
            c.expect(" in ")?;
            let low = c.integer()?;
            c.expect("..=")?;
            let high = c.integer()?;
            c.expect(")")?;
            return Ok(named.body.offset(id, low, high));
        }
        c.expect("((")?;
        let inner = self.index(named, c)?;
        let divides = match (c.eat(") / "), c.eat(") % ")) {
            (true, _) => true,
            (_, true) => false,
            _ => return Err(format!("expected '/' or '%', found '{}'", c.rest())),
        };
        let by = c.integer()?;
        c.expect(")")?;
        if by <= 0 {
            return Err(format!("division by {by}"));
        }
        Ok(if divides { inner.div(by) } else { inner.rem(by) })
    }
}
