//! Complex numbers in compiled code: every kind of kernel against the interpreter, bit by bit.
//!
//! Inputs are small integers, so that sums and products have one answer in any order.
#![allow(clippy::unwrap_used)]

use brolga_compiler::{CompileOptions, compile, interp, shape, text};
use brolga_runtime::{ArrayLiteral, Literal, Program, Scalar};

/// Runs a program, `C` standing for a complex type and `R` for that of its parts, in both engines.
#[track_caller]
fn agrees(source: &str) {
    for (complex, real) in [("c64", "f32"), ("c128", "f64")] {
        let source =
            format!("HloModule m\n{}", source.replace("C[", &format!("{complex}[")).replace("R[", &format!("{real}[")));
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
        shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let mut state = 7u64;
        let mut inputs = Vec::new();
        for p in module.entry().parameters() {
            for leaf in module.entry().instructions[p].shape.leaves() {
                let mut a = ArrayLiteral::zeros(leaf.as_array().unwrap());
                for i in 0..a.elements() {
                    let mut small = || {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        (state >> 40) as i64 % 7 - 3
                    };
                    let value = match a.get(i) {
                        Scalar::Complex(_) => {
                            Scalar::Complex(brolga_runtime::num_complex::Complex::new(small() as f64, small() as f64))
                        }
                        Scalar::Float(_) => Scalar::Float(small() as f64),
                        Scalar::Pred(_) => Scalar::Pred(small() > 0),
                        Scalar::Int(_) => Scalar::Int(small()),
                        Scalar::UInt(_) => Scalar::UInt(small().unsigned_abs()),
                    };
                    a.set(i, value);
                }
                inputs.push(a);
            }
        }
        let literals: Vec<Literal> = inputs.iter().cloned().map(Literal::Array).collect();
        let want =
            interp::run(&module, &literals, &interp::Options::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let artifact = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let program = Program::from_object(&artifact.object).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let inputs: Vec<&ArrayLiteral> = inputs.iter().collect();
        let got = program.run(&inputs).unwrap_or_else(|e| panic!("{e}\n{source}"));
        for (got, want) in got.iter().zip(want.arrays()) {
            assert_eq!(got.shape(), want.shape(), "{source}");
            // Equal bits where NaNs move; equal numbers where a sum may find another zero.
            let differs = (0..want.elements()).find(|&i| got.get(i) != want.get(i));
            assert!(got == want || differs.is_none(), "element {differs:?} of {source}\n{got:?}\n{want:?}");
        }
    }
}

#[test]
fn movement_keeps_the_parts_together() {
    agrees(
        "ENTRY e {
          x = C[4,6] parameter(0)
          y = C[3,4,5] parameter(1)
          z = C[] parameter(2)
          t = C[6,4] transpose(x), dimensions={1,0}
          r = C[6,4] reverse(t), dimensions={0}
          s = C[3,2] slice(r), slice={[0:6:2], [1:3]}
          f = C[6] reshape(s)
          b = C[6,5] broadcast(f), dimensions={0}
          s2 = C[4,2] slice(x), slice={[0:4], [1:6:4]}
          c = C[4,8] concatenate(x, s2), dimensions={1}
          p = C[6,10] pad(x, z), padding=1_1x0_-1_1
          q = C[60] reshape(y)
          i = C[4,3] iota(), iota_dimension=1
          k = C[3] constant({(1, 2), (-0, 3), (nan, -1)})
          ROOT o = (C[6,5], C[4,8], C[6,10], C[60], C[4,3], C[3]) tuple(b, c, p, q, i, k)
        }",
    );
}

#[test]
fn indices_that_are_loaded() {
    agrees(
        "add { a = C[] parameter(0) b = C[] parameter(1) ROOT s = C[] add(a, b) }
        mix {
          a = C[] parameter(0) r = R[] parameter(1) b = C[] parameter(2) u = R[] parameter(3)
          m = C[] multiply(a, b) s = R[] add(r, u) ROOT t = (C[], R[]) tuple(m, s)
        }
        ENTRY e {
          x = C[5,6] parameter(0)
          i = s32[] parameter(1)
          j = s32[4] parameter(2)
          u = C[2,3] parameter(3)
          v = C[4,6] parameter(4)
          y = R[5,6] parameter(5)
          w = R[4,6] parameter(6)
          d = C[2,3] dynamic-slice(x, i, i), dynamic_slice_sizes={2,3}
          g = C[4,6] gather(x, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
          n = C[5,6] dynamic-update-slice(x, u, i, i)
          k = C[5,6] scatter(x, j, v), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
          l = (C[5,6], R[5,6]) scatter(x, y, j, v, w), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=mix
          l0 = C[5,6] get-tuple-element(l), index=0
          l1 = R[5,6] get-tuple-element(l), index=1
          ROOT o = (C[2,3], C[4,6], C[5,6], C[5,6], C[5,6], R[5,6]) tuple(d, g, n, k, l0, l1)
        }",
    );
}

#[test]
fn reductions_have_two_components() {
    agrees(
        "add { a = C[] parameter(0) b = C[] parameter(1) ROOT s = C[] add(a, b) }
        mul { a = C[] parameter(0) b = C[] parameter(1) ROOT s = C[] multiply(a, b) }
        sub { a = C[] parameter(0) b = C[] parameter(1) ROOT s = C[] subtract(a, b) }
        far {
          a = C[] parameter(0) i = s32[] parameter(1) b = C[] parameter(2) j = s32[] parameter(3)
          x = R[] real(a) y = R[] real(b) p = pred[] compare(x, y), direction=GE
          z = C[] select(p, a, b) k = s32[] select(p, i, j) ROOT t = (C[], s32[]) tuple(z, k)
        }
        ENTRY e {
          x = C[5,70] parameter(0)
          z = C[] parameter(1)
          u = C[3,8] parameter(2)
          n = s32[5,70] iota(), iota_dimension=1
          o = s32[] constant(0)
          a = C[5] reduce(x, z), dimensions={1}, to_apply=add
          b = C[70] reduce(x, z), dimensions={0}, to_apply=add
          c = C[] reduce(x, z), dimensions={0,1}, to_apply=add
          d = C[3] reduce(u, z), dimensions={1}, to_apply=mul
          f = C[70] reduce(x, z), dimensions={0}, to_apply=sub
          g = C[5] reduce(x, z), dimensions={1}, to_apply=sub
          h = (C[5], s32[5]) reduce(x, n, z, o), dimensions={1}, to_apply=far
          h0 = C[5] get-tuple-element(h), index=0
          h1 = s32[5] get-tuple-element(h), index=1
          w = C[4,69] reduce-window(x, z), window={size=2x3 pad=0_0x1_0}, to_apply=add
          s = C[5,70] reduce-window(x, z), window={size=1x70 pad=0_0x69_0}, to_apply=add
          v = C[5,70] reduce-window(x, z), window={size=5x1 pad=4_0x0_0}, to_apply=sub
          ROOT t = (C[5], C[70], C[], C[3], C[70], C[5], C[5], s32[5], C[4,69], C[5,70], C[5,70]) tuple(a, b, c, d, f, g, h0, h1, w, s, v)
        }",
    );
}

/// A row of stages: the sum of each row is taken off, and the rest, which is dear, is kept in row buffers.
#[test]
fn rows_keep_both_parts() {
    agrees(
        "add { a = C[] parameter(0) b = C[] parameter(1) ROOT s = C[] add(a, b) }
        ENTRY e {
          x = C[6,33] parameter(0)
          z = C[] constant((0, 0))
          s = C[6] reduce(x, z), dimensions={1}, to_apply=add
          b = C[6,33] broadcast(s), dimensions={0}
          d = C[6,33] subtract(x, b)
          q = C[6,33] multiply(d, d)
          t = C[6] reduce(q, z), dimensions={1}, to_apply=add
          u = C[6,33] broadcast(t), dimensions={0}
          v = C[6,33] add(d, u)
          r = R[6,33] real(v)
          ROOT o = (C[6,33], R[6,33], C[6]) tuple(v, r, t)
        }",
    );
}

#[test]
fn contractions_are_real_ones() {
    agrees(
        "ENTRY e {
          x = C[3,5] parameter(0)
          y = C[5,4] parameter(1)
          r = R[5,4] parameter(2)
          a = C[3,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          m = C[20,30] parameter(3)
          n = C[30,20] parameter(4)
          b = C[20,20] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          i = C[2,7,6,3] parameter(5)
          k = C[3,3,3,4] parameter(6)
          c = C[2,7,6,4] convolution(i, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
          n2 = C[20,20] negate(b)
          re = R[3,5] real(x)
          z = C[3,5] complex(re, re)
          d = C[3,4] dot(z, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          ROOT o = (C[3,4], C[20,20], C[2,7,6,4], C[3,4], R[5,4]) tuple(a, n2, c, d, r)
        }",
    );
}

#[test]
fn loops_and_conditionals_carry_complex_state() {
    agrees(
        "cond { s = (s32[], C[4], C[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT p = pred[] compare(i, n), direction=LT }
        body {
          s = (s32[], C[4], C[]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          x = C[4] get-tuple-element(s), index=1
          z = C[] get-tuple-element(s), index=2
          one = s32[] constant(1)
          j = s32[] add(i, one)
          b = C[4] broadcast(z), dimensions={}
          y = C[4] subtract(b, x)
          u = C[1] slice(x), slice={[0:1]}
          w = C[] reshape(u)
          q = C[1] reshape(z)
          m = C[4] dynamic-update-slice(y, q, i)
          ROOT t = (s32[], C[4], C[]) tuple(j, m, w)
        }
        yes { a = C[4] parameter(0) ROOT n = C[4] negate(a) }
        no { a = C[4] parameter(0) ROOT n = C[4] add(a, a) }
        ENTRY e {
          x = C[4] parameter(0)
          z = C[] parameter(1)
          p = pred[] parameter(2)
          o = s32[] constant(0)
          s = (s32[], C[4], C[]) tuple(o, x, z)
          l = (s32[], C[4], C[]) while(s), condition=cond, body=body
          y = C[4] get-tuple-element(l), index=1
          w = C[] get-tuple-element(l), index=2
          c = C[4] conditional(p, y, y), true_computation=yes, false_computation=no
          ROOT t = (C[4], C[], C[4]) tuple(y, w, c)
        }",
    );
}

#[test]
fn elements_of_real_and_complex_types_meet() {
    agrees(
        "ENTRY e {
          x = C[37] parameter(0)
          y = C[37] parameter(1)
          p = pred[37] parameter(2)
          n = s16[37] parameter(3)
          h = bf16[37] parameter(4)
          re = R[37] real(x)
          im = R[37] imag(y)
          z = C[37] complex(re, im)
          s = C[37] select(p, x, z)
          e = pred[37] compare(x, y), direction=EQ
          a = C[37] convert(n)
          b = C[37] convert(h)
          g = c128[37] convert(x)
          m = C[37] multiply(s, a)
          k = C[37] negate(m)
          ROOT o = (C[37], pred[37], C[37], c128[37], C[37]) tuple(s, e, b, g, k)
        }",
    );
}

#[test]
fn bits_of_other_widths() {
    agrees(
        "ENTRY e {
          x = c64[6,3,2] parameter(0)
          y = c128[6] parameter(1)
          p = pred[4,8] parameter(2)
          w = s64[5] parameter(3)
          a = c128[6,3] bitcast-convert(x)
          b = c64[6,2] bitcast-convert(y)
          c = s64[4] bitcast-convert(p)
          d = pred[5,8] bitcast-convert(w)
          e = u4[4,8,2] bitcast-convert(p)
          f = bf16[5,4] bitcast-convert(w)
          ROOT o = (c128[6,3], c64[6,2], s64[4], pred[5,8], u4[4,8,2], bf16[5,4]) tuple(a, b, c, d, e, f)
        }",
    );
}
