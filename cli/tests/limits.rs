//! Programs that ask for more than there is: memory, address space, nesting. Each ends with a status and a sentence.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

/// Runs the program with this much address space, in KiB, so that what is too large for it is so on every machine.
fn brolga(limit: u64, args: &[&str], input: &str) -> Output {
    let limited = format!("ulimit -v {limit} && exec \"$0\" \"$@\"");
    super::start::output(Command::new("sh").args(["-c", &limited, env!("CARGO_BIN_EXE_brolga")]).args(args), input)
}

fn entry(body: &str) -> String {
    format!("HloModule limits\n\nENTRY main {{\n{body}\n}}\n")
}

/// The status, which must not be that of a signal, and the message.
fn outcome(output: &Output, what: &str) -> (i32, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or_else(|| panic!("{what}: {}: {text}", output.status)), text)
}

#[test]
fn arrays_that_cannot_be_allocated_are_an_error_in_words() {
    let broadcast = |n: u64| format!("c = f32[] constant(1)\n ROOT r = f32[{n}] broadcast(c), dimensions={{}}");
    let sorted = |n: u64| {
        format!(
            "p = f32[{n}] parameter(0)\n s = f32[{n}] sort(p), dimensions={{0}}, to_apply={{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT l = pred[] compare(a, b), direction=LT }}\n ROOT r = f32[1] slice(s), slice={{[0:1]}}"
        )
    };
    let eigh = "c = f32[] constant(1)\n a = f32[8192,8192] broadcast(c), dimensions={}\n h = (f32[8192,8192], f32[8192], s32[]) custom-call(a), custom_call_target=\"lapack_ssyevd_ffi\", api_version=API_VERSION_TYPED_FFI, backend_config={mode = 86 : ui8, uplo = 76 : ui8}\n ROOT v = f32[8192] get-tuple-element(h), index=1";
    let fft = "c = c64[] constant((1, 2))\n a = c64[33554432] broadcast(c), dimensions={}\n f = c64[33554432] fft(a), fft_type=FFT, fft_length={33554432}\n ROOT r = c64[1] slice(f), slice={[0:1]}";
    let copied = "c = f32[] constant(1)\n b = f32[300000000] broadcast(c), dimensions={}\n n = f32[300000000] negate(b)\n ROOT r = f32[300000000] reverse(n), dimensions={0}";
    let gib = 1 << 20;
    for engine in ["jit", "aot", "interp"] {
        for (what, limit, body, random) in [
            ("a result", 4 * gib, broadcast(1 << 40), false),
            ("a result", 2 * gib, broadcast(1 << 29), false),
            ("a parameter", 2 * gib, sorted(1 << 30), true),
            ("scratch", 2 * gib, sorted(200_000_000), true),
            ("copies of a matrix", 2 * gib, eigh.to_owned(), false),
            ("copies of a line", gib, fft.to_owned(), false),
            ("values on the way", 2 * gib, copied.to_owned(), false),
        ] {
            // Only what is given makes the scratch of a sort too large; filling it takes too long elsewhere.
            if what == "scratch" && cfg!(debug_assertions) {
                continue;
            }
            let mut args = vec!["run", "-", "--engine", engine, "--output-dir", env!("CARGO_TARGET_TMPDIR")];
            args.extend(if random { &["--random-seed", "1"][..] } else { &[] });
            let (status, text) = outcome(&brolga(limit, &args, &entry(&body)), what);
            let limited = engine == "interp" && text.contains("a value of 8589934592 bytes or more");
            let refused = status == 1 && text.contains("cannot allocate") && text.contains("bytes");
            assert!(refused || limited && status == 3, "{what} in {engine}: {status} {text}");
        }
    }
}

#[test]
fn results_that_cannot_be_printed_are_an_error_in_words() {
    let body = "c = f32[] constant(1)\n ROOT r = f32[60000000] broadcast(c), dimensions={}";
    let (status, text) = outcome(&brolga(1 << 20, &["run", "-", "--engine", "jit"], &entry(body)), "text");
    assert!(status == 1 && text.contains("too large to print"), "{status} {text}");
}

#[test]
fn sizes_past_the_descriptor_or_the_address_space_are_unsupported() {
    let bodies = [
        "ROOT p = f32[9223372036854775807] parameter(0)",
        "ROOT p = s8[9223372036854775807] parameter(0)",
        "p = s8[9223372036854775807] parameter(0)\n ROOT n = s8[9223372036854775807] negate(p)",
        "p = s8[2000000000000000000] parameter(0)\n n = s8[2000000000000000000] negate(p)\n ROOT s = s8[1] slice(n), slice={[0:1]}",
        "p = f32[4294967296,536870911] parameter(0)\n ROOT t = f32[536870911,4294967296] transpose(p), dimensions={1,0}",
        "p = f32[4294967296] parameter(0)\n q = f32[536870911] parameter(1)\n d = f32[4294967296,536870911] dot(p, q), lhs_contracting_dims={}, rhs_contracting_dims={}\n ROOT s = f32[1,1] slice(d), slice={[0:1], [0:1]}",
        "p = f32[35184372088832] parameter(0)\n s = f32[35184372088832] sort(p), dimensions={0}, to_apply={ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT l = pred[] compare(a, b), direction=LT }\n ROOT r = f32[1] slice(s), slice={[0:1]}",
        "i = s64[1152921504606846975] iota(), iota_dimension=0\n p = s64[] parameter(0)\n s = s64[1152921504606846975] custom-call(i), custom_call_target=\"f\"\n ROOT r = s64[1] slice(s), slice={[0:1]}",
        "p = f32[<=9223372036854775807] parameter(0)\n ROOT n = f32[<=9223372036854775807] negate(p)",
        "p = s8[<=9223372036854775807] parameter(0)\n ROOT n = s8[<=9223372036854775807] negate(p)",
        "ROOT t = (s8[9223372036854775807], s8[9223372036854775807]) parameter(0)",
        "p = u8[] parameter(0)\n ROOT b = u8[9223372036854775807] broadcast(p), dimensions={}",
        "p = u8[4611686018427387904] parameter(0)\n ROOT b = u8[9223372036854775807] concatenate(p, p), dimensions={0}",
    ];
    for body in bodies {
        let (status, text) =
            outcome(&brolga(4 << 20, &["compile", "-", "--emit", "obj=/dev/null"], &entry(body)), body);
        assert_eq!(status, 3, "{body}\n{text}");
        assert!(text.contains("─[ <stdin>:"), "no place: {body}\n{text}");
        for engine in ["jit", "interp"] {
            let args = ["run", "-", "--engine", engine, "--random-seed", "1"];
            let (status, text) = outcome(&brolga(4 << 20, &args, &entry(body)), body);
            assert!([1, 3].contains(&status), "{engine} {body}: {status}\n{text}");
        }
    }
    for body in [
        "ROOT p = f32[9223372036854775808] parameter(0)",
        "p = u8[4611686018427387904] parameter(0)\n ROOT b = u8[4] concatenate(p, p), dimensions={0}",
        "p = u8[2] parameter(0)\n z = u8[] constant(0)\n ROOT b = pad(p, z), padding=9223372036854775807_0",
        "p = u8[2] parameter(0)\n z = u8[] constant(0)\n ROOT b = pad(p, z), padding=0_0_9223372036854775807",
        "p = f64[2] parameter(0)\n z = f64[] constant(0)\n ROOT b = pad(p, z), padding=1152921504606846974_0",
    ] {
        let (status, text) = outcome(&brolga(4 << 20, &["parse", "-"], &entry(body)), body);
        // A number that is none of 64 bits is no text.
        assert_eq!(status, if body.contains("775808") { 2 } else { 3 }, "{body}\n{text}");
    }
    for tensors in ["(%x: tensor<9223372036854775807xf32>)", "(%x: tensor<4294967296x4294967296xi8>)"] {
        let text = format!("func.func @main{tensors} {{\n  return\n}}\n");
        let (status, text) = outcome(&brolga(4 << 20, &["parse", "-"], &text), tensors);
        assert_eq!(status, 3, "{tensors}\n{text}");
    }
    let grown = "func.func @main(%x: tensor<4611686018427387904xi8>) -> tensor<?xi8> {\n  \
        %0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<4611686018427387904xi8>, tensor<4611686018427387904xi8>) -> tensor<?xi8>\n  \
        return %0 : tensor<?xi8>\n}\n";
    let constant = "func.func @main() -> tensor<9223372036854775807xi32> {\n  \
        %0 = stablehlo.constant dense<1> : tensor<9223372036854775807xi32>\n  \
        return %0 : tensor<9223372036854775807xi32>\n}\n";
    for text in [grown, constant] {
        let (status, message) = outcome(&brolga(4 << 20, &["parse", "-"], text), text);
        assert_eq!(status, 3, "{text}\n{message}");
    }
}

/// `depth` loops, one inside the other, each of which runs `trips` times; the innermost counts.
fn nested_loops(depth: usize, trips: &str) -> String {
    let mut text = String::from("HloModule nested\n\n");
    for level in 0..depth {
        let inner = match level {
            0 => "one = s32[] constant(1)\n m = s32[] add(n, one)".to_owned(),
            _ => format!(
                "z = s32[] constant(0)\n t = (s32[], s32[]) tuple(z, n)\n \
                 w = (s32[], s32[]) while(t), condition=c{0}, body=b{0}\n m = s32[] get-tuple-element(w), index=1",
                level - 1
            ),
        };
        text.push_str(&format!(
            "b{level} {{\n p = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0
 n = s32[] get-tuple-element(p), index=1\n {inner}\n step = s32[] constant(1)\n j = s32[] add(i, step)
 ROOT r = (s32[], s32[]) tuple(j, m)\n}}
c{level} {{\n p = (s32[], s32[]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n {trips}
 ROOT l = pred[] compare(i, k), direction=LT\n}}\n"
        ));
    }
    text + &format!(
        "ENTRY main {{\n n = s32[] parameter(0)\n z = s32[] constant(0)\n t = (s32[], s32[]) tuple(z, n)
 w = (s32[], s32[]) while(t), condition=c{0}, body=b{0}\n ROOT r = s32[] get-tuple-element(w), index=1\n}}\n",
        depth - 1
    )
}

#[test]
fn deeply_nested_loops_take_little_memory_or_are_unsupported() {
    // 300 MB for the work, and what the program maps besides.
    let limit = 450_000;
    let once = "k = s32[] constant(1)";
    // The same, but no pass can know it.
    let unknown = "two = s32[] constant(2)\n n = s32[] get-tuple-element(p), index=1\n k = s32[] remainder(n, two)";
    for (depth, trips) in [(100, once), (100, unknown), (2000, once), (2000, unknown)] {
        for engine in ["jit", "interp"] {
            let args = ["run", "-", "--engine", engine, "--input", "s32[]=1"];
            let output = brolga(limit, &args, &nested_loops(depth, trips));
            let (status, text) = outcome(&output, engine);
            if status == 0 {
                let result = String::from_utf8_lossy(&output.stdout).into_owned();
                assert_eq!(result, "s32[] 2\n", "{depth} {engine}");
            } else {
                assert!(status == 3 && depth > 128 && text.contains("nested"), "{depth} {engine}: {status} {text}");
            }
        }
    }
}
