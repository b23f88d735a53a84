//! Random graphs: the derivative along a random direction against differences, and how often each operation was differentiated.

use super::{Numbers, results};
use crate::builder::{
    ArrayLiteral, Builder, ElementType, FftKind, GatherDimensions, Literal, Module, Op, Opcode, Padding,
    PaddingDimension, Result, ScatterDimensions, Shape, TransposeKind, default_convolution_dims, scalar_computation,
};
use crate::gradient::reach::{Past, Reach};
use crate::hlo::Category;
use crate::text::parse;
use std::collections::HashMap;
use std::panic::Location;

const F64: ElementType = ElementType::F64;

struct Graph {
    b: Builder,
    numbers: Numbers,
    pool: Vec<Op>,
}

type Unary = fn(&Builder, Op) -> Op;
type Binary = fn(&Builder, Op, Op) -> Op;

/// Functions of any number.
const ANY: &[Unary] = &[
    Builder::neg,
    Builder::abs,
    Builder::sin,
    Builder::cos,
    Builder::tanh,
    Builder::logistic,
    Builder::erf,
    Builder::asinh,
    Builder::floor,
    Builder::ceil,
    Builder::sign,
    Builder::round,
    Builder::round_nearest_even,
    Builder::copy,
    Builder::optimization_barrier,
    |b, x| b.reduce_precision(x, 11, 52),
    |b, x| b.add_dependency(x, b.after_all(&[])),
    |b, x| written(b, x, "bitcast(x)"),
    |b, x| written(b, x, "domain(x), domain={kind=\"sharding\", entry={maximal device=0}, exit={maximal device=1}}"),
];
/// Of numbers between -1 and 1.
const SMALL: &[Unary] = &[
    Builder::exp,
    Builder::expm1,
    Builder::tan,
    Builder::asin,
    Builder::acos,
    Builder::atanh,
    Builder::sinh,
    Builder::cosh,
];
/// Of numbers greater than a half.
const POSITIVE: &[Unary] = &[Builder::log, Builder::log1p, Builder::sqrt, Builder::rsqrt, Builder::cbrt, |b, x| {
    b.acosh(b.add(x, b.constant_r0(0.9)))
}];

/// A product for which the builder has no method, of a type and sizes.
fn product(b: &Builder, operands: &[Op], shape: &[i64], instruction: &str) -> Op {
    let parameter = |(n, &op): (usize, &Op)| format!(" p{n} = {} parameter({n})\n", b.shape(op).expect("a value"));
    let parameters: String = operands.iter().enumerate().map(parameter).collect();
    let shape = Shape::array(F64, shape);
    let text = format!("HloModule m\nENTRY e {{\n{parameters} ROOT r = {shape} {instruction}\n}}");
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let root = &module.entry().instructions[module.entry().root];
    b.append(Location::caller(), root.opcode, operands, root.attrs.clone(), shape)
}

/// An instruction of the operand `x` for which the builder has no method.
fn written(b: &Builder, x: Op, instruction: &str) -> Op {
    let shape = b.shape(x).expect("a value");
    let text = format!(
        "HloModule m\nf {{\n v = {shape} parameter(0)\n w = {shape} sine(v)\n ROOT p = {shape} multiply(v, w)\n}}
ENTRY e {{\n x = {shape} parameter(0)\n ROOT r = {shape} {instruction}\n}}"
    );
    let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let root = &module.entry().instructions[module.entry().root];
    b.append(Location::caller(), root.opcode, &[x], b.adopt(&module, &root.attrs), shape)
}

impl Graph {
    fn choose(&mut self, count: usize) -> usize {
        ((self.numbers.next() * count as f64) as usize).min(count - 1)
    }

    fn dims(&self, op: Op) -> Vec<i64> {
        self.b.shape(op).ok().and_then(|s| Some(s.as_array()?.dims.clone())).unwrap_or_default()
    }

    fn small(&self, x: Op) -> Op {
        self.b.mul(self.b.constant_r0(0.8), self.b.tanh(x))
    }

    fn positive(&self, x: Op) -> Op {
        self.b.add(self.b.mul(x, x), self.b.constant_r0(0.6))
    }

    /// Some value in as many elements as `dims` have.
    fn like(&mut self, dims: &[i64]) -> Op {
        let some = self.choose(self.pool.len());
        let flat = self.flat(self.pool[some], dims.iter().product());
        self.b.reshape(flat, dims)
    }

    /// `count` elements of a value, repeated where it has fewer.
    fn flat(&self, op: Op, count: i64) -> Op {
        let n: i64 = self.dims(op).iter().product();
        let mut flat = self.b.reshape(op, &[n]);
        if n < count {
            let copies = (count + n - 1) / n;
            flat = self.b.reshape(self.b.broadcast(flat, &[copies]), &[n * copies]);
        }
        self.b.slice_in_dim(flat, 0, count, 1, 0)
    }

    fn elementwise(&mut self, x: Op) -> Op {
        let dims = self.dims(x);
        let y = self.like(&dims);
        match self.choose(6) {
            0 | 5 => ANY[self.choose(ANY.len())](&self.b, x),
            1 => SMALL[self.choose(SMALL.len())](&self.b, self.small(x)),
            2 => POSITIVE[self.choose(POSITIVE.len())](&self.b, self.positive(x)),
            3 => {
                const TWO: &[Binary] =
                    &[Builder::add, Builder::sub, Builder::mul, Builder::max, Builder::min, Builder::atan2];
                TWO[self.choose(TWO.len())](&self.b, x, self.positive(y))
            }
            _ => {
                let b = &self.b;
                let (near, far) = (b.constant_r0(-0.4), b.constant_r0(0.5));
                match (self.numbers.next() * 6.0) as usize {
                    0 => self.b.div(x, self.positive(y)),
                    1 => self.b.pow(self.positive(x), self.small(y)),
                    2 => self.b.rem(x, self.positive(y)),
                    3 => self.b.select(self.b.lt(x, y), self.b.mul(x, y), y),
                    4 => self.b.clamp(near, x, far),
                    _ => {
                        let c = self.b.complex(x, y);
                        let z = self.b.mul(self.b.convert_element_type(x, ElementType::C128), c);
                        self.b.add(self.b.real(z), self.b.imag(z))
                    }
                }
            }
        }
    }

    fn movement(&mut self, x: Op) -> Op {
        let dims = self.dims(x);
        let n: i64 = dims.iter().product();
        let flat = self.flat(x, n);
        let six = self.flat(x, 6);
        let update = self.like(&[3]);
        let at = self.b.constant_r0((self.numbers.next() * 4.0) as i32);
        let b = &self.b;
        let indices = b.constant_r1(&[4i32, 0, 4]);
        match (self.numbers.next() * 10.0) as usize {
            0 => b.transpose(x, &(0..dims.len() as i64).rev().collect::<Vec<_>>()),
            1 => b.rev(flat, &[0]),
            2 => b.slice(six, &[1], &[6], &[2]),
            3 => b.pad(
                flat,
                b.reshape(b.slice_in_dim(six, 0, 1, 1, 0), &[]),
                &[PaddingDimension { low: -1, high: 2, interior: 1 }],
            ),
            4 => b.concat_in_dim(&[six, update], 0),
            5 => b.broadcast(update, &[2]),
            6 => b.dynamic_slice(six, &[at], &[4]),
            7 => b.dynamic_update_slice(six, update, &[at]),
            8 => {
                let dims = GatherDimensions {
                    collapsed_slice_dims: vec![0],
                    start_index_map: vec![0],
                    index_vector_dim: 1,
                    ..GatherDimensions::default()
                };
                b.gather(six, indices, &dims, &[1], false)
            }
            _ => {
                let dims = ScatterDimensions {
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: 1,
                    ..ScatterDimensions::default()
                };
                b.scatter(&[six], indices, &[update], &sum(), &dims, false, false)
            }
        }
    }

    fn dense(&mut self, x: Op) -> Op {
        let four = self.flat(x, 4);
        let eight = self.flat(x, 8);
        let other = self.like(&[4]);
        let b = &self.b;
        let (square, rows) = (b.reshape(four, &[2, 2]), b.reshape(eight, &[2, 4]));
        let zero = b.zero(F64);
        let small = |op| b.tanh(op);
        match (self.numbers.next() * 20.0) as usize {
            0 => small(b.dot(square, b.reshape(other, &[2, 2]))),
            1 => {
                let dims = default_convolution_dims(1);
                let (input, kernel) = (b.reshape(rows, &[1, 2, 4]), b.reshape(other, &[1, 2, 2]));
                let padding = Padding::Explicit(vec![(1, 0)]);
                small(b.conv_general_dilated(input, kernel, &[2], &padding, &[], &[], &dims, 1, 1))
            }
            2 => small(b.reduce(rows, zero, &sum(), &[1])),
            3 => small(b.reduce(rows, b.one(F64), &of(Opcode::Multiply), &[0])),
            4 => b.reduce(rows, b.min_value(F64), &of(Opcode::Maximum), &[1]),
            5 => small(b.reduce_window(rows, zero, &sum(), &[1, 2], &[1, 1], &Padding::Same)),
            6 => b.reduce_window(rows, b.max_value(F64), &of(Opcode::Minimum), &[2, 2], &[1, 2], &Padding::Valid),
            7 => {
                let definite = b.add(square, b.constant(&[2, 2], &[6.0f64, 0.0, 0.0, 6.0]));
                let factor = b.cholesky(definite, true);
                let right = b.reshape(other, &[2, 2]);
                b.triangular_solve(factor, right, true, true, false, TransposeKind::Transpose)
            }
            8 => {
                let (scale, offset) = (b.slice_in_dim(other, 0, 2, 1, 0), b.slice_in_dim(other, 2, 4, 1, 0));
                b.get_tuple_element(b.batch_norm_training(b.transpose(rows, &[1, 0]), scale, offset, 0.1, 1), 0)
            }
            9 => b.sort(&[eight], &greater(), 0, true),
            10 => b.get_tuple_element(b.top_k(rows, 2, true), 0),
            11 => {
                let source = small(b.reshape(other, &[2, 2]));
                b.select_and_scatter(rows, &greater(), &[1, 2], &[1, 2], &Padding::Valid, source, zero, &sum())
            }
            12 => {
                let (mean, variance) = (b.slice_in_dim(other, 0, 2, 1, 0), b.slice_in_dim(other, 2, 4, 1, 0));
                let (columns, variance) = (b.transpose(rows, &[1, 0]), self.positive(variance));
                small(b.batch_norm_inference(columns, mean, mean, mean, variance, 0.1, 1))
            }
            13 => {
                let (mean, variance) = (b.slice_in_dim(other, 0, 2, 1, 0), b.slice_in_dim(other, 2, 4, 1, 0));
                let (scale, columns) = (b.reduce(rows, zero, &sum(), &[1]), b.transpose(rows, &[1, 0]));
                let all = b.batch_norm_grad(columns, scale, mean, self.positive(variance), b.sin(columns), 0.1, 1);
                small(b.get_tuple_element(all, (self.numbers.next() * 3.0) as i64))
            }
            14 => b.reduce(rows, zero, &length(), &[0]),
            15 => small(b.reduce_window(
                rows,
                b.one(F64),
                &of(Opcode::Multiply),
                &[1, 4],
                &[1, 1],
                &Padding::Explicit(vec![(0, 0), (3, 0)]),
            )),
            16 => {
                let step = Builder::new("step");
                let parameter = |n, name| step.parameter(n, Shape::array(F64, [2]), name);
                let (v, c) = (parameter(0, "v"), parameter(1, "c"));
                let next = step.sin(step.add(step.mul(v, c), v));
                let root = step.tuple(&[step.mul(next, c), next]);
                let step = step.build_with_root(root).expect("a step of a scan");
                let start = b.slice_in_dim(other, 0, 2, 1, 0);
                let all = b.scan(&[rows], &[start], &step, 1, self.numbers.next() < 0.5);
                b.get_tuple_element(all, (self.numbers.next() * 2.0) as i64)
            }
            17 => {
                let (columns, groups) = (b.transpose(rows, &[1, 0]), b.reshape(eight, &[2, 2, 2]));
                let dims =
                    "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}";
                let operands = [columns, groups, b.constant_r1(&[1i32, 2])];
                small(product(b, &operands, &[4, 2], &format!("ragged-dot(p0, p1, p2), {dims}")))
            }
            18 => {
                let (columns, scale) = (b.transpose(rows, &[1, 0]), b.reshape(other, &[2, 2]));
                let dims = "scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
                small(product(b, &[columns, square, scale, b.constant_r0(0.5)], &[4, 2], dims))
            }
            _ => {
                let numbered = b.fft(b.convert_element_type(rows, ElementType::C128), FftKind::Fft, &[4]);
                small(b.add(b.real(numbered), b.imag(numbered)))
            }
        }
    }

    fn control(&mut self, x: Op) -> Result<Op> {
        let four = self.flat(x, 4);
        let flag = self.b.constant_pred(self.numbers.next() < 0.5);
        let shape = Shape::array(F64, [4]);
        let body = |wave: Unary| -> Result<Module> {
            let b = Builder::new("f");
            let v = b.parameter(0, shape.clone(), "v");
            let root = b.mul(wave(&b, v), b.constant_r0(0.9));
            b.build_with_root(root)
        };
        Ok(match (self.numbers.next() * 5.0) as usize {
            4 => written(&self.b, four, "fusion(x), kind=kLoop, calls=f"),
            0 => self.b.call(&body(Builder::sin)?, &[four]),
            1 => self.b.conditional(flag, four, &body(Builder::cos)?, four, &body(Builder::tanh)?),
            2 => {
                let b = Builder::new("g");
                let v = b.parameter(0, Shape::scalar(F64), "v");
                let root = b.mul(v, b.cos(v));
                self.b.map(&[four], &b.build_with_root(root)?)
            }
            _ => {
                let state = Shape::tuple(vec![Shape::scalar(ElementType::S32), shape.clone(), shape]);
                let b = Builder::new("condition");
                let t = b.parameter(0, state.clone(), "t");
                let root = b.lt(b.get_tuple_element(t, 0), b.constant_r0(3i32));
                let condition = b.build_with_root(root)?;
                let b = Builder::new("body");
                let t = b.parameter(0, state, "t");
                let (i, v, w) = (b.get_tuple_element(t, 0), b.get_tuple_element(t, 1), b.get_tuple_element(t, 2));
                let root = b.tuple(&[b.add(i, b.constant_r0(1i32)), b.sin(b.mul(v, w)), w]);
                let body = b.build_with_root(root)?;
                let init = self.b.tuple(&[self.b.constant_r0(0i32), four, self.b.tanh(four)]);
                self.b.get_tuple_element(self.b.while_(&condition, &body, init), 1)
            }
        })
    }
}

fn of(opcode: Opcode) -> Module {
    scalar_computation(opcode, F64).expect("an operation of two numbers")
}

fn sum() -> Module {
    of(Opcode::Add)
}

/// The length of a vector, of which each side is a component and never quite zero.
fn length() -> Module {
    let b = Builder::new("length");
    let (x, y) = (b.parameter(0, Shape::scalar(F64), "x"), b.parameter(1, Shape::scalar(F64), "y"));
    let square = b.add(b.add(b.mul(x, x), b.mul(y, y)), b.constant_r0(0.1));
    let root = b.sqrt(square);
    b.build_with_root(root).expect("a root of squares")
}

fn greater() -> Module {
    let b = Builder::new("greater");
    let (x, y) = (b.parameter(0, Shape::scalar(F64), "x"), b.parameter(1, Shape::scalar(F64), "y"));
    let root = b.gt(x, y);
    b.build_with_root(root).expect("a comparison")
}

/// What is differentiated, by the table of `docs/semantics/gradients.md`; of steps, that they give nothing.
const DIFFERENTIABLE: &[Opcode] = &[
    Opcode::Abs,
    Opcode::Acos,
    Opcode::Acosh,
    Opcode::Add,
    Opcode::AddDependency,
    Opcode::Asin,
    Opcode::Asinh,
    Opcode::Atan2,
    Opcode::Atanh,
    Opcode::BatchNormGrad,
    Opcode::BatchNormInference,
    Opcode::BatchNormTraining,
    Opcode::Bitcast,
    Opcode::Broadcast,
    Opcode::Call,
    Opcode::Cbrt,
    Opcode::Ceil,
    Opcode::Cholesky,
    Opcode::Clamp,
    Opcode::Complex,
    Opcode::Concatenate,
    Opcode::Conditional,
    Opcode::Convert,
    Opcode::Convolution,
    Opcode::Copy,
    Opcode::Cos,
    Opcode::Cosh,
    Opcode::Divide,
    Opcode::Domain,
    Opcode::Dot,
    Opcode::DynamicSlice,
    Opcode::DynamicUpdateSlice,
    Opcode::Erf,
    Opcode::Exp,
    Opcode::Expm1,
    Opcode::Fft,
    Opcode::Floor,
    Opcode::Fusion,
    Opcode::Gather,
    Opcode::GetTupleElement,
    Opcode::Imag,
    Opcode::Log,
    Opcode::Log1p,
    Opcode::Logistic,
    Opcode::Map,
    Opcode::Maximum,
    Opcode::Minimum,
    Opcode::Multiply,
    Opcode::Negate,
    Opcode::OptimizationBarrier,
    Opcode::Pad,
    Opcode::Power,
    Opcode::RaggedDot,
    Opcode::Real,
    Opcode::Reduce,
    Opcode::ReducePrecision,
    Opcode::ReduceWindow,
    Opcode::Remainder,
    Opcode::Reshape,
    Opcode::Reverse,
    Opcode::RoundNearestAfz,
    Opcode::RoundNearestEven,
    Opcode::Rsqrt,
    Opcode::ScaledDot,
    Opcode::Scan,
    Opcode::Scatter,
    Opcode::Select,
    Opcode::SelectAndScatter,
    Opcode::Sign,
    Opcode::Sin,
    Opcode::Sinh,
    Opcode::Slice,
    Opcode::Sort,
    Opcode::Sqrt,
    Opcode::Subtract,
    Opcode::Tan,
    Opcode::Tanh,
    Opcode::TopK,
    Opcode::Transpose,
    Opcode::TriangularSolve,
    Opcode::Tuple,
    Opcode::While,
];

/// What has nothing to differentiate: no operands, or results that are integers, truth values, bits or tokens.
const WITHOUT: &[Opcode] = &[
    Opcode::AfterAll,
    Opcode::And,
    Opcode::BitcastConvert,
    Opcode::Clz,
    Opcode::Compare,
    Opcode::Constant,
    Opcode::GetDimensionSize,
    Opcode::Iota,
    Opcode::IsFinite,
    Opcode::Mulhi,
    Opcode::Not,
    Opcode::Or,
    Opcode::Parameter,
    Opcode::PartitionId,
    Opcode::PopulationCount,
    Opcode::ReplicaId,
    Opcode::RngBitGenerator,
    Opcode::RngGetAndUpdateState,
    Opcode::ShiftLeft,
    Opcode::ShiftRightArithmetic,
    Opcode::ShiftRightLogical,
    Opcode::Xor,
];

/// What is differentiated and is in no graph here: exchanges between devices (`devices.rs`), a rounding that is no function to take
/// differences of (`errors.rs`), and two of the routines that custom calls name (`dense.rs`).
const ELSEWHERE: &[Opcode] = &[
    Opcode::AllGather,
    Opcode::AllReduce,
    Opcode::AllToAll,
    Opcode::CollectivePermute,
    Opcode::CustomCall,
    Opcode::ReduceScatter,
    Opcode::StochasticConvert,
];

/// Refused, as the page of gradients says, besides asynchronous forms and the world outside.
const REFUSED: &[Opcode] = &[
    Opcode::CollectiveBroadcast,
    Opcode::DynamicReshape,
    Opcode::RaggedAllToAll,
    Opcode::Rng,
    Opcode::SetDimensionSize,
];

/// Every operation has a rule, nothing to differentiate, or is refused.
#[test]
fn every_operation_is_accounted_for() {
    for opcode in Opcode::ALL {
        let outside = matches!(opcode.category(), Category::SideEffect | Category::Async);
        let refused = outside && *opcode != Opcode::CustomCall || REFUSED.contains(opcode);
        let differentiated = DIFFERENTIABLE.contains(opcode) || ELSEWHERE.contains(opcode);
        let places = [refused, differentiated, WITHOUT.contains(opcode)];
        assert_eq!(places.into_iter().filter(|&p| p).count(), 1, "{opcode}: {places:?}");
    }
}

/// A random function of six numbers, its value and its gradient. What the value depends on and the numbers change is counted.
fn graph(seed: u64, differentiated: &mut HashMap<Opcode, usize>) -> Module {
    let mut g = Graph {
        b: Builder::new("random"),
        numbers: Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        pool: Vec::new(),
    };
    let x = g.b.parameter(0, Shape::array(F64, [2, 3]), "x");
    g.pool.push(x);
    for _ in 0..8 {
        let recent = g.pool.len().saturating_sub(4);
        let some = recent + g.choose(g.pool.len() - recent);
        let x = g.pool[some];
        let next = match g.choose(7) {
            0..3 => g.elementwise(x),
            3 => g.movement(x),
            4 | 5 => g.dense(x),
            _ => g.control(x).expect("computations without mistakes"),
        };
        g.pool.push(next);
    }
    let values = g.b.tuple(&g.pool[1..]);
    let loss = super::weighted(&g.b, values, &mut g.numbers);
    let reach = Reach::of(&g.b, &[loss], &[(x, vec![true])], Past::Inputs);
    for node in reach.0.values().filter(|n| n.operands.iter().any(|&o| reach.active(o).contains(&true))) {
        *differentiated.entry(node.instruction.opcode).or_default() += 1;
    }
    let derivative = g.b.gradient(loss, &[x])[0];
    let root = g.b.tuple(&[loss, derivative]);
    g.b.build_with_root(root).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

#[test]
fn random_graphs_agree_with_differences() {
    const GRAPHS: u64 = 2000;
    const STEP: f64 = 1e-4;
    let mut differentiated: HashMap<Opcode, usize> = HashMap::new();
    let mut skipped = 0;
    for seed in 0..GRAPHS {
        let module = graph(seed * 7919 + 1, &mut differentiated);
        let mut numbers = Numbers(seed + 99);
        let x: Vec<f64> = (0..6).map(|_| 2.4 * numbers.next() - 1.2).collect();
        let direction: Vec<f64> = (0..6).map(|_| 2.0 * numbers.next() - 1.0).collect();
        let at = |by: f64| {
            let moved: Vec<f64> = x.iter().zip(&direction).map(|(x, d)| x + by * d).collect();
            let argument: Literal = ArrayLiteral::from_elements(&[2, 3], &moved).into();
            results(&module, &[argument])
        };
        let loss = |by: f64| at(by)[0].get(0).as_f64();
        let found: f64 = at(0.0)[1].as_slice::<f64>().iter().zip(&direction).map(|(g, d)| g * d).sum();
        let slope = |h: f64| (loss(h) - loss(-h)) / (2.0 * h);
        // Of a smooth function the second difference over the step vanishes with the step, at a kink it does not.
        let (short, long) = (slope(STEP), slope(10.0 * STEP));
        let bend = |h: f64| (loss(h) - 2.0 * loss(0.0) + loss(-h)) / h;
        let kink = (10.0 * bend(STEP) - bend(10.0 * STEP)) / 9.0;
        let scale = short.abs().max(1.0);
        if kink.abs() > 1e-5 * scale || (short - long).abs() > 1e-2 * scale {
            skipped += 1;
            continue;
        }
        let expected = (100.0 * short - long) / 99.0;
        let near = (found - expected).abs() <= 1e-5 * scale;
        assert!(
            near,
            "graph {seed}: {found}, by differences {expected}\n{}",
            crate::text::print(&module, &crate::text::PrintOptions::default())
        );
    }
    assert!(skipped * 10 < GRAPHS, "{skipped} of {GRAPHS} were near a kink");
    let count = |opcode: &Opcode| differentiated.get(opcode).copied().unwrap_or_default();
    let rare: Vec<_> = DIFFERENTIABLE.iter().filter(|o| count(o) < 50).map(|o| (o, count(o))).collect();
    assert!(rare.is_empty(), "differentiated less than 50 times: {rare:?}");
}
