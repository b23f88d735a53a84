#![allow(clippy::unwrap_used)]

use super::parse;

const COPY: &str = "kernel copy (in0: f32[8]) -> (out0: f32[8])  // line 3
  may be one memory: out0, in0
  phase
    stage vector i0 in 8
      %0 = load in0[-i0 + 7] : f32
      store out0[i0] = %0 : f32
";

#[test]
fn what_is_printed_reads_back() {
    let kernels = parse(&format!("// A comment.\n{COPY}\n{COPY}")).unwrap();
    assert_eq!(kernels.len(), 2);
    assert_eq!(kernels[0].to_string(), COPY);
    assert_eq!(kernels[1].line, 3);
}

/// A change to the text, and what the error must say, with its line.
fn refused(from: &str, to: &str, line: u32, says: &str) {
    assert!(COPY.contains(from), "{from}");
    let error = parse(&COPY.replace(from, to)).unwrap_err();
    assert!(error.message().contains(says), "{from} -> {to}: {}", error.message());
    assert_eq!(error.site().unwrap().location.line, line, "{from} -> {to}: {}", error.message());
}

#[test]
fn errors_name_their_line() {
    refused("in0[-i0", "in7[-i0", 5, "no buffer 'in7'");
    refused("out0[i0]", "out0[i1]", 6, "the loop i1 does not run");
    refused("= %0 : f32", "= %4 : f32", 6, "%4 is not defined");
    refused("load", "read", 5, "'read' is no operation");
    refused("f32[8])  //", "f31[8])  //", 1, "no element type");
    refused("stage vector", "stage vectors", 4, "left over");
    refused("%0 = load", "%x = load", 5, "no number of a node");
    refused(": f32\n      store", ": f16\n      store", 5, "no form of memory");
    refused("-i0 + 7", "((i0) / 0)", 5, "division by 0");
    refused("out0, in0", "out0", 2, "two buffers");
    refused("phase\n", "phrase\n", 3, "expected a phase");
}
