//! Objects: the same bytes whatever compiles them, and packed instructions where they matter.

#![allow(clippy::unwrap_used)]

use brolga_compiler::{Artifact, CompileOptions, compile, shape, text};
use brolga_runtime::abi::Alias;
use brolga_runtime::{ArrayLiteral, Program, RunOptions};

const SOFTMAX: &str = "
HloModule softmax
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[64,256] parameter(0)
  low = f32[] constant(-inf)
  m = f32[64] reduce(x, low), dimensions={1}, to_apply=max
  mb = f32[64,256] broadcast(m), dimensions={0}
  d = f32[64,256] subtract(x, mb)
  e = f32[64,256] exponential(d)
  zero = f32[] constant(0)
  s = f32[64] reduce(e, zero), dimensions={1}, to_apply=sum
  sb = f32[64,256] broadcast(s), dimensions={0}
  ROOT out = f32[64,256] divide(e, sb)
}";

const LAYER_NORM: &str = "
HloModule layer_norm
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[64,256] parameter(0)
  zero = f32[] constant(0)
  n = f32[] constant(256)
  nb = f32[64] broadcast(n), dimensions={}
  t = f32[64] reduce(x, zero), dimensions={1}, to_apply=sum
  mean = f32[64] divide(t, nb)
  mb = f32[64,256] broadcast(mean), dimensions={0}
  d = f32[64,256] subtract(x, mb)
  sq = f32[64,256] multiply(d, d)
  q = f32[64] reduce(sq, zero), dimensions={1}, to_apply=sum
  var = f32[64] divide(q, nb)
  eps = f32[] constant(1e-05)
  epsb = f32[64] broadcast(eps), dimensions={}
  v = f32[64] add(var, epsb)
  r = f32[64] rsqrt(v)
  rb = f32[64,256] broadcast(r), dimensions={0}
  ROOT out = f32[64,256] multiply(d, rb)
}";

const GELU: &str = "
HloModule gelu
ENTRY main {
  x = f32[4096] parameter(0)
  c = f32[] constant(0.044715)
  cb = f32[4096] broadcast(c), dimensions={}
  x2 = f32[4096] multiply(x, x)
  x3 = f32[4096] multiply(x2, x)
  cx = f32[4096] multiply(cb, x3)
  in = f32[4096] add(x, cx)
  k = f32[] constant(0.797884583)
  kb = f32[4096] broadcast(k), dimensions={}
  kin = f32[4096] multiply(in, kb)
  t = f32[4096] tanh(kin)
  one = f32[] constant(1)
  oneb = f32[4096] broadcast(one), dimensions={}
  t1 = f32[4096] add(t, oneb)
  half = f32[] constant(0.5)
  halfb = f32[4096] broadcast(half), dimensions={}
  hx = f32[4096] multiply(halfb, x)
  ROOT out = f32[4096] multiply(hx, t1)
}";

fn artifact(source: &str, threads: usize) -> Artifact {
    let module = text::parse(source).expect("the module parses");
    shape::verify(&module).expect("the module is valid");
    let options = CompileOptions { threads, keep_texts: true, ..CompileOptions::default() };
    compile(&module, &options).expect("the module compiles")
}

#[test]
fn objects_are_the_same_bytes_in_every_run_and_on_any_number_of_threads() {
    for source in [SOFTMAX, LAYER_NORM, GELU] {
        let first = artifact(source, 1).object;
        for threads in [1, 2, 4, 8] {
            assert!(artifact(source, threads).object == first, "{threads} threads");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn rows_are_computed_with_packed_instructions() {
    for (source, wanted) in [
        (SOFTMAX, ["vmaxps", "vfmadd213ps", "vdivps"]),
        (LAYER_NORM, ["vaddps", "vsubps", "vmulps"]),
        (GELU, ["vfmadd213ps", "vmulps", "vminps"]),
    ] {
        let asm = artifact(source, 1).asm;
        for instruction in wanted {
            assert!(asm.contains(instruction), "no {instruction} in\n{asm}");
        }
    }
}

#[test]
fn softmax_and_layer_norm_are_one_kernel_each() {
    for source in [SOFTMAX, LAYER_NORM] {
        assert_eq!(artifact(source, 1).schedule.kernels.len(), 1);
    }
}

#[test]
fn a_donated_parameter_carries_its_value_to_the_next_call() {
    let artifact = artifact(
        "HloModule step, input_output_alias={ {0}: (0, {}, must-alias) }
         ENTRY main {
           w = f32[1000] parameter(0)
           g = f32[1000] parameter(1)
           r = f32[1000] reverse(w), dimensions={0}
           sum = f32[1000] add(r, g)
           ROOT out = (f32[1000], f32[1000]) tuple(sum, w)
         }",
        1,
    );
    let program = Program::from_object(&artifact.object).unwrap();
    assert_eq!(program.descriptor().aliases, [Alias { parameter: 0, result: 0, must: true }]);
    let mut session = program.session(&RunOptions::default()).unwrap();
    let values = |f: fn(usize) -> f32| (0..1000).map(f).collect::<Vec<_>>();
    let (w, g) = (values(|i| i as f32), values(|i| (i % 7) as f32));
    session.set_parameter(0, &ArrayLiteral::from_elements(&[1000], &w)).unwrap();
    session.set_parameter(1, &ArrayLiteral::from_elements(&[1000], &g)).unwrap();
    let mut expected = w;
    for _ in 0..3 {
        session.call().unwrap();
        // The second result is the parameter as it was before the call.
        assert_eq!(session.result(1).unwrap().as_slice::<f32>(), expected);
        expected = expected.iter().rev().zip(&g).map(|(w, g)| w + g).collect();
        assert_eq!(session.result(0).unwrap().as_slice::<f32>(), expected);
    }
}
