//! Files that are no program for this compiler, known by their content, each with what to do instead.

/// What JAX says to write a program that is read here.
const JAX: &str = "export the program with jax.export.export(jax.jit(f))(x).serialize(), or print it with \
                   jax.jit(f).lower(x).as_text()";

/// What to do with a text in another encoding.
const SAVE: &str = "save it as UTF-8";

/// What a file is and what to do, where its first bytes say that it is something else. `ending` is the file's, without the dot.
pub(super) fn recognise(bytes: &[u8], ending: Option<&str>) -> Option<String> {
    let (what, remedy) = by_signature(bytes).or_else(|| by_text(bytes)).or_else(|| onnx(bytes, ending))?;
    Some(format!("expected a program, found {what}; {remedy}"))
}

fn by_signature(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const PYTORCH: &str = "torch_xla.stablehlo.exported_program_to_stablehlo writes a PyTorch model as StableHLO";
    let signatures: [(&[u8], &str, &str); 12] = [
        (b"\x1f\x8b", "a gzip file", "unpack it first, with gunzip"),
        (b"BZh", "a bzip2 file", "unpack it first, with bunzip2"),
        (b"\xfd7zXZ\0", "an xz file", "unpack it first, with unxz"),
        (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it first, with unzstd"),
        (b"PK\x03\x04", "a zip archive, such as PyTorch saves", PYTORCH),
        (b"\x80\x02", "a Python pickle", PYTORCH),
        (
            b"\x89HDF\r\n",
            "an HDF5 file, such as Keras saves",
            "keras.Model.export(..., format=\"openxla\") writes StableHLO",
        ),
        (b"\x93NUMPY", "an array of NumPy", "arrays are inputs: give it to `--input`"),
        (b"BC\xc0\xde", "LLVM bitcode", "programs are HLO or StableHLO"),
        (
            b"\x7fELF",
            "an object",
            "`brolga run`, `bench` and `inspect` take objects, in a build script `Builder::object`",
        ),
        (b"\xff\xfe", "a text in UTF-16", SAVE),
        (b"\xfe\xff", "a text in UTF-16", SAVE),
    ];
    let found = signatures.into_iter().find(|(signature, ..)| bytes.starts_with(signature));
    let tflite = || {
        let is = bytes.get(4..8) == Some(b"TFL3");
        is.then_some((
            "a TensorFlow Lite model",
            "tf.function(f, jit_compile=True).experimental_get_compiler_ir(x)(stage=\"hlo\") prints HLO",
        ))
    };
    found.map(|(_, what, remedy)| (what, remedy)).or_else(tflite)
}

fn by_text(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    // Every other byte of a text in UTF-16 without a mark is zero, and no message or flatbuffer goes on like that.
    let is_letter = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let is_wide = |pair: &[u8; 2]| matches!(pair, [0, letter] | [letter, 0] if is_letter(letter));
    if bytes.as_chunks::<2>().0.get(..8).is_some_and(|pairs| pairs.iter().all(is_wide)) {
        return Some(("a text in UTF-16", SAVE));
    }
    let text = bytes.trim_ascii_start();
    if text.is_empty() {
        return Some(("an empty file", "what was to write it may have failed"));
    }
    let starts =
        |word: &[u8]| text.strip_prefix(word).is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_whitespace));
    if starts(b"import") || starts(b"from") || starts(b"def") {
        return Some(("Python", JAX));
    }
    let inside = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start)?;
    match inside {
        [b'"', ..] => Some(("JSON", "programs are HLO or StableHLO")),
        _ => inside.starts_with(b"lambda ").then_some(("a jaxpr", JAX)),
    }
}

/// A ModelProto: its version, a small number, stands before the producer's name or what follows it. A message of XLA's begins with a
/// field that has a length.
fn onnx(bytes: &[u8], ending: Option<&str>) -> Option<(&'static str, &'static str)> {
    let named = ending.is_some_and(|e| e.eq_ignore_ascii_case("onnx"));
    let is = matches!(bytes, [0x08, 1..=32, 0x12 | 0x1a | 0x22 | 0x28 | 0x32 | 0x3a | 0x42, ..]);
    let remedy =
        "export the program that it was made from as StableHLO, or convert it with a tool such as jaxonnxruntime";
    (named || is).then_some(("an ONNX model", remedy))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::error::Error;
    use crate::front::{ReadOptions, read};

    #[test]
    fn each_kind_of_file_is_named_with_what_to_do() {
        for (bytes, ending, what, remedy) in [
            (&b"\x1f\x8b\x08\0\0"[..], Some("hlo"), "a gzip file", "gunzip"),
            (b"PK\x03\x04\x14\0", Some("pt"), "a zip archive", "torch_xla"),
            (b"\x80\x02}q", Some("pkl"), "a Python pickle", "torch_xla"),
            (b"\x89HDF\r\n\x1a\n", Some("h5"), "an HDF5 file", "export"),
            (b"\x93NUMPY\x01\0", Some("npy"), "an array of NumPy", "--input"),
            (b"\xff\xfeH\0l\0o\0", None, "UTF-16", "UTF-8"),
            (b"\x18\0\0\0TFL3", Some("tflite"), "TensorFlow Lite", "get_compiler_ir"),
            (b"\x08\x07\x12\x07pytorch", None, "an ONNX model", "StableHLO"),
            (b"\x0a\x01", Some("onnx"), "an ONNX model", "StableHLO"),
            (b"import jax\n", Some("py"), "Python", "jax.export"),
            (b"{ lambda ; a:f32[]. let in (a,) }", None, "a jaxpr", "as_text()"),
            (b"{\n  \"format\": 1 }", Some("json"), "JSON", "StableHLO"),
            (b"H\0l\0o\0M\0o\0d\0u\0l\0e\0", Some("hlo"), "UTF-16", "UTF-8"),
            (b"\x7fELF\x02\x01\x01\0", Some("hlo"), "an object", "brolga run"),
            (b"", Some("hlo"), "an empty file", "what was to write it"),
            (b" \n", None, "an empty file", "what was to write it"),
        ] {
            let error = read(bytes, ending, &ReadOptions::default()).unwrap_err();
            assert!(matches!(error, Error::Syntax { .. }), "{error:?}");
            let message = error.to_string();
            assert!(message.contains(what) && message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn a_byte_order_mark_says_nothing() {
        for text in
            ["HloModule m\nENTRY e {\n  ROOT x = f32[2] parameter(0)\n}\n", "module { func.func @main() { return } }"]
        {
            let marked = format!("\u{feff}{text}");
            let options = ReadOptions::default();
            assert!(read(text.as_bytes(), None, &options).is_ok());
            assert!(read(marked.as_bytes(), None, &options).is_ok());
        }
    }
}
