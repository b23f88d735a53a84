//! The header that is committed is the one that the declarations make. `BROLGA_WRITE_HEADER=1 cargo test -p brolga-capi --test
//! header` writes it anew.
#![allow(clippy::unwrap_used)]

use std::path::Path;

/// Names in Rust and in C.
const NAMES: &[(&str, &str)] = &[
    ("Array", "brolga_array"),
    ("Call", "brolga_call"),
    ("CustomCalls", "brolga_custom_calls"),
    ("Descriptor", "brolga_descriptor"),
    ("Device", "brolga_device"),
    ("Entry", "brolga_entry"),
    ("Function", "brolga_function"),
    ("Infeed", "brolga_infeed"),
    ("Input", "brolga_input"),
    ("NeededCall", "brolga_needed_call"),
    ("Object", "brolga_object"),
    ("Options", "brolga_options"),
    ("Outfeed", "brolga_outfeed"),
    ("Output", "brolga_output"),
    ("Pool", "brolga_pool"),
    ("Program", "brolga_program"),
    ("Session", "brolga_session"),
    ("Symbol", "brolga_symbol"),
    ("Value", "brolga_value"),
];

const SOURCES: [&str; 8] = ["failure", "array", "object", "describe", "run", "devices", "feeds", "custom_calls"];

fn generated() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        include_guard: Some("BROLGA_H".to_owned()),
        cpp_compat: true,
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned(), "string.h".to_owned()],
        header: Some(
            "/* The C interface of Brolga's runtime. Made from the declarations in bindings/capi/src: do not edit. */"
                .into(),
        ),
        after_includes: Some(format!(
            "\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n{}#ifdef __cplusplus\n}}\n#endif\n",
            brolga_compiler::object::c_abi()
        )),
        documentation_style: cbindgen::DocumentationStyle::C,
        style: cbindgen::Style::Both,
        line_length: 120,
        ..cbindgen::Config::default()
    };
    for (rust, c) in NAMES {
        config.export.rename.insert((*rust).to_owned(), (*c).to_owned());
    }
    // Declared by the part that the headers of compiled programs have too.
    config.export.exclude = vec!["Descriptor".to_owned(), "Entry".to_owned()];
    config.function.sort_by = Some(cbindgen::SortKey::None);
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in SOURCES {
        builder = builder.with_src(source.join(format!("{file}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    without_safety(&String::from_utf8(text).unwrap())
}

/// Rust's sections on safety, which say what C takes for granted or what the text says before, go.
fn without_safety(text: &str) -> String {
    let mut out = String::new();
    let mut skipping = false;
    for line in text.lines() {
        if line.trim() == "* # Safety" {
            skipping = true;
            // The empty line before the heading.
            if out.ends_with(" *\n") {
                out.truncate(out.len() - " *\n".len());
            }
        }
        skipping &= line.trim() != "*/";
        if !skipping {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

#[test]
fn the_committed_header_is_the_one_that_the_declarations_make() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/brolga.h");
    let made = generated();
    if std::env::var_os("BROLGA_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "include/brolga.h is out of date: run this test with BROLGA_WRITE_HEADER=1");
}

/// Every function of the library is declared, and every name is ours.
#[test]
fn every_exported_function_is_declared() {
    let header = generated();
    let mut count = 0;
    for file in SOURCES {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{file}.rs"));
        let source = std::fs::read_to_string(source).unwrap();
        let declared = source.split("extern \"C\" fn ").skip(1);
        for name in declared.filter_map(|rest| rest.split('(').next()).filter(|name| name.starts_with("brolga_")) {
            assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}
