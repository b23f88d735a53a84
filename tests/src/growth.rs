//! Programs of any size, for measuring how compile time grows: each family makes one of about so many instructions.

use crate::damage::Random;
use std::fmt::Write;

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Each elementwise operation on the one before.
    Chain,
    /// Many results of one input.
    Wide,
    /// Elementwise operations, transposes, reductions, contractions and concatenations of values not far behind.
    Mixed,
    /// Layers of a contraction, a bias and an activation, each with parameters of its own.
    Mlp,
    /// A norm after a norm.
    Reductions,
    /// One loop after another.
    Loops,
    /// Parameters that are the results.
    Tuple,
    /// The elements of a tuple, each changed.
    Elements,
    /// A rolled array and a selection, again and again.
    Roll,
    /// Parameters, each changed, one behind the other in one result.
    Concatenate,
}

impl Family {
    /// All, in the order of the tables.
    pub const ALL: [Family; 10] = [
        Family::Chain,
        Family::Wide,
        Family::Mixed,
        Family::Mlp,
        Family::Reductions,
        Family::Loops,
        Family::Tuple,
        Family::Elements,
        Family::Roll,
        Family::Concatenate,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Family::Chain => "chain",
            Family::Wide => "wide",
            Family::Mixed => "mixed",
            Family::Mlp => "mlp",
            Family::Reductions => "reductions",
            Family::Loops => "loops",
            Family::Tuple => "tuple",
            Family::Elements => "elements",
            Family::Roll => "roll",
            Family::Concatenate => "concatenate",
        }
    }

    /// A program of about `size` instructions, as HLO text.
    pub fn program(self, size: usize) -> String {
        let mut p = Program { text: "HloModule growth\n".to_owned() };
        match self {
            Family::Chain => p.chain(size),
            Family::Wide => p.wide(size),
            Family::Mixed => p.mixed(size),
            Family::Mlp => p.mlp(size),
            Family::Reductions => p.reductions(size),
            Family::Loops => p.loops(size),
            Family::Tuple => p.tuple(size),
            Family::Elements => p.elements(size),
            Family::Roll => p.roll(size),
            Family::Concatenate => p.concatenate(size),
        }
        p.text.push_str("}\n");
        p.text
    }
}

struct Program {
    text: String,
}

const ADD: &str = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }";

impl Program {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // A string takes everything.
        let _ = self.text.write_fmt(line);
        self.text.push('\n');
    }

    fn entry(&mut self) {
        self.line(format_args!("ENTRY e {{"));
    }

    /// The last value is the result.
    fn root(&mut self, ty: &str, name: &str) {
        self.line(format_args!("ROOT r = {ty} copy({name})"));
    }

    fn results(&mut self, ty: &str, names: &[String]) {
        let types = vec![ty; names.len()].join(", ");
        self.line(format_args!("ROOT r = ({types}) tuple({})", names.join(", ")));
    }

    fn chain(&mut self, size: usize) {
        self.entry();
        self.line(format_args!("x0 = f32[1024] parameter(0)"));
        for k in 1..size {
            let op = ["add", "multiply", "subtract", "maximum"][k % 4];
            self.line(format_args!("x{k} = f32[1024] {op}(x{}, x{})", k - 1, k.saturating_sub(4)));
        }
        self.root("f32[1024]", &format!("x{}", size - 1));
    }

    fn wide(&mut self, size: usize) {
        self.entry();
        self.line(format_args!("x = f32[16] parameter(0)\ns = f32[16] tanh(x)"));
        let names: Vec<String> = (0..size / 3).map(|k| format!("y{k}")).collect();
        for (k, y) in names.iter().enumerate() {
            self.line(format_args!("c{k} = f32[] constant({k})\nb{k} = f32[16] broadcast(c{k}), dimensions={{}}"));
            self.line(format_args!("{y} = f32[16] add(s, b{k})"));
        }
        self.results("f32[16]", &names);
    }

    fn mixed(&mut self, size: usize) {
        let mut random = Random(1);
        self.line(format_args!("{ADD}"));
        self.entry();
        self.line(format_args!("z = f32[] constant(0)"));
        let mut names: Vec<String> = (0..4).map(|k| format!("p{k}")).collect();
        for (k, p) in names.iter().enumerate() {
            self.line(format_args!("{p} = f32[32,32] parameter({k})"));
        }
        let mut made = 0;
        while made < size {
            let near = names.len().saturating_sub(40);
            let mut operand = || names[near + random.below(names.len() - near)].clone();
            let (a, b) = (operand(), operand());
            let v = format!("v{made}");
            let (kind, side) = (random.below(20), random.below(2));
            made += 1;
            match kind {
                0..12 => {
                    let op = ["add", "multiply", "subtract", "maximum", "minimum"][random.below(5)];
                    self.line(format_args!("{v} = f32[32,32] {op}({a}, {b})"));
                }
                12..14 => {
                    let op = ["tanh", "exponential", "negate", "abs"][random.below(4)];
                    self.line(format_args!("{v} = f32[32,32] {op}({a})"));
                }
                14..16 => self.line(format_args!("{v} = f32[32,32] transpose({a}), dimensions={{1,0}}")),
                16..18 => {
                    made += 1;
                    self.line(format_args!(
                        "{v}r = f32[32] reduce({a}, z), dimensions={{{side}}}, to_apply=add
                        {v} = f32[32,32] broadcast({v}r), dimensions={{{}}}",
                        random.below(2)
                    ));
                }
                18 => self.line(format_args!(
                    "{v} = f32[32,32] dot({a}, {b}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
                )),
                _ => {
                    made += 1;
                    self.line(format_args!(
                        "{v}s = f32[16,32] slice({a}), slice={{[0:16],[0:32]}}
                        {v} = f32[32,32] concatenate({v}s, {v}s), dimensions={{0}}"
                    ));
                }
            }
            names.push(v);
        }
        let last = names.pop().unwrap_or_default();
        self.root("f32[32,32]", &last);
    }

    fn mlp(&mut self, size: usize) {
        self.entry();
        self.line(format_args!("x0 = f32[8,16] parameter(0)"));
        let layers = size / 6;
        for k in 0..layers {
            self.line(format_args!(
                "w{k} = f32[16,16] parameter({})
                b{k} = f32[16] parameter({})
                d{k} = f32[8,16] dot(x{k}, w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
                c{k} = f32[8,16] broadcast(b{k}), dimensions={{1}}
                s{k} = f32[8,16] add(d{k}, c{k})
                x{} = f32[8,16] tanh(s{k})",
                2 * k + 1,
                2 * k + 2,
                k + 1
            ));
        }
        self.root("f32[8,16]", &format!("x{layers}"));
    }

    fn reductions(&mut self, size: usize) {
        self.line(format_args!("{ADD}"));
        self.entry();
        self.line(format_args!("x0 = f32[16,64] parameter(0)\nz = f32[] constant(0)"));
        let norms = size / 4;
        for k in 0..norms {
            self.line(format_args!(
                "q{k} = f32[16,64] multiply(x{k}, x{k})
                s{k} = f32[16] reduce(q{k}, z), dimensions={{1}}, to_apply=add
                b{k} = f32[16,64] broadcast(s{k}), dimensions={{0}}
                x{} = f32[16,64] divide(x{k}, b{k})",
                k + 1
            ));
        }
        self.root("f32[16,64]", &format!("x{norms}"));
    }

    fn loops(&mut self, size: usize) {
        let loops = size / 12;
        for k in 0..loops {
            self.line(format_args!(
                "c{k} {{ p = (s32[], f32[128]) parameter(0)
                i = s32[] get-tuple-element(p), index=0
                n = s32[] constant({})
                ROOT l = pred[] compare(i, n), direction=LT }}
                b{k} {{ p = (s32[], f32[128]) parameter(0)
                i = s32[] get-tuple-element(p), index=0
                x = f32[128] get-tuple-element(p), index=1
                one = s32[] constant(1)
                j = s32[] add(i, one)
                y = f32[128] tanh(x)
                ROOT t = (s32[], f32[128]) tuple(j, y) }}",
                k % 7 + 2
            ));
        }
        self.entry();
        self.line(format_args!("x0 = f32[128] parameter(0)\nzero = s32[] constant(0)"));
        for k in 0..loops {
            self.line(format_args!(
                "i{k} = (s32[], f32[128]) tuple(zero, x{k})
                w{k} = (s32[], f32[128]) while(i{k}), condition=c{k}, body=b{k}
                x{} = f32[128] get-tuple-element(w{k}), index=1",
                k + 1
            ));
        }
        self.root("f32[128]", &format!("x{loops}"));
    }

    fn tuple(&mut self, size: usize) {
        self.entry();
        let names: Vec<String> = (0..size).map(|k| format!("p{k}")).collect();
        for (k, p) in names.iter().enumerate() {
            self.line(format_args!("{p} = f32[4] parameter({k})"));
        }
        self.results("f32[4]", &names);
    }

    fn elements(&mut self, size: usize) {
        self.entry();
        let names: Vec<String> = (0..size / 2).map(|k| format!("y{k}")).collect();
        let types = vec!["f32[4]"; names.len()].join(", ");
        self.line(format_args!("p = ({types}) parameter(0)"));
        for (k, y) in names.iter().enumerate() {
            self.line(format_args!("x{k} = f32[4] get-tuple-element(p), index={k}\n{y} = f32[4] negate(x{k})"));
        }
        self.results("f32[4]", &names);
    }

    fn roll(&mut self, size: usize) {
        self.entry();
        self.line(format_args!("x0 = f32[256] parameter(0)"));
        let rolls = size / 5;
        for k in 0..rolls {
            let cut = k % 255 + 1;
            self.line(format_args!(
                "h{k} = f32[{}] slice(x{k}), slice={{[{cut}:256]}}
                t{k} = f32[{cut}] slice(x{k}), slice={{[0:{cut}]}}
                y{k} = f32[256] concatenate(h{k}, t{k}), dimensions={{0}}
                m{k} = pred[256] compare(x{k}, y{k}), direction=LT
                x{} = f32[256] select(m{k}, y{k}, x{k})",
                256 - cut,
                k + 1
            ));
        }
        self.root("f32[256]", &format!("x{rolls}"));
    }

    fn concatenate(&mut self, size: usize) {
        self.entry();
        let names: Vec<String> = (0..size / 2).map(|k| format!("y{k}")).collect();
        let rows = |k: usize| k % 3 + 1;
        for (k, y) in names.iter().enumerate() {
            let rows = rows(k);
            self.line(format_args!("x{k} = f32[{rows},16] parameter({k})\n{y} = f32[{rows},16] negate(x{k})"));
        }
        let all: usize = (0..names.len()).map(rows).sum();
        self.line(format_args!("ROOT r = f32[{all},16] concatenate({}), dimensions={{0}}", names.join(", ")));
    }
}
