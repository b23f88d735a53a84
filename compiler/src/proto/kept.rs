//! Attributes that the module keeps as text, spelled as XLA spells them, and read back from any text that the reader accepts.

use super::message::{
    Entry, Flags, FrontendAttributes, Metadata, OperandAlias, OriginalArray, OriginalElement, OriginalValue,
    ResultAccuracy, SparsityConfig, Statistic, Statistics, TensorSparsity, Tolerance,
};
use super::{malformed, unsupported};
use crate::Result;
use crate::hlo::quote;
use crate::text::cursor::Cursor;
use brolga_runtime::Shape;
use std::fmt::{Display, Write};

/// `1,2,3`.
pub(super) fn joined<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(",")
}

/// `{x, x}` read with `item`.
pub(super) fn list<'a, T>(c: &mut Cursor<'a>, item: impl FnMut(&mut Cursor<'a>) -> Result<T>) -> Result<Vec<T>> {
    within(c, ["{", "}"], item)
}

/// Items with commas between them, in brackets.
pub(super) fn within<'a, T>(
    c: &mut Cursor<'a>,
    [open, close]: [&str; 2],
    mut item: impl FnMut(&mut Cursor<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    c.expect(open)?;
    let mut out = Vec::new();
    if c.eat(close) {
        return Ok(out);
    }
    loop {
        out.push(item(c)?);
        if !c.eat(",") {
            c.expect(close)?;
            return Ok(out);
        }
    }
}

/// `{1,2}`.
pub(super) fn ints(c: &mut Cursor<'_>) -> Result<Vec<i64>> {
    list(c, |c| c.int("an integer"))
}

/// Reads the whole of `text`.
pub(super) fn whole<'a, T>(text: &'a str, read: impl FnOnce(&mut Cursor<'a>) -> Result<T>) -> Result<T> {
    let mut cursor = Cursor::new(text)?;
    let out = read(&mut cursor)?;
    cursor.expect_end()?;
    Ok(out)
}

/// A word that stands for a name, or none: what reads back as a word.
fn is_word(text: &str) -> bool {
    whole(text, |c| Ok(c.word().map(str::len))).is_ok_and(|n| n == Some(text.len()))
}

/// Text as it stands where it is a dictionary in braces, quoted otherwise.
fn braces_or_quoted(text: &str) -> String {
    let braced = text.starts_with('{') && text.ends_with('}') && whole(text, |c| c.raw("a value").map(drop)).is_ok();
    if braced { text.to_owned() } else { quote(text) }
}

/// Reads a quoted string, or a dictionary as it stands.
fn string_or_braces(c: &mut Cursor<'_>) -> Result<String> {
    match c.peek() {
        Some(b'{') => c.raw("a value").map(str::to_owned),
        _ => c.string("a quoted string"),
    }
}

pub(super) fn backend_config(bytes: &[u8]) -> Result<Option<String>> {
    match std::str::from_utf8(bytes) {
        Ok("") => Ok(None),
        Ok(text) => Ok(Some(braces_or_quoted(text))),
        Err(_) => Err(unsupported("", "a backend_config that is not UTF-8")),
    }
}

pub(crate) fn backend_config_bytes(text: &str) -> Result<Vec<u8>> {
    whole(text, string_or_braces).map(String::into_bytes)
}

pub(super) fn frontend_attributes(message: &FrontendAttributes) -> Result<String> {
    let mut entries: Vec<&Entry> = message.entries.iter().collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    if let Some(entry) = entries.iter().find(|e| !is_word(&e.key)) {
        return Err(unsupported("", format!("the frontend attribute {}, whose name is no word", quote(&entry.key))));
    }
    // As in the decoder of a map, the last entry of a key counts.
    let mut out: Vec<&Entry> = Vec::new();
    for entry in entries {
        match out.last_mut() {
            Some(last) if last.key == entry.key => *last = entry,
            _ => out.push(entry),
        }
    }
    Ok(format!("{{{}}}", joined(out.iter().map(|e| format!("{}={}", e.key, braces_or_quoted(&e.value))))))
}

pub(crate) fn frontend_attributes_message(text: &str) -> Result<FrontendAttributes> {
    let entries = whole(text, |c| {
        list(c, |c| {
            let key = word(c)?.to_owned();
            c.expect("=")?;
            Ok(Entry { key, value: string_or_braces(c)? })
        })
    })?;
    Ok(FrontendAttributes { entries })
}

/// The attribute of a module that [`donors`] reads.
pub(crate) const DONORS: &str = "buffer_donor";

/// What [`donors`] reads.
pub(crate) fn donors_text(donors: &[(i64, Vec<i64>)]) -> String {
    let each = donors.iter().map(|(parameter, index)| format!("({parameter}, {{{}}})", joined(index)));
    format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
}

/// `{(0, {}), (1, {2})}`: parameters that may be overwritten, and the path to the part that may.
pub(crate) fn donors(text: &str) -> Result<Vec<(i64, Vec<i64>)>> {
    whole(text, |c| {
        list(c, |c| {
            c.expect("(")?;
            let parameter = c.int("a parameter number")?;
            c.expect(",")?;
            let index = ints(c)?;
            c.expect(")")?;
            Ok((parameter, index))
        })
    })
}

fn word<'a>(c: &mut Cursor<'a>) -> Result<&'a str> {
    match c.word() {
        Some(word) => Ok(word),
        None => Err(c.expected("a word")),
    }
}

pub(super) fn metadata(m: &Metadata) -> String {
    let mut out = Vec::new();
    let mut text = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push(format!("{name}={}", quote(value)));
        }
    };
    text("op_type", &m.op_type);
    text("op_name", &m.op_name);
    text("source_file", &m.source_file);
    let mut number = |name: &str, value: i32| {
        if value != 0 {
            out.push(format!("{name}={value}"));
        }
    };
    number("source_line", m.source_line);
    number("source_end_line", m.source_end_line);
    number("source_column", m.source_column);
    number("source_end_column", m.source_end_column);
    if !m.profile_type.is_empty() {
        out.push(format!("profile_type={{{}}}", joined(&m.profile_type)));
    }
    if !m.deduplicated_name.is_empty() {
        out.push(format!("deduplicated_name={}", quote(&m.deduplicated_name)));
    }
    if !m.scheduling_name.is_empty() {
        out.push(format!("scheduling_name={}", quote(&m.scheduling_name)));
    }
    if m.stack_frame_id != 0 {
        out.push(format!("stack_frame_id={}", m.stack_frame_id));
    }
    format!("{{{}}}", out.join(" "))
}

pub(crate) fn metadata_message(text: &str) -> Result<Metadata> {
    whole(text, metadata_at)
}

/// Reads metadata in braces. What older texts have and no message has a field for is left out: it says nothing about values.
pub(super) fn metadata_at(c: &mut Cursor<'_>) -> Result<Metadata> {
    let mut m = Metadata::default();
    c.expect("{")?;
    while !c.eat("}") {
        c.eat(",");
        let field = word(c)?;
        c.expect("=")?;
        let number = |c: &mut Cursor<'_>| c.int("an integer").map(|n| i32::try_from(n).unwrap_or_default());
        match field {
            "op_type" => m.op_type = c.string("a quoted string")?,
            "op_name" => m.op_name = c.string("a quoted string")?,
            "source_file" => m.source_file = c.string("a quoted string")?,
            "deduplicated_name" => m.deduplicated_name = c.string("a quoted string")?,
            "scheduling_name" => m.scheduling_name = c.string("a quoted string")?,
            "source_line" => m.source_line = number(c)?,
            "source_end_line" => m.source_end_line = number(c)?,
            "source_column" => m.source_column = number(c)?,
            "source_end_column" => m.source_end_column = number(c)?,
            "stack_frame_id" => m.stack_frame_id = number(c)?,
            "profile_type" => m.profile_type = list(c, number)?,
            _ => match c.peek() {
                Some(b'"' | b'\'') => c.string("a quoted string").map(drop)?,
                _ => c.raw("a value").map(drop)?,
            },
        }
    }
    Ok(m)
}

pub(super) fn statistics(m: &Statistics) -> Option<String> {
    if m.statistics.is_empty() {
        return None;
    }
    let each = m.statistics.iter().map(|s| format!("{}={}", s.name, s.value));
    Some(format!("{{visualizing_index={},{}}}", m.visualized, joined(each)))
}

pub(super) fn statistics_message(text: &str) -> Result<Statistics> {
    let fields = whole(text, |c| {
        list(c, |c| {
            let name = word(c)?.to_owned();
            c.expect("=")?;
            Ok((name, real(c)?))
        })
    })?;
    let mut out = Statistics::default();
    for (name, value) in fields {
        match name.as_str() {
            "visualizing_index" => out.visualized = value as i64,
            _ => out.statistics.push(Statistic { name, value }),
        }
    }
    Ok(out)
}

fn real(c: &mut Cursor<'_>) -> Result<f64> {
    let text = c.run(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')).unwrap_or_default();
    text.parse().map_err(|_| malformed("", format!("expected a number, found '{text}'")))
}

pub(super) fn result_accuracy(m: &ResultAccuracy) -> Result<Option<String>> {
    match (&m.tolerance, m.mode) {
        (Some(t), _) => Ok(Some(format!("{{tolerance={{atol={},rtol={},ulps={}}}}}", t.atol, t.rtol, t.ulps))),
        (None, None | Some(0)) => Ok(None),
        (None, Some(1)) => Ok(Some("{mode=highest}".to_owned())),
        (None, Some(n)) => Err(malformed("", format!("result_accuracy: expected the mode 0 or 1, found {n}"))),
    }
}

pub(crate) fn result_accuracy_message(text: &str) -> Result<ResultAccuracy> {
    whole(text, |c| {
        c.expect("{")?;
        let mut out = ResultAccuracy::default();
        match word(c)? {
            "mode" => {
                c.expect("=")?;
                out.mode = Some(i32::from(word(c)? == "highest"));
            }
            _ => {
                c.expect("=")?;
                let mut tolerance = Tolerance::default();
                list(c, |c| {
                    let field = word(c)?;
                    c.expect("=")?;
                    let value = real(c)?;
                    match field {
                        "atol" => tolerance.atol = value,
                        "rtol" => tolerance.rtol = value,
                        _ => tolerance.ulps = value as i64,
                    }
                    Ok(())
                })?;
                out.tolerance = Some(tolerance);
            }
        }
        c.expect("}")?;
        Ok(out)
    })
}

pub(super) fn flags(m: &Flags) -> Option<String> {
    (!m.values.is_empty()).then(|| format!("{{{}}}", joined(&m.values)))
}

pub(super) fn flags_message(text: &str) -> Result<Flags> {
    let flag = |c: &mut Cursor<'_>| word(c).map(|w| w == "true");
    let values = whole(text, |c| match c.peek() {
        Some(b'{') => list(c, flag),
        _ => flag(c).map(|f| vec![f]),
    })?;
    Ok(Flags { values })
}

/// `{{0}: (1, {}), {1}: (0, {2})}`
pub(super) fn operand_aliases(pairs: &[OperandAlias]) -> String {
    let each = pairs
        .iter()
        .map(|p| format!("{{{}}}: ({}, {{{}}})", joined(&p.output_index), p.operand, joined(&p.operand_index)));
    format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
}

pub(crate) fn operand_alias_messages(text: &str) -> Result<Vec<OperandAlias>> {
    whole(text, |c| {
        list(c, |c| {
            let output_index = ints(c)?;
            c.expect(":")?;
            c.expect("(")?;
            let operand = c.int("the number of an operand")?;
            let operand_index = if c.eat(",") { ints(c)? } else { Vec::new() };
            c.expect(")")?;
            Ok(OperandAlias { output_index, operand, operand_index })
        })
    })
}

/// `{rhs={sparsity=1x4 dimension=0 stride=1}}`
pub(super) fn sparsity_config(m: &SparsityConfig) -> String {
    let side = |name: &str, side: &Option<TensorSparsity>| {
        let s = side.as_ref()?;
        let (n, m, d, stride) = (s.non_zero, s.block_size, s.dimension, s.stride);
        Some(format!("{name}={{sparsity={n}x{m} dimension={d} stride={stride}}}"))
    };
    let sides: Vec<_> = [side("lhs", &m.lhs), side("rhs", &m.rhs)].into_iter().flatten().collect();
    format!("{{{}}}", sides.join(", "))
}

pub(super) fn sparsity_config_message(text: &str) -> Result<SparsityConfig> {
    let mut out = SparsityConfig::default();
    let side = |c: &mut Cursor<'_>| {
        let mut s = TensorSparsity::default();
        c.expect("{")?;
        while !c.eat("}") {
            let field = word(c)?;
            c.expect("=")?;
            let value = c.int("an integer")?;
            match field {
                "sparsity" => {
                    s.non_zero = value;
                    c.expect("x")?;
                    s.block_size = c.int("the size of a block")?;
                }
                "dimension" => s.dimension = value,
                _ => s.stride = value,
            }
        }
        Ok(s)
    };
    whole(text, |c| {
        list(c, |c| {
            let which = word(c)?;
            c.expect("=")?;
            let value = Some(side(c)?);
            if which == "lhs" {
                out.lhs = value
            } else {
                out.rhs = value
            }
            Ok(())
        })
    })?;
    Ok(out)
}

/// `{({"a"}, {"while" {0}})}`: for each leaf of the shape, the instruction whose value it is.
pub(super) fn origin(m: &OriginalValue, shape: &Shape) -> String {
    if m.is_synthetic_call {
        return "{[synthetic_call]}".to_owned();
    }
    let mut out = "{".to_owned();
    let mut index = Vec::new();
    print_origin(&mut out, m, shape, &mut index);
    out.push('}');
    out
}

fn print_origin(out: &mut String, m: &OriginalValue, shape: &Shape, index: &mut Vec<i64>) {
    if let Shape::Tuple(elements) = shape {
        out.push('(');
        for (i, element) in elements.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            index.push(i as i64);
            print_origin(out, m, element, index);
            index.pop();
        }
        out.push(')');
        return;
    }
    let array = m.elements.iter().find(|e| e.index == *index).and_then(|e| e.array.as_ref());
    if let Some(array) = array {
        // Writing to a string cannot fail.
        let _ = write!(out, "{{{}", quote(&array.instruction));
        if !array.index.is_empty() {
            let _ = write!(out, " {{{}}}", joined(&array.index));
        }
        out.push('}');
    } else {
        out.push_str("{}");
    }
}

pub(super) fn origin_message(text: &str) -> Result<OriginalValue> {
    let mut out = OriginalValue::default();
    whole(text, |c| {
        c.expect("{")?;
        if c.eat("[synthetic_call]") {
            out.is_synthetic_call = true;
        } else {
            read_origin(c, &mut out, &mut Vec::new())?;
        }
        c.expect("}")
    })?;
    Ok(out)
}

fn read_origin(c: &mut Cursor<'_>, out: &mut OriginalValue, index: &mut Vec<i64>) -> Result<()> {
    if c.eat("(") {
        c.enter("tuples")?;
        index.push(0);
        if !c.eat(")") {
            loop {
                read_origin(c, out, index)?;
                if !c.eat(",") {
                    break;
                }
                if let Some(last) = index.last_mut() {
                    *last += 1;
                }
            }
            c.expect(")")?;
        }
        index.pop();
        c.leave();
        return Ok(());
    }
    c.expect("{")?;
    if c.eat("}") {
        return Ok(());
    }
    let instruction = c.string("the name of an instruction in quotes")?;
    let inner = if c.peek() == Some(b'{') { ints(c)? } else { Vec::new() };
    out.elements
        .push(OriginalElement { index: index.clone(), array: Some(OriginalArray { instruction, index: inner }) });
    c.expect("}")
}
