//! `brolga inspect --html`: a program's kernels, arrays and memory on one page.
//!
//! Invariant: the page needs nothing but itself: no script, no font, no picture and no style from anywhere else, so that it opens
//! offline and can be sent to somebody. Whatever comes from the program is escaped.

use brolga_compiler::Artifact;
use brolga_compiler::memory::schedule::Location;
use brolga_compiler::survey::{ArraySurvey, KernelSurvey, Survey};
use std::fmt::Write;

/// Width of the picture of the memory, and its height where there is much to show.
const PICTURE: (f64, f64) = (900.0, 420.0);

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
h1, h2 { font-weight: 600 }
h1, p, summary, li { overflow-wrap: anywhere }
table { border-collapse: collapse; display: block; overflow-x: auto }
td, th { text-align: left; padding: .15em .9em .15em 0; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
pre { overflow-x: auto; background: #f5f5f3; padding: .7em; font-size: 13px }
details { border-top: 1px solid #ddd; padding: .3em 0 }
summary { cursor: pointer }
summary b { display: inline-block; min-width: 6em }
.kind { color: #666 }
svg { width: 100%; border: 1px solid #ddd }
svg rect { fill: #7aa6c2; stroke: #fff; stroke-width: 1 }
svg rect:hover { fill: #d98943 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b }
  pre { background: #262626 }
  .kind { color: #a0a0a0 }
}
";

/// The page of a compiled program; `name` is what it was read from.
pub fn page(name: &str, artifact: &Artifact, survey: &Survey) -> String {
    let module = escape(&artifact.module.name);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{module} in Brolga</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{module}</h1>\n"
    );
    let kept: u64 = survey.kernels.iter().map(|k| k.reads + k.writes).sum();
    let _ = writeln!(
        out,
        "<p>Compiled from {} for {} ({}): {} kernels, {} of code and constants, {} of workspace. The kernels read and write \
         {} in all, once each.</p>",
        escape(name),
        artifact.descriptor.architecture,
        escape(&artifact.descriptor.features.to_string()),
        survey.kernels.len(),
        bytes(artifact.object.len() as u64),
        bytes(survey.workspace),
        bytes(kept),
    );
    out.push_str("<h2>Kernels</h2>\n<p>In the order in which they stand. Each computes its instructions in one pass; a value that \
                  is stored ends it, for the reason given.</p>\n");
    survey.kernels.iter().for_each(|kernel| section(&mut out, kernel));
    out.push_str("<h2>Workspace</h2>\n");
    picture(&mut out, survey);
    out.push_str("<h2>Arrays</h2>\n");
    arrays(&mut out, survey);
    out.push_str("</body>\n</html>\n");
    out
}

fn section(out: &mut String, kernel: &KernelSurvey) {
    let line = if kernel.line > 0 { format!(", line {}", kernel.line) } else { String::new() };
    let _ = writeln!(
        out,
        "<details id=\"{id}\">\n<summary><b>{id}</b> {name} <span class=\"kind\">{kind}{line}: {count} instructions, reads {reads}, \
         writes {writes}, at {position}</span></summary>",
        id = kernel.id,
        name = escape(&kernel.name),
        kind = kernel.kind,
        count = kernel.instructions.len(),
        reads = bytes(kernel.reads),
        writes = bytes(kernel.writes),
        position = kernel.position,
    );
    let lines: Vec<String> = kernel.instructions.iter().map(|i| escape(&i.text)).collect();
    let _ = writeln!(out, "<pre class=\"hlo\">{}</pre>", lines.join("\n"));
    out.push_str("<ul>\n");
    for ending in &kernel.endings {
        let _ = writeln!(out, "<li>{}</li>", escape(ending));
    }
    out.push_str("</ul>\n<details>\n<summary>Kernel IR</summary>\n");
    let _ = writeln!(out, "<pre>{}</pre>\n</details>\n</details>", escape(&kernel.text));
}

/// The workspace: time to the right, addresses downwards, a rectangle for each range in which an array is needed.
fn picture(out: &mut String, survey: &Survey) {
    if survey.workspace == 0 {
        out.push_str("<p>None: every array lies in a parameter, a result or the constants.</p>\n");
        return;
    }
    let (width, height) = PICTURE;
    let (end, size) = (f64::from(survey.end.max(1)), survey.workspace as f64);
    out.push_str("<p>Time runs to the right, a kernel or copy a step; addresses run downwards.</p>\n");
    let _ = writeln!(out, "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"workspace over time\">");
    for array in &survey.arrays {
        let Some(Location::Workspace(offset)) = array.life.location else { continue };
        for (from, to) in &array.life.ranges {
            let (x, w) = (f64::from(*from) / end * width, f64::from(to - from) / end * width);
            let (y, h) = (offset as f64 / size * height, array.life.bytes as f64 / size * height);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{w:.2}\" height=\"{h:.2}\"><title>{} {}: {} at {offset}, from {from} \
                 to {to}</title></rect>",
                escape(&array.name),
                escape(&array.shape),
                bytes(array.life.bytes),
            );
        }
    }
    out.push_str("</svg>\n");
}

fn arrays(out: &mut String, survey: &Survey) {
    out.push_str(
        "<table>\n<tr><th>array</th><th>shape</th><th class=\"n\">size</th><th>memory</th><th>needed</th></tr>\n",
    );
    for array in &survey.arrays {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
            escape(&array.name),
            escape(&array.shape),
            bytes(array.life.bytes),
            memory(array),
            ranges(array),
        );
    }
    out.push_str("</table>\n");
}

fn memory(array: &ArraySurvey) -> String {
    match array.life.location {
        Some(Location::Parameter(n)) => format!("parameter {n}"),
        Some(Location::Result(n)) => format!("result {n}"),
        Some(Location::Workspace(offset)) => format!("workspace + {offset}"),
        Some(Location::Constant(_)) => "constant".to_owned(),
        None => "none".to_owned(),
    }
}

fn ranges(array: &ArraySurvey) -> String {
    let one = |(from, to): &(u32, u32)| format!("{from} to {to}");
    array.life.ranges.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A size as people read it.
pub fn bytes(n: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| n >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", n as f64 / unit as f64),
        None => format!("{n} bytes"),
    }
}

/// Text that means itself in HTML, between tags and in quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use brolga_compiler::{CompileOptions, compile, survey::survey, text};

    const MODULE: &str = "HloModule attention

max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}

ENTRY e {
  x = f32[64,64] parameter(0)
  s = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  low = f32[] constant(-inf)
  m = f32[64] reduce(s, low), dimensions={1}, to_apply=max
  b = f32[64,64] broadcast(m), dimensions={0}
  d = f32[64,64] subtract(s, b)
  e = f32[64,64] exponential(d)
  ROOT o = f32[64,64] dot(e, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
";

    /// The names of the elements that are open at each text of the page; panics where one is closed that is not open.
    fn check_nesting(page: &str) -> usize {
        let (mut open, mut count) = (Vec::new(), 0);
        for tag in page.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap();
            let name = tag.split_whitespace().next().unwrap().trim_start_matches('/');
            match (tag.starts_with('/'), name) {
                (_, "!DOCTYPE" | "meta") => {}
                (true, name) => assert_eq!(open.pop(), Some(name), "{tag}"),
                (false, name) => {
                    open.push(name);
                    count += 1;
                }
            }
        }
        assert!(open.is_empty(), "{open:?}");
        count
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let module = text::parse(MODULE).unwrap();
        let artifact = compile(&module, &CompileOptions::default()).unwrap();
        let survey = survey(&artifact).unwrap();
        let page = page("a<b>.hlo", &artifact, &survey);
        assert!(check_nesting(&page) > 30);
        for foreign in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("a&lt;b&gt;.hlo") && !page.contains("a<b>"));
        for kernel in &survey.kernels {
            assert!(page.contains(&format!("<details id=\"{}\">", kernel.id)));
        }
        for opcode in ["dot(", "reduce(", "subtract(", "exponential("] {
            assert!(page.contains(opcode), "{opcode}");
        }
        assert!(page.contains("e is stored for o (dot): it reads the whole array"), "{page}");
        let in_workspace = |a: &&ArraySurvey| matches!(a.life.location, Some(Location::Workspace(_)));
        let ranges: usize = survey.arrays.iter().filter(in_workspace).map(|a| a.life.ranges.len()).sum();
        assert!(ranges > 0);
        assert_eq!(page.matches("<rect ").count(), ranges);
        assert_eq!(page.matches("<tr>").count(), survey.arrays.len() + 1);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1536), bytes(3 << 30)],
            ["0 bytes", "1023 bytes", "1.5 KiB", "3.0 GiB"]
        );
    }
}
