//! Kernels read from their text.
//!
//! **Problem.** A kernel that an emitter gets wrong should become a small file that is run through every emitter for good,
//! and the verifier's rules want kernels that no lowering makes.
//!
//! **Invariant.** What [`super::text`] prints of a kernel without calls reads back as a kernel that computes the same; its
//! nodes may have other numbers. Anything else is a syntax error with its line. What is read is not verified yet.
//!
//! **Algorithm.** A line is a phase, a stage, a node, a store, and so on by its first words ([`Reader`]); what stands inside
//! a line is read by [`expression`].

mod expression;
#[cfg(test)]
mod tests;

use super::body::{Body, Mem, NodeId, ScalarType};
use super::index::Axis;
use super::ir::{
    Accumulator, Buffer, Contraction, Kernel, Loop, Nest, Panel, Phase, Place, Product, Role, RowBuffer, Stage, Store,
};
use super::registers::{RegisterLoop, StateArray};
use super::sort::{Sort, SortKey, SortOperand};
use crate::error::{Error, Result, Site};
use crate::hlo::SourceLocation;
use expression::{Cursor, Scope};
use hashbrown::HashMap;

/// Reads the kernels of a text; lines that begin with `//` are comments.
///
/// # Errors
/// [`Error::Syntax`] with the line.
pub fn parse(text: &str) -> Result<Vec<Kernel>> {
    let lines = (1u32..).zip(text.lines()).map(|(n, l)| (n, l.trim())).filter(|(_, l)| !l.is_empty());
    let lines: Vec<(u32, &str)> = lines.filter(|(_, l)| !l.starts_with("//")).collect();
    let mut reader = Reader { lines, at: 0, buffers: HashMap::new(), axes: HashMap::new() };
    let mut kernels = Vec::new();
    while reader.at < reader.lines.len() {
        let line = reader.number();
        let kernel = reader.kernel().map_err(|message| {
            let number = reader.lines.get(reader.at.saturating_sub(1)).map_or(line, |l| l.0);
            let location = SourceLocation { line: number, ..SourceLocation::default() };
            Error::Syntax { site: Site { location, ..Site::default() }, message }
        })?;
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// A syntax error without its line.
type Read<T> = std::result::Result<T, String>;

struct Reader<'a> {
    lines: Vec<(u32, &'a str)>,
    at: usize,
    /// Numbers of the buffers by name.
    buffers: HashMap<String, u32>,
    /// Extents of the loops that run, by number.
    axes: HashMap<u32, i64>,
}

fn rest_of<'l>(line: &'l str, prefix: &str) -> Option<&'l str> {
    line.strip_prefix(prefix)
}

impl<'a> Reader<'a> {
    fn number(&self) -> u32 {
        self.lines.get(self.at).map_or(0, |l| l.0)
    }

    fn peek(&self) -> &'a str {
        self.lines.get(self.at).map_or("", |l| l.1)
    }

    /// The next line, whatever it is.
    fn next(&mut self) -> Read<&'a str> {
        let line = self.lines.get(self.at).ok_or("the text ends early")?.1;
        self.at += 1;
        Ok(line)
    }

    /// The rest of the next line where it begins with `prefix`.
    fn take(&mut self, prefix: &str) -> Option<&'a str> {
        let rest = rest_of(self.peek(), prefix)?;
        self.at += 1;
        Some(rest)
    }

    fn expect(&mut self, prefix: &str) -> Read<&'a str> {
        let line = self.next()?;
        rest_of(line, prefix).ok_or_else(|| format!("expected '{}', found '{line}'", prefix.trim()))
    }

    fn kernel(&mut self) -> Read<Kernel> {
        self.buffers.clear();
        let line = self.expect("kernel ")?;
        let (head, source) = line.split_once("  // line ").unwrap_or((line, "0"));
        let source_line = source.parse().map_err(|_| format!("'{source}' is no line"))?;
        let mut c = Cursor::new(head);
        let name = c.until(" (").to_owned();
        let mut declared: Vec<(String, Buffer, Option<String>)> = Vec::new();
        for (start, role) in [(" (", Role::Input), (" -> (", Role::Output), (", scratch (", Role::Scratch)] {
            if role == Role::Scratch && c.at_end() {
                continue;
            }
            c.expect(start)?;
            while !c.eat(")") {
                let name = c.until(": ").to_owned();
                c.expect(": ")?;
                let ty = c.until("[");
                let ty = ty.parse().map_err(|_| format!("'{ty}' is no element type"))?;
                c.expect("[")?;
                let elements = usize::try_from(c.integer()?).map_err(|_| "a buffer has a number of elements")?;
                c.expect("]")?;
                let over = if c.eat(" over ") { Some(c.word().to_owned()) } else { None };
                declared.push((name, Buffer { ty, elements, role }, over));
                c.eat(", ");
            }
        }
        c.end()?;
        for (n, (name, ..)) in (0u32..).zip(&declared) {
            if self.buffers.insert(name.clone(), n).is_some() {
                return Err(format!("'{name}' is declared twice"));
            }
        }
        let mut buffers = Vec::new();
        for (_, mut buffer, over) in declared {
            if let Some(over) = over {
                buffer.role = Role::Update { of: self.buffer(&over)? };
            }
            buffers.push(buffer);
        }
        let mut in_place = Vec::new();
        while let Some(pair) = self.take("may be one memory: ") {
            let (out, input) = pair.split_once(", ").ok_or("expected two buffers")?;
            in_place.push((self.buffer(out)?, self.buffer(input)?));
        }
        let mut phases = Vec::new();
        while !self.peek().is_empty() && !self.peek().starts_with("kernel ") {
            self.axes.clear();
            let line = self.next()?;
            phases.push(if let Some(rest) = rest_of(line, "phase contraction ") {
                Phase::Contraction(Box::new(self.contraction(rest)?))
            } else if let Some(rest) = rest_of(line, "phase sort") {
                Phase::Sort(Box::new(self.sort(rest)?))
            } else if line == "phase in registers" {
                Phase::Registers(Box::new(self.registers(&buffers)?))
            } else if let Some(rest) = rest_of(line, "random state, advanced by ") {
                Phase::RandomState { delta: rest.parse().map_err(|_| format!("'{rest}' is no number"))? }
            } else if let Some(rest) = rest_of(line, "phase") {
                Phase::Nest(self.nest(rest)?)
            } else {
                return Err(format!("expected a phase, found '{line}'"));
            });
        }
        Ok(Kernel { name, buffers, phases, in_place, line: source_line, source: None })
    }

    fn buffer(&self, name: &str) -> Read<u32> {
        self.buffers.get(name).copied().ok_or_else(|| format!("there is no buffer '{name}'"))
    }

    /// ` role i0 in 8, i1 in 4`, where it stands there.
    fn loops(&mut self, c: &mut Cursor<'_>, role: &str) -> Read<Vec<Loop>> {
        let mut loops = Vec::new();
        if c.eat(&format!(" {role} ")) {
            loop {
                c.expect("i")?;
                let axis = u32::try_from(c.integer()?).map_err(|_| "a loop's number is not negative")?;
                c.expect(" in ")?;
                let extent = c.integer()?;
                self.axes.insert(axis, extent);
                loops.push(Loop { axis: Axis(axis), extent });
                if !c.eat(", ") {
                    break;
                }
            }
        }
        Ok(loops)
    }

    fn one_loop(&mut self, c: &mut Cursor<'_>, role: &str) -> Read<Loop> {
        let loops = self.loops(c, role)?;
        let &[one] = loops.as_slice() else { return Err(format!("expected '{role}' with one loop")) };
        Ok(one)
    }

    fn scope<'s>(&'s self, args: &'s HashMap<String, (u32, ScalarType)>, nest: Option<&'s Inside>) -> Scope<'s> {
        Scope { axes: &self.axes, buffers: &self.buffers, args, nest }
    }

    /// The nodes that come next.
    fn body(&mut self, args: &HashMap<String, (u32, ScalarType)>, nest: Option<&Inside>) -> Read<Named> {
        let mut named = Named::default();
        while self.peek().starts_with('%') {
            let line = self.next()?;
            self.scope(args, nest).node(&mut named, line)?;
        }
        Ok(named)
    }

    /// `yield a, b`, after its nodes.
    fn yielded(
        &mut self,
        named: &mut Named,
        args: &HashMap<String, (u32, ScalarType)>,
        scalar: ScalarType,
    ) -> Read<Vec<NodeId>> {
        let rest = self.expect("yield ")?;
        let scope = self.scope(args, None);
        rest.split(", ").map(|o| scope.operand(named, o, Some(scalar))).collect()
    }

    fn stores(
        &mut self,
        named: &mut Named,
        args: &HashMap<String, (u32, ScalarType)>,
        inside: Option<&Inside>,
    ) -> Read<(Vec<Store>, RowStores)> {
        let (mut stores, mut row_stores) = (Vec::new(), Vec::new());
        while let Some(rest) = self.take("store ") {
            let scope = self.scope(args, inside);
            let mut c = Cursor::new(rest);
            let target = c.until("[");
            c.expect("[")?;
            if let (Some(row), Some(inside)) = (rest_of(target, "row"), inside) {
                let row: u32 = row.parse().map_err(|_| format!("'{row}' is no row"))?;
                let scalar = inside.rows.get(row as usize).ok_or_else(|| format!("there is no row{row}"))?.scalar;
                c.until("]");
                c.expect("] = ")?;
                row_stores.push((row, scope.operand(named, c.rest(), Some(scalar))?));
                continue;
            }
            let buffer = self.buffer(target)?;
            let index = scope.index(named, &mut c)?;
            c.expect("] = ")?;
            let (value, mem) = c.rest().split_once(" : ").ok_or("a store names the form of its element")?;
            let mem = expression::mem(mem)?;
            let value = scope.operand(named, value, Some(mem.scalar()))?;
            stores.push(Store { buffer, mem, index, value });
        }
        Ok((stores, row_stores))
    }

    fn nest(&mut self, head: &str) -> Read<Nest> {
        let mut c = Cursor::new(head);
        let parallel = self.loops(&mut c, "parallel")?;
        c.end()?;
        let outside = self.axes.clone();
        let mut inside = Inside::default();
        while let Some(rest) = self.take("row buffer row") {
            let mut c = Cursor::new(rest);
            if c.integer()? != inside.rows.len() as i64 {
                return Err("row buffers are numbered in order".to_owned());
            }
            c.expect(": ")?;
            let scalar = expression::scalar(c.until("["))?;
            c.expect("[")?;
            let elements = c.integer()?;
            c.expect("]")?;
            inside.rows.push(RowBuffer { scalar, elements });
        }
        let mut stages = Vec::new();
        while let Some(rest) = self.take("stage") {
            self.axes.clone_from(&outside);
            stages.push(self.stage(rest, &mut inside)?);
        }
        Ok(Nest { parallel, rows: inside.rows, stages })
    }

    fn stage(&mut self, head: &str, inside: &mut Inside) -> Read<Stage> {
        let mut c = Cursor::new(head);
        let sequential = self.loops(&mut c, "sequential")?;
        let vector = match self.loops(&mut c, "vector")?.as_slice() {
            [] => Loop { axis: Axis(self.axes.keys().copied().max().map_or(0, |a| a + 1)), extent: 1 },
            &[one] => one,
            _ => return Err("a stage has one vector axis".to_owned()),
        };
        let (regroups, streams) = (c.eat(" in any grouping"), c.eat(" past the caches"));
        c.end()?;
        let none = HashMap::new();
        let mut named = self.body(&none, Some(inside))?;
        let mut accumulators = Vec::new();
        let mut finished = Vec::new();
        while let Some(rest) = self.take("fold ") {
            accumulators.push(self.accumulator(rest, &mut named, inside, &mut finished)?);
        }
        let (stores, row_stores) = self.stores(&mut named, &none, Some(inside))?;
        inside.results.extend(finished);
        Ok(Stage { sequential, vector, body: named.body, accumulators, stores, row_stores, regroups, streams })
    }

    fn accumulator(
        &mut self,
        head: &str,
        named: &mut Named,
        inside: &Inside,
        finished: &mut Vec<(u32, ScalarType)>,
    ) -> Read<Accumulator> {
        let (places, rest) = head.split_once(" of ").ok_or("a fold says of what")?;
        let (values, rest) = rest.split_once(" over ").ok_or("a fold says over which loops")?;
        let (loops, init) = rest.split_once(", init ").ok_or("a fold has initial values")?;
        let splits = !loops.ends_with(" in order");
        let (init, identity) = match init.split_once(", identity ") {
            Some((init, identity)) => (init, Some(identity)),
            None => (init, None),
        };
        let with = self.expect("with (")?.strip_suffix(')').ok_or("expected ')'")?;
        let (mut args, mut scalars) = (HashMap::new(), Vec::new());
        for (n, arg) in (0u32..).zip(with.split(", ")) {
            let (name, scalar) = arg.split_once(": ").ok_or("an argument has a scalar type")?;
            let scalar = expression::scalar(scalar)?;
            args.insert(name.to_owned(), (n, scalar));
            scalars.push(scalar);
        }
        let none = HashMap::new();
        let scope = self.scope(&none, Some(inside));
        let places: Vec<&str> = places.split(", ").collect();
        let n = places.len();
        let operands = |named: &mut Named, list: &str, scalars: &[ScalarType]| -> Read<Vec<NodeId>> {
            let items: Vec<&str> = list.split(", ").collect();
            if items.len() != scalars.len() {
                return Err(format!("expected {} operands, found '{list}'", scalars.len()));
            }
            items.iter().zip(scalars).map(|(o, &scalar)| scope.operand(named, o, Some(scalar))).collect()
        };
        let (old, new) = scalars.split_at_checked(n).ok_or("a combiner has an argument for each result")?;
        let init = operands(named, init, old)?;
        let values = operands(named, values, new)?;
        let identity = match identity {
            Some(list) => {
                let bits = list.split(", ").zip(old).map(|(o, &scalar)| expression::constant(o, scalar));
                Some(bits.collect::<Read<Vec<u64>>>()?)
            }
            None => None,
        };
        let numbers = |prefix: &str| -> Option<Vec<u32>> {
            places.iter().map(|p| p.split('[').next()?.strip_prefix(prefix)?.parse().ok()).collect()
        };
        let place = match (numbers("row"), numbers("r")) {
            (Some(rows), _) => Place::Row { rows },
            (None, Some(results)) => {
                finished.extend(results.iter().copied().zip(old.iter().copied()));
                Place::Lanes { results }
            }
            (None, None) => return Err(format!("'{}' are no places", places.join(", "))),
        };
        let mut combiner = self.body(&args, None)?;
        let rest = self.expect("yield ")?;
        let scope = self.scope(&args, None);
        let roots = rest.split(", ").zip(old).map(|(o, &scalar)| scope.operand(&mut combiner, o, Some(scalar)));
        let roots = roots.collect::<Read<Vec<NodeId>>>()?;
        Ok(Accumulator { init, values, identity, combine: combiner.body, roots, splits, place })
    }

    fn contraction(&mut self, head: &str) -> Read<Contraction> {
        let mut c = Cursor::new(head);
        let name = c.until(" ");
        let product = Product::ALL.iter().find(|(_, n)| *n == name).map(|(product, _)| *product);
        let product = product.ok_or_else(|| format!("'{name}' is no product"))?;
        let batch = self.loops(&mut c, "batch")?;
        let m = self.one_loop(&mut c, "m")?;
        let n = self.one_loop(&mut c, "n")?;
        let k = self.one_loop(&mut c, "k")?;
        let block = if c.eat(" in blocks of ") { c.integer()? } else { k.extent };
        c.end()?;
        let none = HashMap::new();
        let panel = |this: &mut Self, side: &str| -> Read<Panel> {
            let rest = this.expect(side)?;
            let mut c = Cursor::new(rest);
            let buffer = this.buffer(c.until("["))?;
            c.expect("[")?;
            let index = this.scope(&none, None).index(&Named::default(), &mut c)?;
            c.expect("]")?;
            Ok(Panel { buffer, index })
        };
        let lhs = panel(self, "lhs ")?;
        let rhs = panel(self, "rhs ")?;
        let subnormal = match self.take("subnormal where ") {
            Some(name) => Some(self.buffer(name)?),
            None => None,
        };
        self.expect("epilogue (sum)")?;
        let args = HashMap::from([("sum".to_owned(), (0, product.mem().scalar()))]);
        let mut epilogue = self.body(&args, None)?;
        let (stores, _) = self.stores(&mut epilogue, &args, None)?;
        let epilogue = epilogue.body;
        Ok(Contraction { product, batch, m, n, k, block, lhs, rhs, epilogue, stores, subnormal, source: None })
    }

    fn sort(&mut self, head: &str) -> Read<Sort> {
        let mut c = Cursor::new(head);
        let parallel = self.loops(&mut c, "parallel")?;
        let row = self.one_loop(&mut c, "row")?;
        c.end()?;
        let none = HashMap::new();
        let mut load = self.body(&none, None)?;
        let (mut operands, mut keep) = (Vec::new(), row.extent);
        while let Some(rest) = self.take("operand ") {
            let (_, rest) = rest.split_once(" is ").ok_or("an operand is a node")?;
            let (rest, limit) = match rest.split_once("] for ") {
                Some((rest, limit)) => (format!("{rest}]"), Some(limit)),
                None => (rest.to_owned(), None),
            };
            if let Some(limit) = limit {
                let (_, n) = limit.split_once(" below ").ok_or("expected 'below'")?;
                keep = n.parse().map_err(|_| format!("'{n}' is no number"))?;
            }
            let (value, rest) = rest.split_once(" : ").ok_or("an operand has a form")?;
            let (form, store) = match rest.split_once(", stored in ") {
                Some((form, place)) => (form, Some(place)),
                None => (rest, None),
            };
            let mem: Mem = expression::mem(form)?;
            let scope = self.scope(&none, None);
            let value = scope.operand(&mut load, value, Some(mem.scalar()))?;
            let store = match store {
                None => None,
                Some(place) => {
                    let mut c = Cursor::new(place);
                    let buffer = self.buffer(c.until("["))?;
                    c.expect("[")?;
                    let index = scope.index(&load, &mut c)?;
                    c.expect("]")?;
                    Some((buffer, index))
                }
            };
            operands.push(SortOperand { mem, value, store });
        }
        let mut key = None;
        if self.take("by the key").is_some() {
            let args = (0u32..).zip(&operands).map(|(k, o)| (format!("x{k}"), (k, o.mem.scalar()))).collect();
            let mut named = self.body(&args, None)?;
            let rest = self.expect("yield ")?;
            let (root, bits) = rest.split_once(" of ").ok_or("a key has bits")?;
            let bits = bits.strip_suffix(" bits").and_then(|b| b.parse().ok()).ok_or("a key has bits")?;
            let scalar = if bits > 32 { ScalarType::I64 } else { ScalarType::I32 };
            let root = self.scope(&args, None).operand(&mut named, root, Some(scalar))?;
            let unordered = match self.take("or, where ") {
                Some(rest) => {
                    let n = rest.strip_suffix(" of any element,").ok_or("expected 'of any element,'")?;
                    Some(self.scope(&args, None).operand(&mut named, n, Some(ScalarType::M32))?)
                }
                None => None,
            };
            key = Some(SortKey { body: named.body, root, bits, unordered });
        }
        self.expect("x before y where")?;
        let mut args = HashMap::new();
        for (k, o) in (0u32..).zip(&operands) {
            args.insert(format!("x{k}"), (2 * k, o.mem.scalar()));
            args.insert(format!("y{k}"), (2 * k + 1, o.mem.scalar()));
        }
        let mut comparator = self.body(&args, None)?;
        let before = self.yielded(&mut comparator, &args, ScalarType::M32)?;
        let &[before] = before.as_slice() else { return Err("a comparator yields one mask".to_owned()) };
        Ok(Sort { parallel, row, load: load.body, operands, keep, comparator: comparator.body, before, key })
    }

    fn registers(&mut self, buffers: &[Buffer]) -> Read<RegisterLoop> {
        let (mut state, mut decode, mut scalars) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = Vec::new();
        while self.peek().starts_with('s') && self.peek().contains(" = load ") {
            let line = self.next()?;
            let (_, form) = line.rsplit_once(" : ").ok_or("a state has a form")?;
            let mem = expression::mem(form)?;
            let k = state.len();
            let buffer = buffers.get(k).ok_or("a state has a buffer")?;
            state.push(StateArray { mem, ty: buffer.ty, elements: buffer.elements });
            let conversion = self.conversion("decode (x)", mem.scalar(), None)?;
            scalars.push(conversion.0.scalar(conversion.1));
            decode.push(conversion);
            let name = |i: usize| if buffer.elements == 1 { format!("s{k}") } else { format!("s{k}[{i}]") };
            names.extend((0..buffer.elements).map(name));
        }
        let each = state.iter().zip(&scalars).flat_map(|(s, &scalar)| std::iter::repeat_n(scalar, s.elements));
        let args: HashMap<String, (u32, ScalarType)> =
            names.iter().zip(0u32..).zip(each).map(|((name, n), scalar)| (name.clone(), (n, scalar))).collect();
        self.expect("while")?;
        let mut condition = self.body(&args, None)?;
        let root = self.yielded(&mut condition, &args, ScalarType::M32)?;
        let &[root] = root.as_slice() else { return Err("a condition is one mask".to_owned()) };
        self.expect("do")?;
        let mut body = self.body(&args, None)?;
        let next = self.next()?.strip_prefix("next").ok_or("expected 'next'")?.trim();
        let mut roots: Vec<NodeId> = Vec::new();
        for name in &names {
            roots.push(self.scope(&args, None).operand(&mut body, name, None)?);
        }
        for change in next.split(", ").filter(|c| !c.is_empty()) {
            let (name, value) = change.split_once(" = ").ok_or("a change has a value")?;
            let &(n, scalar) = args.get(name).ok_or_else(|| format!("there is no '{name}'"))?;
            roots[n as usize] = self.scope(&args, None).operand(&mut body, value, Some(scalar))?;
        }
        let mut encode = Vec::new();
        for (s, &scalar) in state.iter().zip(&scalars) {
            encode.push(self.conversion("encode (x)", scalar, Some(s.mem.scalar()))?);
            self.expect("store ")?;
        }
        Ok(RegisterLoop { state, decode, encode, condition: (condition.body, root), body: (body.body, roots) })
    }

    /// A conversion of an element `x`, where there is any.
    fn conversion(&mut self, head: &str, from: ScalarType, to: Option<ScalarType>) -> Read<(Body, NodeId)> {
        let args = HashMap::from([("x".to_owned(), (0, from))]);
        if self.take(head).is_none() {
            let mut body = Body::new();
            let x = body.arg(0, from);
            return Ok((body, x));
        }
        let mut named = self.body(&args, None)?;
        let roots = self.yielded(&mut named, &args, to.unwrap_or(from))?;
        let &[root] = roots.as_slice() else { return Err("a conversion yields one element".to_owned()) };
        Ok((named.body, root))
    }
}

/// What a nest's bodies may read besides buffers.
#[derive(Default)]
struct Inside {
    rows: Vec<RowBuffer>,
    results: HashMap<u32, ScalarType>,
}

/// Stores to row buffers, by their numbers.
type RowStores = Vec<(u32, NodeId)>;

/// A body, and its nodes by the numbers that the text gives them.
#[derive(Default)]
struct Named {
    body: Body,
    nodes: HashMap<u32, NodeId>,
}
